"""What ends the wait for a session, frame by frame."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.client.stream import Stream


def _frame(event: str, *, session: str | None = "s1", seq: object = None, **data: object) -> str:
    own = {} if session is None else {"session_id": session}
    return json.dumps({"event": event, "data": {**own, **data}, **own, **({} if seq is None else {"seq": seq})})


@pytest.mark.parametrize("status", ["completed", "error", "stopped", "waiting_approval"])
def test_status_that_is_an_end_is_told(status: str) -> None:
    assert Stream(session_id="s1").hear(_frame("agent:status", seq=3, status=status)) == status


@pytest.mark.parametrize("status", ["running", "new", None, 3, ["completed"], {"completed": 1}])
def test_status_that_is_no_end_is_not_told(status: object) -> None:
    stream = Stream(session_id="s1")
    assert stream.hear(_frame("agent:status", seq=3, status=status)) is None
    assert (stream.last_seq, stream.malformed, stream.foreign) == (3, 0, 0)


def test_question_for_approval_ends_the_wait() -> None:
    assert Stream(session_id="s1").hear(_frame("agent:approval_request", request_id="r")) == "waiting_approval"


@pytest.mark.parametrize(
    "frame",
    [
        _frame("agent:status", session="s2", seq=9, status="completed"),
        json.dumps({"event": "agent:status", "data": {"session_id": "s2", "status": "completed"}, "session_id": "s1"}),
        json.dumps({"event": "agent:status", "data": {"status": "completed"}, "session_id": "s2", "seq": 9}),
    ],
)
def test_frame_of_another_session_is_passed_over(frame: str) -> None:
    stream = Stream(session_id="s1")
    assert stream.hear(frame) is None
    assert (stream.foreign, stream.last_seq) == (1, 0)


@pytest.mark.parametrize(
    "frame",
    [
        *("", "no json", "null", "[]", '"text"', "{}", '{"event": 3}', '{"event": "agent:status", "data": []}'),
        *("[" * 100_000, b"\xff\xfe"),
    ],
)
def test_malformed_frame_is_counted_and_passed_over(frame: str | bytes) -> None:
    stream = Stream(session_id="s1")
    assert stream.hear(frame) is None
    assert (stream.malformed, stream.foreign) == (1, 0)


def test_event_that_nobody_knows_is_no_mistake() -> None:
    stream = Stream(session_id="s1")
    assert [stream.hear(_frame(event, seq=1)) for event in ("server:pong", "server:ping", "agent:new")] == [None] * 3
    assert (stream.malformed, stream.must_ask) == (0, False)


def test_hello_asks_for_what_came_after_the_newest_event_heard() -> None:
    stream = Stream(session_id="s1")
    for seq in (1, 3, 2, True, "9"):
        stream.hear(_frame("agent:message", seq=seq))
    hello = json.loads(stream.make_hello("u"))
    assert hello == {
        "event": "client:hello",
        "data": {"session_id": "s1", "connection_uuid": "u", "last_seq": 3},
    }


def _greet(current: int, **ack: object) -> str:
    return _frame("server:hello", connection_uuid="u", current_seq=current, ack=ack)


@pytest.mark.parametrize(
    "ack",
    [
        {"ok": True, "replayed": 2, "from_seq": 4, "to_seq": 5},
        {"ok": True, "replayed": 0, "current_seq": 5},
        {"ok": True, "replayed": 1, "terminal_only": True},
    ],
)
def test_hello_after_which_all_was_heard_needs_no_asking(ack: dict[str, object]) -> None:
    stream = Stream(session_id="s1", last_seq=5)
    assert stream.hear(_greet(5, **ack)) is None
    assert (stream.must_ask, stream.gaps, stream.last_seq) == (False, 0, 5)


def test_gap_makes_the_waiter_ask() -> None:
    stream = Stream(session_id="s1", last_seq=2)
    stream.hear(_greet(900, ok=False, reason="gap", oldest_seq=401, newest_seq=900))
    assert (stream.must_ask, stream.gaps) == (True, 1)


def test_numbers_that_began_anew_make_the_waiter_ask_and_are_followed() -> None:
    stream = Stream(session_id="s1", last_seq=40)
    stream.hear(_greet(0, ok=True, replayed=0, current_seq=0))
    assert (stream.must_ask, stream.last_seq) == (True, 0)
    assert stream.hear(_frame("agent:status", seq=1, status="completed")) == "completed"


def test_session_that_was_put_away_is_asked_for() -> None:
    stream = Stream(session_id="s1")
    stream.hear(_frame("agent:closed"))
    assert stream.must_ask


_PLAIN: st.SearchStrategy[object] = st.sampled_from([None, True, -1, 0, 7, 2.5, "", "s1", "s2", "completed"])
_VALUES: st.SearchStrategy[object] = _PLAIN | st.just([]) | st.fixed_dictionaries({"ok": _PLAIN, "newest_seq": _PLAIN})
_NAMES = ("session_id", "status", "current_seq", "ack")
_FRAMES = st.fixed_dictionaries(
    {
        "event": st.sampled_from(["agent:status", "server:hello", "agent:closed"]) | _VALUES,
        "data": st.fixed_dictionaries({}, optional=dict.fromkeys(_NAMES, _VALUES)) | _VALUES,
    },
    optional={"session_id": _VALUES, "seq": _VALUES},
)


@given(st.lists(_FRAMES, max_size=5))
def test_no_frame_breaks_the_wait(frames: list[object]) -> None:
    stream = Stream(session_id="s1")
    for frame in frames:
        assert stream.hear(json.dumps(frame)) in {None, "completed"}
    assert json.loads(stream.make_hello("u"))["data"]["last_seq"] == stream.last_seq
