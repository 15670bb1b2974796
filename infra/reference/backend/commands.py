"""Relaying browser commands to the renderer behind the dashboard socket, each on its leash."""

import asyncio
from typing import Any, Protocol

from infra.reference.backend.hub import Hub
from infra.reference.backend.stamps import new_id

NO_DASHBOARD = "No dashboard is connected. Open the dashboard to use browser tools."
TIMED_OUT = "Browser command timed out"
RECONNECT_WAIT_S = 8.0
REBROADCAST_S = 3.0
DEFAULT_LEASH_S = 15.0
LEASHES_S = {
    "navigate": 25.0,
    "replay_route": 20.0,
    "wait": 12.0,
    "perform_action": 35.0,
    "browser_fetch": 32.0,
    "browser_search": 45.0,
    "find_composer": 30.0,
    "import_session": 40.0,
}
Reply = dict[str, Any]


class Relay(Protocol):
    """Brings commands to a renderer."""

    async def run(self, action: str, browser_id: str, params: dict[str, Any] | None = None) -> Reply:
        """The command's result; a failure is a reply with an ``error``."""


class Commands:
    """The commands under way, by request id. ``scale`` makes every wait and leash so much of the product's."""

    def __init__(self, hub: Hub, *, scale: float = 1.0) -> None:
        self._hub = hub
        self._scale = scale
        self._pending: dict[str, asyncio.Future[Reply]] = {}

    async def run(
        self,
        action: str,
        browser_id: str,
        params: dict[str, Any] | None = None,
        *,
        tab_id: str = "",
        relayed: bool = True,
    ) -> Reply:
        """Send one command and wait for its result; a failure is a reply with an ``error``.

        The command is broadcast again every 3 s until it is answered, its leash ends, or no dashboard came
        back for 8 s. One that is not relayed is heard by nobody, and its leash ends.
        """
        if not await self._hub.wait_connected(RECONNECT_WAIT_S * self._scale):
            return {"error": NO_DASHBOARD}
        request_id = new_id()
        command = {
            "request_id": request_id,
            "action": action,
            "browser_id": browser_id,
            "tab_id": tab_id,
            "params": params or {},
        }
        answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._pending[request_id] = answer
        try:
            return await self._wait(command if relayed else None, answer, leash_s=self.leash_s(action))
        finally:
            del self._pending[request_id]

    def leash_s(self, action: str) -> float:
        """How long an action may take."""
        return LEASHES_S.get(action, DEFAULT_LEASH_S) * self._scale

    def resolve(self, data: Reply) -> None:
        """Take a ``browser:result``; the first answer wins, a late or unknown one is dropped."""
        answer = self._pending.get(str(data.get("request_id")))
        if answer is not None and not answer.done():
            answer.set_result(data)

    async def _wait(self, command: Reply | None, answer: asyncio.Future[Reply], *, leash_s: float) -> Reply:
        clock = asyncio.get_running_loop().time
        end = clock() + leash_s
        while True:
            if command is not None:
                self._hub.broadcast("browser:command", command)
            await asyncio.wait([answer], timeout=max(0.0, min(REBROADCAST_S * self._scale, end - clock())))
            if answer.done():
                return answer.result()
            if not self._hub.connected and not await self._hub.wait_connected(RECONNECT_WAIT_S * self._scale):
                return {"error": NO_DASHBOARD}
            if clock() >= end:
                return {"error": TIMED_OUT}
