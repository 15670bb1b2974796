"""Who listens on a loopback port, and whether it answers."""

from __future__ import annotations

import http.client
import socket

import psutil

_ANSWER_TIMEOUT_S = 2.0
_SUCCESSES = range(200, 300)


def is_listened_on(port: int) -> bool:
    """Whether somebody takes connections on the loopback port."""
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def answers(port: int, path: str) -> bool:
    """Whether a GET on the loopback port, without a token, is answered by a success. No proxy is asked."""
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=_ANSWER_TIMEOUT_S)
    try:
        line.request("GET", path)
        return line.getresponse().status in _SUCCESSES
    except (OSError, http.client.HTTPException):
        return False
    finally:
        line.close()


def listens_on(process: psutil.Process, port: int) -> bool:
    """Whether this very process listens on the port. Raises psutil.Error."""
    return any(
        connection.status == psutil.CONN_LISTEN and connection.laddr.port == port
        for connection in process.net_connections("tcp")
    )
