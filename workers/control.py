"""Asking a box's supervisor: one JSON line in, one out, over a Unix socket that only its user can open.

`look` is answered at once by a thread of its own, also while the stack boots; so are `end` and `end_now`, which only
set a flag. The rest waits for the main loop, and is answered when it has been done.
"""

from __future__ import annotations

import json
import queue
import selectors
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import structlog

from broker.errors import EXIT_SERVICE, EXIT_USAGE, Bv3Error, ServiceError, UsageError
from workers.sockets import choose_socket, drop_sockets, find_socket

log = structlog.get_logger(__name__)

SOCKET = "supervisor.sock"
Word = Literal["look", "work", "rest", "restart", "end", "end_now"]

# for a box that is asked to work and has no queue
NO_FARM_HINT = "bv3-farm admit NAME gives a box its logins; up, status and the commands by hand need none"

_READ_TIMEOUT_S = 2.0
_MOST_BYTES = 64 * 1024
_CONNECT_TIMEOUT_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Something asked of the supervisor that its main loop does."""

    word: str
    part: str
    _connection: socket.socket

    def accept(self, **facts: Any) -> None:
        """It was done; whoever asked knows."""
        _send(self._connection, {"ok": True, **facts})

    def refuse(self, error: Bv3Error) -> None:
        """It was not done; whoever asked knows why."""
        refusal = {"ok": False, "cause": error.message, "hint": error.hint, "exit_code": error.exit_code}
        _send(self._connection, refusal)


class ControlServer:
    """Within the block the box can be asked. `hear` takes `end` and `end_now`; `wake` wakes the main loop."""

    def __init__(
        self, folder: Path, *, look: Callable[[], dict[str, Any]], hear: Callable[[str], None], wake: Callable[[], None]
    ) -> None:
        self._folder = folder
        self._look = look
        self._hear = hear
        self._wake = wake
        self._requests: queue.SimpleQueue[Request] = queue.SimpleQueue()
        self._ending = threading.Event()
        self._stop, self._stopped = socket.socketpair()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._thread = threading.Thread(target=self._run, name="control", daemon=True)

    def __enter__(self) -> Self:
        """The box can be asked. Raises StackError when the socket can't be made."""
        # with the folder's lock held: what is there is a dead supervisor's
        path = choose_socket(self._folder, SOCKET)
        path.unlink(missing_ok=True)
        self._listener.bind(str(path))
        path.chmod(0o600)
        self._listener.listen(8)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """The socket is gone; who still waits for an answer is refused."""
        self._ending.set()
        self._stop.close()
        self._thread.join(_READ_TIMEOUT_S + 1)
        self._listener.close()
        self._stopped.close()
        for request in self.take():
            request.refuse(ServiceError("the box has ended"))
        drop_sockets(self._folder, SOCKET)

    def take(self) -> Iterator[Request]:
        """What was asked since the last call; each must be accepted or refused."""
        with suppress(queue.Empty):
            while True:
                yield self._requests.get_nowait()

    def _run(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._listener, selectors.EVENT_READ)
            selector.register(self._stopped, selectors.EVENT_READ)
            while not self._ending.is_set():
                selector.select()
                if self._ending.is_set():
                    return
                try:
                    self._serve(self._listener.accept()[0])
                except Exception:
                    # the box must go on whatever somebody sends
                    log.exception("bug in the control socket")

    def _serve(self, connection: socket.socket) -> None:
        connection.settimeout(_READ_TIMEOUT_S)
        try:
            plain = json.loads(_read_line(connection))
            word, part = str(plain["do"]), str(plain.get("part", ""))
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            connection.close()
            return
        if word == "look":
            _send(connection, {"ok": True, **self._look()})
            return
        if word in {"end", "end_now"}:
            self._hear(word)
            _send(connection, {"ok": True})
        else:
            self._requests.put(Request(word=word, part=part, _connection=connection))
        self._wake()


def _read_line(connection: socket.socket) -> bytes:
    line = b""
    while not line.endswith(b"\n") and len(line) < _MOST_BYTES:
        chunk = connection.recv(4096)
        if not chunk:
            break
        line += chunk
    return line


def _send(connection: socket.socket, answer: dict[str, Any]) -> None:
    with suppress(OSError), connection:
        connection.sendall(json.dumps(answer).encode() + b"\n")


def ask(folder: Path, word: Word, *, part: str = "", timeout_s: float = 5.0) -> dict[str, Any] | None:
    """The supervisor's answer; None when there is none, or it ended without one.

    Raises UsageError or ServiceError with the supervisor's own words when it refuses, and ServiceError when one is
    there and does not answer in time.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        line.settimeout(_CONNECT_TIMEOUT_S)
        try:
            line.connect(str(find_socket(folder, SOCKET)))
            line.settimeout(timeout_s)
            line.sendall(json.dumps({"do": word, "part": part}).encode() + b"\n")
            said = _read_line(line)
        except TimeoutError as error:
            raise ServiceError(
                f"the box's supervisor does not answer ({word})", hint="bv3-box down --now ends it"
            ) from error
        except OSError:
            return None
    return _judge(json.loads(said)) if said else None


def _judge(answer: dict[str, Any]) -> dict[str, Any]:
    if answer["ok"]:
        return answer
    kinds = {EXIT_USAGE: UsageError, EXIT_SERVICE: ServiceError}
    raise kinds.get(answer["exit_code"], Bv3Error)(answer["cause"], hint=answer["hint"])
