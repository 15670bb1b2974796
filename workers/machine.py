"""What preflight reads of this machine: processes, listening sockets, what is left of it. Decides nothing.

All of it in the reader's own network namespace. Linux is read from /proc, which takes microseconds; elsewhere
psutil is asked, and what an ordinary user can't see there is said to be unknown.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from broker.types import Mode, Seen
from workers.conditions import BackendView, Program, ProgramWords, family_of
from workers.processes import MARK

IS_LINUX = sys.platform == "linux"
COMMAND_CHARS = 120
_PROC = Path("/proc")
# this thread's, since a network namespace belongs to a thread
_OWN = Path("/proc/thread-self")
_LISTEN = "0A"
_CONNECT_TIMEOUT_S = 0.5
_MOST_NAMED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """A socket that listens. What could not be told of it is None."""

    port: int
    inode: int | None = None
    pid: int | None = None


def find_programs(wanted: ProgramWords) -> tuple[Program, ...]:
    """Every process of this network namespace that runs the program, oldest pid first."""
    found = _find_in_proc(wanted) if IS_LINUX else _find_by_psutil(wanted)
    return tuple(sorted(found, key=lambda program: program.pid))


def _find_in_proc(wanted: ProgramWords) -> Iterator[Program]:
    family, namespace = family_of(wanted.executable), _OWN.joinpath("ns/net").readlink()
    for pid in list_pids():
        folder = f"/proc/{pid}"
        with contextlib.suppress(OSError):
            executable = _read_link(f"{folder}/exe")
            if executable is not None and family_of(executable) != family:
                continue
            arguments = _read_words(f"{folder}/cmdline")
            # another user's executable can't be read, its arguments can
            if not arguments or not wanted.match(executable or arguments[0], arguments):
                continue
            if _read_link(f"{folder}/ns/net") not in {None, str(namespace)}:
                continue
            state = _read_stat(pid)
            yield Program(pid=pid, parent=int(state[1]), group=int(state[2]), box_folder=_read_mark(pid))


def _find_by_psutil(wanted: ProgramWords) -> Iterator[Program]:
    for process in psutil.process_iter(["exe", "cmdline", "ppid"]):
        arguments = process.info["cmdline"] or []
        if not arguments or not wanted.match(process.info["exe"] or arguments[0], arguments):
            continue
        with contextlib.suppress(psutil.Error, OSError):
            group = os.getpgid(process.pid)
            yield Program(
                pid=process.pid, parent=process.info["ppid"] or 0, group=group, box_folder=_read_mark(process.pid)
            )


def view_backend(pid: int) -> BackendView:
    """The process as it runs now. Raises psutil.Error or OSError when what it is can't be told."""
    process = psutil.Process(pid)
    words = _read_words(f"/proc/{pid}/cmdline") if IS_LINUX else process.cmdline()
    executable = folder = None
    with contextlib.suppress(psutil.AccessDenied):
        executable, folder = process.exe(), process.cwd()
    return BackendView(pid=pid, executable=executable, folder=folder, words=tuple(words[1:]), mode=read_mode(process))


def read_mode(process: psutil.Process) -> Mode:
    """The mode in the running process's environment; a missing variable counts as live."""
    return Mode.DRY if process.environ().get("OSW_SENDSCRIPT_DRYRUN") == "1" else Mode.LIVE


def list_pids() -> list[int]:
    """Every process that can be seen."""
    return [int(name) for name in os.listdir(_PROC) if name.isdigit()] if IS_LINUX else psutil.pids()  # noqa: PTH208


def list_listeners(ports: Collection[int]) -> tuple[Listener, ...]:
    """The sockets that listen on these TCP ports, in this network namespace, whoever owns them."""
    if IS_LINUX:
        tables = (_OWN / "net" / table for table in ("tcp", "tcp6"))
        return tuple(item for table in tables for item in _read_table(table, ports))
    try:
        found = psutil.net_connections("tcp")
    except psutil.AccessDenied:
        # An ordinary user of macOS sees no other user's sockets: connecting tells at least one from none.
        return tuple(Listener(port=port) for port in ports if _may_connect(port))
    return tuple(
        Listener(port=item.laddr.port, pid=item.pid)
        for item in found
        if item.status == psutil.CONN_LISTEN and item.laddr and item.laddr.port in ports
    )


def _read_table(table: Path, ports: Collection[int]) -> Iterator[Listener]:
    endings = tuple(f":{port:04X}" for port in ports)
    try:
        lines = table.read_text("ascii").splitlines()[1:]
    except FileNotFoundError:
        return
    for line in lines:
        fields = line.split(maxsplit=10)
        if fields[3] == _LISTEN and fields[1].endswith(endings):
            yield Listener(port=int(fields[1].rpartition(":")[2], 16), inode=int(fields[9]))


def _may_connect(port: int) -> bool:
    with socket.socket() as line:
        line.settimeout(_CONNECT_TIMEOUT_S)
        return line.connect_ex(("127.0.0.1", port)) == 0


def choose_foreign(listeners: Collection[Listener], pid: int | None) -> tuple[Listener, ...]:
    """Those that are not the process's own."""
    if pid is None:
        return tuple(listeners)
    inodes = frozenset(_list_socket_inodes(pid)) if IS_LINUX else frozenset[int]()
    ports = frozenset() if IS_LINUX else _list_ports_of(pid)
    return tuple(item for item in listeners if not _is_own(item, pid, inodes, ports))


def _is_own(item: Listener, pid: int, inodes: frozenset[int], ports: frozenset[int]) -> bool:
    if item.inode is not None:
        return item.inode in inodes
    return item.pid == pid if item.pid is not None else item.port in ports


def _list_ports_of(pid: int) -> frozenset[int]:
    with contextlib.suppress(psutil.Error):
        found = psutil.Process(pid).net_connections("tcp")
        return frozenset(item.laddr.port for item in found if item.status == psutil.CONN_LISTEN and item.laddr)
    return frozenset()


def _list_socket_inodes(pid: int) -> Iterator[int]:
    with contextlib.suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/fd"):  # noqa: PTH208  # the names alone, quickly
            target = _read_link(f"/proc/{pid}/fd/{name}") or ""
            if target.startswith("socket:["):
                yield int(target[8:-1])


def describe_holders(listeners: Collection[Listener]) -> str:
    """`pid 123 (nc -l 8324)` for each process that holds one, as far as it can be seen."""
    return ", ".join(map(describe_process, find_holders(listeners))) or "a process that can't be seen from here"


def find_holders(listeners: Collection[Listener]) -> tuple[int, ...]:
    """The processes that hold one of them, as far as they can be seen, lowest pid first."""
    pids = {item.pid for item in listeners if item.pid is not None}
    inodes = {item.inode for item in listeners if item.inode is not None}
    if inodes:
        pids |= {pid for pid in list_pids() if not inodes.isdisjoint(_list_socket_inodes(pid))}
    return tuple(sorted(pids))


def describe_process(pid: int) -> str:
    """`pid 123 (its command line, shortened)`."""
    with contextlib.suppress(psutil.Error, OSError):
        words = _read_words(f"/proc/{pid}/cmdline") if IS_LINUX else psutil.Process(pid).cmdline()
        command = "".join(letter if letter.isprintable() else "?" for letter in " ".join(words))
        return f"pid {pid} ({command[:COMMAND_CHARS]})"
    return f"pid {pid}"


def look_for_log(pid: int, path: str) -> Seen:
    """Whether what the process says goes into this very file, and not into one that has been moved away."""
    try:
        wanted = os.stat(path)  # noqa: PTH116  # beside the one below
    except FileNotFoundError:
        return Seen.ABSENT
    except OSError:
        return Seen.COULD_NOT_LOOK
    if not IS_LINUX:
        return _look_among_open_files(pid, path)
    for number in (1, 2):
        try:
            held = os.stat(f"/proc/{pid}/fd/{number}")  # noqa: PTH116  # follows to the file, whatever its name is now
        except FileNotFoundError:
            continue
        except OSError:
            return Seen.COULD_NOT_LOOK
        if os.path.samestat(held, wanted):
            return Seen.SEEN
    return Seen.ABSENT


def _look_among_open_files(pid: int, path: str) -> Seen:
    with contextlib.suppress(psutil.Error, OSError):
        names = {os.path.realpath(item.path) for item in psutil.Process(pid).open_files()}
        # one that is not listed may all the same be open: the list is not complete there
        return Seen.SEEN if os.path.realpath(path) in names else Seen.COULD_NOT_LOOK
    return Seen.COULD_NOT_LOOK


def read_head(checkout: Path) -> str | None:
    """The commit that is checked out, read from the repository's files; None when they don't tell."""
    try:
        git = checkout / ".git"
        if git.is_file():
            git = checkout / git.read_text("utf-8").removeprefix("gitdir:").strip()
        head = (git / "HEAD").read_text("utf-8").strip()
        if not head.startswith("ref: "):
            return head
        return _read_reference(git, head.removeprefix("ref: "))
    except (OSError, UnicodeDecodeError):
        return None


def _read_reference(git: Path, name: str) -> str | None:
    common = git / "commondir"
    shared = git / common.read_text("utf-8").strip() if common.is_file() else git
    for folder in (git, shared):
        if (folder / name).is_file():
            return (folder / name).read_text("utf-8").strip()
    lines = (shared / "packed-refs").read_text("utf-8").splitlines()
    return next((line.split()[0] for line in lines if line.endswith(f" {name}")), None)


def count_free_mb(folder: Path) -> int:
    """What an ordinary user may still write there. Raises OSError."""
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize // 2**20


def count_free_inodes(folder: Path) -> int | None:
    """How many files an ordinary user may still make there; None where the file system does not count them."""
    found = os.statvfs(folder)
    return found.f_favail if found.f_files else None


def count_available_mb() -> int:
    """The memory that a new process may have, by this machine and by the container that we may be in."""
    available = psutil.virtual_memory().available
    with contextlib.suppress(OSError, ValueError, KeyError):
        group = Path("/sys/fs/cgroup")
        most = int((group / "memory.max").read_text("ascii"))
        used = int((group / "memory.current").read_text("ascii"))
        told = dict(line.split() for line in (group / "memory.stat").read_text("ascii").splitlines())
        # files that were read and may be forgotten count as used there
        available = min(available, most - used + int(told["inactive_file"]))
    return available // 2**20


def count_zombies() -> int:
    """Processes that have ended and that nobody has reaped."""
    if not IS_LINUX:
        return sum(process.info["status"] == psutil.STATUS_ZOMBIE for process in psutil.process_iter(["status"]))
    count = 0
    for pid in list_pids():
        with contextlib.suppress(OSError):
            count += _read_stat(pid)[0] == "Z"
    return count


def read_load_per_core() -> float:
    """The one-minute load average over the number of cores."""
    return os.getloadavg()[0] / (os.cpu_count() or 1)


def _read_stat(pid: int) -> list[str]:
    """State, parent, group, …: what stands behind the name, which may hold anything."""
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:  # noqa: PTH123  # called very often
        return file.read().rpartition(")")[2].split()


def _read_words(path: str) -> list[str]:
    with open(path, "rb") as file:  # noqa: PTH123  # called very often
        data = file.read()
    return data.removesuffix(b"\0").decode("utf-8", "replace").split("\0") if data else []


def _read_link(path: str) -> str | None:
    """Where it points; None when it is not ours to read. Raises FileNotFoundError for a process that is gone."""
    try:
        return os.readlink(path)  # noqa: PTH115  # called very often
    except PermissionError:
        return None


def _read_mark(pid: int) -> str | None:
    with contextlib.suppress(psutil.Error, OSError):
        return psutil.Process(pid).environ().get(MARK)
    return None
