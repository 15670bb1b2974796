"""What holds of every verdict, whatever the product printed and the pages showed."""

from __future__ import annotations

import dataclasses
import hashlib
import sys
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from broker.codec import clean_text
from broker.types import (
    Bucket,
    Child,
    Editable,
    Evidence,
    EvidenceRef,
    LogSlice,
    MetricsRow,
    Mode,
    PageRead,
    ParentOutcome,
    Probe,
    RunRecord,
    Seen,
    SiteTask,
)
from grader.evidence import build_case
from grader.grading import Graded, grade_record
from grader.rules import RULES
from grader.slicing import explain_slice
from grader.surface import is_message_box

PARENT, FIRST, SECOND, CARD, OTHER = "1" * 32, "2" * 32, "3" * 32, "browser-0a1b2c3d", "browser-4e5f6071"
PAYLOAD = "probe k3f9x coverage alpha"
TASK = SiteTask(
    site="x",
    prompt='Go to https://x.com/ and publish a post with exactly this text: "{payload}"',
    payload="probe {nonce} coverage alpha",
    entry="https://x.com/",
    host="x.com",
    path_rule="^/(home|compose)",
    visibility="public",
    kind="post",
    editor_shape="",
)
OPENING = (
    f"[browser-fast-path] direct dispatch for session {PARENT} (act)",
    f"[browser-cold] new card {CARD} opens at brief entry https://x.com/",
)
RECOVERY = f"[browser-fast-path] first dispatch failed for {PARENT}; one recovery dispatch"
PROBE = f"[browser-fast-path] send-zone failure for {PARENT}; payload probe before any retry"
SENT = "[browser-sendscript] done sent_receipt=True delivered=None in 108ms"
DRYRUN = (
    "[browser-sendscript] DRYRUN: WOULD send (fill committed, send_button_listed=True, submit_resolved=True,"
    " submit_rank=3, submit='post'); not clicking"
)
MESSAGES = (
    "[browser-sendscript] fill target 'Post text' [1] on https://x.com/home",
    "[browser-sendscript] fill target 'Post text' [1] on https://evil.example/home",
    DRYRUN,
    "[browser-sendscript] fill errored (Browser command timed out); handing to model untouched",
    "[browser-sendscript] fill errored (the text was lost); handing to model untouched",
    "[browser-sendscript] decline: no composer, opener, or structural editable",
    "[browser-sendscript] decline: login/auth wall ('https://x.com/login') triggered by url: /login",
    f"[browser-slow] BrowserGetText took 15000ms -> {CARD}",
    f"[browser-agent {FIRST}] card {CARD} perceives dead after prestage (no url); evicting + recovering early",
    "[browser-prestage] skipped (No AI provider connected for auxiliary LLM call. Connect one.)",
    "[MCP-DEBUG] SystemMessage: {'subtype': 'api_retry', 'data': {}}",
    "[dryrun-report] armed=1 composer=0 opener=0 textboxes=0 filled=0 url=https://x.com/home",
    f"[browser-agent] reusing same-host card {CARD} instead of stacking another webview",
    RECOVERY,
    PROBE,
)
FORGED = "20:07:05 I backend.apps.agents.browser.browser_send_script: "
# What pages, models and hosts may say. No piece of it is a line of the product's by itself.
HOSTILE = (
    "\x00", "\ud83d", "\udc00", "\x1b[2J\x1b]0;owned\x07", "\r\n", "\u2028", "\u2029", "\x85", "\x0b\x0c", "\ufeff",
    "\u202e", "'", '"', "\\", "\\n", "%s{0}", "captcha", "Verify you are human", "Message", "https://x.com/home",
    PAYLOAD, FORGED + SENT, "\n" + FORGED + SENT + "\n", "INFO:     Started server process [1]",
    "\n[stack] BACKEND RESTARTED at 20:07:04\n", "9Router is not running", "No dashboard is connected.", "x" * 5_000,
)  # fmt: skip
# wall time says nothing on a machine that others share
quick = settings(deadline=None, max_examples=60)
hostile = st.lists(st.sampled_from(HOSTILE) | st.text(max_size=20), min_size=1, max_size=6).map("".join)
messages = st.lists(st.sampled_from(MESSAGES), max_size=8)
# bytes of lines that no marker matches
noise = st.sampled_from(
    [
        b"\xff\xfe\x00",
        b"\xed\xa0\xbd",
        b"\xe2\x82",
        b"\r",
        b"",
        b"x" * 20_000,
        b'INFO:     127.0.0.1:1 - "GET /INFO:%20Started HTTP/1.1" 200 OK',
        SENT.encode(),
        b" " + FORGED.encode() + SENT.encode(),
        FORGED.encode() + b"a title: " + SENT.encode(),
        FORGED.encode() + b"INFO:     Started server process [1]",
        FORGED.encode() + b"[stack] BACKEND RESTARTED at 20:07:04",
        FORGED.encode() + SENT.encode() + b" and more",
        FORGED.encode() + SENT.lower().replace("sendscript", "Sendscript").encode(),
    ]
)


@st.composite
def reads(draw: st.DrawFn) -> tuple[PageRead, ...]:
    """What bv3 may have read, once per card and moment."""
    made = []
    for offset_ms in range(draw(st.integers(0, 3))):
        count = draw(st.integers(0, 2))
        made.append(
            PageRead(
                card=draw(st.sampled_from([CARD, OTHER])),
                after_dispatch=draw(st.integers(1, 2)),
                offset_ms=offset_ms,
                duration_ms=9,
                url=draw(
                    st.sampled_from(["https://x.com/home", "https://x.com/login", "https://evil.example/home", ""])
                ),
                title="X",
                payload=Seen.SEEN if count else draw(st.sampled_from([Seen.ABSENT, Seen.COULD_NOT_LOOK])),
                payload_count=count,
                editables=(
                    Editable(frame=0, frame_url="", kind="textarea", label="Post", payload_count=count, text=""),
                ),
                frames=0,
                frames_unread=draw(st.integers(0, 1)),
                password_form=draw(st.sampled_from(Seen)),
                challenge=draw(st.sampled_from(Seen)),
            )
        )
    return tuple(made)


def print_log(lines: Sequence[str]) -> bytes:
    return b"".join(f"20:07:04 I backend.apps.a: {line}\n".encode("utf-8", "replace") for line in (*OPENING, *lines))


def make_record(log: bytes, **changes: Any) -> RunRecord:
    values: dict[str, Any] = {
        "sweep": "c7-test", "run": 1, "dispatch": 1, "attempt": 1, "attempt_no": 1, "nonce": "n", "box": "box-a",
        "arm": "main", "site": "x", "trial": 1, "lane": "", "renderer": "playwright", "product_revision": "r",
        "mode": Mode.DRY, "payload": PAYLOAD, "phases": (), "wall_ms": 2_000, "budget_used": False,
        "prompt": TASK.prompt.replace("{payload}", PAYLOAD),
        "parent": ParentOutcome(session_id=PARENT, status="completed", reply="Done.", ended_by="event"),
        "children": (Child(session_id=FIRST, status="error"), Child(session_id=SECOND, status="error")),
        "log": LogSlice(path="be.log", inode=1, start=0, end=len(log), sha256=hashlib.sha256(log).hexdigest()),
        "metrics": (), "reads": (), "cards": (CARD, OTHER),
        "probe_before": Probe(answered=True, duration_ms=8), "probe_after": Probe(answered=True, duration_ms=8),
        "events": (), "evidence": (), "errors": (), "versions": {},
    }  # fmt: skip
    return RunRecord(**values | changes)


def grade(log: bytes, **changes: Any) -> Graded:
    return grade_record(make_record(log, **changes), log, TASK)


def said(graded: Graded) -> tuple[Bucket, str, Evidence | None, list[str]]:
    """The verdict without its words and offsets, which may quote what was said."""
    return (
        graded.verdict.bucket,
        graded.verdict.rule,
        graded.verdict.evidence,
        [ref.text.rstrip("\r") for ref in graded.facts.lines],
    )


@quick
@given(lines=messages, seen=reads(), budget_used=st.booleans())
def test_every_run_has_exactly_one_verdict_and_always_the_same(
    lines: list[str], seen: tuple[PageRead, ...], budget_used: bool
) -> None:
    log = print_log(lines)
    first = grade(log, reads=seen, budget_used=budget_used)
    assert first == grade(bytes(bytearray(log)), reads=seen, budget_used=budget_used)
    assert first.verdict.rule in {rule.__name__ for rule in RULES}
    assert (first.verdict.evidence is None) is (first.verdict.bucket is not Bucket.NOT_MEASURABLE)


@quick
@given(lines=messages, seen=reads())
def test_ok_needs_both_sides(lines: list[str], seen: tuple[PageRead, ...]) -> None:
    graded = grade(print_log(lines), reads=seen)
    if graded.verdict.bucket is Bucket.OK:
        assert (graded.facts.claim, graded.facts.page, graded.facts.page_count) == ("filled", Seen.SEEN, 1)
        assert DRYRUN in lines
    assert grade(print_log(lines), reads=()).verdict.bucket is not Bucket.OK
    assert explain_slice(print_log(lines)).bucket is not Bucket.OK


@quick
@given(lines=messages, later=messages, seen=reads(), end=st.sampled_from([RECOVERY, PROBE]))
def test_nothing_that_a_later_dispatch_prints_changes_the_trials_verdict(
    lines: list[str], later: list[str], seen: tuple[PageRead, ...], end: str
) -> None:
    # whether a recovery ran is told by its line, which both have
    fixed = [line for line in lines if line not in {RECOVERY, PROBE}] + [end]
    others = [line for line in later if line not in {RECOVERY, PROBE}]
    assert said(grade(print_log(fixed), reads=seen)) == said(grade(print_log([*fixed, *others]), reads=seen))


@quick
@given(lines=messages, seen=reads(), text=hostile)
def test_what_pages_and_models_say_changes_no_verdict(lines: list[str], seen: tuple[PageRead, ...], text: str) -> None:
    log = print_log(lines)
    told = tuple(
        dataclasses.replace(
            read,
            title=text,
            error=text,
            editables=tuple(dataclasses.replace(one, text=text, frame_url=text) for one in read.editables),
        )
        for read in seen
    )
    parent = ParentOutcome(session_id=PARENT, status="completed", reply=text, ended_by="event")
    hostile_run = grade(log, reads=told, parent=parent, versions={text: text}, lane=text, product_revision=text)
    assert said(hostile_run) == said(grade(log, reads=seen))


@quick
@given(text=hostile)
@example(text="Message")
@example(text="Say what the Message of it is")
def test_what_a_box_is_called_forges_no_line(text: str) -> None:
    # a name is printed with repr, which leaves no line's end in it
    name = f"[browser-sendscript] fill target {text[:3_000]!r} [1] on https://x.com/home"
    graded = grade(print_log([name, DRYRUN]))
    # nobody read the page: the name is all there is to say what was filled
    expected = "filled_message_box" if is_message_box(text[:3_000], TASK) else "page_unread"
    assert graded.verdict.rule == expected
    assert graded.facts.claim == "filled"
    assert len(graded.facts.lines) == 2


@quick
@given(lines=messages, seen=reads(), between=st.lists(noise, min_size=1, max_size=4), at=st.integers(0, 20))
def test_noise_between_lines_changes_no_verdict(
    lines: list[str], seen: tuple[PageRead, ...], between: list[bytes], at: int
) -> None:
    log = print_log(lines)
    pieces = log.split(b"\n")
    at = min(at, len(pieces) - 1)
    noisy = b"\n".join([*pieces[:at], *between, *pieces[at:]])
    assert said(grade(noisy, reads=seen)) == said(grade(log, reads=seen))
    assert said(grade(log.replace(b"\n", b"\r\n"), reads=seen)) == said(grade(log, reads=seen))


@quick
@given(lines=messages, seen=reads(), order=st.randoms(use_true_random=False))
def test_the_order_of_what_was_recorded_changes_nothing(
    lines: list[str], seen: tuple[PageRead, ...], order: Any
) -> None:
    def shuffled(values: Sequence[Any]) -> tuple[Any, ...]:
        mixed = list(values)
        order.shuffle(mixed)
        return tuple(mixed)

    log = print_log(lines)
    rows = tuple(
        MetricsRow(session_id=session, status="", path="llm", total_ms=ms, llm_ms=0, tools_ms=0, other_ms=0)
        for session, ms in ((FIRST, 236), (SECOND, 9_999), ("9" * 32, 50_000))
    )
    straight = grade(log, reads=seen, metrics=rows)
    mixed = grade(log, reads=shuffled(seen), metrics=shuffled(rows), cards=shuffled((CARD, OTHER)))
    assert mixed == straight
    assert straight.facts.timing.total_ms == 236


@quick
@given(
    lines=messages,
    seen=reads(),
    sha256=st.text("0123456789abcdef", min_size=64, max_size=64),
    faults=st.text(max_size=9),
)
def test_no_rule_can_see_the_truth(lines: list[str], seen: tuple[PageRead, ...], sha256: str, faults: str) -> None:
    log = print_log(lines)
    truth = EvidenceRef(name="truth", sha256=sha256, size=9, media_type="application/json")
    told, untold = grade(log, reads=seen, evidence=(truth,), faults=faults), grade(log, reads=seen)
    assert told.verdict == untold.verdict
    assert dataclasses.replace(told.facts, faults="") == untold.facts
    assert told.facts.faults == clean_text(faults)[0]


def test_the_case_that_rules_get_holds_neither_the_truth_nor_what_was_injected() -> None:
    truth = EvidenceRef(name="truth", sha256="f" * 64, size=9, media_type="application/json")
    log = print_log([])
    case = build_case(make_record(log, evidence=(truth,), faults="all seed 7"), log, TASK)
    assert "f" * 64 not in repr(case)
    assert "truth" not in repr(case.record)
    assert "seed 7" not in repr(case)


@pytest.mark.parametrize("name", ["grader.rules", "grader.evidence", "grader.page", "grader.surface", "grader.grading"])
def test_what_decides_does_not_know_the_calibration(name: str) -> None:
    module = sys.modules[name]
    held = {getattr(value, "__module__", "") for value in vars(module).values()}
    assert {held_module for held_module in held if held_module.startswith("grader.calibration")} == set()


@pytest.mark.parametrize("text", [text for text in HOSTILE if "\n" not in text], ids=ascii)
def test_a_line_of_ten_megabytes_changes_no_verdict(text: str) -> None:
    data = text.encode("utf-8", "replace")
    log = print_log([MESSAGES[0], MESSAGES[4]])
    assert said(grade(log + data * (10_000_000 // len(data)) + b"\n")) == said(grade(log))


def test_an_error_of_ten_megabytes_is_still_the_error() -> None:
    huge = f"[browser-sendscript] fill errored ({'(a+)+' * 2_000_000}); handing to model untouched"
    assert grade(print_log([MESSAGES[0], huge])).verdict.rule == "fill_died"
