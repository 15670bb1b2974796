"""What a session's socket says (contract 3.4, 3.5), frame by frame. Pure: hears text, opens nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from workers.client.views import TERMINAL, WAITING_APPROVAL

# With these the session's part of a run is over: it has ended, or it goes on only when a person says so.
ENDING = TERMINAL | {WAITING_APPROVAL}
_APPROVAL_ASKED = "agent:approval_request"
# The session was put away: no status need follow.
_CLOSED = "agent:closed"


@dataclass(slots=True, kw_only=True)
class Stream:
    """One session's numbered events, over as many connections as it takes."""

    session_id: str
    # of the newest event heard; what comes after it is asked for at the next hello
    last_seq: int = 0
    # events were lost, or the numbers began anew: only asking tells how the session stands
    must_ask: bool = False
    malformed: int = 0
    foreign: int = 0
    gaps: int = 0

    def make_hello(self, connection_uuid: str) -> str:
        """The first frame of a connection: what was missed is sent again."""
        data = {"session_id": self.session_id, "connection_uuid": connection_uuid, "last_seq": self.last_seq}
        return json.dumps({"event": "client:hello", "data": data})

    def hear(self, frame: str | bytes) -> str | None:
        """The status that ends the wait, if this frame brings one; frames of other sessions never do."""
        plain = _read_object(frame)
        data = plain.get("data", {}) if plain else None
        if plain is None or not isinstance(plain.get("event"), str) or not isinstance(data, dict):
            self.malformed += 1
            return None
        if not self._is_ours(plain, data):
            self.foreign += 1
            return None
        if (seq := _number(plain.get("seq"))) is not None:
            self.last_seq = max(self.last_seq, seq)
        return self._take(plain["event"], data)

    def _take(self, event: str, data: Mapping[str, Any]) -> str | None:
        match event:
            case "agent:status":
                status = data.get("status")
                return status if isinstance(status, str) and status in ENDING else None
            case "server:hello":
                self._greet(data)
            case _ if event == _APPROVAL_ASKED:
                return WAITING_APPROVAL
            case _ if event == _CLOSED:
                self.must_ask = True
        return None

    def _greet(self, data: Mapping[str, Any]) -> None:
        """The backend says where its numbers stand, and whether all that was missed has been sent again."""
        current = _number(data.get("current_seq"))
        ack = data.get("ack")
        if isinstance(ack, dict) and ack.get("ok") is False:
            self.gaps += 1
            self.must_ask = True
            current = _number(ack.get("newest_seq")) if current is None else current
        if current is not None and current < self.last_seq:
            # Another process counts from 1, and what it has sent since then has numbers that we take for heard.
            self.must_ask = True
            self.last_seq = current

    def _is_ours(self, plain: Mapping[str, Any], data: Mapping[str, Any]) -> bool:
        named = [where["session_id"] for where in (plain, data) if where.get("session_id") is not None]
        return all(name == self.session_id for name in named)


def _read_object(frame: str | bytes) -> dict[str, Any] | None:
    try:
        plain = json.loads(frame)
    except (ValueError, RecursionError):
        return None
    return plain if isinstance(plain, dict) else None


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
