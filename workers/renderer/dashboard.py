"""The two lines to the backend: its dashboard socket, held open, and the layout over HTTP."""

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import httpx
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from workers.renderer.errors import BackendError, RendererError
from workers.renderer.protocol import (
    CardSpec,
    Event,
    count_backoff_s,
    parse_event,
    parse_layout,
    render_frame,
)

log = logging.getLogger(__name__)

FIRST_WAIT_S = 0.25
MOST_WAIT_S = 8.0
OPEN_TIMEOUT_S = 5.0
HTTP_TIMEOUT_S = 5.0
PING_EVERY_S = 25.0
PONG_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """Where the backend is, and how to be let in."""

    url: str
    token_file: Path
    dashboard_id: str

    def authorise(self) -> dict[str, str]:
        """The header that lets us in; read from the file each time, for it changes with the backend's data.

        Raises:
            RendererError: the file can't be read.
        """
        try:
            token = self.token_file.read_text(encoding="utf-8").strip()
        except OSError as error:
            raise RendererError(
                f"can't read the backend's token: {error}",
                hint="the backend writes it to auth.token in its data folder when it starts",
            ) from error
        return {"Authorization": f"Bearer {token}"}

    @property
    def socket_url(self) -> str:
        """The dashboard socket's address."""
        parts = urlsplit(self.url)
        scheme = "wss" if parts.scheme == "https" else "ws"
        return urlunsplit((scheme, parts.netloc, "/ws/dashboard", "", ""))


class Layouts:
    """Reads and writes the layout of one dashboard."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._path = f"/api/dashboards/{backend.dashboard_id}"
        # Environment proxies would send loopback traffic away.
        self._http = httpx.AsyncClient(base_url=backend.url, timeout=HTTP_TIMEOUT_S, trust_env=False)

    async def read_cards(self) -> dict[str, CardSpec]:
        """The browser cards in the layout now, by id.

        Raises:
            RendererError: the token can't be read, or the backend did not answer 200.
        """
        return parse_layout(await self._exchange("GET"))

    async def remove_cards(self, browser_ids: frozenset[str]) -> None:
        """Write the layout back without these cards.

        Raises:
            RendererError: as `read_cards`.
        """
        layout = (await self._exchange("GET")).get("layout") or {}
        cards = layout.get("browser_cards") or {}
        left = {key: card for key, card in cards.items() if key not in browser_ids}
        if len(left) < len(cards):
            # No name in the body: with one the dashboard would count as named by a person.
            await self._exchange("PUT", {"layout": {**layout, "browser_cards": left}})

    async def aclose(self) -> None:
        """Close the connections to the backend."""
        await self._http.aclose()

    async def _exchange(self, method: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        headers = self._backend.authorise()
        try:
            answer = await self._http.request(method, self._path, json=body, headers=headers)
            answer.raise_for_status()
            value = answer.json()
        except httpx.HTTPStatusError as error:
            status = error.response.status_code
            raise BackendError(
                f"{self._backend.url} answers {status} for dashboard {self._backend.dashboard_id}",
                hint="401 means --token-file, 404 --dashboard-id",
                status=status,
            ) from error
        except (httpx.HTTPError, ValueError) as error:
            raise BackendError(f"{self._backend.url} does not answer: {error!r}") from error
        return value if isinstance(value, dict) else {}


@dataclass(slots=True, kw_only=True)
class DashboardSocket:
    """The one dashboard client: connects, connects again, pings, and hands on what comes in.

    `on_open` runs after each connection, beside the reading of frames; `on_event` gets every frame but pongs.
    """

    backend: Backend
    on_open: Callable[[], Awaitable[None]]
    on_event: Callable[[Event], None]
    ping_every_s: float = PING_EVERY_S
    pong_timeout_s: float = PONG_TIMEOUT_S
    _socket: ClientConnection | None = None
    _pong_at: float = field(default_factory=time.monotonic)

    async def run(self) -> None:
        """Hold the socket open until cancelled; a lost connection is made again, ever more slowly."""
        waits = count_backoff_s(FIRST_WAIT_S, MOST_WAIT_S, random.Random())  # noqa: S311 - spreads retries, guards nothing
        while True:
            try:
                async with connect(
                    self.backend.socket_url,
                    additional_headers=self.backend.authorise(),
                    open_timeout=OPEN_TIMEOUT_S,
                    ping_interval=None,
                    max_size=None,
                    proxy=None,
                ) as socket:
                    waits = count_backoff_s(FIRST_WAIT_S, MOST_WAIT_S, random.Random())  # noqa: S311 - as above
                    await self._serve(socket)
                    log.warning("the dashboard socket was closed by the backend")
            except (OSError, TimeoutError, InvalidHandshake, ConnectionClosed, RendererError) as error:
                log.warning("no dashboard socket: %s", error)
            await asyncio.sleep(next(waits))

    async def send(self, event: str, data: Mapping[str, Any]) -> bool:
        """Send one frame; False when the socket is not open (the backend asks again by itself)."""
        if self._socket is None:
            return False
        try:
            await self._socket.send(render_frame(event, data))
        except ConnectionClosed:
            return False
        return True

    async def _serve(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._pong_at = time.monotonic()
        await self.send("dashboard:active", {"dashboard_id": self.backend.dashboard_id})
        beside = [asyncio.create_task(self._ping(socket)), asyncio.create_task(_call(self.on_open))]
        try:
            async for frame in socket:
                self._take(frame)
        finally:
            self._socket = None
            for task in beside:
                task.cancel()

    def _take(self, frame: str | bytes) -> None:
        event = parse_event(frame)
        if event is None:
            log.warning("a malformed frame was ignored: %.120r", frame)
        elif event.name == "server:pong":
            self._pong_at = time.monotonic()
        else:
            self.on_event(event)

    async def _ping(self, socket: ClientConnection) -> None:
        while True:
            await asyncio.sleep(self.ping_every_s)
            sent_at = time.monotonic()
            await self.send("client:ping", {"nonce": uuid4().hex})
            await asyncio.sleep(self.pong_timeout_s)
            if self._pong_at < sent_at:
                log.warning("no pong within %g s; connecting again", self.pong_timeout_s)
                await socket.close()
                return


async def _call(function: Callable[[], Awaitable[None]]) -> None:
    await function()
