"""Serving ASGI applications on loopback until a signal asks for the end."""

import asyncio
import contextlib
import errno
import logging
import signal
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from infra.reference.failure import ReferenceFailure

LOOPBACK = "127.0.0.1"
#: How long open connections may take to end after the signal.
GRACE_S = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """One application on one loopback port; with a certificate it speaks TLS."""

    app: ASGIApp
    port: int
    certificate: Path | None = None
    key: Path | None = None


class Connection(H11Protocol):
    """HTTP that lets its application close the connection: ``request.state.drop()``."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Tell each request of the connection how to close it."""
        super().connection_made(transport)
        self.app_state = {**self.app_state, "drop": transport.abort}


class _Server(uvicorn.Server):
    """A server that leaves the signals to its caller, so that several can end together."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        scheme = "https" if self.config.is_ssl else "http"
        for sock in sockets or []:
            address = f"{scheme}://{LOOPBACK}:{sock.getsockname()[1]}"
            logging.getLogger("uvicorn.error").info("Uvicorn running on %s (Press CTRL+C to quit)", address)


def bind(port: int) -> socket.socket:
    """A socket bound to the loopback port.

    Raises:
        ReferenceFailure: the port is taken or not allowed.
    """
    # Only a socket that names its protocol gets TCP_NODELAY from asyncio; without it each answer waits 40 ms.
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((LOOPBACK, port))
    except OSError as error:
        sock.close()
        reason = "is taken" if error.errno == errno.EADDRINUSE else f"can't be bound ({error.strerror})"
        hint = "end what listens there or choose another port"
        raise ReferenceFailure(f"port {port} on {LOOPBACK} {reason}", hint=hint) from error
    sock.set_inheritable(True)
    return sock


def serve(listeners: Sequence[Listener], *, log_config: dict[str, Any] | None, access_log: bool) -> None:
    """Serve every listener until SIGTERM or SIGINT; returns after the connections have ended.

    Raises:
        ReferenceFailure: a port is taken; nothing was served then.
    """
    sockets = [bind(listener.port) for listener in listeners]
    try:
        asyncio.run(_serve(listeners, sockets, log_config=log_config, access_log=access_log))
    finally:
        for sock in sockets:
            sock.close()


async def _serve(
    listeners: Sequence[Listener],
    sockets: Sequence[socket.socket],
    *,
    log_config: dict[str, Any] | None,
    access_log: bool,
) -> None:
    servers = [_server(listener, log_config=log_config, access_log=access_log) for listener in listeners]

    def end() -> None:
        for server in servers:
            server.should_exit = True

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end)
    loop.set_exception_handler(_quiet_handshakes)
    await asyncio.gather(
        *(server.serve(sockets=[sock]) for server, sock in zip(servers, sockets, strict=True)),
    )
    if not all(server.started for server in servers):
        raise ReferenceFailure("a server did not start", hint="the lines above say why")


def _server(listener: Listener, *, log_config: dict[str, Any] | None, access_log: bool) -> _Server:
    return _Server(
        uvicorn.Config(
            listener.app,
            log_config=log_config,
            access_log=access_log,
            ssl_certfile=listener.certificate,
            ssl_keyfile=listener.key,
            timeout_graceful_shutdown=GRACE_S,
            http=Connection,
            ws="websockets-sansio",
            lifespan="on",
            server_header=False,
        ),
    )


def _quiet_handshakes(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Drop what a browser's refusal of a self-signed certificate raises; say everything else."""
    error = context.get("exception")
    if isinstance(error, (ConnectionError, TimeoutError)) or "SSL" in type(error).__name__:
        logging.getLogger("uvicorn.error").debug("connection ended early: %s", error)
        return
    loop.default_exception_handler(context)
