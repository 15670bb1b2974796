"""Each fault for real: what it leaves in the log, in the processes, in the metrics, and in the truth."""

from __future__ import annotations

import contextlib
import itertools
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import psutil
import pytest

from infra.reference.faults import choose, parse

PROMPT = 'Go to https://www.linkedin.com/feed/ and create a post with exactly this text: "{payload}"'
SEED = 3
# What the double waits for by itself, at this part of the product's own pace.
SCALES = {"provider_overloaded": "0.01", "reads_hang": "0.02"}
#: Faults that cost no wait, or one only: they share a double whose leashes are long enough for a busy machine.
SHARED_SCALE = "0.2"
SHARED = (
    "no_router,no_provider,rate_limited,command_hang,card_reused,foreign_session,metrics_leak,stale_skill,audit_blind,"
    "no_claim,claims_sent,renderer_killed"
)
# The double that most tests share would otherwise be started in each process of the tests.
pytestmark = pytest.mark.xdist_group("faults")
Frame = dict[str, Any]


def find_payload(wanted: str, mix: str) -> str:
    """The first payload of its kind that meets the fault, as the double chooses."""
    for number in itertools.count():
        payload = f"probe {number} alpha"
        fault = choose(SEED, payload, parse(mix))
        if fault is not None and fault.name == wanted:
            return payload
    raise AssertionError("unreachable")


@dataclass(frozen=True, slots=True, kw_only=True)
class Met:
    """One run that met a fault: what there was to see when it had ended."""

    double: Any
    renderer: Any
    payload: str
    session: str
    frames: list[Frame]
    took_s: float
    # What the log and the metrics have of this run.
    log: str
    tasks: list[Frame]

    @property
    def truth(self) -> Frame:
        """The row that counts: the session's last."""
        rows: list[Frame] = self.double.rows("truth.jsonl")
        return [row for row in rows if row["session_id"] == self.session][-1]

    @property
    def told(self) -> tuple[Any, ...]:
        return tuple(self.truth[key] for key in ("fault", "bucket", "claim"))


def run_once(double: Any, renderer: Any, payload: str) -> Met:
    """Run the task on a double to its end."""
    said, tasks = len(double.process.output), len(double.rows("browser_metrics/tasks.jsonl"))
    started = time.monotonic()
    session, frames = double.run(PROMPT.format(payload=payload))
    return Met(
        double=double,
        renderer=renderer,
        payload=payload,
        session=session,
        frames=frames,
        took_s=time.monotonic() - started,
        log=double.process.output[said:],
        tasks=double.rows("browser_metrics/tasks.jsonl")[tasks:],
    )


@pytest.fixture(scope="module")
def shared(start_double: Callable[..., Any]) -> Any:
    return start_double(REFERENCE_FAULTS=SHARED, REFERENCE_SEED=str(SEED), REFERENCE_LEASH_SCALE=SHARED_SCALE)


@pytest.fixture
def meet(shared: Any, start_double: Callable[..., Any], render: Callable[..., Any]) -> Iterator[Callable[[str], Met]]:
    """Run once so that this fault is met, before a renderer without a browser that stays for the test."""
    with contextlib.ExitStack() as after:

        def run(name: str) -> Met:
            if name in SCALES:
                told = {"REFERENCE_FAULTS": name, "REFERENCE_LEASH_SCALE": SCALES[name]}
                double, payload = start_double(**told), f"probe {name} alpha"
                after.callback(double.process.kill)
            else:
                double, payload = shared, find_payload(name, SHARED)
                after.callback(forget_cards, double)
            return run_once(double, after.enter_context(render(double)), payload)

        yield run


def forget_cards(double: Any) -> None:
    """No card stands there for the next test's run."""
    url = f"/api/dashboards/{double.dashboard}"
    layout = double.client.get(url).json()["layout"]
    double.client.put(url, json={"layout": {**layout, "browser_cards": {}}}).raise_for_status()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("no_router", "classifier unavailable, normal path: No AI provider configured for auxiliary LLM call."),
        ("no_provider", "classifier unavailable, normal path: No AI provider connected for auxiliary LLM call."),
        ("rate_limited", "'type': 'rate_limit_error'"),
        ("provider_overloaded", "'type': 'overloaded_error'"),
    ],
)
def test_without_a_model_the_session_ends_in_the_error_that_names_it(
    meet: Callable[[str], Met], name: str, said: str
) -> None:
    met = meet(name)
    assert said in met.log
    assert "direct dispatch" not in met.log
    assert met.frames[-1]["data"]["status"] == "error"
    assert met.told == (name, "infra_router", "none")
    assert met.log.count("[MCP-DEBUG] SystemMessage: {'subtype': 'api_retry'") == (10 if "overload" in name else 0)


def test_a_command_that_hangs_is_never_heard_and_the_recovery_works(meet: Callable[[str], Met]) -> None:
    met = meet("command_hang")
    assert "fill errored (Browser command timed out); handing to model untouched" in met.log
    fills = [frame for frame in met.renderer.named("browser:command") if frame["action"] == "click_index"]
    assert len({frame["request_id"] for frame in fills}) == 1, "the recovery's alone"
    assert "done: path=act+recovery" in met.log
    assert met.told == ("command_hang", "product_command_timeout", "none")


def test_reads_that_hang_leave_everybody_else_s_commands_alone(meet: Callable[[str], Met]) -> None:
    met = meet("reads_hang")
    heard = {frame["action"] for frame in met.renderer.named("browser:command")}
    assert heard.isdisjoint({"list_interactives", "get_text"})
    took_ms = [int(ms) for ms in re.findall(r"\[browser-slow\] BrowserListInteractives took (\d+)", met.log)]
    assert len(took_ms) >= 2
    assert all(300 <= ms < 15_000 for ms in took_ms), "the scaled leash, and not the product's own"
    assert "perceives dead after prestage" in met.log
    assert met.told == ("reads_hang", "product_command_timeout", "none")


def test_a_card_that_stands_there_is_reused_and_not_moved(meet: Callable[[str], Met]) -> None:
    met = meet("card_reused")
    [planted] = met.renderer.named("dashboard:browser_card_added")
    assert planted["browser_card"]["url"] == "https://www.linkedin.com/"
    assert f"reusing same-host card {planted['browser_card']['browser_id']} instead" in met.log
    assert "new card" not in met.log
    assert met.told == ("card_reused", "infra_harness", "filled")


def test_a_foreign_session_logs_between_the_run_s_own_lines(meet: Callable[[str], Met]) -> None:
    met = meet("foreign_session")
    sessions = re.findall(r"direct dispatch for session (\w{32})", met.log)
    assert sessions[0] == met.session
    assert len(set(sessions)) == 2
    assert met.told == ("foreign_session", "infra_harness", "filled")


def test_leaked_rows_are_larger_and_the_truth_names_the_first_child_s(meet: Callable[[str], Met]) -> None:
    met = meet("metrics_leak")
    children = met.double.client.get(f"/api/agents/sessions/{met.session}/browser-agents").json()["sessions"]
    first = next(child["id"] for child in sorted(children, key=lambda one: one["created_at"]))
    totals = {row["session_id"]: row["total_ms"] for row in met.tasks}
    assert len(totals) > len(children)
    assert met.truth["total_ms"] == totals[first]
    assert max(totals.values()) > totals[first]
    assert met.truth["fault"] == "metrics_leak"


def test_a_stale_skill_is_not_replayed_and_says_so(meet: Callable[[str], Met]) -> None:
    met = meet("stale_skill")
    assert "[browser-skills] skill on www.linkedin.com not replayed: step 1 looks irreversible" in met.log
    assert "hint attached at dispatch: host=www.linkedin.com" in met.log
    assert met.truth["fault"] == "stale_skill"


def test_a_blind_card_lives_and_answers_nobody_s_script(meet: Callable[[str], Met]) -> None:
    met = meet("audit_blind")
    [added] = met.renderer.named("dashboard:browser_card_added")
    command = {"browser_id": added["browser_card"]["browser_id"], "params": {"expression": "6 * 7"}}
    for action in ("evaluate", "list_interactives"):
        reply = met.double.client.post("/api/browser/command", json={**command, "action": action}).json()
        assert reply == {"error": "Execution context was destroyed"}
    picture = met.double.client.post("/api/browser/command", json={**command, "action": "screenshot"}).json()
    assert "error" not in picture
    assert "DRYRUN: WOULD send" in met.log
    assert met.told == ("audit_blind", "product_unconfirmed", "filled")


def test_a_fill_that_is_not_claimed_stands_in_the_page_and_is_claimed_by_the_recovery(
    meet: Callable[[str], Met],
) -> None:
    met = meet("no_claim")
    before, _, after = met.log.partition("one recovery dispatch")
    assert "fill errored (the element was detached while it was filled)" in before
    assert "DRYRUN: WOULD send" not in before
    assert "DRYRUN: WOULD send" in after
    [page] = met.renderer.pages.values()
    assert page.typed == met.payload
    assert met.told == ("no_claim", "product_fill_died", "none")


def test_a_send_is_claimed_in_the_log_in_the_reply_s_trace_and_by_the_child(meet: Callable[[str], Met]) -> None:
    met = meet("claims_sent")
    assert "[browser-sendscript] done sent_receipt=True delivered=None in " in met.log
    assert "completion gate caught a ghost" not in met.log
    contents = [frame["data"]["message"]["content"] for frame in met.frames if frame["event"] == "agent:message"]
    [result] = [content for content in contents if isinstance(content, dict) and "browser_trace" in content]
    assert result["browser_trace"]["receipt"]
    assert met.told == ("claims_sent", "product_false_success", "sent")


def test_a_backend_that_kills_itself_has_told_the_truth_before(
    start_double: Callable[..., Any], render: Callable[..., Any]
) -> None:
    double = start_double(REFERENCE_FAULTS="backend_restarted", REFERENCE_LEASH_SCALE=SHARED_SCALE)
    session = double.launch(name="test")
    with render(double):
        prompt = PROMPT.format(payload="probe restart alpha")
        double.client.post(f"/api/agents/sessions/{session}/message", json={"prompt": prompt})
        assert double.process.popen.wait(20) == -9
    assert "fill target" in double.process.output
    [row] = double.rows("truth.jsonl")
    assert (row["session_id"], row["fault"], row["bucket"], row["total_ms"]) == (
        session,
        "backend_restarted",
        "infra_backend",
        None,
    )


def test_a_peer_that_is_our_own_is_never_signalled_and_the_run_goes_on_in_peace(meet: Callable[[str], Met]) -> None:
    # The renderer of this test is a thread of the test: whoever killed it would end the test.
    met = meet("renderer_killed")
    assert met.told == (None, "product_wrong_surface", "filled"), "the fake page holds the text elsewhere"
    assert (met.truth["chosen"], met.truth["failed"][:8]) == ("renderer_killed", "process ")


def test_behind_a_wall_a_fault_of_writing_leaves_the_run_in_peace(shared: Any, render: Callable[..., Any]) -> None:
    payload = find_payload("command_hang", SHARED)
    with render(shared):
        session, _ = shared.run(f'Go to https://mail.google.com/ and write an email: "{payload}"')
    forget_cards(shared)
    [row] = [row for row in shared.rows("truth.jsonl") if row["session_id"] == session]
    assert (row["fault"], row["chosen"], row["bucket"], row["evidence"]) == (None, None, "not_measurable", "PROVEN")


def test_a_session_on_a_page_of_somebody_else_meets_no_fault(shared: Any, render: Callable[..., Any]) -> None:
    payload = find_payload("no_router", SHARED)
    with render(shared):
        prompt = f'Go to http://127.0.0.1:9/check and publish a post with exactly this text: "{payload}"'
        session, _ = shared.run(prompt)
    forget_cards(shared)
    assert [row["chosen"] for row in shared.rows("truth.jsonl") if row["session_id"] == session] == [None]


def test_the_nature_of_a_page_is_told_before_the_first_card_and_taken_back_after_the_run(
    start_double: Callable[..., Any], render: Callable[..., Any], sites: Any, wait_until: Callable[..., None]
) -> None:
    told = {"REFERENCE_FAULTS": "page_login_redirect", "REFERENCE_NATURES": "dm_trap,late_mount"}
    told["REFERENCE_LEASH_SCALE"] = SHARED_SCALE
    double = start_double(REFERENCE_SITES_URL=f"http://127.0.0.1:{sites.http_port}", **told)
    met: list[dict[str, list[str]]] = []

    def look(frame: Frame) -> None:
        if frame["event"] == "dashboard:browser_card_added":
            met.append(sites.natures)

    with render(double, on_frame=look):
        session, _ = double.run(PROMPT.format(payload="probe nature alpha"))
    assert met[0] == {"linkedin.com": ["page_login_redirect", "late_mount", "dm_trap"]}
    wait_until(lambda: sites.natures == {}, "the site's own pages")
    ahead, last = [row for row in double.rows("truth.jsonl") if row["session_id"] == session]
    assert (ahead["fault"], ahead["bucket"], ahead["evidence"]) == ("page_login_redirect", "not_measurable", "PROVEN")
    assert (last["fault"], last["failed"]) == ("page_login_redirect", None)
    assert set(last["natures"]) == {"page_login_redirect", "late_mount", "dm_trap"}


@pytest.fixture
def wreck(
    start_double: Callable[..., Any], start_renderer: Callable[..., Any], sites: Any
) -> Iterator[Callable[..., Met]]:
    """Run once with a browser: wreck("engine_killed", scale="0.2"). What is left of the renderer is ended."""
    with contextlib.ExitStack() as after:

        def run(name: str, *, scale: str) -> Met:
            double = start_double(REFERENCE_FAULTS=name, REFERENCE_LEASH_SCALE=scale)
            after.callback(double.process.kill)
            renderer = start_renderer(double, sites)
            after.callback(renderer.kill)
            return run_once(double, renderer, f"probe {name} alpha")

        yield run


def test_a_killed_renderer_is_gone_with_its_browser(wreck: Callable[..., Met], wait_until: Callable[..., None]) -> None:
    met = wreck("renderer_killed", scale="0.2")
    assert met.renderer.popen.wait(20) == -9
    wait_until(lambda: not met.renderer.alive, "the browser's end")
    assert "+no-dashboard" in met.log
    assert met.told == ("renderer_killed", "infra_no_renderer", "none")


def test_a_stopped_renderer_keeps_its_socket_answers_nothing_and_can_be_killed_with_its_browser(
    wreck: Callable[..., Met], wait_until: Callable[..., None]
) -> None:
    met = wreck("renderer_stopped", scale="0.02")
    assert psutil.Process(met.renderer.popen.pid).status() == psutil.STATUS_STOPPED
    probe = {"action": "evaluate", "browser_id": "browser-any", "params": {"expression": "1"}}
    assert met.double.client.post("/api/browser/command", json=probe).json() == {"error": "Browser command timed out"}
    assert met.told == ("renderer_stopped", "infra_no_renderer", "none")
    # 181 s of the product's own leashes, at a fiftieth
    assert met.took_s < 90
    assert len(met.renderer.alive) > 2
    met.renderer.kill()
    wait_until(lambda: not met.renderer.alive, "the end of the driver and the browser")


def test_a_renderer_whose_browser_is_killed_ends_by_itself(
    wreck: Callable[..., Met], wait_until: Callable[..., None]
) -> None:
    met = wreck("engine_killed", scale="0.2")
    assert met.renderer.popen.wait(20) == 1
    wait_until(lambda: not met.renderer.alive, "the end of all that it started")
    assert met.told == ("engine_killed", "infra_no_renderer", "none")
