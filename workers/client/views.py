"""What the product tells of its sessions, cards and dashboards, typed. Pure: reads replies, asks nobody."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from broker.types import Child
from workers.client.errors import UnreadableReplyError

TERMINAL = frozenset({"completed", "error", "stopped"})
# The product asks its user whether it may go on, and does nothing until somebody answers.
WAITING_APPROVAL = "waiting_approval"
# How our sessions can be told from any other's.
NAME_PREFIX = "bv3 "
CHILD_MODE = "browser-agent"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionView:
    """A session as the product tells it."""

    session_id: str
    status: str
    reply: str
    # what the trace of a browser task calls its receipt of a sent write; empty: it holds none
    receipt: str = ""
    # what its user is asked, each as JSON
    approvals: tuple[str, ...] = ()
    # the number of its latest event
    event_seq: int = 0
    model: str = ""
    dashboard_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionLine:
    """A session in the product's list: enough to know whose it is."""

    session_id: str
    name: str
    mode: str
    status: str = ""

    @property
    def is_ours(self) -> bool:
        """Whether a run of this box made it, or a child that outlived its parent."""
        return self.name.startswith(NAME_PREFIX) or self.mode == CHILD_MODE


@dataclass(frozen=True, slots=True, kw_only=True)
class DashboardView:
    """A dashboard with its layout."""

    dashboard_id: str
    name: str
    layout: dict[str, Any]

    @property
    def cards(self) -> dict[str, str | None]:
        """The browser cards: by id, the session that spawned each, None for a user's own."""
        cards = self.layout.get("browser_cards")
        if not isinstance(cards, dict):
            return {}
        return {str(key): card.get("spawned_by") for key, card in cards.items() if isinstance(card, dict)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """What the product is busy with."""

    active: int
    # when the next run that was planned in the product begins; None: none is
    next_run_in_s: float | None


def pick(plain: Mapping[str, Any], name: str, kind: type | tuple[type, ...]) -> Any:
    """The field of this name, which is of this kind. Raises UnreadableReplyError."""
    value = plain.get(name)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise UnreadableReplyError(f"the answer's {name} is {value!r:.80}")
    return value


def pick_objects(plain: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """The objects of the list of this name. Raises UnreadableReplyError."""
    found = pick(plain, name, list)
    if not all(isinstance(item, dict) for item in found):
        raise UnreadableReplyError(f"the answer's {name} holds what is no object")
    return list(found)


def read_session_view(session_id: str, plain: Mapping[str, Any]) -> SessionView:
    """A whole session: its status, the last thing the assistant, or the product in its place, said, the receipt."""
    messages = [message for message in _list(plain.get("messages")) if isinstance(message, dict)]
    # why no model could be asked stands in a message of the system's
    said = [message for message in messages if message.get("role") in {"assistant", "system"}]
    receipts = [_receipt_in(message) for message in messages if message.get("role") == "tool_result"]
    seq = plain.get("event_seq")
    return SessionView(
        session_id=session_id,
        status=str(pick(plain, "status", str)),
        reply=as_text(said[-1].get("content", "")) if said else "",
        receipt=next(filter(None, reversed(receipts)), ""),
        approvals=tuple(as_text(item) for item in _list(plain.get("pending_approvals"))),
        event_seq=seq if isinstance(seq, int) else 0,
        model=str(plain.get("model") or ""),
        dashboard_id=plain.get("dashboard_id") or None,
    )


def read_session_line(plain: Mapping[str, Any]) -> SessionLine:
    """A session in a list."""
    return SessionLine(
        session_id=str(pick(plain, "id", str)),
        name=str(plain.get("name") or ""),
        mode=str(plain.get("mode") or ""),
        status=str(plain.get("status") or ""),
    )


def read_child(plain: Mapping[str, Any]) -> Child:
    """A browser sub-agent's session."""
    return Child(
        session_id=str(pick(plain, "id", str)),
        status=str(plain.get("status", "")),
        created_at=plain.get("created_at"),
        closed_at=plain.get("closed_at"),
        browser_id=plain.get("browser_id"),
    )


def read_dashboard(plain: Mapping[str, Any]) -> DashboardView:
    """A dashboard. One that was never laid out has no layout."""
    layout = plain.get("layout")
    return DashboardView(
        dashboard_id=str(pick(plain, "id", str)),
        name=str(plain.get("name") or ""),
        layout=layout if isinstance(layout, dict) else {},
    )


def read_activity(plain: Mapping[str, Any]) -> Activity:
    """How busy the product is."""
    next_s = plain.get("next_run_in_s")
    return Activity(
        active=int(pick(plain, "active", int)), next_run_in_s=next_s if isinstance(next_s, int | float) else None
    )


def as_text(content: object) -> str:
    """A text as it is, anything else as JSON."""
    return content if isinstance(content, str) else json.dumps(content)


def _list(value: object) -> Sequence[Any]:
    return value if isinstance(value, list) else ()


def _receipt_in(message: Mapping[str, Any]) -> str:
    """The receipt in the trace of a browser task's result (contract 2.3), as text; empty for null and nothing."""
    content = message.get("content")
    trace = content.get("browser_trace") if isinstance(content, dict) else None
    receipt = trace.get("receipt") if isinstance(trace, dict) else None
    return as_text(receipt) if receipt else ""
