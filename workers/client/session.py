"""Waiting for a session's end: the pushed `agent:status` first, asking as fall-back (contract 3.4, 3.5)."""

from __future__ import annotations

import time
import uuid
from contextlib import ExitStack
from dataclasses import dataclass

import structlog
from websockets.exceptions import InvalidHandshake, WebSocketException
from websockets.sync.client import ClientConnection, connect

from workers.client.errors import NotFoundError, ProductError
from workers.client.product import ProductAddress, ProductClient
from workers.client.stream import ENDING, Stream
from workers.client.views import WAITING_APPROVAL

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
    """The session is over, or waits for a person's approval, which nobody gives: how, and when we knew."""

    status: str
    # event or poll
    ended_by: str
    # monotonic
    at_s: float


class SessionSocket:
    """The session's own socket; it replays what was missed, so it may be opened at any time."""

    def __init__(self, address: ProductAddress, session_id: str) -> None:
        self._url = f"{address.url.replace('http', 'ws', 1)}/ws/agents/{session_id}"
        self._token = address.token
        self._line: ClientConnection | None = None
        self._held = ExitStack()
        self._has_warned = False
        self.stream = Stream(session_id=session_id)

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
            line.send(self.stream.make_hello(uuid.uuid4().hex))
        except (OSError, TimeoutError, InvalidHandshake, WebSocketException) as error:
            self._warn("no session socket, asking instead", error)
            self.close()
            return
        self._line = line

    def close(self) -> None:
        """The socket is closed."""
        self._line = None
        self._held.close()

    def wait_for_end(self, timeout_s: float) -> str | None:
        """The status that ended the wait; None after the timeout, with the line broken, or when only asking helps."""
        deadline_s = time.monotonic() + timeout_s
        while self._line is not None and (left_s := deadline_s - time.monotonic()) > 0:
            try:
                frame = self._line.recv(timeout=left_s)
            except TimeoutError:
                return None
            except (OSError, WebSocketException) as error:
                self._warn("session socket broke", error)
                self.close()
                return None
            if status := self.stream.hear(frame):
                return status
            if self.stream.must_ask:
                self.stream.must_ask = False
                return None
        return None

    def _warn(self, what: str, error: Exception) -> None:
        """Said once: a backend that is away is tried again every second."""
        if not self._has_warned:
            log.warning(what, cause=f"{type(error).__name__}: {error}")
        self._has_warned = True


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
        if status in ENDING or status == GONE:
            return SessionEnd(status=status, ended_by="poll", at_s=time.monotonic())
        if not socket.is_open:
            time.sleep(max(0.0, min(ASK_WITHOUT_SOCKET_EVERY_S, deadline_s - time.monotonic())))
    return None


def _ask(product: ProductClient, session_id: str) -> str:
    """The session's status, or what a child of it waits for; empty when the product does not say."""
    try:
        status = product.read_session(session_id).status
        if status in ENDING:
            return status
        waits = any(child.status == WAITING_APPROVAL for child in product.list_children(session_id))
    except NotFoundError:
        return GONE
    except ProductError as error:
        # The budget ends a run whose backend stays away; a restart in the middle is seen by the grader.
        log.warning("can't ask for the session", cause=error.message)
        return ""
    return WAITING_APPROVAL if waits else status
