"""The double's HTTP and WebSocket interface, as the product answers."""

from __future__ import annotations

import json
import os
import re
import signal
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

POST = 'Go to http://box.test:9911/compose and create a post with exactly this text: "probe k3f9x coverage alpha"'
Frame = dict[str, Any]


def hello(socket: Any, last_seq: int) -> list[Frame]:
    """Greet a session socket; the frames up to and including the server's hello."""
    socket.send(json.dumps({"event": "client:hello", "data": {"connection_uuid": "u-1", "last_seq": last_seq}}))
    frames: list[Frame] = []
    while not frames or frames[-1]["event"] != "server:hello":
        frames.append(json.loads(socket.recv(5)))
    return frames


# -- Auth --------------------------------------------------------------------------------------------


def test_a_request_without_the_token_is_refused_and_logged(double: Any) -> None:
    answer = httpx.get(f"http://127.0.0.1:{double.port}/api/dashboards/list", trust_env=False)
    assert answer.status_code == 401
    assert answer.json() == {"error": "unauthorized", "detail": "missing or invalid token"}
    assert "W backend.auth: auth: rejecting GET /api/dashboards/list (origin=None, no valid token)" in "\n".join(
        double.lines
    )


@pytest.mark.parametrize("way", ["authorization", "x-openswarm-token", "x-api-key", "query"])
def test_the_token_is_taken_in_each_of_the_four_ways(double: Any, way: str) -> None:
    value = f"Bearer {double.token}" if way == "authorization" else double.token
    sent: Frame = {"params": {"token": value}} if way == "query" else {"headers": {way: value}}
    answer = httpx.get(f"http://127.0.0.1:{double.port}/api/dashboards/list", **sent, trust_env=False)
    assert answer.status_code == 200


def test_the_health_check_needs_no_token(double: Any) -> None:
    answer = httpx.get(f"http://127.0.0.1:{double.port}/api/health/check", trust_env=False)
    assert (answer.status_code, answer.text) == (200, "OK")


def test_a_socket_without_the_token_gets_a_500_for_its_handshake(double: Any) -> None:
    with pytest.raises(InvalidStatus) as caught, connect(f"ws://127.0.0.1:{double.port}/ws/dashboard", proxy=None):
        pass
    assert caught.value.response.status_code == 500


def test_the_token_file_is_private_and_the_token_is_in_no_log_line(double: Any) -> None:
    httpx.get(f"http://127.0.0.1:{double.port}/api/dashboards/list?token={double.token}", trust_env=False)
    with double.socket(f"/ws/agents/{'0' * 32}"):
        pass
    assert stat.S_IMODE((double.data_root / "auth.token").stat().st_mode) == 0o600
    log = "\n".join(double.lines)
    assert double.token not in log
    assert f'"WebSocket /ws/agents/{"0" * 32}?token=<REDACTED:openswarm-token>" [accepted]' in log


# -- Dashboards --------------------------------------------------------------------------------------


def test_a_layout_is_replaced_as_a_whole_and_no_event_says_so(double: Any, render: Any) -> None:
    found = double.client.get(f"/api/dashboards/{double.dashboard}").json()
    card = {"browser_id": "browser-audit000", "url": "about:blank", "spawned_by": None}
    with render(double) as renderer:
        layout = {**found["layout"], "browser_cards": {"browser-audit000": card}}
        put = double.client.put(f"/api/dashboards/{found['id']}", json={**found, "layout": layout}).json()
        assert put["layout"]["browser_cards"] == {"browser-audit000": card}
        cleared = double.client.put(f"/api/dashboards/{found['id']}", json={"layout": {}}).json()
        assert cleared["layout"]["browser_cards"] == {}
        assert double.client.get(f"/api/dashboards/{found['id']}").json() == cleared
    assert renderer.frames == []


def test_an_unknown_dashboard_is_a_404(double: Any) -> None:
    for answer in (double.client.get("/api/dashboards/none"), double.client.put("/api/dashboards/none", json={})):
        assert (answer.status_code, answer.json()) == (404, {"detail": "Dashboard not found"})


# -- Sessions ----------------------------------------------------------------------------------------


def test_a_launched_session_is_called_running_although_nothing_runs(double: Any) -> None:
    body = {"name": "cov-x", "model": "opus-4-8", "dashboard_id": double.dashboard}
    answer = double.client.post("/api/agents/launch", json=body).json()
    assert answer["session"]["status"] == "running"
    read = double.client.get(f"/api/agents/sessions/{answer['session_id']}").json()
    assert (read["name"], read["model"], read["messages"], read["event_seq"]) == ("cov-x", "opus-4-8", [], 1)
    assert double.client.get("/api/agents/activity").json()["active"] == 0


def test_wrong_requests_get_the_products_own_answers(double: Any) -> None:
    session = double.launch()
    post = double.client.post
    empty = post(f"/api/agents/sessions/{session}/message", json={"prompt": " "})
    assert (empty.status_code, empty.json()) == (400, {"detail": "prompt is required"})
    unknown = post("/api/agents/sessions/none/message", json={"prompt": "hello"})
    assert (unknown.status_code, unknown.text) == (500, "Internal Server Error")
    gone = double.client.get("/api/agents/sessions/none")
    assert (gone.status_code, gone.json()) == (404, {"detail": "Session not found"})
    half = post("/api/browser/command", json={"action": "evaluate"})
    assert (half.status_code, half.json()) == (400, {"error": "action and browser_id are required"})
    typed = post("/api/agents/launch", json={"max_turns": "many"})
    assert (typed.status_code, typed.json()["detail"][0]["loc"]) == (422, ["max_turns"])
    broken = post("/api/browser/command", content=b"{")
    assert (broken.status_code, broken.text) == (500, "Internal Server Error")


def test_deleting_is_idempotent_and_leaves_children_and_cards(double: Any, render: Any) -> None:
    with render(double) as renderer:
        session, _ = double.run(POST.replace("box.test", "deleted.test"))
        children = double.client.get(f"/api/agents/sessions/{session}/browser-agents").json()["sessions"]
        heard = len(renderer.frames)
        for _ in range(2):
            assert double.client.delete(f"/api/agents/sessions/{session}").json() == {"ok": True}
        assert double.client.get(f"/api/agents/sessions/{session}").status_code == 404
        left = double.client.get(f"/api/agents/sessions/{session}/browser-agents").json()["sessions"]
        assert [child["id"] for child in left] == [child["id"] for child in children]
        assert len(left) == 2
        cards = double.client.get(f"/api/dashboards/{double.dashboard}").json()["layout"]["browser_cards"]
        assert any(card["spawned_by"] == session for card in cards.values())
        assert len(renderer.frames) == heard


def test_a_session_without_a_browser_task_is_a_plain_conversation(double: Any) -> None:
    session, frames = double.run("What is seven times six?")
    assert frames[-1]["data"]["status"] == "completed"
    messages = double.client.get(f"/api/agents/sessions/{session}").json()["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant"]


# -- Session sockets ---------------------------------------------------------------------------------


def test_missed_events_are_replayed_in_order_and_numbered_without_gaps(double: Any, render: Any) -> None:
    with render(double):
        session, frames = double.run(POST)
    events = [frame for frame in frames if "seq" in frame]
    assert [frame["seq"] for frame in events] == list(range(1, len(events) + 1))
    assert [frame["data"]["status"] for frame in events if frame["event"] == "agent:status"] == [
        "running",
        "running",
        "completed",
    ]
    with double.socket(f"/ws/agents/{session}") as socket:
        *replayed, greeting = hello(socket, last_seq=2)
        assert replayed == events[2:]
        last = events[-1]["seq"]
        ack = {"ok": True, "replayed": len(replayed), "from_seq": 3, "to_seq": last}
        assert greeting["data"] == {"connection_uuid": "u-1", "current_seq": last, "ack": ack}
    with double.socket(f"/ws/agents/{session}") as socket:
        assert hello(socket, last_seq=last)[0]["data"]["ack"] == {"ok": True, "replayed": 0, "current_seq": last}


def test_the_last_word_of_a_session_outlives_a_restart(start_double: Any, render: Any) -> None:
    first = start_double()
    with render(first):
        session, frames = first.run(POST)
    assert first.process.stop() == 0
    again = start_double(data_root=first.data_root)
    assert again.token == first.token
    assert again.client.get(f"/api/agents/sessions/{session}").json()["status"] == "completed"
    with again.socket(f"/ws/agents/{session}") as socket:
        last, greeting = hello(socket, last_seq=0)
        assert last == frames[-1]
        assert greeting["data"]["ack"] == {"ok": True, "replayed": 1, "terminal_only": True}


def test_unknown_sessions_are_accepted_and_pings_answered(double: Any) -> None:
    with double.socket(f"/ws/agents/{'f' * 32}") as socket:
        assert hello(socket, last_seq=0)[-1]["data"]["ack"] == {"ok": True, "replayed": 0, "current_seq": 0}
        socket.send(json.dumps({"event": "client:ping", "data": {"nonce": "n1"}}))
        assert json.loads(socket.recv(5)) == {"event": "server:pong", "data": {"nonce": "n1"}}


# -- Commands ----------------------------------------------------------------------------------------


def test_a_command_is_relayed_and_its_result_comes_back_verbatim(double: Any, render: Any) -> None:
    with render(double) as renderer:
        body = {"action": "evaluate", "browser_id": "browser-none", "params": {"expression": "1"}}
        reply = double.client.post("/api/browser/command", json=body).json()
    sent = renderer.named("browser:command")[0]
    assert (sent["action"], sent["browser_id"], sent["tab_id"], sent["params"]) == (
        "evaluate",
        "browser-none",
        "",
        {"expression": "1"},
    )
    missing = "Browser card 'browser-none' not found or not an Electron webview"
    assert reply == {"request_id": sent["request_id"], "error": missing, "gate_ms": 0, "total_ms": 1}


# -- The router ---------------------------------------------------------------------------------------


def test_the_router_serves_models_providers_and_answers_whole_or_streamed(router_url: str) -> None:
    ask = {"model": "cc/claude-haiku-4-5-20251001", "system": "any", "messages": [{"role": "user", "content": "hello"}]}
    with httpx.Client(base_url=router_url, trust_env=False) as client:
        assert client.get("/v1/models").json()["object"] == "list"
        assert client.get("/api/providers").json() == {"connections": [{"provider": "claude", "isActive": True}]}
        assert client.get("/any/other/path").json() == {}
        whole = client.post("/v1/messages", json=ask).json()
        streamed = client.post("/v1/messages", json={**ask, "stream": True})
        assert client.post("/v1/messages", content=b"{").status_code == 400
    assert (whole["model"], whole["content"]) == (ask["model"], [{"type": "text", "text": "OK"}])
    events = [json.loads(line[6:]) for line in streamed.text.splitlines() if line.startswith("data: ")]
    assert [event["type"] for event in events] == [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    assert events[2]["delta"]["text"] == "OK"


# -- Starting ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dry", [None, "0", "true"])
def test_anything_but_a_dry_run_is_refused_with_cause_and_hint(
    tmp_path: Path, spawn: Callable[..., Any], dry: str | None
) -> None:
    environment = {"OPENSWARM_DATA_ROOT": str(tmp_path / "data")} | ({"OSW_SENDSCRIPT_DRYRUN": dry} if dry else {})
    process = spawn("backend", **environment)
    assert process.popen.wait(10) == 1
    assert "error: OSW_SENDSCRIPT_DRYRUN is not 1" in process.output
    assert "hint: set OSW_SENDSCRIPT_DRYRUN=1" in process.output
    assert "Traceback" not in process.output
    assert not (tmp_path / "data").exists()


def test_a_taken_port_is_one_clear_line(double: Any, spawn: Callable[..., Any]) -> None:
    process = spawn("router", "--port", str(double.port))
    assert process.popen.wait(10) == 1
    assert f"error: port {double.port} on 127.0.0.1 is taken" in process.output
    assert "Traceback" not in process.output


def test_a_backend_without_a_router_says_why_and_the_session_ends_in_error(
    start_double: Any, free_port: Callable[[], int]
) -> None:
    double = start_double(router_url=f"http://127.0.0.1:{free_port()}")
    session, frames = double.run(POST)
    assert frames[-1]["data"]["status"] == "error"
    log = "\n".join(double.lines)
    assert "classifier unavailable, normal path: No AI provider configured for auxiliary LLM call." in log
    messages = double.client.get(f"/api/agents/sessions/{session}").json()["messages"]
    assert messages[-1]["role"] == "system"
    assert messages[-1]["content"].startswith("Error: 9Router is not running; cannot use sonnet.")
    assert double.rows("truth.jsonl")[-1]["bucket"] == "infra_router"


def test_a_signal_ends_every_process_cleanly_in_the_middle_of_a_run(start_double: Any, render: Any) -> None:
    double = start_double()
    with render(double, swallow=lambda _: True):
        session = double.launch()
        double.client.post(f"/api/agents/sessions/{session}/message", json={"prompt": POST})
        double.process.popen.send_signal(signal.SIGTERM)
        assert double.process.popen.wait(10) == 0
    saved = json.loads((double.data_root / "agents" / "sessions" / f"{session}.json").read_text())
    assert saved["status"] == "stopped"


@pytest.mark.parametrize("command", ["", "router", "sites", "backend", "revision"])
def test_every_command_explains_itself(spawn: Callable[..., Any], command: str) -> None:
    process = spawn(*[part for part in (command, "--help") if part])
    assert process.popen.wait(10) == 0
    assert process.output.startswith("Usage: python -m infra.reference")


def test_the_revision_is_a_hash_of_the_source(spawn: Callable[..., Any]) -> None:
    process = spawn("revision")
    assert process.popen.wait(10) == 0
    assert re.fullmatch(r"reference-[0-9a-f]{12}\n", process.output)


# -- Against replies of the real product ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "path"),
    [("session_initial", "/api/agents/sessions/{session}"), ("get_dashboard", "/api/dashboards/{dashboard}")],
)
def test_replies_have_no_field_that_the_product_does_not_have(double: Any, name: str, path: str) -> None:
    extra = os.environ.get("BV3_EXTRA_DATA")
    if not extra:
        pytest.skip("BV3_EXTRA_DATA is not set: no captured replies of the product to compare with")
    captured = json.loads((Path(extra) / "openswarm_http" / f"{name}.txt").read_text().splitlines()[0])
    ours = double.client.get(path.format(session=double.launch(), dashboard=double.dashboard)).json()
    assert set(ours) <= set(captured)
