"""The two WebSocket endpoints: the dashboard's, which makes a renderer, and each session's."""

import asyncio
import contextlib
import json
from collections.abc import Callable, Coroutine
from typing import Any

from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from infra.reference.backend.hub import Outlet
from infra.reference.backend.services import Services
from infra.reference.backend.turns import Turns

Frame = dict[str, Any]


class Sockets:
    """The socket endpoints."""

    def __init__(self, services: Services, turns: Turns) -> None:
        self._services = services
        self._turns = turns
        # Held until done: the loop itself keeps no task alive.
        self._kept: set[asyncio.Task[None]] = set()

    def make_routes(self) -> list[WebSocketRoute]:
        """The routes of both endpoints."""
        return [
            WebSocketRoute("/ws/dashboard", self.serve_dashboard),
            WebSocketRoute("/ws/agents/{id}", self.serve_session),
        ]

    async def serve_dashboard(self, socket: WebSocket) -> None:
        """A dashboard: opening it is all that counts as a renderer."""
        await socket.accept()
        outlet = Outlet(socket)
        self._services.hub.attach_dashboard(outlet)
        try:
            await _exchange(socket, outlet, lambda frame: self._hear_dashboard(outlet, frame))
        finally:
            self._services.hub.detach_dashboard(outlet)

    async def serve_session(self, socket: WebSocket) -> None:
        """A session's own events, numbered, with what was missed on request."""
        session_id = socket.path_params["id"]
        await socket.accept()
        outlet = Outlet(socket)
        self._services.hub.attach_session(session_id, outlet)
        try:
            await _exchange(socket, outlet, lambda frame: self._hear_session(session_id, outlet, frame))
        finally:
            self._services.hub.detach_session(session_id, outlet)

    def _hear_dashboard(self, outlet: Outlet, frame: Frame) -> None:
        data = _data(frame)
        if frame.get("event") == "browser:result":
            self._services.commands.resolve(data)
        elif frame.get("event") == "client:ping":
            outlet.put(_pong(data))

    def _hear_session(self, session_id: str, outlet: Outlet, frame: Frame) -> None:
        data = _data(frame)
        event = frame.get("event")
        if event == "client:hello":
            self._services.hub.greet(session_id, outlet, data)
        elif event == "client:ping":
            outlet.put(_pong(data))
        elif event == "agent:send_message":
            self._start(session_id, str(data.get("prompt") or ""))
        elif event == "agent:stop":
            self._stop(session_id)

    def _start(self, session_id: str, prompt: str) -> None:
        session = self._services.sessions.find(session_id)
        if session is not None and prompt.strip():
            self._keep(self._turns.start(session, prompt))

    def _stop(self, session_id: str) -> None:
        session = self._services.sessions.find(session_id)
        if session is not None:
            self._keep(self._turns.stop(session))

    def _keep(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._kept.add(task)
        task.add_done_callback(self._kept.discard)


async def _exchange(socket: WebSocket, outlet: Outlet, hear: Callable[[Frame], None]) -> None:
    """Hear and send until either side ends; what is no JSON object is passed over."""
    sender = asyncio.create_task(outlet.drain())
    try:
        while True:
            with contextlib.suppress(ValueError):
                frame = json.loads(await socket.receive_text())
                if isinstance(frame, dict):
                    hear(frame)
    except WebSocketDisconnect:
        return
    finally:
        sender.cancel()
        with contextlib.suppress(asyncio.CancelledError, WebSocketDisconnect, RuntimeError):
            await sender


def _data(frame: Frame) -> Frame:
    data = frame.get("data")
    return data if isinstance(data, dict) else {}


def _pong(data: Frame) -> Frame:
    return {"event": "server:pong", "data": {"nonce": data.get("nonce")}}
