"""Every line that the product is known to print is told by one marker, whatever its values."""

from __future__ import annotations

import time

import pytest

from grader.markers import Catalogue, Marker, load_catalogue

CATALOGUE: Catalogue = load_catalogue()
SID, CARD = "0123456789abcdef0123456789abcdef", "browser-0a1b2c3d"
URL = "https://x.com/compose/post"
AGENT = f"[browser-agent {SID}]"
LINES = (
    ("classifier_verdict", "[browser-fast-path] classifier: READ brief=0ch model= in 8000ms"),
    ("classifier_verdict", "[browser-fast-path] classifier: NO brief=12ch model=claude-haiku in 1ms"),
    ("classifier_unavailable", "[browser-fast-path] classifier unavailable, normal path: TimeoutError: "),
    ("direct_dispatch", f"[browser-fast-path] direct dispatch for session {SID} (read)"),
    ("brief_entry", f"[browser-cold] brief entry url for {SID}: {URL}"),
    ("payload_probe", f"[browser-fast-path] send-zone failure for {SID}; payload probe before any retry"),
    *(("probe_verdict", f"[browser-fast-path] send-probe verdict={said} for {SID}") for said in ("found", "not-found")),
    ("recovery_dispatch", f"[browser-fast-path] first dispatch failed for {SID}; one recovery dispatch"),
    *(
        ("session_done", f"[browser-fast-path] session {SID} done: path={path} reply=0ch in 99999ms")
        for path in ("act", "read", "act+no-dashboard", "act+recovery", "act+send-probe=not-found")
    ),
    ("dispatch_refused", "[browser-agent] dispatch refused: no dashboard after reconnect wait"),
    ("new_card", f"[browser-cold] new card {CARD} opens at brief entry {URL}"),
    ("reused_card", f"[browser-agent] reusing same-host card {CARD} instead of stacking another webview"),
    *(("spawn_ack", f"[browser-spawn-ack] {CARD} rebroadcast after silent mount; alive={x}") for x in (True, False)),
    ("mount_poll", f"[browser-cold] mount poll 6500ms for {CARD}"),
    ("slow_command", f"[browser-slow] BrowserScreenshot took 8011ms -> {CARD}"),
    ("slow_command", f"[browser-slow] BrowserScreenshot took 8011ms gate=12ms stages=['a: 1', 'b'] -> {CARD}"),
    ("action", f"[browser-action] BrowserClickIndex: click#1 'a -> b'  -> {CARD}"),
    (
        "perceives_dead",
        (
            f"{AGENT} card {CARD} perceives dead after prestage (no url/elements, confirming probe empty); evicting + "
            "recovering early"
        ),
    ),
    ("prestage_outer_skip", "[browser-prestage] outer skip ()"),
    ("prestage_outer_skip", "[browser-prestage] outer skip (Browser command timed out)"),
    ("sendscript_outer_skip", "[browser-sendscript] outer skip (TimeoutError: )"),
    ("prestage_start", "[browser-prestage] start url=(none)"),
    (
        "prestage_tier0",
        "[browser-prestage] READY tier-0 in 23ms: a composer is already on the page, no aux call needed",
    ),
    ("prestage_step", "[browser-prestage] step 6 plan: perceive=30ms aux=8000ms reply=None"),
    ("prestage_step", """[browser-prestage] step 2 plan: perceive=30ms aux=1ms reply="CLICK 3 it's there\""""),
    ("prestage_ready", "[browser-prestage] READY after 2 step(s): composer visible (1 of 2)"),
    ("prestage_repeated", "[browser-prestage] repeated step NAVIGATE 'https://x.com/'; stopping"),
    ("prestage_unsettled", f"[browser-prestage] nav {URL} did not settle; stopping unstaged"),
    ("prestage_compose_entry", f"[browser-prestage] compose entry {URL} reached a composer"),
    ("prestage_tier1", f"[browser-prestage] tier-1: first search result is {URL}"),
    ("prestage_done", "[browser-prestage] done: steps=6 url= in 35000ms"),
    ("prestage_done", f"[browser-prestage] done: steps=0 (perceive-only) url={URL} in 1ms"),
    ("prestage_skipped", "[browser-prestage] skipped (No AI provider configured for auxiliary LLM call. Add one.)"),
    ("fill_target", f"[browser-sendscript] fill target 'Post text' [-1] on {URL}"),
    ("fill_target", f"""[browser-sendscript] fill target "what's happening?" [12] on {URL}"""),
    *(
        (
            "dryrun_filled",
            (
                "[browser-sendscript] DRYRUN: WOULD send (fill committed, send_button_listed=False, "
                f"submit_resolved={resolved}, submit_rank={rank}, submit={submit}); not clicking"
            ),
        )
        for resolved, rank, submit in (
            (True, 3, "'post'"),
            (True, 1, '"let\'s post"'),
            (False, 0, "'the submit control is present but DISABLED, so it is'"),
            (False, 0, "None"),
        )
    ),
    ("decline_no_composer", "[browser-sendscript] decline: no composer or opener after poll (3 textboxes (named 0))"),
    ("decline_read_only", "[browser-sendscript] decline: read-only directive in user request"),
    ("decline_wall", "[browser-sendscript] decline: login/auth wall ('x.com/login') triggered by url: /login"),
    ("decline_wall", """[browser-sendscript] decline: login/auth wall ("x'y") triggered by password field: Password"""),
    ("decline_wall", "[browser-sendscript] decline: login/auth wall ('') triggered by copy: log in (or sign up)"),
    ("decline_no_payload", "[browser-sendscript] decline: no unambiguous quoted payload"),
    ("decline_content_type", f"[browser-sendscript] decline: asked for a reply, landed on a post ({URL})"),
    ("decline_reveal_wall", "[browser-sendscript] decline: reveal landed on a login/auth wall"),
    ("decline_signed_out", "[browser-sendscript] decline: signed OUT (composer withheld, sign-in offered)"),
    ("decline_nothing_editable", "[browser-sendscript] decline: no composer, opener, or structural editable"),
    (
        "fill_errored",
        "[browser-sendscript] fill errored (Index 9 is not in the map. Call it.); handing to model untouched",
    ),
    ("submit_disabled", "[browser-sendscript] submit 'Post' is present but DISABLED; the form is incomplete, so not"),
    (
        "structural_composer",
        (
            "[browser-sendscript] structural composer role=None score=6 nearSubmit=False reveals=['trigger', 'scroll'] "
            "fillMode=keystroke filled+verified"
        ),
    ),
    (
        "structural_none",
        "[browser-sendscript] structural finder: no usable composer ({'error': 'Browser command timed out'})",
    ),
    ("fill_not_committed", "[browser-sendscript] fill not seen committed; aborting pre-click"),
    *(
        ("ignoring_surface", f"[browser-sendscript] ignoring {kind} 'Message': wrong surface for this task")
        for kind in ("composer", "opener", "composer/opener")
    ),
    ("firing_opener", "[browser-sendscript] firing via opener 'Start a post' [4]"),
    ("receipt_withheld", "[browser-sendscript] receipt withheld after 6s of polling: composer kept its text"),
    *(
        ("send_done", f"[browser-sendscript] done sent_receipt={sent} delivered={delivered} in 98ms")
        for sent, delivered in ((True, None), (False, False), (True, True))
    ),
    ("dryrun_report", "[dryrun-report] armed=0 composer=0 opener=1 textboxes=12 filled=0 url="),
    (
        "receipt_passed",
        f"[browser-receipt {SID}] two-sided receipt passed (fill committed + composer cleared); run ends in code",
    ),
    ("autosend_delivered", f"[browser-autosend {SID}] post-fill code-send delivered (receipt verified)"),
    (
        "ghost",
        f"{AGENT} completion gate caught a ghost: model declared done but it; was not; reporting as error",
    ),
    ("card_unusable", f"{AGENT} browser card {CARD} is unusable (3 consecutive gone/hung results); aborting fast"),
    ("dispatch_time", f"[browser-time {SID}] wall=1ms llm=0ms tools=0ms other=1ms auto_scans=0 tool_errors=2 more=x"),
    (
        "metrics_task",
        (
            "[browser-metrics] TASK completed path=llm_fallback total=9ms turns=2 tools=0 tok_in=1 tok_out=2 "
            "recurring_errs=[['a', 2]]"
        ),
    ),
    ("challenge_detected", f"{AGENT} bot check detected on x.com; handing to the user, not solving it"),
    ("delete_item", "[browser-deleteitem] target='a post' removed=False stage=no menu"),
    ("delete_dispatch", "[browser-deletedispatch] target='a post' removed=True stage=confirmed"),
    (
        "skill_gate",
        "[browser-skills] record gate: honest=True informational=False removal=False unconfirmed_send=False",
    ),
    ("skill_learned", "[browser-skills] learned 2-step skill for x.com (rev 1, probationary, persisted)"),
    (
        "skill_learned",
        "[browser-skills] EDITED 2-step skill for x.com (rev 3, probationary, in-memory only: sensitive)",
    ),
    (
        "skill_rederived",
        "[browser-skills] re-derived identical 2-step skill for x.com (rev 2, state=proven, transient miss)",
    ),
    ("skill_recorded", "[browser-skills] learned skill for x.com (future runs replay fast)"),
    ("skill_not_robust", "[browser-skills] NOT recorded (host empty or no robust steps)"),
    ("skill_not_deliverable", "[browser-skills] NOT recorded (deliverable was gathered/judged content; replay can't)"),
    ("skill_unfillable", "[browser-skills] skill matched on x.com but slots unfillable from task; running full agent"),
    ("skill_none", "[browser-skills] no skill for host='x.com' after 3 turn(s)"),
    (
        "skill_not_replayed",
        "[browser-skills] skill on x.com not replayed: it's; odd; running the full agent so the send is confirmed",
    ),
    ("replay_prefix", "[browser-skills] PREFIX replay: 1/3 steps on x.com, the model does the rest"),
    ("replay_attempt", "[browser-skills] REPLAY attempt: 3 steps on x.com (after 0 LLM turn(s))"),
    ("replay_step_failed", "[browser-skills] replay step failed (BrowserType: no (such)), falling back to full agent"),
    ("replay_succeeded", "[browser-skills] REPLAY SUCCEEDED in 900ms (1 LLM turn(s))"),
    (
        "replay_quarantined",
        "[browser-skills] x.com::post a thing (unproven) failed replay -> quarantined (baseline from here)",
    ),
    ("router_down", "9Router watchdog: router is down (confirmed twice); reviving"),
    ("router_revived", "9Router watchdog: revived"),
    ("router_died", "9Router process died; instant revive"),
    ("api_retry", "[MCP-DEBUG] SystemMessage: {'subtype': 'api_retry', 'data': {}}"),
    ("agent_navigated", f"Browser agent {SID}: navigated to {URL}: {{'error': 'Browser command timed out'}}"),
)
PLAIN = (
    ("server_started", "INFO:     Started server process [1]"),
    ("server_stopped", "INFO:     Application shutdown complete."),
    ("backend_restarted", "[stack] BACKEND RESTARTED at 20:07:04"),
    ("backend_unreachable", "[harness] BACKEND UNREACHABLE (URLError: refused)"),
)


@pytest.mark.parametrize(("marker", "message"), LINES)
def test_each_line_of_the_contract_is_told_by_its_marker_alone(marker: str, message: str) -> None:
    hits = CATALOGUE.scan(f"20:07:04 I backend.apps.agents: {message}\r\n".encode()).find_all()
    assert [hit.marker for hit in hits] == [marker]


@pytest.mark.parametrize(("marker", "line"), PLAIN)
def test_each_line_without_a_prefix_is_told_by_its_marker_alone(marker: str, line: str) -> None:
    assert [hit.marker for hit in CATALOGUE.scan(line.encode()).find_all()] == [marker]


def test_no_line_marker_lacks_a_line() -> None:
    told = {marker for marker, _ in (*LINES, *PLAIN)}
    assert told == {marker.name for marker in CATALOGUE.markers if not marker.is_value}


def _hostile(marker: Marker, size: int) -> bytes:
    """A line that begins as the marker's does and then never ends as it should."""
    head = "" if marker.is_value else marker.head
    body = ("a' (x) [1] \\' : ; -> " * (size // 20 + 1))[:size]
    prefix = "20:07:04 I a.b: " if marker.level else ""
    return f"{prefix}{head}{body}\x00".encode()


@pytest.mark.parametrize("marker", CATALOGUE.markers, ids=lambda marker: marker.name)
def test_no_pattern_takes_more_than_linear_time_on_hostile_text(marker: Marker) -> None:
    def seconds(size: int) -> float:
        data = _hostile(marker, size)
        best = float("inf")
        for _ in range(3):
            began = time.process_time()
            if marker.is_value:
                CATALOGUE.replies_in(data.decode())
            else:
                CATALOGUE.scan(data).find(marker.name)
            best = min(best, time.process_time() - began)
        return best

    # a quadratic pattern would need a hundred times as long, or the half of a second at once
    assert seconds(1_000_000) < 0.1 + 30 * seconds(100_000)
