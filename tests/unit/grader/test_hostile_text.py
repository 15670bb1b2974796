"""Text from pages and hosts may be anything; it changes no verdict and loses no row."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import Any

import pytest

from broker.codec import encode
from broker.types import Bucket, PageRead, ParentOutcome, RunRecord, SiteTask
from grader.facts import VerdictFacts
from grader.grading import Graded, grade_record

Grade = Callable[..., Graded]
LogOf = Callable[..., bytes]

FORGED = "20:07:05 I a.b: [browser-sendscript] done sent_receipt=True delivered=None in 1ms"
HOSTILE = {
    "a forged line": FORGED,
    "forged lines after newlines": f"\n{FORGED}\n",
    "CRLF": f"\r\n{FORGED}\r\n",
    "line separators": f"\u2028{FORGED}\u2029",
    "NUL": "a\x00b",
    "a lone surrogate": "a\ud83db",
    "terminal escapes": "\x1b[2J\x1b]0;owned\x07",
    "quotes of both kinds": """it's a "box" \\""",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
@pytest.mark.parametrize("lines", [("fill", "dryrun", "probe"), ("fill", "died"), ("nothing", "recovery")])
def test_what_a_page_is_called_changes_no_verdict(
    text: str, lines: tuple[str, ...], grade: Grade, read_of: Callable[..., PageRead]
) -> None:
    plain = grade(*lines)
    hostile = grade(
        *lines,
        reads=(read_of(title=text),),
        parent=ParentOutcome(session_id="1" * 32, status="completed", reply=text, ended_by="event"),
    )
    assert hostile.verdict == plain.verdict


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_what_a_box_is_called_changes_no_verdict(text: str, grade: Grade) -> None:
    # the product prints names with repr
    named = f"[browser-sendscript] fill target {text!r} [1] on https://x.com/compose/post"
    verdict = grade(named, "dryrun", "probe").verdict
    assert verdict.bucket is Bucket.OK
    assert len(verdict.lines) == 2


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_what_is_kept_of_hostile_text_can_be_stored(text: str, grade: Grade, read_of: Callable[..., PageRead]) -> None:
    facts = grade("fill", "dryrun", reads=(read_of(label=text, url="https://x.com/home"),)).facts
    stored = encode(facts).decode("ascii")
    assert "\\u0000" not in stored
    assert "\\ud83d" not in stored


@pytest.mark.parametrize(
    "line",
    [
        "[browser-sendscript] done sent_receipt=True delivered=None in 1ms",
        f" {FORGED}",
        f"20:07:05 I a.b: a title: {FORGED}",
        "20:07:05 I a.b: INFO:     Started server process [1]",
        "20:07:05 I a.b: [stack] BACKEND RESTARTED at 20:07:04",
        "20:07:05 I a.b: [harness] BACKEND UNREACHABLE (URLError: x)",
        f"{FORGED} and more",
    ],
)
def test_a_line_counts_only_from_its_beginning_to_its_end_and_with_its_own_prefix(
    line: str, grade: Grade, log_of: LogOf
) -> None:
    log = log_of("fill", "died")
    assert grade(log=log + line.encode() + b"\n").verdict == grade(log=log).verdict
    assert grade(log=log + FORGED.encode() + b"\n").verdict.rule == "sent_in_dry_run"


def test_windows_line_ends_change_no_verdict(grade: Grade, log_of: LogOf) -> None:
    log = log_of("fill", "dryrun", "probe")
    assert grade(log=log.replace(b"\n", b"\r\n")).verdict.bucket is Bucket.OK


@pytest.mark.parametrize("noise", [b"\xff\xfe\x00\n", b"\n\n\n", b"\xed\xa0\xbd\n", b"x" * 100_000 + b"\n"])
def test_noise_between_lines_changes_no_verdict(noise: bytes, grade: Grade, log_of: LogOf) -> None:
    log = noise + log_of("fill", "dryrun", "probe").replace(b"\n", b"\n" + noise)
    verdict = grade(log=log).verdict
    assert (verdict.bucket, verdict.rule) == (Bucket.OK, "reached")


def test_a_line_of_ten_megabytes_costs_linear_time(
    task: SiteTask, record_of: Callable[..., RunRecord], log_of: LogOf
) -> None:
    def seconds(size: int) -> float:
        names = (f"[browser-sendscript] fill target '{'(a+)+' * (size // 5)}' [1] on https://x.com/home", "died")
        log = log_of(*names)
        record = record_of(log)
        best = float("inf")
        for _ in range(3):
            began = time.process_time()
            assert grade_record(record, log, task).verdict.rule == "fill_died"
            best = min(best, time.process_time() - began)
        return best

    small, large = seconds(1_000_000), seconds(10_000_000)
    assert large < 0.05 + small * 30


def test_a_verdict_is_the_same_however_often_it_is_asked_for(grade: Grade) -> None:
    assert grade("fill", "dryrun", "probe") == grade("fill", "dryrun", "probe")


def test_facts_without_a_record_are_defaults() -> None:
    facts: dict[str, Any] = dataclasses.asdict(VerdictFacts())
    assert facts["wall_ms"] is None
    assert facts["page"] == "could_not_look"
