"""The host lock: a bound socket that lives as long as the stack, because the stack's processes hold it too."""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource
import socket
import struct
import sys
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import psutil

from broker.errors import BoxHeldError, StackError
from workers.processes import MARK

# Above what supervisord closes in its children (its `minfds`).
_HIGH_FD = 300
_ENOUGH_FILES = 4096
_FIRST_PORT = 20000
_PORTS = 20000
_FOLDER_LOCK = "supervisor.pid"
# Tells a supervisor the descriptor of the folder's lock, which was taken for it: it has it from its birth.
LOCK_VARIABLE = "BV3_BOX_LOCK"
_PROBE_S = 0.2


@dataclass(slots=True, kw_only=True)
class HostLock:
    """The bound socket; `fd` is inherited by whoever is started with it."""

    fd: int

    def release(self) -> None:
        """This process no longer holds it; a stack that lives still does."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Who has a lock; what could not be told is empty or 0."""

    pid: int = 0
    box: str = ""
    folder: str = ""

    def __str__(self) -> str:
        """In words, with the host."""
        known = [f"box {self.box}"] if self.box else []
        known += [f"folder {self.folder}"] if self.folder else []
        known += [f"pid {self.pid or 'unknown'}", f"host {socket.gethostname()}"]
        return ", ".join(known)

    def describe(self) -> dict[str, object]:
        """For an error's data."""
        return {"machine": socket.gethostname(), "pid": self.pid or None, "box": self.box, "folder": self.folder}


def bind_host_lock(name: str) -> HostLock:
    """The lock is ours. Raises BoxHeldError, naming the box that has it, when it is not to be had."""
    sock = _make_socket()
    try:
        sock.bind(_address_of(name))
        sock.listen(1)
    except OSError as error:
        sock.close()
        holder = find_holder(name)
        raise BoxHeldError(
            f"another stack runs on this machine: {holder}",
            holder={"lock": name, **holder.describe()},
            hint="bv3-box down --box FILE ends that box; isolation netns or ports lets several live side by side",
        ) from error
    _allow_high_descriptors()
    fd = fcntl.fcntl(sock.fileno(), fcntl.F_DUPFD, _HIGH_FD)
    sock.close()
    return HostLock(fd=fd)


def _allow_high_descriptors() -> None:
    """So many files may be open that `_HIGH_FD` is one of them: a terminal of macOS allows 256."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft <= _HIGH_FD:
        enough = _ENOUGH_FILES if hard == resource.RLIM_INFINITY else min(hard, _ENOUGH_FILES)
        if enough <= _HIGH_FD:
            raise StackError(f"no more than {hard} files may be open here", hint=f"ulimit -Hn {_ENOUGH_FILES}")
        resource.setrlimit(resource.RLIMIT_NOFILE, (enough, hard))


def find_holder(name: str) -> Holder:
    """The box that has the host lock: its supervisor, or what is left of it."""
    pids = [*_list_holders(name)]
    folders = [folder for pid in pids if (folder := _find_folder(pid)) is not None]
    if folders:
        pid, box = read_folder_lock(folders[0])
        return Holder(pid=pid if pid in pids else pids[0], box=box, folder=str(folders[0]))
    return Holder(pid=pids[0] if pids else _ask_for_binder(name))


def _has_abstract_sockets() -> bool:
    return sys.platform == "linux"


def _make_socket() -> socket.socket:
    family = socket.AF_UNIX if _has_abstract_sockets() else socket.AF_INET
    return socket.socket(family, socket.SOCK_STREAM)


def _address_of(name: str) -> str | tuple[str, int]:
    if _has_abstract_sockets():
        return f"\0{name}"
    return ("127.0.0.1", _port_of(name))


def _port_of(name: str) -> int:
    return _FIRST_PORT + zlib.crc32(name.encode()) % _PORTS


def _list_holders(name: str) -> Iterator[int]:
    """The processes that have the lock open, as far as this user may see them, lowest pid first."""
    if not _has_abstract_sockets():
        with contextlib.suppress(psutil.AccessDenied):
            found = psutil.net_connections("tcp")
            yield from sorted({one.pid for one in found if one.pid and one.laddr and one.laddr.port == _port_of(name)})
        return
    wanted = {f"socket:[{inode}]" for inode in _list_inodes(name)}
    for pid in sorted(psutil.pids()):
        # another user's can't be read, and one may have ended
        with contextlib.suppress(OSError):
            if any(_read_link(entry) in wanted for entry in Path(f"/proc/{pid}/fd").iterdir()):
                yield pid


def _list_inodes(name: str) -> Iterator[str]:
    with contextlib.suppress(OSError):
        for line in Path("/proc/net/unix").read_text("utf-8", errors="replace").splitlines()[1:]:
            fields = line.split(maxsplit=7)
            if fields[7:] == [f"@{name}"]:
                yield fields[6]


def _read_link(path: Path) -> str:
    try:
        return str(path.readlink())
    except OSError:
        return ""


def _find_folder(pid: int) -> Path | None:
    """The folder of the box that this process is of: marked with it, or its supervisor, which has its lock open."""
    with contextlib.suppress(psutil.Error, OSError):
        process = psutil.Process(pid)
        if (folder := process.environ().get(MARK)) is not None:
            return Path(folder)
        return next((Path(file.path).parent for file in process.open_files() if file.path.endswith(_FOLDER_LOCK)), None)
    return None


def _ask_for_binder(name: str) -> int:
    """The pid that bound the lock, where the kernel tells it; it may have ended. 0: nobody knows."""
    if not _has_abstract_sockets():
        return 0
    with contextlib.suppress(OSError), _make_socket() as sock:
        sock.settimeout(0.5)
        sock.connect(_address_of(name))
        credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        pid: int = struct.unpack("3i", credentials)[0]
        return pid
    return 0


def lock_folder(folder: Path, *, box: str = "") -> IO[str]:
    """This process is the one supervisor of the folder until it ends; the file names it.

    Raises BoxHeldError, naming the process, when another holds it.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = (folder / _FOLDER_LOCK).open("a+", encoding="utf-8")
    try:
        _take(file)
    except BlockingIOError as error:
        file.close()
        pid, name = read_folder_lock(folder)
        holder = Holder(pid=pid, box=name, folder=str(folder))
        raise BoxHeldError(
            f"this box is already worked: {holder}", holder=holder.describe(), hint="bv3-box down ends it"
        ) from error
    name_holder(file, os.getpid(), box)
    return file


def inherit_folder_lock(fd: int, *, box: str) -> IO[str]:
    """The lock that whoever started this process took for it is this process's; the file names it."""
    os.set_inheritable(fd, False)  # noqa: FBT003  # os has no name for it
    file = os.fdopen(fd, "a+", encoding="utf-8")
    name_holder(file, os.getpid(), box)
    return file


def name_holder(file: IO[str], pid: int, box: str) -> None:
    """The lock's file names this process and box."""
    file.truncate(0)
    file.write(f"{pid}\n{box}\n")
    file.flush()


def _take(file: IO[str]) -> None:
    """The lock on the open file is ours. Raises BlockingIOError when it stays another's for a moment."""
    deadline_s = time.monotonic() + _PROBE_S
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            # `is_locked` has it for microseconds
            if time.monotonic() > deadline_s:
                raise
            time.sleep(_PROBE_S / 20)
        else:
            return


def is_locked(folder: Path) -> bool:
    """Whether a process has the folder's lock."""
    try:
        with (folder / _FOLDER_LOCK).open("r") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def read_folder_lock(folder: Path) -> tuple[int, str]:
    """The pid and the box that the folder's lock last named; 0 and nothing where none did."""
    try:
        pid, box, *_ = [*(folder / _FOLDER_LOCK).read_text("utf-8", errors="replace").splitlines(), "", ""]
    except OSError:
        return 0, ""
    return (int(pid) if pid.isdecimal() else 0), box
