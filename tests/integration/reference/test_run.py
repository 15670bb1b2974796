"""The course of a run: the order of pushes, lines and rows, with a renderer of a few lines."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

PAYLOAD = "probe k3f9x coverage alpha"
POST = f'Go to http://box.test:9911/compose and create a post with exactly this text: "{PAYLOAD}"'
Frame = dict[str, Any]


def _on(host: str) -> str:
    return POST.replace("box.test:9911", host)


@dataclass(slots=True)
class Ran:
    """One run, and what was on disk and in the log at the moment of each terminal push."""

    double: Any
    renderer: Any
    session: str = ""
    frames: list[Frame] = field(default_factory=list)
    ends: list[Frame] = field(default_factory=list)

    def note(self, frame: Frame) -> None:
        """Look around when a session ends."""
        if frame["event"] == "agent:status" and frame["data"]["status"] in {"completed", "error"}:
            self.ends.append(
                {
                    "id": frame["session_id"],
                    "session": frame["data"]["session"],
                    "rows": [row["session_id"] for row in self.double.rows("browser_metrics/tasks.jsonl")],
                    "truth": [row["session_id"] for row in self.double.rows("truth.jsonl")],
                    "log": "\n".join(self.double.lines),
                }
            )


@pytest.fixture(scope="module")
def ran(start_double: Callable[..., Any], render: Callable[..., Any]) -> Ran:
    """A dry post on a page with one named composer."""
    double = start_double()
    renderer = render(double)
    found = Ran(double, renderer)
    renderer.on_frame = found.note
    with renderer:
        found.session, found.frames = double.run(POST)
    return found


def test_each_dispatch_has_its_metrics_row_before_its_terminal_push(ran: Ran) -> None:
    first, second, parent = ran.ends
    assert first["rows"] == [first["id"]]
    assert second["rows"] == [first["id"], second["id"]]
    assert parent["id"] == ran.session
    assert parent["rows"] == [first["id"], second["id"]]


def test_at_the_parents_push_every_line_and_the_truth_are_written(ran: Ran) -> None:
    assert ran.ends[-1]["truth"] == [ran.session]
    log = ran.ends[-1]["log"]
    assert f"[browser-fast-path] session {ran.session} done: path=act+send-probe=unknown reply=" in log
    assert log.count("[dryrun-report] armed=1") == 2


def test_children_are_errors_named_after_their_parent_and_the_parent_completes(ran: Ran) -> None:
    *children, parent = [end["session"] for end in ran.ends]
    assert [child["status"] for child in children] == ["error", "error"]
    assert {child["mode"] for child in children} == {"browser-agent"}
    assert {child["name"] for child in children} == {"Browser Agent"}
    assert {child["parent_session_id"] for child in children} == {ran.session}
    assert parent["status"] == "completed"
    listed = ran.double.client.get(f"/api/agents/sessions/{ran.session}/browser-agents").json()["sessions"]
    assert [child["id"] for child in listed] == [child["id"] for child in children]


def test_the_parents_conversation_is_that_of_the_fast_path(ran: Ran) -> None:
    session = ran.double.client.get(f"/api/agents/sessions/{ran.session}").json()
    assert [message["role"] for message in session["messages"]] == ["user", "tool_call", "tool_result", "assistant"]
    _, call, result, reply = [message["content"] for message in session["messages"]]
    assert call["tool"] == "mcp__openswarm-browser-agent__CreateBrowserAgent"
    assert result["tool_use_id"] == call["id"]
    assert set(result["browser_trace"]) == {"tier", "pages", "steps", "steps_omitted", "receipt", "note"}
    assert "no confirmation" in reply
    assert [frame["event"] for frame in ran.frames if frame["event"] != "server:hello"] == [
        "agent:status",
        "agent:message",
        "agent:status",
        "agent:message",
        "agent:message",
        "agent:message",
        "agent:status",
    ]


def test_a_card_is_added_once_and_belongs_to_the_parent(ran: Ran) -> None:
    (added,) = ran.renderer.named("dashboard:browser_card_added")
    card = added["browser_card"]
    assert (card["url"], card["spawned_by"], card["keep_open"]) == ("http://box.test:9911/compose", ran.session, False)
    assert added["parent_session_id"] == ran.session
    layout = ran.double.client.get(f"/api/dashboards/{added['dashboard_id']}").json()["layout"]
    assert card["browser_id"] in layout["browser_cards"]


def test_nothing_but_the_composer_is_ever_clicked_in_a_dry_run(ran: Ran) -> None:
    clicks = [command for command in ran.renderer.named("browser:command") if command["action"] == "click_index"]
    assert [click["params"] for click in clicks] == [{"index": 1, "selfheal": True, "text": PAYLOAD}]


def test_a_metrics_row_has_the_products_fields_and_adds_up(ran: Ran) -> None:
    first, second = ran.double.rows("browser_metrics/tasks.jsonl")
    assert first["task"].startswith(POST)
    assert len(first["task"]) <= 200
    assert second["task"].startswith("READ-ONLY verification")
    for row in (first, second):
        assert (row["path"], row["status"], row["completed"], row["turns"], row["llm_ms"]) == (
            "llm",
            "error",
            False,
            1,
            0,
        )
        assert row["other_ms"] == row["total_ms"] - row["tools_ms"]
        assert row["task_ms"] >= row["total_ms"]
        assert row["task_ms"] >= row["prestage_ms"] > 0
        assert row["tool_calls"] == sum(tier["calls"] for tier in row["by_tier"].values())
    assert (first["tool_calls"], second["tool_calls"]) == (5, 2)


def test_the_order_of_lines_is_the_one_of_a_named_composer(
    ran: Ran, templates: Callable[[str], list[str]], captured: Callable[[str], list[str]]
) -> None:
    lines = templates(ran.ends[-1]["log"])
    assert lines[lines.index(captured("named")[0]) :] == captured("named")


def test_a_later_run_on_the_same_host_reuses_the_card_that_was_left(double: Any, render: Callable[..., Any]) -> None:
    post = _on("reused.test:9911")
    with render(double) as renderer:
        double.run(post)
        double.run(post.replace("/compose", "/elsewhere"))
        double.run(_on("reused.test:9912"))
    log = "\n".join(double.lines)
    assert len(renderer.named("dashboard:browser_card_added")) == 2
    assert "opens at brief entry http://reused.test:9911/elsewhere" not in log
    assert "opens at brief entry http://reused.test:9912/compose" in log


def test_a_card_of_the_users_own_is_never_reused(double: Any, render: Callable[..., Any]) -> None:
    audit = {"browser_id": "browser-audit000", "url": "http://audited.test/compose", "spawned_by": None}
    layout = {"browser_cards": {"browser-audit000": audit}}
    double.client.put(f"/api/dashboards/{double.dashboard}", json={"layout": layout})
    with render(double) as renderer:
        double.run(_on("audited.test"))
    assert {command["browser_id"] for command in renderer.named("browser:command")} == {
        card["browser_card"]["browser_id"] for card in renderer.named("dashboard:browser_card_added")
    }


def test_a_message_during_a_turn_waits_for_its_end(
    double: Any, render: Callable[..., Any], wait_until: Callable[..., None]
) -> None:
    with render(double):
        session = double.launch()
        for prompt in (_on("queue.test"), "What is seven times six?"):
            answer = double.client.post(f"/api/agents/sessions/{session}/message", json={"prompt": prompt})
            assert answer.json() == {"ok": True}

        def roles() -> list[str]:
            read = double.client.get(f"/api/agents/sessions/{session}").json()
            return [message["role"] for message in read["messages"]]

        wait_until(lambda: roles().count("assistant") == 2, "both answers", 10)
    assert roles() == ["user", "tool_call", "tool_result", "assistant", "user", "assistant"]


def test_a_stopped_session_is_stopped_and_so_are_its_children(
    double: Any, render: Callable[..., Any], wait_until: Callable[..., None]
) -> None:
    with render(double, swallow=lambda command: command["action"] == "click_index"):
        session = double.launch()
        double.client.post(f"/api/agents/sessions/{session}/message", json={"prompt": _on("stopped.test")})
        wait_until(lambda: "on http://stopped.test/compose" in double.process.output, "the fill", 10)
        assert double.client.get("/api/agents/activity").json()["active"] == 1
        assert double.client.post(f"/api/agents/sessions/{session}/stop").json() == {"ok": True}
        assert double.client.get(f"/api/agents/sessions/{session}").json()["status"] == "stopped"
        children = double.client.get(f"/api/agents/sessions/{session}/browser-agents").json()["sessions"]
    assert [child["status"] for child in children] == ["stopped"]
    assert double.client.get("/api/agents/activity").json()["active"] == 0
    terminal = double.data_root / "agents" / "terminal_events" / f"{session}.json"
    assert json.loads(terminal.read_text())["data"]["status"] == "stopped"
