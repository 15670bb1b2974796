"""One synthetic attempt: a task, log lines as the product prints them, reads as bv3 takes them."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import settings

from broker.types import (
    Bucket,
    Child,
    Editable,
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
from grader.facts import AttemptRow, VerdictFacts
from grader.grading import Graded, grade_record

# wall time says nothing on a machine that others share
settings.register_profile("bv3", deadline=None)
settings.load_profile("bv3")

PARENT, FIRST, SECOND, CARD = "1" * 32, "2" * 32, "3" * 32, "browser-0a1b2c3d"
PAYLOAD = "probe k3f9x coverage alpha"


@pytest.fixture
def task() -> SiteTask:
    return SiteTask(
        site="x",
        prompt='Go to https://x.com/ and publish a post with exactly this text: "{payload}"',
        payload="probe {nonce} coverage alpha",
        entry="https://x.com/",
        host="x.com",
        path_rule="^/(home|compose)",
        visibility="public",
        kind="post",
        editor_shape="Draft.js family",
    )


def print_line(message: str, logger: str = "backend.apps.agents.browser.browser_agent", level: str = "I") -> str:
    raw = message.startswith(("INFO:", "[stack]", "[harness]"))
    return message if raw else f"20:07:04 {level} {logger}: {message}"


OPENING = (
    f"[browser-fast-path] direct dispatch for session {PARENT} (act)",
    f"[browser-cold] new card {CARD} opens at brief entry https://x.com/",
    f"[browser-cold] mount poll 278ms for {CARD}",
)
LINES = {
    "tier0": "[browser-prestage] READY tier-0 in 23ms: a composer is already on the page, no aux call needed",
    "tier1": "[browser-prestage] tier-1: first video is https://x.com/home",
    "prestage": "[browser-prestage] done: steps=0 url=https://x.com/home in 136ms",
    "fill": "[browser-sendscript] fill target 'Post text' [1] on https://x.com/compose/post",
    "fill elsewhere": "[browser-sendscript] fill target 'Post text' [1] on https://netflix.com/home",
    "fill message": "[browser-sendscript] fill target 'Message' [1] on https://x.com/home",
    "dryrun": "[browser-sendscript] DRYRUN: WOULD send (fill committed, send_button_listed=True,"
    " submit_resolved=True, submit_rank=3, submit='post'); not clicking",
    "dryrun disabled": "[browser-sendscript] DRYRUN: WOULD send (fill committed, send_button_listed=True,"
    " submit_resolved=False, submit_rank=0, submit='the submit control is present but DISABLED, so'); not clicking",
    "died": "[browser-sendscript] fill errored (Focused index 1 but the text was lost); handing to model untouched",
    "timed out": "[browser-sendscript] fill errored (Browser command timed out); handing to model untouched",
    "no dashboard": "[browser-sendscript] fill errored (No dashboard is connected. Open the dashboard to use browser"
    " tools.); handing to model untouched",
    "card gone": f"[browser-sendscript] fill errored (Browser card '{CARD}' not found or not an Electron webview);"
    " handing to model untouched",
    "slow": f"[browser-slow] BrowserClickIndex took 15000ms -> {CARD}",
    "not committed": "[browser-sendscript] fill not seen committed; aborting pre-click",
    "nothing": "[browser-sendscript] decline: no composer, opener, or structural editable",
    "wall url": "[browser-sendscript] decline: login/auth wall ('https://x.com/home') triggered by url: /login",
    "signed out": "[browser-sendscript] decline: signed OUT (composer withheld, sign-in offered)",
    "other page": "[browser-sendscript] decline: asked for a post, landed on a reel (https://x.com/reels/1/)",
    "challenge": f"[browser-agent {FIRST}] captcha detected on x.com; handing to the user, not solving it",
    "probe": f"[browser-fast-path] send-zone failure for {PARENT}; payload probe before any retry",
    "recovery": f"[browser-fast-path] first dispatch failed for {PARENT}; one recovery dispatch",
    "reused": f"[browser-agent] reusing same-host card {CARD} instead of stacking another webview",
    "refused": "[browser-agent] dispatch refused: no dashboard after reconnect wait",
    "dead": f"[browser-agent {FIRST}] card {CARD} perceives dead after prestage (no url/elements, confirming probe"
    " empty); evicting + recovering early",
    "no provider": "[browser-fast-path] classifier unavailable, normal path: No AI provider configured for auxiliary"
    " LLM call. Add a key.",
    "retry": "[MCP-DEBUG] SystemMessage: {'subtype': 'api_retry', 'data': {}}",
    "sent": "[browser-sendscript] done sent_receipt=True delivered=None in 108ms",
    "not sent": "[browser-sendscript] done sent_receipt=False delivered=None in 108ms",
    "ended": f"[browser-fast-path] session {PARENT} done: path=act reply=16ch in 2425ms",
    "neighbour": f"[browser-fast-path] session {'9' * 32} done: path=act reply=16ch in 2425ms",
    "neighbour's child": f"[browser-time {'8' * 32}] wall=1ms llm=0ms tools=1ms other=0ms auto_scans=0",
    "other card": "[browser-action] BrowserClickIndex: click#1  -> browser-ffffffff",
    "started": "INFO:     Started server process [10278]",
    "restarted": "[stack] BACKEND RESTARTED at 20:07:04",
}


def make_log(*names: str, opening: Sequence[str] = OPENING) -> bytes:
    messages = [*opening, *(LINES.get(name, name) for name in names)]
    return "".join(f"{print_line(message)}\n" for message in messages).encode("utf-8", "surrogatepass")


@pytest.fixture(scope="session")
def log_of() -> Callable[..., bytes]:
    """A slice of these lines, by name or in full, after the lines that open every dispatch."""
    return make_log


def make_read(**changes: Any) -> PageRead:
    count = changes.pop("count", 1)
    label = changes.pop("label", "Post text")
    values: dict[str, Any] = {
        "card": CARD,
        "after_dispatch": 2,
        "offset_ms": 40,
        "duration_ms": 60,
        "url": "https://x.com/compose/post",
        "title": "X",
        "payload": Seen.SEEN if count else Seen.ABSENT,
        "payload_count": count,
        "editables": (
            Editable(frame=0, frame_url="", kind="contenteditable", label=label, payload_count=count, text=PAYLOAD),
        ),
        "frames": 1,
        "frames_unread": 0,
        "password_form": Seen.ABSENT,
        "challenge": Seen.ABSENT,
    }
    return PageRead(**values | changes)


@pytest.fixture(scope="session")
def read_of() -> Callable[..., PageRead]:
    """A read of the run's card that holds the payload `count` times."""
    return make_read


def make_record(data: bytes, /, **changes: Any) -> RunRecord:
    values: dict[str, Any] = {
        "sweep": "c7-test",
        "run": 1,
        "dispatch": 1,
        "attempt": 1,
        "attempt_no": 1,
        "nonce": "n",
        "box": "box-a",
        "arm": "main",
        "site": "x",
        "trial": 1,
        "lane": "stub",
        "renderer": "playwright",
        "product_revision": "reference-1",
        "mode": Mode.DRY,
        "prompt": f'Go to https://x.com/ and publish a post with exactly this text: "{PAYLOAD}"',
        "payload": PAYLOAD,
        "phases": (),
        "wall_ms": 2_000,
        "budget_used": False,
        "parent": ParentOutcome(session_id=PARENT, status="completed", reply="Done.", ended_by="event"),
        "children": (Child(session_id=FIRST, status="error"), Child(session_id=SECOND, status="error")),
        "log": LogSlice(path="be.log", inode=1, start=0, end=len(data), sha256=hashlib.sha256(data).hexdigest()),
        "metrics": (
            MetricsRow(session_id=SECOND, status="error", path="llm", total_ms=9_999, llm_ms=9, tools_ms=9, other_ms=9),
            MetricsRow(
                session_id=FIRST,
                status="error",
                path="llm",
                total_ms=236,
                llm_ms=0,
                tools_ms=178,
                other_ms=58,
                turns=1,
            ),
        ),
        "reads": (make_read(),),
        "cards": (CARD,),
        "probe_before": Probe(answered=True, duration_ms=8),
        "probe_after": Probe(answered=True, duration_ms=9),
        "events": (),
        "evidence": (),
        "errors": (),
        "versions": {},
    }
    return RunRecord(**values | changes)


@pytest.fixture(scope="session")
def record_of() -> Callable[..., RunRecord]:
    """The record of a run whose slice is this log."""
    return make_record


@pytest.fixture
def grade(task: SiteTask) -> Callable[..., Graded]:
    """The verdict on these lines (or `log`): `task` changes the task, everything else the record."""

    def grade_lines(*names: str, log: bytes | None = None, **changes: Any) -> Graded:
        meant = dataclasses.replace(task, **changes.pop("task", {}))
        opening = changes.pop("opening", OPENING)
        planned = {name: changes.pop(name) for name in ("planned_mode", "planned_payload") if name in changes}
        data = make_log(*names, opening=opening) if log is None else log
        if "log_slice" in changes:
            changes["log"] = changes.pop("log_slice")
        return grade_record(make_record(data, **changes), data, meant, **planned)

    return grade_lines


@pytest.fixture(scope="session")
def row_of() -> Callable[..., AttemptRow]:
    """A scorecard row; facts are changed by `facts`."""

    def make_row(number: int, bucket: Bucket = Bucket.OK, **changes: Any) -> AttemptRow:
        facts = changes.pop("facts", {})
        values: dict[str, Any] = {
            "run_id": number,
            "attempt_id": number,
            "attempt_no": 1,
            "arm": "main",
            "site": "x",
            "trial": number,
            "box": "box-a",
            "editor_shape": "Draft.js family",
            "bucket": bucket,
            "rule": "reached",
            "detail": "'post' <- 'Post text' on https://x.com/compose/post",
            "grader_version": 1,
            "started_at": None,
            "finished_at": None,
            "facts": VerdictFacts(**{"mode": Mode.DRY, "lane": "stub", "renderer": "playwright"} | facts),
        }
        return AttemptRow(**values | changes)

    return make_row
