"""The dashboard socket's frames, as values: parsing, de-duplication, leashes and back-off. No I/O."""

import json
import random
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

Reply = dict[str, Any]

REPLIES_KEPT = 50
# How long the backend waits for each action before it answers "timed out" by itself.
LEASH_S: Mapping[str, float] = {
    "navigate": 25.0,
    "replay_route": 20.0,
    "wait": 12.0,
    "perform_action": 35.0,
    "browser_fetch": 32.0,
    "browser_search": 45.0,
    "find_composer": 30.0,
    "import_session": 40.0,
}
DEFAULT_LEASH_S = 15.0
# The reply must still travel inside the leash, or the backend has already given up.
RESERVE_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One frame from the server."""

    name: str
    data: Mapping[str, Any]
    session_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One ``browser:command``: what to do on which card."""

    request_id: str
    action: str
    browser_id: str
    tab_id: str
    params: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class CardSpec:
    """A browser card as the dashboard's layout describes it."""

    browser_id: str
    url: str
    # The parent session that opened it; a card without one is the user's own and is never closed here.
    spawned_by: str | None
    keep_open: bool
    tab_ids: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStatus:
    """What an ``agent:status`` frame says about a session."""

    session_id: str
    status: str
    is_child: bool

    @property
    def has_ended(self) -> bool:
        """Whether the session will do nothing more by itself."""
        return self.status in {"completed", "error", "stopped"}

    @property
    def closes_cards(self) -> bool:
        """Whether its cards are closed: those of a stopped session stay."""
        return not self.is_child and self.status in {"completed", "error"}


def parse_event(frame: str | bytes) -> Event | None:
    """Read one frame; None when it is not a JSON object with an event name and a data object."""
    try:
        value = json.loads(frame)
    except (ValueError, RecursionError):
        return None  # the second for brackets in brackets in brackets
    if not isinstance(value, dict) or not isinstance(value.get("event"), str):
        return None
    data = value.get("data")
    if not isinstance(data, dict):
        return None
    return Event(name=value["event"], data=data, session_id=_text(value.get("session_id")))


def parse_command(data: Mapping[str, Any]) -> Command | None:
    """Read the data of a ``browser:command``; None when nobody could be answered."""
    request_id = _text(data.get("request_id"))
    if not request_id:
        return None
    params = data.get("params")
    return Command(
        request_id=request_id,
        action=_text(data.get("action")),
        browser_id=_text(data.get("browser_id")),
        tab_id=_text(data.get("tab_id")),
        params=params if isinstance(params, dict) else {},
    )


def parse_card(value: object) -> CardSpec | None:
    """Read a card of a layout or of ``dashboard:browser_card_added``; None without an id."""
    if not isinstance(value, dict) or not _text(value.get("browser_id")):
        return None
    tabs = value.get("tabs")
    return CardSpec(
        browser_id=_text(value.get("browser_id")),
        url=_text(value.get("url")) or "about:blank",
        spawned_by=_text(value.get("spawned_by")) or None,
        keep_open=bool(value.get("keep_open")),
        tab_ids=frozenset(
            _text(tab.get("id"))
            for tab in (tabs if isinstance(tabs, list) else [])
            if isinstance(tab, dict) and _text(tab.get("id"))
        ),
    )


def parse_layout(dashboard: Mapping[str, Any]) -> dict[str, CardSpec]:
    """The browser cards of a dashboard as ``GET /api/dashboards/{id}`` answers it, by id."""
    layout = dashboard.get("layout")
    cards = layout.get("browser_cards") if isinstance(layout, dict) else None
    specs = (parse_card(card) for card in (cards.values() if isinstance(cards, dict) else ()))
    return {spec.browser_id: spec for spec in specs if spec is not None}


def parse_status(event: Event) -> SessionStatus | None:
    """Read an ``agent:status`` frame; None when it names no session."""
    session = event.data.get("session")
    session = session if isinstance(session, dict) else {}
    session_id = _text(event.data.get("session_id")) or event.session_id
    if not session_id:
        return None
    return SessionStatus(
        session_id=session_id,
        status=_text(event.data.get("status")) or _text(session.get("status")),
        is_child=session.get("mode") == "browser-agent",
    )


def render_frame(event: str, data: Mapping[str, Any]) -> str:
    """One frame to the server; ASCII only, so that a lone surrogate of a page survives the socket."""
    return json.dumps({"event": event, "data": data}, separators=(",", ":"))


def deadline_s(action: str, cap_s: float | None = None) -> float:
    """Seconds that a command may take: inside its leash, and never more than `cap_s`."""
    inside = LEASH_S.get(action, DEFAULT_LEASH_S) - RESERVE_S
    return inside if cap_s is None else min(inside, cap_s)


def count_backoff_s(first_s: float, most_s: float, chance: random.Random) -> Iterator[float]:
    """Waits before each attempt to connect again: doubling, each spread by 20 per cent."""
    wait_s = first_s
    while True:
        yield wait_s * chance.uniform(0.8, 1.2)
        wait_s = min(wait_s * 2, most_s)


@dataclass(slots=True, kw_only=True)
class Replies:
    """Each request runs once: the backend sends an unanswered command again every three seconds."""

    kept: int = REPLIES_KEPT
    _under_way: set[str] = field(default_factory=set)
    _done: OrderedDict[str, Reply] = field(default_factory=OrderedDict)

    def begin(self, request_id: str) -> bool:
        """Claim a request; False while it is under way or when its reply is still kept."""
        if request_id in self._under_way or request_id in self._done:
            return False
        self._under_way.add(request_id)
        return True

    def finish(self, request_id: str, reply: Reply) -> None:
        """Keep the reply of a request that has run, and forget the oldest beyond `kept`."""
        self._under_way.discard(request_id)
        self._done[request_id] = reply
        while len(self._done) > self.kept:
            self._done.popitem(last=False)

    def answer_again(self, request_id: str) -> Reply | None:
        """The reply that was given to this request, if it is still kept."""
        return self._done.get(request_id)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
