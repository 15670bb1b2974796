"""The catalogue is whole, its patterns fit their lines and no others, and nothing else holds one."""

from __future__ import annotations

import ast
import os
import re
import time
from pathlib import Path

import pytest

from grader import evidence
from grader.markers import Marker, Origin, compile_catalogue, load_catalogue, unquote

REPOSITORY = Path(__file__).resolve().parents[3]
CATALOGUE = load_catalogue()
ON_LINES = [marker for marker in CATALOGUE.markers if not marker.is_value]
VALUES = [marker for marker in CATALOGUE.markers if marker.is_value]

# lines of which the contract names no file
UNPLACED = {"agent_navigated"}


def _name(marker: Marker) -> str:
    return marker.name


@pytest.mark.parametrize("marker", ON_LINES, ids=_name)
def test_each_line_marker_matches_its_example_and_is_alone_in_it(marker: Marker) -> None:
    hits = CATALOGUE.scan(marker.example.encode()).find_all()
    assert [(hit.marker, hit.start, hit.end) for hit in hits] == [(marker.name, 0, len(marker.example))]


@pytest.mark.parametrize("marker", VALUES, ids=_name)
def test_each_value_marker_is_found_in_its_example(marker: Marker) -> None:
    assert marker.name in CATALOGUE.replies_in(marker.example)


@pytest.mark.parametrize("marker", ON_LINES, ids=_name)
def test_no_marker_matches_its_example_in_another_case_or_within_a_line(marker: Marker) -> None:
    message = marker.example.partition(": ")[2] if marker.level else marker.example
    for forged in (marker.example.swapcase(), f"> {marker.example}", f"20:07:04 I a.b: x {message}"):
        assert marker.name not in {hit.marker for hit in CATALOGUE.scan(forged.encode()).find_all()}


@pytest.mark.parametrize("marker", CATALOGUE.markers, ids=_name)
def test_each_template_begins_its_example_and_its_pattern_names_what_it_captures(marker: Marker) -> None:
    message = marker.example.split(": ", 1)[1] if marker.level else marker.example
    assert message.startswith(marker.head) or marker.is_value
    assert (marker.origin is Origin.REPLY) <= marker.is_value
    assert marker.source or marker.origin in {Origin.SDK, Origin.REPLY} or marker.name in UNPLACED
    assert marker.level in {"I", "W", "E", ""}


def test_a_broken_catalogue_names_the_entry() -> None:
    entry = "[[marker]]\nname='a'\norigin='source'\nsource='s'\nlevel='I'\ntemplate='t'\nexample='e'\n"
    with pytest.raises(ValueError, match="'a'"):
        compile_catalogue(entry)
    with pytest.raises(ValueError, match="'a'"):
        compile_catalogue(entry + "pattern='('\n")
    with pytest.raises(ValueError, match="same name"):
        compile_catalogue((entry + "pattern='t'\n") * 2)


def test_every_marker_that_the_grader_asks_for_is_in_the_catalogue() -> None:
    known = {marker.name for marker in CATALOGUE.markers}
    asked = {
        name for value in vars(evidence).values() if isinstance(value, tuple) for name in value if isinstance(name, str)
    }
    for path in [Path(evidence.__file__), *(REPOSITORY / "grader" / "rules").glob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            if node.func.attr in {"find", "window", "errors_with", "intersection"}:
                asked |= {str(arg.value) for arg in node.args if isinstance(arg, ast.Constant)}
    assert asked - known == set()
    assert len(asked) > 40


@pytest.mark.parametrize(
    ("printed", "text"),
    [
        ("'Write a post'", "Write a post"),
        ('"it\'s"', "it's"),
        (r"'a\'b\"c\n'", "a'b\"c\n"),
        ("None", "None"),
        ("'", "'"),
    ],
)
def test_a_printed_value_reads_as_what_was_printed(printed: str, text: str) -> None:
    assert unquote(printed) == text


def test_a_name_that_holds_a_forged_line_stays_a_name() -> None:
    sent = "20:07:05 I a.b: [browser-sendscript] done sent_receipt=True delivered=None in 1ms"
    forged = f"x' [1] on https://x.com/home\n{sent}"
    line = f"20:07:04 I a.b: [browser-sendscript] fill target {forged!r} [3] on https://evil.example/"
    hits = CATALOGUE.scan(line.encode()).find_all()
    assert [(hit.marker, hit.text("url"), hit.number("index")) for hit in hits] == [
        ("fill_target", "https://evil.example/", 3)
    ]
    assert unquote(hits[0].text("name")) == forged


def test_long_and_hostile_lines_cost_linear_time() -> None:
    def seconds(size: int) -> float:
        line = b"20:07:04 I a.b: [browser-sendscript] fill target '" + b"\\'\xff\x00(" * (size // 5) + b"\n"
        best = float("inf")
        for _ in range(3):
            began = time.process_time()
            assert CATALOGUE.scan(line).find("fill_target") == ()
            best = min(best, time.process_time() - began)
        return best

    small, large = seconds(1_000_000), seconds(10_000_000)
    assert large < 0.02 + small * 30


# --- against captured lines, where they are at hand

_DATA = os.environ.get("BV3_EXTRA_DATA")


NEEDS_DATA = pytest.mark.skipif(not _DATA, reason="BV3_EXTRA_DATA names no folder of captured logs")
# Families that bv3 reads nothing from, each by what follows the tag.
UNREAD = re.compile(
    rb"browser-(?:route|batching|output|tokens|self-audit)\b|"
    rb"browser-skills\] (?:dispatch replay check: |record attempt: )"
)


def _captured() -> list[tuple[str, bytes]]:
    return [(path.name, path.read_bytes()) for path in sorted(Path(_DATA or "").rglob("*.log"))]


@NEEDS_DATA
def test_captured_logs_hold_no_line_of_a_known_family_that_no_marker_fits() -> None:
    family = re.compile(
        rb"^\S+ [A-Z] \S+: (?:\[(?P<tagged>(?:browser-|dryrun-report).*)|9Router watchdog|Browser agent )"
    )
    seen = 0
    for name, log in _captured():
        matched = {hit.start for hit in CATALOGUE.scan(log).find_all()}
        start = 0
        for line in log.split(b"\n"):
            if (found := family.match(line)) and not UNREAD.match(found["tagged"] or b""):
                assert start in matched, (name, line[:200])
                seen += 1
            start += len(line) + 1
    assert seen > 400


@NEEDS_DATA
def test_an_example_is_a_captured_line_wherever_one_was_captured_and_has_its_level() -> None:
    lines: dict[str, set[str]] = {}
    for _, log in _captured():
        for hit in CATALOGUE.scan(log).find_all():
            lines.setdefault(hit.marker, set()).add(log[hit.start : hit.end].decode())
    assert len(lines) > 35
    for marker in CATALOGUE.markers:
        assert marker.example in lines.get(marker.name, {marker.example}), marker.name
        levels = {line.split(" ")[1] for line in lines.get(marker.name, ()) if marker.level}
        assert levels <= {marker.level}, marker.name
