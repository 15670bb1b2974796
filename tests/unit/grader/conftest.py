"""One synthetic attempt: a task, log lines as the product prints them, reads as bv3 takes them."""

# ruff: noqa: E501 - one situation a line reads as a table

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import settings

from broker.types import (
    BoxEvent,
    Bucket,
    Child,
    Editable,
    HarnessError,
    LogSlice,
    MetricsRow,
    Mode,
    PageRead,
    ParentOutcome,
    Phase,
    Probe,
    Retirement,
    RunRecord,
    Seen,
    SiteTask,
)
from grader.criteria import SweepFacts
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
    "navigated quoting overload": "Browser agent 2f0a6c31: navigated to https://x.com/home: {'ok': True, 'title': \"overloaded_error: {'error': 'Browser command timed out'\"}",
    "navigated quoting card": "Browser agent 2f0a6c31: navigated to https://x.com/home: {'ok': True, 'title': 'not found or not an Electron webview'}",
    "finder quoting renderer": "[browser-sendscript] structural finder: no usable composer ({'request_id': 'a1', 'found': False, 'label': 'No dashboard is connected.'})",
    "finder quoting error": "[browser-sendscript] structural finder: no usable composer ({'request_id': 'a1', 'label': \"'error': 'Browser command timed out\"})",
    "finder timed out": "[browser-sendscript] structural finder: no usable composer ({'error': 'Browser command timed out'})",
    "finder timed out by id": "[browser-sendscript] structural finder: no usable composer ({'request_id': 'a1', 'error': 'Browser command timed out'})",
    "died quoting renderer": "[browser-sendscript] fill errored (Focused index 1 'No dashboard is connected.' but the text was lost); handing to model untouched",
    "died quoting provider": "[browser-sendscript] fill errored (Focused index 1 'overloaded_error' but the text was lost); handing to model untouched",
    "classifier timed out": "[browser-fast-path] classifier unavailable, normal path: ",
    "classifier away": "[browser-fast-path] classifier unavailable, normal path: Connection error.",
    "classifier status": "[browser-fast-path] classifier unavailable, normal path: Error code: 529 - {'error': {'type': 'overloaded_error'}}",
    "classifier stumbled": "[browser-fast-path] classifier unavailable, normal path: list index out of range",
    "slow search": f"[browser-slow] BrowserSearch took 20000ms -> {CARD}",
    "lost search": f"[browser-slow] BrowserSearch took 45000ms -> {CARD}",
    "script no dashboard": "[browser-sendscript] outer skip (RuntimeError: No dashboard is connected. Open the dashboard to use browser tools.)",
    "script card gone": f"[browser-sendscript] outer skip (RuntimeError: Browser card '{CARD}' not found or not an Electron webview)",
    "finder error last": "[browser-sendscript] structural finder: no usable composer ({'request_id': 'ab-12', 'found': False, 'error': 'Browser command timed out'})",
    "prestage overloaded": "[browser-prestage] skipped (Error code: 529 - {'type': 'error', 'error': {'type': 'overloaded_error'}})",
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
    "delivered": "[browser-sendscript] done sent_receipt=False delivered=True in 108ms",
    "receipt passed": f"[browser-receipt {FIRST}] two-sided receipt passed (fill committed + composer cleared);"
    " run ends in code",
    "withheld": "[browser-sendscript] receipt withheld after 6.0s of polling: the composer still holds the text",
    "found": f"[browser-fast-path] send-probe verdict=found for {PARENT}",
    "unknown": f"[browser-fast-path] send-probe verdict=unknown for {PARENT}",
    "disabled": "[browser-sendscript] submit 'Post' is present but DISABLED; the form is incomplete, not clicking",
    "no payload": "[browser-sendscript] decline: no unambiguous quoted payload",
    "wall login": "[browser-sendscript] decline: login/auth wall ('https://x.com/i/flow/login') triggered by url: /login",
    "wall password": "[browser-sendscript] decline: login/auth wall ('https://x.com/home') triggered by password field:"
    " Password",
    "wall elsewhere": "[browser-sendscript] decline: login/auth wall ('https://evil.example/login') triggered by"
    " url: /login",
    "wall password entry": "[browser-sendscript] decline: login/auth wall ('https://x.com/') triggered by password"
    " field: Password",
    "wall password cut": f"[browser-sendscript] decline: login/auth wall ('https://x.com/{'a' * 46}') triggered by"
    " password field: Password",
    "wall enter": "[browser-sendscript] decline: login/auth wall ('https://x.com/enter') triggered by url: /enter",
    "reveal wall": "[browser-sendscript] decline: reveal landed on a login/auth wall",
    "challenge elsewhere": f"[browser-agent {FIRST}] captcha detected on evil.example; handing to the user, not solving"
    " it",
    "report": "[dryrun-report] armed=1 composer=0 opener=0 textboxes=0 filled=0 url=https://x.com/home",
    "report elsewhere": "[dryrun-report] armed=1 composer=0 opener=0 textboxes=0 filled=0 url=https://x.com/explore",
    "report sign-in": "[dryrun-report] armed=1 composer=0 opener=0 textboxes=0 filled=0"
    " url=https://accounts.google.com/ServiceLogin",
    "report cut": f"[dryrun-report] armed=1 composer=0 opener=0 textboxes=0 filled=0 url=https://x.com/{'a' * 106}",
    "report blank": "[dryrun-report] armed=1 composer=0 opener=0 textboxes=0 filled=0 url=about:blank",
    "report host": "[dryrun-report] armed=1 composer=0 opener=0 textboxes=0 filled=0 url=https://evil.example/home",
    "report evil login": "[dryrun-report] armed=1 composer=0 opener=0 textboxes=0 filled=0"
    " url=https://evil.example/login",
    "fill cut": f"[browser-sendscript] fill target 'Post text' [1] on https://x.com/{'a' * 76}",
    "fill path": "[browser-sendscript] fill target 'Post text' [1] on https://x.com/explore",
    "slow absurd": f"[browser-slow] BrowserGetText took 1234567890123ms -> {CARD}",
    "unusable": f"[browser-agent {FIRST}] browser card {CARD} is unusable (3 consecutive gone/hung results); aborting"
    " fast",
    "silent mount": f"[browser-spawn-ack] {CARD} rebroadcast after silent mount; alive=False",
    "late mount": f"[browser-spawn-ack] {CARD} rebroadcast after silent mount; alive=True",
    "structural busy": "[browser-sendscript] structural finder: no usable composer ({'error': 'getFullAXTree failed:"
    " the page is too busy to read right now (main thread blocked)'})",
    "outer skip": "[browser-sendscript] outer skip (TimeoutError: )",
    "outer error": "[browser-sendscript] outer skip (KeyError: 'elements')",
    "slow answered": f"[browser-slow] BrowserGetText took 14000ms -> {CARD}",
    "slow navigate": f"[browser-slow] BrowserNavigate took 16000ms gate=3ms -> {CARD}",
    "hung navigate": f"[browser-slow] BrowserNavigate took 25000ms -> {CARD}",
    "slow find": f"[browser-slow] BrowserFindComposer took 26000ms -> {CARD}",
    "hung find": f"[browser-slow] BrowserFindComposer took 30000ms -> {CARD}",
    "short": f"[browser-slow] BrowserGetText took 1500ms -> {CARD}",
    "navigated": f"Browser agent {FIRST}: navigated to https://x.com/: {{'error': 'Browser command timed out'}}",
    "no aux": "[browser-prestage] skipped (No AI provider connected for auxiliary LLM call. Connect one.)",
    "aux rate limit": "[browser-prestage] skipped (429 {'type': 'error', 'error': {'type': 'rate_limit_error'}})",
    "aux overload": "[browser-prestage] skipped (529 {'type': 'error', 'error': {'type': 'overloaded_error'}})",
    "aux nonsense": "[browser-prestage] skipped (list index out of range)",
    "aux no dashboard": "[browser-prestage] skipped (No dashboard is connected. Open the dashboard.)",
    "router died": "9Router process died; instant revive",
    "router down": "9Router watchdog: router is down (confirmed twice); reviving",
    "ended lost": f"[browser-fast-path] session {PARENT} done: path=act+no-dashboard reply=116ch in 8673ms",
    "stopped": "INFO:     Application shutdown complete.",
    "unreachable": "[harness] BACKEND UNREACHABLE (URLError: refused)",
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


def closed_read(**changes: Any) -> PageRead:
    """A later read that found nothing, on a page with frames that can't be entered."""
    values: dict[str, Any] = {"offset_ms": 900, "count": 0, "after_dispatch": 1, "frames_unread": 3}
    return make_read(payload=Seen.COULD_NOT_LOOK, **values | changes)


def box(kind: str, count: int = 1, *, frame: int = 0) -> Editable:
    return Editable(frame=frame, frame_url="", kind=kind, label="Post text", payload_count=count, text=PAYLOAD)


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


DEAD_PROBE = Probe(answered=False, duration_ms=3_000, error="Browser command timed out")
NOT_READ: dict[str, Any] = {"reads": ()}
NO_PROBES: dict[str, Any] = {"probe_before": None, "probe_after": None}


def absent(**changes: Any) -> dict[str, Any]:
    return {"read": {"count": 0, "after_dispatch": 1, "url": "https://x.com/home", **changes}}


def restarted(part: str) -> BoxEvent:
    return BoxEvent(kind="part_restarted", at="2026-11-29T22:00:03+00:00", facts={"part": part, "pid": "7"})


def parent_of(status: str, reply: str, **changes: Any) -> ParentOutcome:
    return ParentOutcome(session_id=PARENT, status=status, reply=reply, ended_by="event", **changes)


NO_ROUTER = "Error: 9Router is not running; cannot use opus-4-8."
TWO_CARDS = (CARD, "browser-ffffffff")
LIVE: dict[str, Any] = {"planned_mode": Mode.LIVE, "mode": Mode.LIVE}

SITUATIONS: dict[str, tuple[tuple[str, ...], dict[str, Any], Bucket, str]] = {
    "claimed, seen, right page": (("fill", "dryrun", "probe"), {}, Bucket.OK, "reached"),
    "the form is incomplete, the box is filled": (("fill", "dryrun disabled", "probe"), {}, Bucket.OK, "reached"),
    "a structural fill that the recovery fills again": (("fill", "dryrun", "recovery", "fill", "dryrun"), {}, Bucket.OK, "reached"),
    "the first fill failed, the second in the same dispatch held": (("fill", "died", "fill", "dryrun"), {}, Bucket.OK, "reached"),
    "sent in a dry run": (("fill", "sent"), {}, Bucket.PRODUCT_FALSE_SUCCESS, "sent_in_dry_run"),
    "sent by the reply's receipt": (("fill", "died"), {"parent": parent_of("completed", "Done.", receipt="posted")}, Bucket.PRODUCT_FALSE_SUCCESS, "sent_in_dry_run"),
    "delivered, with no receipt": (("fill", "delivered"), {}, Bucket.PRODUCT_FALSE_SUCCESS, "sent_in_dry_run"),
    "the payload probe found it sent": (("fill", "died", "probe", "found"), {}, Bucket.PRODUCT_FALSE_SUCCESS, "sent_in_dry_run"),
    "the payload probe did not find it": (("fill", "died", "probe", "unknown"), {}, Bucket.PRODUCT_FILL_DIED, "fill_died"),
    "a receipt that passed": (("fill", "receipt passed"), {}, Bucket.PRODUCT_FALSE_SUCCESS, "sent_in_dry_run"),
    "sent after the page was filled, on a contended box": (("fill", "sent"), {"events": (BoxEvent(kind="contended", at="t"),)}, Bucket.PRODUCT_FALSE_SUCCESS, "sent_in_dry_run"),
    "sent in a live run, and seen on the page": (("fill", "sent"), LIVE, Bucket.PRODUCT_UNCONFIRMED, "sent_unproven"),
    "sent in a live run, and gone from the page": (("fill", "sent"), {**LIVE, **absent()}, Bucket.PRODUCT_UNCONFIRMED, "sent_unproven"),
    "sent in a live run, and the page not read": (("fill", "sent"), {**LIVE, **NOT_READ}, Bucket.PRODUCT_UNCONFIRMED, "sent_unproven"),
    "sent in a live run that never ended": (("fill", "sent"), {**LIVE, "budget_used": True}, Bucket.PRODUCT_TIMEOUT, "budget_used"),
    "a live run that could not confirm its send": (("fill", "not sent"), LIVE, Bucket.PRODUCT_FILL_DIED, "fill_died"),
    "a live run whose receipt was withheld": (("fill", "withheld"), LIVE, Bucket.PRODUCT_FILL_DIED, "fill_died"),
    "a live plan, and a line that only a dry backend prints": (("fill", "dryrun"), LIVE, Bucket.INFRA_HARNESS, "wrong_mode"),
    "a live plan on a dry backend": (("nothing",), {"planned_mode": Mode.LIVE}, Bucket.INFRA_HARNESS, "wrong_mode"),
    "sent by the recovery of a dry run": (("nothing", "recovery", "sent"), {}, Bucket.PRODUCT_FALSE_SUCCESS, "sent_in_dry_run"),
    "a retired site": (("fill", "dryrun"), {"task": {"retired": Retirement(date="2026-08-06", evidence="direct fetch")}}, Bucket.NOT_MEASURABLE, "site_retired"),
    "a second backend on the box, named": (("fill", "dryrun"), {"events": (BoxEvent(kind="contended", at="t", facts={"reason": "two backends"}),)}, Bucket.INFRA_CONTENDED, "box_contended"),
    "a second backend on the box": (("fill", "dryrun"), {"events": (BoxEvent(kind="contended", at="t"),)}, Bucket.INFRA_CONTENDED, "box_contended"),
    "a restart that supervision saw": (("fill", "dryrun"), {"events": (restarted("backend"),)}, Bucket.INFRA_BACKEND, "backend_restarted"),
    "a restart that the log shows": (("fill", "started"), {}, Bucket.INFRA_BACKEND, "backend_restarted"),
    "the backend shut down": (("fill", "stopped"), {}, Bucket.INFRA_BACKEND, "backend_restarted"),
    "the backend was not reached": (("fill", "unreachable"), {}, Bucket.INFRA_BACKEND, "backend_restarted"),
    "a claim from a backend that was restarted": (("fill", "dryrun", "started"), {}, Bucket.INFRA_BACKEND, "backend_restarted"),
    "an event that is no restart": (("fill", "dryrun"), {"events": (BoxEvent(kind="refused", at="t", facts={"part": "backend"}),)}, Bucket.OK, "reached"),
    "a restart that a supervisor printed": (("fill", "restarted"), {}, Bucket.INFRA_BACKEND, "backend_restarted"),
    "a live backend under a dry plan": (("fill", "dryrun"), {"mode": Mode.LIVE}, Bucket.INFRA_HARNESS, "wrong_mode"),
    "the launch was refused": ((), {"errors": (HarnessError(phase=Phase.LAUNCH, kind="backend", message="503"),), "parent": None}, Bucket.INFRA_BACKEND, "step_failed"),
    "the renderer failed a step": ((), {"errors": (HarnessError(phase=Phase.RESET, kind="renderer", message="m"),)}, Bucket.INFRA_NO_RENDERER, "step_failed"),
    "the router failed a step": ((), {"errors": (HarnessError(phase=Phase.PREFLIGHT, kind="router", message="m"),)}, Bucket.INFRA_ROUTER, "step_failed"),
    "contended in a step": ((), {"errors": (HarnessError(phase=Phase.START, kind="contended", message="m"),)}, Bucket.INFRA_CONTENDED, "step_failed"),
    "waiting failed": (("fill", "dryrun"), {"errors": (HarnessError(phase=Phase.WAIT, kind="backend", message="m"),)}, Bucket.INFRA_BACKEND, "step_failed"),
    "the renderer failed the audit, the fill was seen": (("fill", "dryrun"), {"errors": (HarnessError(phase=Phase.AUDIT, kind="renderer", message="m"),)}, Bucket.OK, "reached"),
    "the budget is no failed step": (("fill", "died"), {"errors": (HarnessError(phase=Phase.WAIT, kind="budget", message="m"),)}, Bucket.PRODUCT_FILL_DIED, "fill_died"),
    "a neighbour's card would not go": ((), {"errors": (HarnessError(phase=Phase.RESET, kind="clean_start", message="card left"),)}, Bucket.INFRA_HARNESS, "step_failed"),
    "no session and no error": ((), {"parent": None}, Bucket.INFRA_HARNESS, "no_session"),
    "an empty slice": ((), {"log": b""}, Bucket.INFRA_HARNESS, "log_missing"),
    "no slice at all": (("fill", "dryrun"), {"log_slice": None}, Bucket.INFRA_HARNESS, "log_missing"),
    "a slice of white space": ((), {"log": b" \n\n"}, Bucket.INFRA_HARNESS, "log_missing"),
    "a slice of a replaced file": (("fill", "dryrun"), {"log_slice": LogSlice(path="be.log", inode=1, start=0, end=1, sha256="h", torn=True)}, Bucket.INFRA_HARNESS, "log_missing"),
    "a neighbour's parent in the slice": (("neighbour", "fill", "dryrun"), {}, Bucket.INFRA_HARNESS, "foreign_session"),
    "a neighbour's child in the slice": (("fill", "dryrun", "neighbour's child"), {}, Bucket.INFRA_HARNESS, "foreign_session"),
    "another process's log": (("fill", "dryrun"), {"opening": ()}, Bucket.INFRA_HARNESS, "wrong_log"),
    "the first dispatch reused a card": (("reused", "fill", "dryrun"), {}, Bucket.INFRA_HARNESS, "reused_card"),
    "the recovery reused its card, as it should": (("fill", "died", "recovery", "reused"), {}, Bucket.PRODUCT_FILL_DIED, "fill_died"),
    "the payload probe reused its card, as it should": (("fill", "dryrun", "probe", "reused"), {}, Bucket.OK, "reached"),
    "the recovery acted on another card": (("fill", "died", "recovery", "other card"), {}, Bucket.PRODUCT_FILL_DIED, "fill_died"),
    "a neighbour's parent in the recovery's lines": (("fill", "died", "recovery", "neighbour"), {}, Bucket.INFRA_HARNESS, "foreign_session"),
    "no model, and no line that names the session": (("no provider",), {"opening": (), **NOT_READ, "children": ()}, Bucket.INFRA_ROUTER, "no_provider"),
    "the first dispatch acted on another card": (("other card", "fill", "dryrun"), {}, Bucket.INFRA_HARNESS, "foreign_card"),
    "another payload than the start gave": (("fill", "dryrun"), {"planned_payload": "probe zzzzz coverage alpha"}, Bucket.INFRA_HARNESS, "wrong_payload"),
    "a prompt that quotes the payload twice": (("fill", "dryrun"), {"prompt": f'"{PAYLOAD}" and "{PAYLOAD}"'}, Bucket.INFRA_HARNESS, "wrong_payload"),
    "a message box, seen nowhere": (("fill message", "dryrun"), absent(label=""), Bucket.PRODUCT_WRONG_SURFACE, "filled_message_box"),
    "a message box that was never filled": (("fill message", "died"), {"read": {"label": "Message"}}, Bucket.PRODUCT_FILL_DIED, "fill_died"),
    "a message box in a run that never ended": (("fill message", "dryrun"), {"budget_used": True, "read": {"label": "Message"}}, Bucket.PRODUCT_TIMEOUT, "budget_used"),
    "a text that was taken back, beside closed frames": (("fill", "dryrun"), {"reads": (make_read(after_dispatch=1), closed_read())}, Bucket.PRODUCT_UNVERIFIED_FILL, "payload_absent"),
    "a text of which the second look saw a part, beside closed frames": (("fill", "dryrun"), {"reads": (make_read(after_dispatch=1), closed_read(in_part=True))}, Bucket.OK, "reached"),
    "a text taken back on one card, and never seen on another": (("fill", "dryrun"), {"cards": TWO_CARDS, "reads": (make_read(after_dispatch=1), closed_read(), closed_read(card=TWO_CARDS[1]))}, Bucket.PRODUCT_UNCONFIRMED, "page_unread"),
    "a text in a closed frame, by the listing, and then no listing": (("fill", "dryrun"), {"reads": (make_read(after_dispatch=1, editables=(box("listing", frame=-1),)), closed_read())}, Bucket.OK, "reached"),
    "a text that was never seen beside closed frames": (("fill", "dryrun"), {"reads": (closed_read(offset_ms=40), closed_read())}, Bucket.PRODUCT_UNCONFIRMED, "page_unread"),
    "a field of one line": (("fill", "dryrun"), {"read": {"editables": (box("input"),)}}, Bucket.PRODUCT_WRONG_SURFACE, "filled_other_box"),
    "a plain textarea beside the empty editor that is a library's": (("fill", "dryrun"), {"read": {"editables": (box("textarea"), box("contenteditable", 0))}, "task": {"editor_shape": "draft"}}, Bucket.PRODUCT_WRONG_SURFACE, "filled_other_box"),
    "a plain textarea alone where the editor was a library's": (("fill", "dryrun"), {"read": {"editables": (box("textarea"), box("input", 0))}, "task": {"editor_shape": "draft"}}, Bucket.OK, "reached"),
    "an editor beside an empty textarea": (("fill", "dryrun"), {"read": {"editables": (box("contenteditable"), box("textarea", 0), box("contenteditable", 0))}, "task": {"editor_shape": "draft"}}, Bucket.OK, "reached"),
    "a box for a reply where a comment was asked for": (("fill", "dryrun"), {"read": {"label": "Reply to topic"}, "task": {"editor_shape": "contenteditable", "kind": "comment"}}, Bucket.OK, "reached"),
    "a plain textarea where the editor is one": (("fill", "dryrun"), {"read": {"editables": (box("textarea"), box("contenteditable", 0))}, "task": {"editor_shape": "textarea"}}, Bucket.OK, "reached"),
    "an editor of another library": (("fill", "dryrun"), {"task": {"editor_shape": "quill"}}, Bucket.OK, "reached"),
    "a title of many lines": (("fill", "dryrun"), {"read": {"label": "Post Title"}, "task": {"editor_shape": "contenteditable"}}, Bucket.PRODUCT_WRONG_SURFACE, "filled_other_box"),
    "a box for a reply": (("fill", "dryrun"), {"read": {"label": "Write a reply"}, "task": {"editor_shape": "contenteditable"}}, Bucket.PRODUCT_WRONG_SURFACE, "filled_other_box"),
    "a box for the reply that was asked for": (("fill", "dryrun"), {"read": {"label": "Write a reply"}, "task": {"editor_shape": "contenteditable", "prompt": 'Go to x.com and write a Reply: "{payload}"'}}, Bucket.OK, "reached"),
    "a box that the task calls another one": (("fill", "dryrun"), {"read": {"label": "CSS"}, "task": {"editor_shape": "codemirror6", "other_boxes": "(?i)^css"}}, Bucket.PRODUCT_WRONG_SURFACE, "filled_other_box"),
    "the box beside those that the task calls others": (("fill", "dryrun"), {"read": {"label": "HTML"}, "task": {"editor_shape": "codemirror6", "other_boxes": "(?i)^css"}}, Bucket.OK, "reached"),
    "a field of one line in a task of an unknown shape": (("fill", "dryrun"), {"read": {"editables": (box("input"),)}, "task": {"editor_shape": ""}}, Bucket.OK, "reached"),
    "a field of one line, which holds it twice": (("fill", "dryrun"), {"read": {"count": 2, "editables": (box("input", 2),)}}, Bucket.PRODUCT_UNVERIFIED_FILL, "payload_absent"),
    "a field of one line, and no claim": (("nothing",), {"read": {"editables": (box("input"),)}}, Bucket.PRODUCT_NO_COMPOSER, "declined"),
    "filled elsewhere in a run that never ended": (("fill elsewhere", "dryrun"), {"budget_used": True}, Bucket.PRODUCT_TIMEOUT, "budget_used"),
    "filled on the right host, seen on another": (("fill", "dryrun"), {"read": {"url": "https://x.com.evil.example/home"}}, Bucket.PRODUCT_WRONG_SURFACE, "filled_wrong_page"),
    "filled on another host, and not read": (("fill elsewhere", "dryrun"), NOT_READ, Bucket.PRODUCT_WRONG_SURFACE, "filled_wrong_page"),
    "absent from another page than was filled": (("fill", "dryrun"), absent(url="https://x.com/explore"), Bucket.PRODUCT_UNVERIFIED_FILL, "payload_absent"),
    "seen on a page that is no web page": (("fill", "dryrun"), {"read": {"url": "ftp://x.com/home"}}, Bucket.PRODUCT_WRONG_SURFACE, "filled_wrong_page"),
    "seen on a URL without a host": (("fill", "dryrun"), {"read": {"url": "https:///home"}}, Bucket.PRODUCT_WRONG_SURFACE, "filled_wrong_page"),
    "seen on a blank page": (("fill", "dryrun"), {"read": {"url": "about:blank"}}, Bucket.PRODUCT_WRONG_SURFACE, "filled_wrong_page"),
    "seen on the bare host": (("fill", "dryrun"), {"read": {"url": "https://x.com"}, "task": {"path_rule": "^/"}}, Bucket.OK, "reached"),
    "seen on the host in wide letters": (("fill", "dryrun"), {"read": {"url": "https://\uff58.com/home"}}, Bucket.OK, "reached"),
    "seen on a subdomain": (("fill", "dryrun"), {"read": {"url": "https://mobile.x.com/home"}}, Bucket.OK, "reached"),
    "seen, and bv3 could not tell where": (("fill", "dryrun"), {"read": {"url": ""}}, Bucket.OK, "reached"),
    "seen, and nobody can tell where": (("dryrun",), {"read": {"url": ""}}, Bucket.PRODUCT_UNCONFIRMED, "page_unread"),
    "a task that names no host": (("fill elsewhere", "dryrun"), {**NOT_READ, "task": {"host": ""}}, Bucket.PRODUCT_UNCONFIRMED, "page_unread"),
    "filled at a URL that was cut": (("fill cut", "dryrun"), {}, Bucket.OK, "reached"),
    "filled on another path": (("fill path", "dryrun"), {}, Bucket.PRODUCT_WRONG_SURFACE, "filled_wrong_page"),
    "a message box for a private task": (("fill message", "dryrun"), {"read": {"label": "Message"}, "task": {"visibility": "private"}}, Bucket.OK, "reached"),
    "read after the trial alone, then after the recovery": (("fill", "dryrun", "recovery"), {"reads": (make_read(after_dispatch=1), make_read(offset_ms=900, count=0))}, Bucket.OK, "reached"),
    "blind after the trial, seen after the recovery": (("fill", "dryrun", "recovery"), {"reads": (make_read(after_dispatch=1, count=0, payload=Seen.COULD_NOT_LOOK), make_read(offset_ms=900))}, Bucket.OK, "reached"),
    "absent after the trial alone, though a recovery followed": (("fill", "dryrun", "recovery"), absent(), Bucket.PRODUCT_UNVERIFIED_FILL, "payload_absent"),
    "absent after the trial alone, seen after the recovery": (("fill", "dryrun", "recovery"), {"reads": (make_read(after_dispatch=1, count=0), make_read(offset_ms=900))}, Bucket.PRODUCT_UNVERIFIED_FILL, "payload_absent"),
    "seen after the trial but for one frame, gone after the recovery": (("fill", "dryrun", "recovery"), {"reads": (make_read(after_dispatch=1, frames_unread=1), make_read(offset_ms=900, count=0))}, Bucket.OK, "reached"),
    "an editor that reverts": (("fill", "dryrun", "probe"), {"reads": (make_read(), make_read(offset_ms=900, count=0))}, Bucket.PRODUCT_UNVERIFIED_FILL, "payload_absent"),
    "a card that closed before a second look": (("fill", "dryrun", "probe"), {"reads": (make_read(), make_read(offset_ms=900, count=0, payload=Seen.COULD_NOT_LOOK))}, Bucket.OK, "reached"),
    "one card of two holds it": (("fill", "dryrun"), {"cards": TWO_CARDS, "reads": (make_read(), make_read(card=TWO_CARDS[1], offset_ms=900, count=0, url="https://x.com/explore"))}, Bucket.OK, "reached"),
    "both cards hold it": (("fill", "dryrun"), {"cards": TWO_CARDS, "reads": (make_read(), make_read(card=TWO_CARDS[1]))}, Bucket.PRODUCT_UNVERIFIED_FILL, "payload_absent"),
    "one card holds it twice, the other is blind": (("fill", "dryrun"), {"cards": TWO_CARDS, "reads": (make_read(count=2), make_read(card=TWO_CARDS[1], count=0, payload=Seen.COULD_NOT_LOOK))}, Bucket.PRODUCT_UNVERIFIED_FILL, "payload_absent"),
    "one card does not hold it, the other is blind": (("fill", "dryrun"), {"cards": TWO_CARDS, "reads": (make_read(count=0), make_read(card=TWO_CARDS[1], count=0, payload=Seen.COULD_NOT_LOOK))}, Bucket.PRODUCT_UNCONFIRMED, "page_unread"),
    "somebody else's card holds it": (("fill", "dryrun"), {"read": {"card": TWO_CARDS[1]}}, Bucket.PRODUCT_UNCONFIRMED, "page_unread"),
    "the layout named no card, and the read does": (("fill", "dryrun"), {"cards": ()}, Bucket.OK, "reached"),
    "seen in one frame, another was closed": (("fill", "dryrun"), {"read": {"frames_unread": 1}}, Bucket.OK, "reached"),
    "absent, and a message box stands there": (("fill", "dryrun"), absent(label="Message"), Bucket.PRODUCT_UNVERIFIED_FILL, "payload_absent"),
    "seen, and the editables were cut": (("fill", "dryrun"), {"read": {"editables": ()}}, Bucket.OK, "reached"),
    "a failed screenshot and a failed teardown": (("fill", "dryrun"), {"errors": (HarnessError(phase=Phase.CAPTURE, kind="harness", message="m"), HarnessError(phase=Phase.TEARDOWN, kind="backend", message="m"))}, Bucket.OK, "reached"),
    "died on another host": (("fill elsewhere", "died"), {}, Bucket.PRODUCT_FILL_DIED, "fill_died"),
    "a message box, by bv3's reading": (("fill", "dryrun"), {"read": {"label": "Message…", "url": "https://x.com/home"}}, Bucket.PRODUCT_WRONG_SURFACE, "filled_message_box"),
    "a message box, by the product's word": (("fill message", "dryrun"), NOT_READ, Bucket.PRODUCT_WRONG_SURFACE, "filled_message_box"),
    "filled on another host": (("fill elsewhere", "dryrun"), {"read": {"url": "https://netflix.com/home"}}, Bucket.PRODUCT_WRONG_SURFACE, "filled_wrong_page"),
    "filled elsewhere, then the recovery filled right": (("fill elsewhere", "dryrun", "recovery", "fill", "dryrun"), {}, Bucket.PRODUCT_WRONG_SURFACE, "filled_wrong_page"),
    "the renderer was restarted": (("fill", "died"), {"events": (restarted("renderer"),)}, Bucket.INFRA_NO_RENDERER, "part_restarted"),
    "the pages of the reference stack were restarted": (("nothing",), {"events": (restarted("sites"),)}, Bucket.INFRA_HARNESS, "part_restarted"),
    "a bug in reading the page": (("fill", "dryrun"), {"errors": (HarnessError(phase=Phase.AUDIT, kind="harness", message="KeyError"),)}, Bucket.INFRA_HARNESS, "step_failed"),
    "the router was restarted, and the fill was seen": (("fill", "dryrun"), {"events": (restarted("router"),)}, Bucket.OK, "reached"),
    "the router was restarted": (("nothing",), {"events": (restarted("router"),)}, Bucket.INFRA_ROUTER, "part_restarted"),
    "bv3's own card was silent": (("fill", "timed out"), {"probe_after": DEAD_PROBE}, Bucket.INFRA_NO_RENDERER, "renderer_silent"),
    "bv3's own card was silent without a word": (("fill", "died"), {"probe_after": Probe(answered=False, duration_ms=3_000)}, Bucket.INFRA_NO_RENDERER, "renderer_silent"),
    "bv3's own card was silent before the run": (("fill", "died"), {"probe_before": DEAD_PROBE}, Bucket.INFRA_NO_RENDERER, "renderer_silent"),
    "claimed, then the renderer died under bv3's read": (("fill", "dryrun"), {**NOT_READ, "probe_after": DEAD_PROBE}, Bucket.INFRA_NO_RENDERER, "renderer_silent"),
    "the renderer went before the session ended": (("ended lost",), NO_PROBES, Bucket.INFRA_NO_RENDERER, "renderer_away"),
    "the renderer went in the recovery alone": (("nothing", "recovery", "ended lost"), NO_PROBES, Bucket.PRODUCT_NO_COMPOSER, "declined"),
    "the renderer was away and came back": (("aux no dashboard", "fill", "died"), {}, Bucket.PRODUCT_FILL_DIED, "fill_died"),
    "a claim, though a fill before it found no renderer": (("fill", "no dashboard", "fill", "dryrun"), NOT_READ, Bucket.PRODUCT_UNCONFIRMED, "page_unread"),
    "a claim, though the card was once gone": (("fill", "card gone", "fill", "dryrun"), NOT_READ, Bucket.PRODUCT_UNCONFIRMED, "page_unread"),
    "a decline, and then a retry": (("nothing", "retry"), {}, Bucket.PRODUCT_NO_COMPOSER, "declined"),
    "a decline, and then a call that failed": (("nothing", "no aux"), {}, Bucket.PRODUCT_NO_COMPOSER, "declined"),
    "the card was gone, nobody asked the renderer": (("fill", "card gone"), NO_PROBES, Bucket.INFRA_BROWSER, "card_died"),
    "a claim, though a retry followed": (("fill", "dryrun", "retry"), NOT_READ, Bucket.PRODUCT_UNCONFIRMED, "page_unread"),
    "no renderer at all": (("refused", "ended"), NO_PROBES, Bucket.INFRA_NO_RENDERER, "renderer_away"),
    "the renderer went in mid-run": (("fill", "no dashboard"), NO_PROBES, Bucket.INFRA_NO_RENDERER, "renderer_away"),
    "the card went, the renderer answered": (("fill", "card gone"), {}, Bucket.INFRA_BROWSER, "card_died"),
    "the card was gone once, the second fill was rejected": (("fill", "card gone", "fill", "died"), {}, Bucket.PRODUCT_FILL_DIED, "fill_died"),
    "the page was too busy to read": (("structural busy", "nothing"), {}, Bucket.INFRA_BROWSER, "card_died"),
    "the card was given up": (("unusable",), {}, Bucket.INFRA_BROWSER, "card_died"),
    "the card was given up after silence": (("slow", "dead"), {}, Bucket.PRODUCT_COMMAND_TIMEOUT, "command_timed_out"),
    "the card was given up after silence, and was gone": (("slow", "dead", "fill", "card gone"), {}, Bucket.INFRA_BROWSER, "card_died"),
    "the card perceived nothing, and yet was filled": (("dead", "fill", "died"), {}, Bucket.PRODUCT_FILL_DIED, "fill_died"),
    "never alive, never answered, nobody asked the renderer": (("silent mount", "slow", "nothing"), NO_PROBES, Bucket.INFRA_NO_RENDERER, "card_died"),
    "never alive, never answered, bv3's card answered": (("silent mount", "slow", "slow", "nothing"), {}, Bucket.PRODUCT_COMMAND_TIMEOUT, "command_timed_out"),
    "a silent mount alone": (("silent mount", "nothing"), NO_PROBES, Bucket.PRODUCT_NO_COMPOSER, "declined"),
    "a mount that came alive": (("late mount", "slow", "nothing"), NO_PROBES, Bucket.PRODUCT_NO_COMPOSER, "declined"),
    "silence before a fill that was rejected": (("silent mount", "slow", "fill", "died"), NO_PROBES, Bucket.PRODUCT_FILL_DIED, "fill_died"),
    "the card perceives nothing, the renderer answered": (("dead", "slow"), {}, Bucket.INFRA_BROWSER, "card_died"),
    "the card perceives nothing, nobody asked the renderer": (("dead", "slow"), NO_PROBES, Bucket.INFRA_NO_RENDERER, "card_died"),
    "a page's title that quotes a provider": (("navigated quoting overload", "nothing"), absent(), Bucket.PRODUCT_NO_COMPOSER, "declined"),
    "a page's title that quotes a lost card": (("navigated quoting card", "nothing"), absent(), Bucket.PRODUCT_NO_COMPOSER, "declined"),
    "a page's label that quotes a lost renderer": (("finder quoting renderer", "nothing"), absent(), Bucket.PRODUCT_NO_COMPOSER, "declined"),
    "a page's label that quotes an error": (("finder quoting error", "nothing"), absent(), Bucket.PRODUCT_NO_COMPOSER, "declined"),
    "a fill error that quotes a lost renderer": (("fill", "died quoting renderer"), {}, Bucket.PRODUCT_FILL_DIED, "fill_died"),
    "a fill error that quotes a provider": (("fill", "died quoting provider"), {}, Bucket.PRODUCT_FILL_DIED, "fill_died"),
    "the finder was not answered": (("finder timed out", "nothing"), {}, Bucket.PRODUCT_COMMAND_TIMEOUT, "command_timed_out"),
    "the finder was not answered, by the renderer's own word": (("finder timed out by id", "nothing"), {}, Bucket.PRODUCT_COMMAND_TIMEOUT, "command_timed_out"),
    "a call of prestage was pushed back": (("prestage overloaded",), NOT_READ, Bucket.INFRA_ROUTER, "no_provider"),
    "the classifier's call ran out of time": (("classifier timed out",), NOT_READ, Bucket.INFRA_ROUTER, "no_provider"),
    "the provider could not be reached": (("classifier away",), NOT_READ, Bucket.INFRA_ROUTER, "no_provider"),
    "the provider answered with a status": (("classifier status",), NOT_READ, Bucket.INFRA_ROUTER, "no_provider"),
    "the classifier stumbled over an answer": (("classifier stumbled", "nothing"), absent(), Bucket.PRODUCT_NO_COMPOSER, "declined"),
    "a sign-in host of somebody else's": (("nothing",), absent(url="https://login.evil.example/x"), Bucket.NOT_MEASURABLE, "sign_in_page"),
    "a sign-in host of somebody else's, where the first dispatch stood": (("report sign-in", "nothing"), absent(url="https://accounts.google.com/AccountChooser"), Bucket.NOT_MEASURABLE, "sign_in_page"),
    "a sign-in host of the task's owner": (("nothing",), {**absent(url="https://accounts.google.com/v3/x"), "task": {"host": "mail.google.com", "entry": "https://mail.google.com/"}}, Bucket.NOT_MEASURABLE, "sign_in_page"),
    "a sign-in host under the same country's suffix": (("nothing",), {**absent(url="https://login.other.co.uk/"), "task": {"host": "mail.example.co.uk", "entry": "https://mail.example.co.uk/"}}, Bucket.NOT_MEASURABLE, "sign_in_page"),
    "a sign-in host of the same owner under a country's suffix": (("nothing",), {**absent(url="https://login.example.co.uk/"), "task": {"host": "mail.example.co.uk", "entry": "https://mail.example.co.uk/"}}, Bucket.NOT_MEASURABLE, "sign_in_page"),
    "a sign-in host below a short name": (("nothing",), {**absent(url="https://login.x.io/login"), "task": {"host": "x.io", "entry": "https://x.io/"}}, Bucket.NOT_MEASURABLE, "sign_in_page"),
    "a sign-in host of the same owner under a country": (("nothing",), {**absent(url="https://login.example.de/"), "task": {"host": "mail.example.de", "entry": "https://mail.example.de/"}}, Bucket.NOT_MEASURABLE, "sign_in_page"),
    "a sign-in host of the same owner with a short name": (("nothing",), {**absent(url="https://login.vk.com/"), "task": {"host": "mail.vk.com", "entry": "https://mail.vk.com/"}}, Bucket.NOT_MEASURABLE, "sign_in_page"),
    "claimed elsewhere, then a fill that never ended": (("fill elsewhere", "dryrun", "fill"), {}, Bucket.PRODUCT_FILL_DIED, "fill_died"),
    "claimed, then a fill elsewhere that never ended": (("fill", "dryrun", "fill elsewhere"), {}, Bucket.PRODUCT_FILL_DIED, "fill_died"),
    "a search that was answered within its leash": (("slow search", "slow search", "nothing"), absent(), Bucket.PRODUCT_NO_COMPOSER, "declined"),
    "searches that were not answered": (("lost search", "lost search", "nothing"), absent(), Bucket.PRODUCT_COMMAND_TIMEOUT, "command_timed_out"),
    "the send script met no renderer": (("script no dashboard",), NO_PROBES, Bucket.INFRA_NO_RENDERER, "renderer_away"),
    "the send script lost its card": (("script card gone",), {}, Bucket.INFRA_BROWSER, "card_died"),
    "the finder's error behind other entries": (("finder error last", "nothing"), {}, Bucket.PRODUCT_COMMAND_TIMEOUT, "command_timed_out"),
    "no model behind the router": (("no provider",), {"opening": (), **NOT_READ}, Bucket.INFRA_ROUTER, "no_provider"),
    "the provider pushed back, and nothing came of it": (("retry", "retry"), {}, Bucket.INFRA_ROUTER, "no_provider"),
    "the provider pushed back, then answered": (("retry", "nothing"), {}, Bucket.PRODUCT_NO_COMPOSER, "declined"),
    "a fill, and then the provider pushed back": (("fill", "retry"), {}, Bucket.INFRA_ROUTER, "no_provider"),
    "a retry before a fill that died": (("retry", "fill", "died"), {}, Bucket.PRODUCT_FILL_DIED, "fill_died"),
    "prestage could ask nobody": (("no aux", "nothing"), {}, Bucket.INFRA_ROUTER, "no_provider"),
    "prestage was pushed back": (("aux rate limit", "nothing"), {}, Bucket.INFRA_ROUTER, "no_provider"),
    "prestage met an overload": (("aux overload", "nothing"), {}, Bucket.INFRA_ROUTER, "no_provider"),
    "prestage could ask nobody, and a box was found": (("no aux", "fill", "died"), {}, Bucket.PRODUCT_FILL_DIED, "fill_died"),
    "prestage stumbled over an answer": (("aux nonsense", "nothing"), {}, Bucket.PRODUCT_NO_COMPOSER, "declined"),
    "the router died, and prestage with it": (("router died", "aux nonsense", "nothing"), {}, Bucket.INFRA_ROUTER, "no_provider"),
    "prestage stumbled, then the router died and was revived": (("aux nonsense", "router died", "nothing"), {}, Bucket.PRODUCT_NO_COMPOSER, "declined"),
    "the router was down and was revived": (("router down", "nothing"), {}, Bucket.PRODUCT_NO_COMPOSER, "declined"),
    "the session says that there is no router": (("ended",), {**NOT_READ, "parent": parent_of("error", NO_ROUTER)}, Bucket.INFRA_ROUTER, "no_provider"),
    "an answer that quotes the error": (("ended",), {**NOT_READ, "parent": parent_of("completed", NO_ROUTER)}, Bucket.PRODUCT_NO_COMPOSER, "nothing_tried"),
    "a session that ended in another error": (("ended",), {**NOT_READ, "parent": parent_of("error", "Error: boom")}, Bucket.PRODUCT_NO_COMPOSER, "nothing_tried"),
    "a bot challenge": (("nothing", "recovery"), absent(challenge=Seen.SEEN), Bucket.NOT_MEASURABLE, "challenge_shown"),
    "a challenge where the first dispatch stood too": (("nothing", "report", "recovery"), absent(challenge=Seen.SEEN, after_dispatch=2), Bucket.NOT_MEASURABLE, "challenge_shown"),
    "a challenge that only the payload probe came after": (("nothing", "probe"), absent(challenge=Seen.SEEN, after_dispatch=2), Bucket.NOT_MEASURABLE, "challenge_shown"),
    "a challenge after a recovery moved on": (("nothing", "report elsewhere", "recovery"), absent(challenge=Seen.SEEN, after_dispatch=2), Bucket.NOT_MEASURABLE, "challenge_shown"),
    "a challenge after a recovery, and no word on where the first stood": (("nothing", "recovery"), absent(challenge=Seen.SEEN, after_dispatch=2), Bucket.NOT_MEASURABLE, "challenge_shown"),
    "a challenge after a recovery, though the first had a box": (("fill", "died", "recovery"), absent(challenge=Seen.SEEN, after_dispatch=2, url="https://x.com/compose/post"), Bucket.PRODUCT_FILL_DIED, "fill_died"),
    "a challenge over the box, read at once": (("fill", "died"), absent(challenge=Seen.SEEN), Bucket.NOT_MEASURABLE, "challenge_shown"),
    "a challenge on another site": (("nothing",), absent(challenge=Seen.SEEN, url="https://evil.example/home"), Bucket.PRODUCT_NO_COMPOSER, "declined"),
    "a challenge on no web page": (("nothing",), absent(challenge=Seen.SEEN, url="about:blank"), Bucket.PRODUCT_NO_COMPOSER, "declined"),
    "a challenge where prestage ended": (("prestage", "nothing", "recovery"), absent(challenge=Seen.SEEN, after_dispatch=2), Bucket.NOT_MEASURABLE, "challenge_shown"),
    "a challenge at a URL that was cut": (("report cut", "nothing", "recovery"), absent(challenge=Seen.SEEN, after_dispatch=2, url=f"https://x.com/{'a' * 150}"), Bucket.NOT_MEASURABLE, "challenge_shown"),
    "a challenge under the page where the first dispatch stood": (("report", "nothing", "recovery"), absent(challenge=Seen.SEEN, after_dispatch=2, url="https://x.com/home/2"), Bucket.NOT_MEASURABLE, "challenge_shown"),
    "a challenge, and the first dispatch stood on a blank page": (("report blank", "nothing", "recovery"), absent(challenge=Seen.SEEN, after_dispatch=2), Bucket.NOT_MEASURABLE, "challenge_shown"),
    "a challenge, and the first dispatch stood on another host": (("report host", "nothing", "recovery"), absent(challenge=Seen.SEEN, after_dispatch=2), Bucket.NOT_MEASURABLE, "challenge_shown"),
    "a challenge by the product's word, then a claim": (("challenge", "fill", "dryrun"), NOT_READ, Bucket.PRODUCT_UNCONFIRMED, "page_unread"),
    "a challenge elsewhere by the product's word, then a claim": (("challenge elsewhere", "fill", "dryrun"), NOT_READ, Bucket.PRODUCT_UNCONFIRMED, "page_unread"),
    "a sign-in host without a word of it in the path": (("nothing",), absent(url="https://accounts.google.com/AccountChooser"), Bucket.NOT_MEASURABLE, "sign_in_page"),
    "a task that begins at a sign-in page": (("nothing",), {**absent(url="https://x.com/login"), "task": {"entry": "https://x.com/login"}}, Bucket.PRODUCT_NO_COMPOSER, "declined"),
    "a sign-in page, and the first dispatch stood on another site's": (("report evil login", "nothing", "recovery"), absent(url="https://x.com/i/flow/login", after_dispatch=2), Bucket.NOT_MEASURABLE, "sign_in_page"),
    "a wall that bv3 does not find after the payload probe": (("wall login", "probe"), absent(after_dispatch=2), Bucket.PRODUCT_NO_COMPOSER, "wall_refuted"),
    "a wall that bv3 did not find before the recovery": (("wall login", "recovery"), absent(), Bucket.PRODUCT_NO_COMPOSER, "wall_refuted"),
    "a wall, and a second card that stands nowhere": (("wall url", "recovery"), {"cards": TWO_CARDS, "reads": (make_read(count=0, url="https://x.com/home", offset_ms=900), make_read(count=0, card=TWO_CARDS[1], url="about:blank"))}, Bucket.NOT_MEASURABLE, "wall_claimed"),
    "a challenge over a claimed fill": (("fill", "dryrun"), absent(challenge=Seen.SEEN), Bucket.PRODUCT_UNVERIFIED_FILL, "payload_absent"),
    "a redirect to a sign-in page, both times": (("report sign-in", "nothing", "recovery"), absent(url="https://accounts.google.com/v3/signin/x", after_dispatch=2), Bucket.NOT_MEASURABLE, "sign_in_page"),
    "a sign-in page that only the recovery went to": (("report", "nothing", "recovery"), absent(url="https://x.com/i/flow/login", after_dispatch=2), Bucket.NOT_MEASURABLE, "sign_in_page"),
    "a sign-in page of another site": (("nothing",), absent(url="https://evil.example/login"), Bucket.PRODUCT_NO_COMPOSER, "declined"),
    "a sign-in page over a claimed fill": (("fill", "dryrun"), absent(url="https://x.com/login"), Bucket.PRODUCT_UNVERIFIED_FILL, "payload_absent"),
    "a password form of another site": (("nothing",), absent(password_form=Seen.SEEN, url="https://evil.example/home"), Bucket.PRODUCT_NO_COMPOSER, "declined"),
    "a password form after a recovery moved on": (("report elsewhere", "nothing", "recovery"), absent(password_form=Seen.SEEN, after_dispatch=2), Bucket.NOT_MEASURABLE, "password_form"),
    "a password form in a run that never ended": (("nothing",), {**absent(password_form=Seen.SEEN), "budget_used": True}, Bucket.NOT_MEASURABLE, "password_form"),
    "a wall by the product's word in a run that never ended": (("wall url",), {**NOT_READ, "budget_used": True}, Bucket.PRODUCT_TIMEOUT, "budget_used"),
    "a wall that is not on the page, in a run that never ended": (("wall url",), {**absent(), "budget_used": True}, Bucket.PRODUCT_TIMEOUT, "budget_used"),
    "a wall of another site, by the product's word": (("wall elsewhere",), NOT_READ, Bucket.PRODUCT_NO_COMPOSER, "wall_refuted"),
    "a challenge on another site, by the product's word": (("challenge elsewhere",), NOT_READ, Bucket.PRODUCT_NO_COMPOSER, "wall_refuted"),
    "a wall, then a composer in the same dispatch": (("wall url", "fill", "died"), NOT_READ, Bucket.PRODUCT_FILL_DIED, "fill_died"),
    "a wall that the recovery left behind": (("wall login", "recovery"), absent(after_dispatch=2), Bucket.NOT_MEASURABLE, "wall_claimed"),
    "a wall that is not on its page after the recovery either": (("wall url", "recovery"), absent(after_dispatch=2), Bucket.PRODUCT_NO_COMPOSER, "wall_refuted"),
    "a wall, and bv3 stood on another page": (("wall url",), absent(url="https://x.com/explore"), Bucket.NOT_MEASURABLE, "wall_claimed"),
    "a wall, and bv3 could not tell of password fields": (("wall url",), absent(password_form=Seen.COULD_NOT_LOOK), Bucket.NOT_MEASURABLE, "wall_claimed"),
    "a wall, and bv3 could not tell of challenges": (("wall url",), absent(challenge=Seen.COULD_NOT_LOOK), Bucket.NOT_MEASURABLE, "wall_claimed"),
    "a wall behind an opener": (("reveal wall",), NOT_READ, Bucket.NOT_MEASURABLE, "wall_claimed"),
    "a password field before the page that was meant, no wall to bv3": (("wall password entry", "recovery"), absent(url="https://x.com/", after_dispatch=2), Bucket.PRODUCT_NO_COMPOSER, "wall_refuted"),
    "a password field, and bv3 stood on another page": (("wall password",), absent(url="https://x.com/explore"), Bucket.NOT_MEASURABLE, "wall_claimed"),
    "a password field at a URL that was cut": (("wall password cut",), absent(url=f"https://x.com/{'a' * 60}"), Bucket.PRODUCT_NO_COMPOSER, "wall_refuted"),
    "a wall by a URL that says nothing to bv3": (("wall enter",), absent(url="https://x.com/enter"), Bucket.NOT_MEASURABLE, "wall_claimed"),
    "a wall by a password field that bv3 does not find": (("wall password",), absent(), Bucket.PRODUCT_NO_COMPOSER, "wall_refuted"),
    "a redirect to a sign-in page": (("nothing",), absent(url="https://accounts.google.com/v3/signin/x"), Bucket.NOT_MEASURABLE, "sign_in_page"),
    "a password form": (("wall url",), absent(password_form=Seen.SEEN), Bucket.NOT_MEASURABLE, "password_form"),
    "a wall by the product's word": (("wall url",), NOT_READ, Bucket.NOT_MEASURABLE, "wall_claimed"),
    "a challenge by the product's word": (("challenge",), NOT_READ, Bucket.NOT_MEASURABLE, "wall_claimed"),
    "a challenge by the product's word, and bv3 read the page without one": (("challenge", "nothing"), absent(), Bucket.PRODUCT_NO_COMPOSER, "wall_refuted"),
    "a challenge by the product's word before a box was found": (("challenge", "fill", "died"), NOT_READ, Bucket.PRODUCT_FILL_DIED, "fill_died"),
    "a challenge by the product's word after a box was found": (("fill", "died", "challenge"), NOT_READ, Bucket.PRODUCT_FILL_DIED, "fill_died"),
    "a challenge by the product's word, then a claim without a box's name": (("challenge", "dryrun"), NOT_READ, Bucket.PRODUCT_UNCONFIRMED, "page_unread"),
    "a challenge that bv3 did not read, then a claim without a box's name": (("challenge", "dryrun"), absent(), Bucket.PRODUCT_UNVERIFIED_FILL, "payload_absent"),
    "a sign-in link alone can't be refuted": (("signed out",), absent(), Bucket.NOT_MEASURABLE, "wall_claimed"),
    "a wall that is not on the page": (("wall url",), absent(), Bucket.PRODUCT_NO_COMPOSER, "wall_refuted"),
    "the budget was used up": (("fill", "dryrun"), {"budget_used": True}, Bucket.PRODUCT_TIMEOUT, "budget_used"),
    "claimed, and the page does not hold it": (("fill", "dryrun"), absent(), Bucket.PRODUCT_UNVERIFIED_FILL, "payload_absent"),
    "claimed, and the page holds it twice": (("fill", "dryrun", "probe"), {"read": {"count": 2}}, Bucket.PRODUCT_UNVERIFIED_FILL, "payload_absent"),
    "absent after the read-only probe": (("fill", "dryrun", "probe"), absent(after_dispatch=2), Bucket.PRODUCT_UNVERIFIED_FILL, "payload_absent"),
    "absent after a recovery": (("fill", "dryrun", "recovery"), absent(after_dispatch=2), Bucket.PRODUCT_UNCONFIRMED, "payload_absent"),
    "claimed, and the page can't be read": (("fill", "dryrun"), {"read": {"count": 0, "payload": Seen.COULD_NOT_LOOK, "url": ""}}, Bucket.PRODUCT_UNCONFIRMED, "page_unread"),
    "claimed, and a frame can't be entered": (("fill", "dryrun"), absent(frames_unread=1), Bucket.PRODUCT_UNCONFIRMED, "page_unread"),
    "no claim, and the page holds it": (("nothing",), {}, Bucket.PRODUCT_NO_COMPOSER, "declined"),
    "the budget was used up before a composer was found": (("nothing",), {"budget_used": True}, Bucket.PRODUCT_TIMEOUT, "budget_used"),
    "the script ran out of time": (("fill", "outer skip"), {}, Bucket.PRODUCT_COMMAND_TIMEOUT, "command_timed_out"),
    "the script fell over something else": (("fill", "outer error"), {}, Bucket.PRODUCT_FILL_DIED, "fill_died"),
    "a command timed out, the second fill was rejected": (("fill", "timed out", "fill", "died"), {}, Bucket.PRODUCT_FILL_DIED, "fill_died"),
    "slow reads before a fill that was rejected": (("slow", "slow", "fill", "died"), {}, Bucket.PRODUCT_FILL_DIED, "fill_died"),
    "one slow command": (("slow", "nothing"), {}, Bucket.PRODUCT_NO_COMPOSER, "declined"),
    "slow only after all was said": (("nothing", "slow", "slow"), {}, Bucket.PRODUCT_NO_COMPOSER, "declined"),
    "slow, and answered": (("slow answered", "slow answered", "nothing"), {}, Bucket.PRODUCT_NO_COMPOSER, "declined"),
    "a time too long to be one": (("slow", "slow absurd", "nothing"), {}, Bucket.PRODUCT_NO_COMPOSER, "declined"),
    "slow to navigate within its longer leash": (("slow navigate", "slow navigate", "nothing"), {}, Bucket.PRODUCT_NO_COMPOSER, "declined"),
    "navigation was never answered": (("hung navigate", "hung navigate", "nothing"), {}, Bucket.PRODUCT_COMMAND_TIMEOUT, "command_timed_out"),
    "slow to find a composer within its longer leash": (("slow find", "slow find", "nothing"), {}, Bucket.PRODUCT_NO_COMPOSER, "declined"),
    "finding a composer was never answered": (("hung find", "hung find", "nothing"), {}, Bucket.PRODUCT_COMMAND_TIMEOUT, "command_timed_out"),
    "shortened leashes, never answered": (("short", "short", "nothing"), {"leash_scale": 0.1}, Bucket.PRODUCT_COMMAND_TIMEOUT, "command_timed_out"),
    "the same times with the product's own leashes": (("short", "short", "nothing"), {}, Bucket.PRODUCT_NO_COMPOSER, "declined"),
    "navigation itself said that it timed out": (("navigated", "nothing"), {}, Bucket.PRODUCT_COMMAND_TIMEOUT, "command_timed_out"),
    "a command was never answered": (("fill", "slow", "timed out"), {}, Bucket.PRODUCT_COMMAND_TIMEOUT, "command_timed_out"),
    "reads were never answered": (("slow", "slow", "nothing"), {}, Bucket.PRODUCT_COMMAND_TIMEOUT, "command_timed_out"),
    "the editor rejects input": (("fill", "died"), {}, Bucket.PRODUCT_FILL_DIED, "fill_died"),
    "the fill was not seen committed": (("fill", "not committed"), {}, Bucket.PRODUCT_FILL_DIED, "fill_died"),
    "silence after a fill began": (("fill",), {}, Bucket.PRODUCT_FILL_DIED, "fill_died"),
    "no claim, but seen after a recovery": (("fill", "died", "recovery", "fill", "dryrun"), {}, Bucket.PRODUCT_FILL_DIED, "fill_died"),
    "a disabled control alone is no composer": (("disabled", "nothing"), absent(), Bucket.PRODUCT_NO_COMPOSER, "declined"),
    "a disabled control in the recovery alone": (("nothing", "recovery", "fill", "dryrun disabled"), absent(), Bucket.PRODUCT_NO_COMPOSER, "declined"),
    "a decline, then a fill and silence": (("nothing", "fill"), absent(), Bucket.PRODUCT_FILL_DIED, "fill_died"),
    "another kind of page, then a fill that died": (("other page", "fill", "died"), {}, Bucket.PRODUCT_FILL_DIED, "fill_died"),
    "a fill that died, then another kind of page": (("fill", "died", "other page"), {}, Bucket.PRODUCT_WRONG_SURFACE, "landed_elsewhere"),
    "a fill, and then a decline": (("fill", "nothing"), absent(), Bucket.PRODUCT_NO_COMPOSER, "declined"),
    "no unambiguous payload": (("no payload",), absent(), Bucket.PRODUCT_NO_COMPOSER, "declined"),
    "another kind of page": (("other page",), absent(), Bucket.PRODUCT_WRONG_SURFACE, "landed_elsewhere"),
    "nothing editable": (("nothing", "recovery", "nothing"), absent(), Bucket.PRODUCT_NO_COMPOSER, "declined"),
    "the recovery alone found a wall": (("nothing", "recovery", "wall url"), NOT_READ, Bucket.PRODUCT_NO_COMPOSER, "declined"),
    "no send script ran": (("ended",), NOT_READ, Bucket.PRODUCT_NO_COMPOSER, "nothing_tried"),
}  # fmt: skip


@pytest.fixture(scope="session")
def situations() -> dict[str, tuple[tuple[str, ...], dict[str, Any], Bucket, str]]:
    """What a run can look like, by name: the lines, the changes of its record, the bucket, the rule that decides."""
    return SITUATIONS


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that asks for `situation` is run for each of them."""
    if "situation" in metafunc.fixturenames:
        metafunc.parametrize("situation", SITUATIONS)


@pytest.fixture
def grade(task: SiteTask) -> Callable[..., Graded]:
    """The verdict on these lines (or `log`): `task` changes the task, `read` the read, everything else the record."""

    def grade_lines(*names: str, log: bytes | None = None, **changes: Any) -> Graded:
        meant = dataclasses.replace(task, **changes.pop("task", {}))
        if "read" in changes:
            changes["reads"] = (make_read(**changes.pop("read")),)
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


SITES = ("x", "linkedin", "reddit", "gmail", "youtube", "instagram", "tiktok", "substack", "twitch")


@pytest.fixture(scope="session")
def sweep_of() -> Callable[..., SweepFacts]:
    """A finished dry sweep of the known suite, of so many runs."""

    def make_sweep(runs: int, **changes: Any) -> SweepFacts:
        values: dict[str, Any] = {
            "sweep": "c7-20261129T220003Z-k3f9",
            "plan": "c7",
            "suite": "known",
            "mode": Mode.DRY,
            "trials": 12,
            "runs": runs,
            "runs_closed": runs,
            "sites": SITES,
            "suite_sites": SITES,
            "state": "finished",
            "started_at": datetime(2026, 11, 29, 22, 0, 3, tzinfo=UTC),
            "finished_at": datetime(2026, 11, 29, 22, 4, 41, tzinfo=UTC),
        }
        return SweepFacts(**values | changes)

    return make_sweep
