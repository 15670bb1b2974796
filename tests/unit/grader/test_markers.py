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


# --- nothing else holds one

EXEMPT = ("infra/reference/", "workers/renderer/", "tests/", "benchmarks/")


def _needles() -> list[str]:
    """Each tag, and each literal run of a template that is long enough to be nobody's own words."""
    found = set()
    # what a supervisor prints, bv3's own among them, is no product output
    for marker in (marker for marker in CATALOGUE.markers if marker.origin is not Origin.HARNESS):
        if tag := re.match(r"\[[A-Za-z-]+", marker.template):
            found.add(tag[0])
        for part in re.split(r"\{[^{}]*\}", marker.template.replace("{{", "\0")):
            text = part.replace("\0", "{").strip(" .,;:()'=")
            if len(text) >= 16 and " " in text:
                found.add(text)
    return sorted(found)


def _strings(path: Path) -> list[str]:
    """The string literals of a module, docstrings apart."""
    tree = ast.parse(path.read_text("utf-8"))
    documents = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documents
    ]


def test_no_other_module_holds_a_literal_of_product_output() -> None:
    needles = _needles()
    assert len(needles) > 60
    offences = [
        f"{path.relative_to(REPOSITORY)}: {needle!r}"
        for package in ("broker", "scheduler", "workers", "grader", "infra")
        for path in (REPOSITORY / package).rglob("*.py")
        if not str(path.relative_to(REPOSITORY)).startswith(EXEMPT)
        for text in _strings(path)
        for needle in needles
        if needle in text
    ]
    assert offences == []


def test_the_scan_for_literals_would_find_one(tmp_path: Path) -> None:
    planted = tmp_path / "planted.py"
    planted.write_text('LINE = "[browser-sendscript] DRYRUN: WOULD send"\n')
    assert any(needle in text for text in _strings(planted) for needle in _needles())


# --- against captured lines, where they are at hand

_DATA = os.environ.get("BV3_EXTRA_DATA")


@pytest.mark.skipif(not _DATA, reason="BV3_EXTRA_DATA names no folder of captured logs")
def test_captured_logs_hold_no_line_of_a_known_family_that_no_marker_fits() -> None:
    families = re.compile(rb"^\S+ [A-Z] \S+: \[(browser-fast-path|browser-sendscript|browser-prestage|dryrun-report)\]")
    for path in sorted(Path(_DATA or "").rglob("*.log")):
        log = path.read_bytes()
        matched = {hit.start for hit in CATALOGUE.scan(log).find_all()}
        start = 0
        for line in log.split(b"\n"):
            assert not families.match(line) or start in matched, (path.name, line[:200])
            start += len(line) + 1
