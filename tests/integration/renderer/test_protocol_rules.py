"""The rules of the dashboard socket, and what does not get past them: each through a real socket."""

from __future__ import annotations

import json
import queue
import time
from collections.abc import Callable
from typing import Any

import pytest

Open = Callable[[str], str]
Wait = Callable[..., Any]

LOOP = "void setTimeout(() => { for (;;); }, 100)"
COUNT = "window.n = (window.n ?? 0) + 1"
# Every action that runs in the page or waits for it, with what it needs.
ACTING: list[tuple[str, dict[str, Any]]] = [
    ("get_text", {}),
    ("evaluate", {"expression": "1"}),
    ("list_interactives", {}),
    ("find_composer", {"fill": "x", "reveal": True}),
    ("click_by_name", {"name": "Post", "role": "button"}),
    ("click", {"selector": "button"}),
    ("type", {"selector": "div", "text": "x"}),
    ("scroll", {}),
    ("screenshot", {}),
    ("get_elements", {}),
    ("get_console", {}),
    ("detect_webmcp", {}),
    ("batch", {"actions": [{"type": "get_text"}]}),
]


def hang(backend: Any, card: str) -> None:
    """The card's page is in a loop that never ends."""
    backend.do(card, "evaluate", expression=LOOP)
    await_silence(backend, card)


def await_silence(backend: Any, card: str) -> None:
    """The card's page answers nothing any more."""
    for _ in range(200):
        try:
            backend.answer(backend.ask(card, "evaluate", expression="1"), 0.5)
        except queue.Empty:
            return
    raise AssertionError(f"the page of {card} still answers")


def not_found(card: str, tab: str = "") -> str:
    named = f" tab '{tab}'" if tab else ""
    return f"Browser card '{card}'{named} not found or not an Electron webview"


def test_fifty_replies_are_kept_and_the_fifty_first_runs_again(start: Any) -> None:
    backend, _ = start(cards={"browser-1": "http://pages.test/nothing.html"})
    first = backend.ask("browser-1", "evaluate", expression=COUNT)
    assert backend.answer(first)["text"] == "1"
    for number in range(2, 51):
        assert backend.do("browser-1", "evaluate", expression=COUNT)["text"] == str(number)
    backend.ask_again(first, "browser-1", "evaluate", expression=COUNT)
    assert backend.answer(first)["text"] == "1", "the fiftieth reply from the end is still kept"
    assert backend.do("browser-1", "evaluate", expression=COUNT)["text"] == "51"
    backend.ask_again(first, "browser-1", "evaluate", expression=COUNT)
    assert backend.answer(first)["text"] == "52", "it was forgotten, so it ran"


def test_a_command_in_flight_is_answered_once_however_often_it_is_sent(backend: Any, open_card: Open) -> None:
    card = open_card("nothing.html")
    slow = f"new Promise(done => setTimeout(() => done({COUNT}), 600))"
    request = backend.ask(card, "evaluate", expression=slow)
    for _ in range(3):
        backend.ask_again(request, card, "evaluate", expression=slow)
    assert backend.answer(request)["text"] == "1"
    backend.do(card, "wait", milliseconds=800)
    sent = [frame for frame in backend.received if frame["data"].get("request_id") == request]
    assert len(sent) == 1


def test_a_tab_that_the_card_does_not_have_is_not_found(backend: Any) -> None:
    tabs = [{"id": "tab-1", "url": "", "title": "", "favicon": ""}]
    card = backend.add_card("http://pages.test/nothing.html", tabs=tabs)
    assert "error" not in backend.do(card, "get_text", tab_id="tab-1")
    assert backend.do(card, "get_text", tab_id="tab-9")["error"] == not_found(card, "tab-9")
    backend.drop_card(card)


def test_errors_have_their_times_too(backend: Any, open_card: Open) -> None:
    card = open_card("nothing.html")
    for action, params in [("frobnicate", {}), ("navigate", {}), ("click_index", {"index": 9}), ("import_session", {})]:
        reply = backend.do(card, action, **params)
        assert reply["error"]
        assert isinstance(reply["gate_ms"], int)
        assert isinstance(reply["total_ms"], int)


def test_hostile_frames_are_ignored_and_the_socket_stays_open(backend: Any, open_card: Open) -> None:
    card = open_card("nothing.html")
    opened = backend.opened
    data = {"request_id": "r1", "action": "get_text", "browser_id": card}
    command = json.dumps({"event": "browser:command", "data": data}).encode()
    for text in (
        "",
        "null",
        "\x00",
        "[" * 200_000,
        '{"a":' * 50_000,
        '{"data": {}}',
        '{"event": "browser:command", "data": []}',
        json.dumps({"event": "browser:command", "data": {"request_id": {"a": 1}, "action": "get_text"}}),
        json.dumps({"event": "dashboard:browser_card_added", "data": {"browser_card": {"browser_id": 7}}}),
        json.dumps({"event": "dashboard:browser_card_evict", "data": {"browser_id": [card]}}),
        json.dumps({"event": "agent:status", "data": {"session": [], "status": {}}, "session_id": 5}),
        json.dumps({"event": "x" * 5_000_000, "data": {}}),
        json.dumps({"event": "\ud83d", "data": {"\ud83d": "\udfff"}}),
        '{"event": "agent:status", "data": {"status": "completed", "session_id": "' + "9" * 100_000 + '"}}',
        '{"event": "e", "data": {"n": ' + "9" * 10_000 + "}}",
        '{"event": "e", "data": {"n": NaN}}',
    ):
        backend.push_text(text)
    for frame in (b"", b"\xff\xfe\x00", command):
        backend.push_bytes(frame)
    assert "error" not in backend.do(card, "get_text")
    assert backend.opened == opened, "nothing of this closed the connection"


def test_params_that_are_no_object_are_none(backend: Any, open_card: Open, wait_until: Wait) -> None:
    card = open_card("rich.html")
    data = {"request_id": "odd-params", "action": "navigate", "browser_id": card, "params": "http://pages.test/"}
    backend.push_text(json.dumps({"event": "browser:command", "data": data}))

    def answered() -> Any:
        return [f["data"] for f in backend.received if f["data"].get("request_id") == "odd-params"]

    wait_until(answered, "an answer", 20)
    assert answered()[0]["error"] == "url parameter is required"


def test_lone_surrogates_go_in_and_come_out(backend: Any, open_card: Open) -> None:
    card = open_card("textarea.html")
    assert backend.do(card, "evaluate", expression="'a\\ud83d' + 'b'")["text"] == "a\ud83db"
    backend.do(card, "evaluate", expression="document.title = 'x\\udfff'; document.body.append('y\\ud83d')")
    assert "y" in backend.do(card, "get_text")["text"]
    backend.do(card, "type", selector="textarea", text="half \ud83d")
    assert backend.do(card, "evaluate", expression="1")["text"] == "1"


def test_a_huge_parameter_is_carried_out(backend: Any, open_card: Open) -> None:
    card = open_card("nothing.html")
    reply = backend.do(card, "evaluate", expression=f"'{'x' * 3_000_000}'.length")
    assert reply["text"] == "3000000"


def test_a_hanging_page_costs_each_action_its_own_deadline_and_another_card_nothing(start: Any) -> None:
    page = "http://pages.test/rich.html"
    backend, _ = start("--command-deadline-s=3")
    hung = backend.add_card(page, spawned_by="one")
    well = backend.add_card(page, spawned_by="two")
    for card in (hung, well):
        assert "error" not in backend.do(card, "list_interactives")
    hang(backend, hung)
    requests = {action: backend.ask(hung, action, **params) for action, params in ACTING}
    for action, params in ACTING:
        reply = backend.do(well, action, **params)
        assert "error" not in reply, (action, reply)
    replies = {action: backend.answer(request, 60) for action, request in requests.items()}
    for action, reply in replies.items():
        assert reply.get("error"), (action, reply)
        assert reply["total_ms"] >= 2900, (action, reply)
    backend.drop_card(hung)
    assert backend.do(hung, "get_text")["error"] == not_found(hung)
    assert "error" not in backend.do(well, "get_text")


@pytest.mark.parametrize("action", ["get_text", "find_composer", "wait", "navigate", "batch"])
def test_a_card_closed_in_mid_command_is_answered_as_not_found(backend: Any, open_card: Open, action: str) -> None:
    card, bystander = open_card("rich.html"), open_card("nothing.html")
    backend.do(card, "get_text")
    if action != "navigate":
        hang(backend, card)
    params: dict[str, Any] = {"url": "http://pages.test/slow", "until": "never", "milliseconds": 9000}
    params |= {"actions": [{"type": "get_text"}]}
    request = backend.ask(card, action, **params)
    # commands are taken in their order: one that came later is answered, so this one is under way
    assert "error" not in backend.do(bystander, "evaluate", expression="1")
    if action == "navigate":
        await_silence(backend, card)
    began = time.monotonic()
    backend.drop_card(card)
    reply = backend.answer(request, 30)
    assert reply["error"] == not_found(card)
    assert time.monotonic() - began < 12, "it did not wait for its deadline"


def test_a_backend_that_goes_away_is_tried_ever_more_slowly_and_found_again(start: Any, wait_until: Wait) -> None:
    backend, renderer = start(cards={"browser-1": "http://pages.test/rich.html"})
    backend.do("browser-1", "evaluate", expression="window.mark = 'same page'")
    backend.refuses = True
    backend.close_sockets()
    wait_until(lambda: len(backend.tries) >= 4, "four tries", 60)
    waits = [later - sooner for sooner, later in zip(backend.tries, backend.tries[1:], strict=False)]
    assert waits[2] > waits[0], "each wait is longer"
    backend.refuses = False
    wait_until(lambda: backend.sockets, "a connection", 60)
    assert backend.do("browser-1", "evaluate", expression="window.mark")["text"] == "same page"
    assert renderer.process.poll() is None


def test_a_session_that_runs_again_keeps_its_cards(start: Any) -> None:
    backend, _ = start("--close-after-s=1")
    card = backend.add_card("http://pages.test/nothing.html", spawned_by="parent")
    assert "error" not in backend.do(card, "get_text")
    backend.push_status("parent", "completed")
    backend.push_status("parent", "running")
    backend.do(card, "wait", milliseconds=2000)
    assert "error" not in backend.do(card, "get_text")
    assert backend.puts == []


def test_the_product_closes_cards_three_seconds_after_the_end(start: Any, wait_until: Wait) -> None:
    backend, _ = start()
    card = backend.add_card("http://pages.test/nothing.html", spawned_by="failed")
    stopped = backend.add_card("http://pages.test/nothing.html", spawned_by="stopped")
    for one in (card, stopped):
        assert "error" not in backend.do(one, "get_text")
    backend.push_status("stopped", "stopped")
    began = time.monotonic()
    backend.push_status("failed", "error")
    wait_until(lambda: card not in backend.cards, "the layout without the card", 30)
    assert time.monotonic() - began >= 2.9
    assert backend.do(card, "get_text")["error"] == not_found(card)
    assert "error" not in backend.do(stopped, "get_text"), "a stopped session's card stays"
    assert stopped in backend.cards


def test_cards_of_another_dashboard_are_not_shown(backend: Any) -> None:
    card = backend.card("browser-elsewhere", "http://pages.test/nothing.html")
    backend.push("dashboard:browser_card_added", dashboard_id="another", browser_card=card, parent_session_id="p")
    assert backend.do("browser-elsewhere", "get_text")["error"] == not_found("browser-elsewhere")
