"""The session's socket and the calls around it, against a backend that says what a test makes it say."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import httpx
import pytest

from workers.client import calls
from workers.client.errors import BackendAwayError, BackendRefusedError, UnreadableReplyError
from workers.client.product import ProductClient
from workers.client.session import SessionEnd, SessionSocket, wait_for_end

SESSION = "s1"
PATH = f"/api/agents/sessions/{SESSION}"


def _push(event: str, seq: int, *, session: str = SESSION, **data: object) -> str:
    return json.dumps({"event": event, "data": {"session_id": session, **data}, "session_id": session, "seq": seq})


def _greet(current: int, **ack: object) -> str:
    data = {"connection_uuid": "u", "current_seq": current, "ack": ack}
    return json.dumps({"event": "server:hello", "data": data, "session_id": SESSION})


def _tell(play: Any, status: str, *, children: tuple[dict[str, object], ...] = ()) -> None:
    """What the backend answers when it is asked."""
    play.put("GET", PATH, {"id": SESSION, "status": status, "messages": []})
    play.put("GET", f"{PATH}/browser-agents", {"sessions": children})


def _wait(play: Any, *, timeout_s: float = 20.0, token: str | None = None) -> tuple[SessionEnd | None, SessionSocket]:
    address = play.address if token is None else replace(play.address, token=token)
    socket = SessionSocket(address, SESSION)
    socket.open()
    with ProductClient(play.address) as product:
        end = wait_for_end(product, socket, SESSION, deadline_s=time.monotonic() + timeout_s)
    socket.close()
    return end, socket


def _said(end: SessionEnd | None) -> tuple[str, str] | None:
    return None if end is None else (end.status, end.ended_by)


def test_pushed_end_is_heard_among_noise_and_frames_of_others(play: Any) -> None:
    _tell(play, "running")
    noise = ["no json", b"\xff", "[]", json.dumps({"event": 7}), json.dumps({"event": "server:ping", "data": {}})]
    foreign = _push("agent:status", 9, session="s2", status="completed")
    play.scripts = [
        [*noise, foreign, _push("agent:status", 1, status="running"), _push("agent:status", 4, status="error")]
    ]
    end, socket = _wait(play)
    assert _said(end) == ("error", "event")
    assert (socket.stream.malformed, socket.stream.foreign, socket.stream.last_seq) == (4, 1, 4)
    assert play.asked == []


def test_hello_after_a_cut_line_asks_for_what_was_missed(play: Any) -> None:
    _tell(play, "running")
    ack = {"ok": True, "replayed": 1, "from_seq": 3, "to_seq": 3}
    play.scripts = [
        [_push("agent:status", 2, status="running"), None],
        [_push("agent:status", 3, status="completed"), _greet(3, **ack)],
    ]
    end, _ = _wait(play)
    assert _said(end) == ("completed", "event")
    assert [hello["data"]["last_seq"] for hello in play.hellos] == [0, 2]


def test_gap_makes_the_client_ask_at_once(play: Any) -> None:
    _tell(play, "completed")
    gap: dict[str, Any] = {"reason": "gap", "oldest_seq": 401, "newest_seq": 900}
    play.scripts = [[_push("agent:gap_detected", 0, **gap), _greet(900, ok=False, **gap)]]
    begun = time.monotonic()
    end, socket = _wait(play)
    assert _said(end) == ("completed", "poll")
    assert socket.stream.gaps == 1
    assert time.monotonic() - begun < 5, "and not only when it was due"


def test_token_that_the_socket_refuses_leaves_asking(play: Any) -> None:
    _tell(play, "stopped")
    end, socket = _wait(play, token="x" * 43)
    assert _said(end) == ("stopped", "poll")
    assert play.refused >= 1
    assert not socket.is_open


@pytest.mark.parametrize("event", ["agent:status", "agent:approval_request"])
def test_question_for_approval_ends_the_wait_and_is_not_answered(play: Any, event: str) -> None:
    _tell(play, "waiting_approval")
    play.scripts = [[_push(event, 3, status="waiting_approval", request_id="r1")]]
    end, _ = _wait(play)
    assert _said(end) == ("waiting_approval", "event")
    assert [asked for asked in play.asked if asked.method != "GET"] == []


def test_question_for_approval_is_found_by_asking_too_also_a_child_s(play: Any) -> None:
    _tell(play, "waiting_approval")
    end, _ = _wait(play, token="x" * 43)
    assert _said(end) == ("waiting_approval", "poll")
    _tell(play, "running", children=({"id": "c1", "status": "waiting_approval"},))
    end, _ = _wait(play, token="x" * 43)
    assert _said(end) == ("waiting_approval", "poll")
    assert {asked.method for asked in play.asked} == {"GET"}


def test_only_the_session_s_own_paths_are_asked_while_it_is_waited_for(play: Any) -> None:
    _tell(play, "running")
    end, _ = _wait(play, timeout_s=2.5, token="x" * 43)
    assert end is None
    assert {asked.path for asked in play.asked} == {PATH, f"{PATH}/browser-agents"}


@pytest.mark.parametrize("status", [400, 500])
def test_message_that_is_refused_is_posted_once(play: Any, status: int) -> None:
    play.put("POST", f"{PATH}/message", "Internal Server Error", status=status)
    with ProductClient(play.address) as product, pytest.raises(BackendRefusedError) as error:
        product.send_message(SESSION, "hello")
    assert error.value.status == status
    assert len(play.asked) == 1


def test_message_without_an_answer_is_posted_once_and_may_have_arrived(play: Any) -> None:
    play.put("POST", f"{PATH}/message", {"ok": True}, wait_s=20.0)
    with calls.Caller(play.address.url, play.address.token) as caller, pytest.raises(BackendAwayError) as error:
        caller.fetch(calls.Call(method="POST", path=f"{PATH}/message", body={"prompt": "hello"}, timeout_s=0.5))
    assert error.value.may_have_arrived
    assert len(play.asked) == 1


def test_answer_that_drips_does_not_outlast_its_call(play: Any) -> None:
    play.put("GET", "/api/agents/activity", {"active": 0, "next_run_in_s": None, "more": "x" * 500}, drip_s=0.1)
    begun = time.monotonic()
    with calls.Caller(play.address.url, play.address.token) as caller, pytest.raises(BackendAwayError):
        caller.fetch(calls.Call(method="GET", path="/api/agents/activity", timeout_s=1.0))
    assert time.monotonic() - begun < 10


@pytest.mark.parametrize("body", ["", "OK", "[]", "null", "{}", '{"active": "two"}', '{"active": null}'])
def test_answer_that_is_not_as_the_contract_says_is_no_answer(play: Any, body: str) -> None:
    play.put("GET", "/api/agents/activity", body)
    with ProductClient(play.address) as product, pytest.raises(UnreadableReplyError):
        product.count_active()


def test_card_that_another_writer_brings_back_is_told_as_left(play: Any) -> None:
    cards = {"browser-1": {"spawned_by": SESSION}, "browser-2": {"spawned_by": None}}
    play.put("GET", "/api/dashboards/d1", {"id": "d1", "layout": {"browser_cards": cards}})
    play.put("PUT", "/api/dashboards/d1", {"id": "d1"})
    play.put("GET", PATH, {"detail": "Session not found"}, status=404)
    play.put("GET", f"{PATH}/browser-agents", {"sessions": [{"id": "c1", "status": "completed"}]})
    with ProductClient(play.address) as product:
        product.remove_cards({"browser-1"})
        assert product.list_left(sessions=[SESSION], cards=["browser-1"]) == ("child c1", "card browser-1")
    puts = [asked.body["layout"]["browser_cards"] for asked in play.asked if asked.method == "PUT"]
    assert puts == [{"browser-2": {"spawned_by": None}}] * 3


# -- The stand-in ---------------------------------------------------------------------------------------


def test_last_word_of_a_session_is_heard_from_a_backend_that_was_started_anew(
    bare: Any, wait_until: Callable[..., None]
) -> None:
    with ProductClient(bare.address) as product:
        session_id = product.launch("contract")
        # no router: it fails at once
        product.send_message(session_id, "hello")
        wait_until(lambda: product.read_session(session_id).status == "error", "the end")
    bare.stop()
    bare.start(wait_until)
    socket = SessionSocket(bare.address, session_id)
    socket.stream.last_seq = 1
    socket.open()
    status = socket.wait_for_end(20.0)
    socket.close()
    assert status == "error"


def test_event_that_came_while_the_line_was_cut_is_sent_again(bare: Any, wait_until: Callable[..., None]) -> None:
    with ProductClient(bare.address) as product:
        session_id = product.launch("contract")
        socket = SessionSocket(bare.address, session_id)
        socket.open()
        assert socket.wait_for_end(1.0) is None
        heard = socket.stream.last_seq
        socket.close()
        product.send_message(session_id, "hello")
        wait_until(lambda: product.read_session(session_id).status == "error", "the end")
        socket.open()
        assert socket.wait_for_end(20.0) == "error"
        socket.close()
    assert heard >= 1
    assert socket.stream.last_seq > heard


def test_client_alone_is_taken_for_no_renderer(bare: Any) -> None:
    with ProductClient(bare.address) as product:
        session_id = product.launch("contract")
        socket = SessionSocket(bare.address, session_id)
        socket.open()
        assert socket.is_open
        headers = {"authorization": f"Bearer {bare.address.token}"}
        told = httpx.get(f"{bare.address.url}/reference/connections", headers=headers, trust_env=False).json()
        socket.close()
    assert told == {"dashboards_ever": 0, "dashboard_ports": []}
