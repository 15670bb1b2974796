"""Waiting for a session's end: the pushed `agent:status` first, asking as fall-back (contract 3.4, 3.5)."""

from __future__ import annotations

import json
import time
import uuid
from contextlib import ExitStack
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import structlog
from websockets.exceptions import InvalidHandshake, WebSocketException
from websockets.sync.client import ClientConnection, connect

from workers.client.errors import BackendRefusedError, ProductError
from workers.client.product import TERMINAL, ProductAddress, ProductClient

log = structlog.get_logger(__name__)

OPEN_TIMEOUT_S = 3.0
CLOSE_TIMEOUT_S = 0.2
# The status of a session that the product no longer knows: nothing more will come of it.
GONE = "gone"
# While the socket is well, asking only guards against an event that was lost on the way.
ASK_EVERY_S = 10.0
ASK_WITHOUT_SOCKET_EVERY_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionEnd:
    """The session is over: how, and when we knew (monotonic seconds)."""

    status: str
    # event or poll
    ended_by: str
    at_s: float


class SessionSocket:
    """The session's own socket; it replays what was missed, so it may be opened at any time."""

    def __init__(self, address: ProductAddress, session_id: str) -> None:
        self._url = f"{address.url.replace('http', 'ws', 1)}/ws/agents/{session_id}"
        self._token = address.token
        self._session_id = session_id
        self._last_seq = 0
        self._line: ClientConnection | None = None
        self._held = ExitStack()

    @property
    def is_open(self) -> bool:
        """Whether frames can come in."""
        return self._line is not None

    def open(self) -> None:
        """The socket is open and has said hello, or it is not: waiting goes on by asking then."""
        self.close()
        try:
            line = self._held.enter_context(
                connect(
                    self._url,
                    additional_headers={"Authorization": f"Bearer {self._token}"},
                    open_timeout=OPEN_TIMEOUT_S,
                    close_timeout=CLOSE_TIMEOUT_S,
                    proxy=None,
                    max_size=None,
                )
            )
            hello = {
                "session_id": self._session_id,
                "connection_uuid": uuid.uuid4().hex,
                "last_seq": self._last_seq,
            }
            line.send(json.dumps({"event": "client:hello", "data": hello}))
        except (OSError, TimeoutError, InvalidHandshake, WebSocketException) as error:
            log.warning("no session socket, asking instead", cause=f"{type(error).__name__}: {error}")
            self.close()
            return
        self._line = line

    def close(self) -> None:
        """The socket is closed."""
        self._line = None
        self._held.close()

    def wait_for_end(self, timeout_s: float) -> str | None:
        """The terminal status that was pushed, or None after the timeout or with the line broken."""
        deadline_s = time.monotonic() + timeout_s
        while self._line is not None and (left_s := deadline_s - time.monotonic()) > 0:
            try:
                frame = self._line.recv(timeout=left_s)
            except TimeoutError:
                return None
            except (OSError, WebSocketException) as error:
                log.warning("session socket broke", cause=f"{type(error).__name__}: {error}")
                self.close()
                return None
            if status := self._read(frame):
                return status
        return None

    def _read(self, frame: str | bytes) -> str | None:
        try:
            plain: Any = json.loads(frame)
        except ValueError:
            return None
        if not isinstance(plain, dict):
            return None
        if isinstance(seq := plain.get("seq"), int):
            self._last_seq = max(self._last_seq, seq)
        data = plain.get("data")
        if plain.get("event") != "agent:status" or not isinstance(data, dict):
            return None
        is_ours = data.get("session_id", self._session_id) == self._session_id
        status = data.get("status")
        return status if is_ours and status in TERMINAL else None


def wait_for_end(
    product: ProductClient, socket: SessionSocket, session_id: str, *, deadline_s: float
) -> SessionEnd | None:
    """How the session ended, or None when it had not at `deadline_s` (monotonic)."""
    while (left_s := deadline_s - time.monotonic()) > 0:
        was_open = socket.is_open
        if not was_open:
            socket.open()
        # A line that broke may have broken with the backend, and a new one tells nothing of a lost session.
        if was_open and (status := socket.wait_for_end(min(ASK_EVERY_S, left_s))) is not None:
            return SessionEnd(status=status, ended_by="event", at_s=time.monotonic())
        status = _ask(product, session_id)
        if status in TERMINAL or status == GONE:
            return SessionEnd(status=status, ended_by="poll", at_s=time.monotonic())
        if not socket.is_open:
            time.sleep(max(0.0, min(ASK_WITHOUT_SOCKET_EVERY_S, deadline_s - time.monotonic())))
    return None


def _ask(product: ProductClient, session_id: str) -> str:
    try:
        return product.read_session(session_id).status
    except BackendRefusedError as error:
        if error.status == HTTPStatus.NOT_FOUND:
            return GONE
        log.warning("can't ask for the session", cause=error.message)
        return ""
    except ProductError as error:
        # The budget ends a run whose backend stays away; a restart in the middle is seen by the grader.
        log.warning("can't ask for the session", cause=error.message)
        return ""
