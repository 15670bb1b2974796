"""The host lock: a bound socket that lives as long as the stack, because the stack's processes hold it too."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import struct
import sys
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from broker.errors import BoxHeldError

# Above what supervisord closes in its children (its `minfds`).
_HIGH_FD = 300
_FIRST_PORT = 20000
_PORTS = 20000


@dataclass(slots=True, kw_only=True)
class HostLock:
    """The bound socket; `fd` is inherited by whoever is started with it."""

    fd: int

    def release(self) -> None:
        """This process no longer holds it; a stack that lives still does."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def bind_host_lock(name: str) -> HostLock:
    """The lock is ours. Raises BoxHeldError, naming the process that bound it, when it is not to be had."""
    sock = _make_socket()
    try:
        sock.bind(_address_of(name))
        sock.listen(1)
    except OSError as error:
        pid = _find_holder(name)
        sock.close()
        raise BoxHeldError(
            f"another stack runs on this machine ({name}{f', bound by pid {pid}' if pid else ''})",
            holder={"lock": name, "pid": pid},
            hint='stop that box, or give this one its own block of ports with isolation = "ports"',
        ) from error
    fd = fcntl.fcntl(sock.fileno(), fcntl.F_DUPFD, _HIGH_FD)
    sock.close()
    return HostLock(fd=fd)


def _has_abstract_sockets() -> bool:
    return sys.platform == "linux"


def _make_socket() -> socket.socket:
    family = socket.AF_UNIX if _has_abstract_sockets() else socket.AF_INET
    return socket.socket(family, socket.SOCK_STREAM)


def _address_of(name: str) -> str | tuple[str, int]:
    if _has_abstract_sockets():
        return f"\0{name}"
    return ("127.0.0.1", _FIRST_PORT + zlib.crc32(name.encode()) % _PORTS)


def _find_holder(name: str) -> int | None:
    """The pid that bound the lock, where the kernel tells it."""
    if not _has_abstract_sockets():
        return None
    with contextlib.suppress(OSError), _make_socket() as sock:
        sock.settimeout(0.5)
        sock.connect(_address_of(name))
        credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        pid: int = struct.unpack("3i", credentials)[0]
        return pid or None
    return None


def lock_folder(folder: Path) -> IO[str]:
    """This process is the one supervisor of the folder until it ends; the file names it.

    Raises BoxHeldError, naming the process, when another holds it.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = (folder / "supervisor.pid").open("a+", encoding="ascii")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        file.seek(0)
        pid = file.read().strip()
        file.close()
        raise BoxHeldError(
            f"this box is already worked on host {socket.gethostname()}, pid {pid or 'unknown'}",
            holder={"pid": pid, "machine": socket.gethostname()},
            hint="stop it there first",
        ) from error
    file.truncate(0)
    file.write(str(os.getpid()))
    file.flush()
    return file
