"""Pushing events: to every dashboard socket, and to each session's own sockets with numbers and replay."""

import asyncio
import itertools
import json
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from starlette.websockets import WebSocket

from infra.reference.backend.sessions import Session
from infra.reference.backend.storage import read_json, write_json

RING = 500
Frame = dict[str, Any]


@dataclass(slots=True)
class Outlet:
    """One open socket with its outbox, so that a slow reader delays nobody else."""

    socket: WebSocket
    outbox: asyncio.Queue[Frame] = field(default_factory=asyncio.Queue)
    # Numbers of the session events already queued here: a replay sends none of them twice.
    queued: set[int] = field(default_factory=set)

    def put(self, frame: Frame) -> None:
        """Queue a frame; it leaves in order."""
        if "seq" in frame:
            self.queued.add(frame["seq"])
        self.outbox.put_nowait(frame)

    async def drain(self) -> None:
        """Send what is queued for as long as the socket lives."""
        while True:
            await self.socket.send_text(json.dumps(await self.outbox.get()))


@dataclass(slots=True)
class _Stream:
    """The numbered events of one session."""

    numbers: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))
    ring: deque[Frame] = field(default_factory=lambda: deque(maxlen=RING))
    outlets: list[Outlet] = field(default_factory=list)

    @property
    def last(self) -> int:
        return int(self.ring[-1]["seq"]) if self.ring else 0


class Hub:
    """Who listens, and what they have heard."""

    def __init__(self, data_root: Path) -> None:
        self._terminal = data_root / "agents" / "terminal_events"
        self._dashboards: list[Outlet] = []
        self._streams: dict[str, _Stream] = {}
        self._attached = asyncio.Event()
        # How many dashboard sockets there ever were, since this process began.
        self.dashboards_ever = 0

    @property
    def connected(self) -> bool:
        """Whether any dashboard socket is open: all that counts as a renderer."""
        return bool(self._dashboards)

    def list_peer_ports(self) -> list[int]:
        """The port of each dashboard socket's other end."""
        return [outlet.socket.client.port for outlet in self._dashboards if outlet.socket.client]

    async def wait_connected(self, limit_s: float) -> bool:
        """Wait for a dashboard socket; False when none came in time."""
        try:
            await asyncio.wait_for(self._attached.wait(), limit_s)
        except TimeoutError:
            return False
        return True

    def attach_dashboard(self, outlet: Outlet) -> None:
        """Add a dashboard socket."""
        self._dashboards.append(outlet)
        self.dashboards_ever += 1
        self._attached.set()

    def detach_dashboard(self, outlet: Outlet) -> None:
        """Remove a dashboard socket."""
        self._dashboards.remove(outlet)
        if not self._dashboards:
            self._attached.clear()

    def attach_session(self, session_id: str, outlet: Outlet) -> None:
        """Add a socket of one session; unknown sessions are accepted."""
        self._stream(session_id).outlets.append(outlet)

    def detach_session(self, session_id: str, outlet: Outlet) -> None:
        """Remove a session's socket."""
        self._stream(session_id).outlets.remove(outlet)

    def forget(self, session_id: str) -> None:
        """Drop the events of a deleted session; who still listens keeps listening."""
        stream = self._streams.get(session_id)
        if stream is not None and not stream.outlets:
            del self._streams[session_id]

    def last_seq(self, session_id: str) -> int:
        """The number of a session's latest event; 0 before the first."""
        return self._stream(session_id).last

    def broadcast(self, event: str, data: Frame) -> None:
        """Push an event to every dashboard socket."""
        for outlet in self._dashboards:
            outlet.put({"event": event, "data": data})

    def push(self, session_id: str, event: str, data: Frame) -> None:
        """Push a session's event, numbered, to its own sockets and to every dashboard socket."""
        stream = self._stream(session_id)
        frame = {
            "event": event,
            "data": {"session_id": session_id, **data},
            "session_id": session_id,
            "seq": next(stream.numbers),
        }
        stream.ring.append(frame)
        for outlet in [*self._dashboards, *stream.outlets]:
            outlet.put(frame)

    def push_status(self, session: Session) -> None:
        """Push a session's status; a terminal one is kept on disk for those who come back later."""
        self.push(session.id, "agent:status", {"status": session.status, "session": session.summarise()})
        if session.ended:
            write_json(self._terminal / f"{session.id}.json", self._stream(session.id).ring[-1])

    def push_message(self, session: Session, message: Frame) -> None:
        """Push a message that was just added to a session."""
        self.push(session.id, "agent:message", {"message": message})

    def greet(self, session_id: str, outlet: Outlet, hello: Frame) -> None:
        """Answer a ``client:hello``: replay what came after ``last_seq``, then say where the stream stands."""
        stream = self._stream(session_id)
        last_seq = _number(hello.get("last_seq"))
        ack = self._replay(session_id, stream, outlet, last_seq)
        outlet.put(
            {
                "event": "server:hello",
                "data": {
                    "connection_uuid": hello.get("connection_uuid"),
                    "current_seq": stream.last,
                    "ack": ack,
                },
                "session_id": session_id,
            },
        )

    def _replay(self, session_id: str, stream: _Stream, outlet: Outlet, last_seq: int) -> Frame:
        if not stream.ring:
            return self._replay_terminal(session_id, outlet)
        oldest = int(stream.ring[0]["seq"])
        if last_seq < oldest - 1:
            gap = {"reason": "gap", "oldest_seq": oldest, "newest_seq": stream.last}
            outlet.put({"event": "agent:gap_detected", "data": {"session_id": session_id, **gap}})
            return {"ok": False, **gap}
        missed = [frame for frame in stream.ring if frame["seq"] > last_seq]
        for frame in missed:
            if frame["seq"] not in outlet.queued:
                outlet.put(frame)
        if not missed:
            return {"ok": True, "replayed": 0, "current_seq": stream.last}
        first, final = missed[0]["seq"], missed[-1]["seq"]
        return {"ok": True, "replayed": len(missed), "from_seq": first, "to_seq": final}

    def _replay_terminal(self, session_id: str, outlet: Outlet) -> Frame:
        """After a restart only the last word of a session is left."""
        kept = read_json(self._terminal / f"{session_id}.json") if session_id.isalnum() else None
        if not isinstance(kept, dict):
            return {"ok": True, "replayed": 0, "current_seq": 0}
        outlet.put(kept)
        return {"ok": True, "replayed": 1, "terminal_only": True}

    def _stream(self, session_id: str) -> _Stream:
        return self._streams.setdefault(session_id, _Stream())


def _number(value: object) -> int:
    return value if isinstance(value, int) and value >= 0 else 0
