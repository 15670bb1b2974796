"""What the product tells of its sessions, read from replies."""

from __future__ import annotations

from typing import Any

import pytest

from workers.client.errors import UnreadableReplyError
from workers.client.views import (
    WAITING_APPROVAL,
    pick,
    pick_objects,
    read_activity,
    read_dashboard,
    read_session_line,
    read_session_view,
)


def _result(receipt: object) -> dict[str, Any]:
    return {"role": "tool_result", "content": {"text": "", "browser_trace": {"tier": "fast", "receipt": receipt}}}


def _read(*messages: object, status: str = "completed", **fields: object) -> Any:
    return read_session_view("s", {"status": status, "messages": list(messages), **fields})


@pytest.mark.parametrize(
    ("receipt", "kept"),
    [
        (None, ""),
        ("", ""),
        (False, ""),
        ({}, ""),
        ("the post went out", "the post went out"),
        ({"sent": True}, '{"sent": true}'),
    ],
)
def test_receipt_of_a_reply_is_told_from_none(receipt: object, kept: str) -> None:
    session = _read({"role": "user", "content": "go"}, _result(receipt), {"role": "assistant", "content": "Posted!"})
    assert (session.reply, session.receipt) == ("Posted!", kept)


def test_last_receipt_counts_and_a_result_of_another_shape_holds_none() -> None:
    others = [{"role": "tool_result", "content": "text"}, {"role": "tool_result", "content": {"browser_trace": None}}]
    assert _read(_result("first"), _result("second"), *others, "no object").receipt == "second"


def test_why_no_model_could_be_asked_is_read_though_no_assistant_says_it() -> None:
    said = "Error: 9Router is not running; cannot use opus-4-8."
    assert _read({"role": "user", "content": "go"}, {"role": "system", "content": said}, status="error").reply == said


def test_reply_that_is_no_text_is_kept_as_json() -> None:
    assert _read({"role": "assistant", "content": {"text": "hello"}}).reply == '{"text": "hello"}'


def test_what_a_session_waits_to_be_allowed_is_kept() -> None:
    asked = {"request_id": "r1", "tool": "Bash"}
    session = _read(status=WAITING_APPROVAL, pending_approvals=[asked], event_seq=7)
    assert (session.status, session.event_seq) == (WAITING_APPROVAL, 7)
    assert session.approvals == ('{"request_id": "r1", "tool": "Bash"}',)


@pytest.mark.parametrize("plain", [{}, {"status": None}, {"status": 3}])
def test_session_without_a_status_is_not_read(plain: dict[str, Any]) -> None:
    with pytest.raises(UnreadableReplyError, match="status"):
        read_session_view("s", plain)


@pytest.mark.parametrize("value", [None, "text", {}, True])
def test_list_that_is_none_is_not_read(value: object) -> None:
    with pytest.raises(UnreadableReplyError, match="sessions"):
        pick_objects({"sessions": value}, "sessions")
    with pytest.raises(UnreadableReplyError, match="sessions"):
        pick_objects({"sessions": [{}, value if value != {} else 1]}, "sessions")


def test_truth_is_no_number() -> None:
    with pytest.raises(UnreadableReplyError, match="active"):
        read_activity({"active": True})
    assert pick({"active": 2}, "active", int) == 2


def test_session_of_another_program_is_not_ours() -> None:
    ours = read_session_line({"id": "1", "name": "bv3 c7 x#1", "mode": "agent"})
    child = read_session_line({"id": "2", "name": "Browser Agent", "mode": "browser-agent"})
    other = read_session_line({"id": "3", "name": None, "mode": "agent"})
    assert [line.is_ours for line in (ours, child, other)] == [True, True, False]


def test_dashboard_that_was_never_laid_out_has_no_cards() -> None:
    assert read_dashboard({"id": "d", "layout": None}).cards == {}
    cards = {"a": {"spawned_by": "s1"}, "b": {"spawned_by": None}, "c": None}
    assert read_dashboard({"id": "d", "layout": {"browser_cards": cards}}).cards == {"a": "s1", "b": None}
