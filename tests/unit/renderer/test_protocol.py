"""Frames, request ids, leashes and back-off of the dashboard socket."""

from __future__ import annotations

import json
import random
from itertools import islice

from hypothesis import given
from hypothesis import strategies as st

from workers.renderer.closing import Ending, choose_pause_s, pick_due
from workers.renderer.protocol import (
    CardSpec,
    Event,
    Replies,
    count_backoff_s,
    deadline_s,
    parse_card,
    parse_command,
    parse_event,
    parse_layout,
    parse_status,
    render_frame,
)


def spec(browser_id: str = "b", spawned_by: str | None = None, *, keep_open: bool = False) -> CardSpec:
    return CardSpec(
        browser_id=browser_id, url="about:blank", spawned_by=spawned_by, keep_open=keep_open, tab_ids=frozenset()
    )


@given(st.text() | st.binary() | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(json.dumps))
def test_no_frame_breaks_the_reader(frame: str | bytes) -> None:
    event = parse_event(frame)
    assert event is None or isinstance(event, Event)


def test_a_command_needs_a_request_id_and_survives_the_rest() -> None:
    assert parse_command({}) is None
    command = parse_command({"request_id": "r", "action": 7, "params": [], "tab_id": None})
    assert command is not None
    assert (command.action, command.params, command.tab_id) == ("", {}, "")


def test_a_card_is_read_with_or_without_its_particulars() -> None:
    assert parse_card({"url": "http://x.test"}) is None
    assert parse_card({"browser_id": "b"}) == spec()
    tabs = [{"id": "t1"}, {"id": 7}, None]
    card = parse_card({"browser_id": "b", "url": "http://x.test/", "spawned_by": "s", "keep_open": True, "tabs": tabs})
    assert card is not None
    assert (card.url, card.spawned_by, card.keep_open, card.tab_ids) == ("http://x.test/", "s", True, frozenset({"t1"}))


def test_a_layout_without_cards_is_empty() -> None:
    assert parse_layout({}) == {}
    assert parse_layout({"layout": {"browser_cards": None}}) == {}
    assert parse_layout({"layout": {"browser_cards": {"b": {"browser_id": "b"}, "c": 1}}}) == {"b": spec()}


def test_only_parents_that_completed_or_failed_close_their_cards() -> None:
    def read(status: str, mode: str = "agent") -> tuple[bool, bool]:
        data = {"session_id": "s", "status": status, "session": {"mode": mode}}
        found = parse_status(Event(name="agent:status", data=data))
        assert found is not None
        return found.has_ended, found.closes_cards

    assert read("completed") == (True, True)
    assert read("error") == (True, True)
    assert read("stopped") == (True, False)
    assert read("running") == (False, False)
    assert read("completed", mode="browser-agent") == (True, False)


def test_a_status_may_name_its_session_outside_its_data() -> None:
    found = parse_status(Event(name="agent:status", data={"session": {"status": "error"}}, session_id="s"))
    assert found is not None
    assert (found.session_id, found.status) == ("s", "error")
    assert parse_status(Event(name="agent:status", data={})) is None


def test_a_lone_surrogate_travels_as_ascii() -> None:
    frame = render_frame("browser:result", {"text": "\ud83d é"})
    assert frame.isascii()
    assert json.loads(frame)["data"]["text"] == "\ud83d é"


def test_a_request_runs_once_and_fifty_replies_are_kept() -> None:
    replies = Replies()
    assert replies.begin("r")
    assert not replies.begin("r")
    assert replies.answer_again("r") is None
    replies.finish("r", {"text": "done"})
    assert not replies.begin("r")
    assert replies.answer_again("r") == {"text": "done"}
    for i in range(50):
        assert replies.begin(str(i))
        replies.finish(str(i), {})
    assert replies.answer_again("r") is None
    assert replies.answer_again("0") == {}


def test_every_deadline_is_inside_its_leash() -> None:
    assert deadline_s("navigate") == 24
    assert deadline_s("find_composer") == 29
    assert deadline_s("wait") == 11
    assert deadline_s("get_text") == 14
    assert deadline_s("anything", 2.5) == 2.5
    assert deadline_s("get_text", 99) == 14


def test_waits_double_up_to_the_most_and_are_spread() -> None:
    waits = list(islice(count_backoff_s(1, 30, random.Random(7)), 8))
    for wait, middle in zip(waits, [1, 2, 4, 8, 16, 30, 30, 30], strict=True):
        assert 0.8 * middle <= wait <= 1.2 * middle
    assert waits != list(islice(count_backoff_s(1, 30, random.Random(8)), 8))


CARDS = {
    "due": spec("due", "s1"),
    "later": spec("later", "s2"),
    "kept": spec("kept", "s1", keep_open=True),
    "users": spec("users"),
    "running": spec("running", "s3"),
    "stopped": spec("stopped", "s4"),
}
ENDINGS = {
    "s1": Ending(at_s=10.0, closes_cards=True),
    "s2": Ending(at_s=11.0, closes_cards=True),
    "s4": Ending(at_s=10.0, closes_cards=False),
}


def test_due_are_the_cards_of_ended_sessions_that_nobody_keeps() -> None:
    def due(now_s: float) -> frozenset[str]:
        return pick_due(CARDS, ENDINGS, close_after_s=3, now_s=now_s)

    assert due(12.9) == frozenset()
    assert due(13.0) == {"due"}
    assert due(99.0) == {"due", "later"}


def test_the_layout_is_read_often_only_for_a_while_after_an_end() -> None:
    def pause(now_s: float, cards: dict[str, CardSpec] = CARDS) -> float:
        return choose_pause_s(cards, ENDINGS, close_after_s=3, now_s=now_s)

    assert pause(11.0) == 0.25
    assert abs(pause(12.9) - 0.1) < 1e-9, "it wakes when a card is due"
    assert pause(20.9) == 0.25
    assert pause(99.0) == 2.0
    assert pause(11.0, {"users": spec("users")}) == 2.0
