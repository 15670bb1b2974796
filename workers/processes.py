"""Processes of a box: recorded as they start, known again by what can't recur, and ended by group, never by name.

Each is recorded as a JSON line in the box's folder. A pid alone may be somebody else's by now, and a command line may
merely quote ours: a process is the recorded one only if boot, pid and start agree and its command is the recorded
one. What a recorded process starts carries the box's folder in its environment, so that a member that left its
leader's group (a browser does) is found too.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import psutil

from broker.errors import StackError

# Set for every process that a box starts.
MARK = "BV3_BOX_FOLDER"
# The one whose group is not ours to end: whoever typed its command may have put it into a pipeline.
SUPERVISOR = "supervisor"
_POLL_S = 0.01
_SHEBANG_BYTES = 256
_BECOME_TIMEOUT_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A process as it was when it started."""

    name: str
    pid: int
    # the boot of the machine, and the start within it in the kernel's ticks (elsewhere: whole seconds): never twice
    boot: str
    start: str
    # seconds since the epoch, by a clock that may be set: for people and for ages, not for telling processes apart
    started_s: float
    command: tuple[str, ...]
    # the shell script that becomes the command; empty: there is none
    script: str = ""

    def is_alive(self) -> bool:
        """Whether this very process lives."""
        return identify(self.pid) == (self.boot, self.start) and self._runs_its_command()

    def _runs_its_command(self) -> bool:
        try:
            process = psutil.Process(self.pid)
            words = tuple(process.cmdline())
            if words == self.command or (self.script and words[1:] == (self.script,)):
                return True
            # webpack, among others, writes a title over its command line: the executable remains
            return process.exe().removesuffix(" (deleted)") in _list_executables(self.command[0])
        except (psutil.Error, OSError, IndexError):
            return False


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessBook:
    """The file in which a box's processes are recorded, one JSON object each line."""

    folder: Path

    @property
    def path(self) -> Path:
        """The file; a shell may append to it too."""
        return self.folder / "processes"

    def record(self, name: str, pid: int) -> None:
        """The process is in the book, unless it has ended already."""
        try:
            process = psutil.Process(pid)
            command = _await_command(process)
        except psutil.Error:
            return
        if (identity := identify(pid)) is None:
            return
        boot, start = identity
        entry = Recorded(
            name=name, pid=pid, boot=boot, start=start, started_s=round(process.create_time(), 2), command=command
        )
        with self.path.open("a", encoding="ascii") as file:
            file.write(json.dumps(asdict(entry)) + "\n")

    def say_in_shell(self, name: str, command: Sequence[str], script: Path) -> str:
        """Shell lines by which a script records itself; it must become `command` by `exec` afterwards."""
        fixed = {"name": name, "boot": read_boot(), "command": list(command), "script": str(script)}
        # name first: `tells_in_shell` looks for it at the line's beginning
        head = shlex.quote(json.dumps(fixed)[:-1])
        line = """'%s, "pid": %s, "start": "%s", "started_s": %s}\\n'"""
        start = "$(cut -d' ' -f22 /proc/$$/stat)"
        if sys.platform != "linux":
            # the same seconds that psutil reads from the kernel
            start = "$(TZ=UTC0 LC_ALL=C ps -o lstart= -p $$)"
        return f'printf {line} {head} "$$" "{start}" "$(date +%s)" >>{shlex.quote(str(self.path))}'

    def tells_in_shell(self, name: str) -> str:
        """A shell command that succeeds when a process of this name was recorded before."""
        return f"grep -q {shlex.quote('^' + json.dumps({'name': name})[:-1] + ',')} {shlex.quote(str(self.path))}"

    def read(self) -> tuple[Recorded, ...]:
        """Every process in the book, oldest first; lines that were cut short are passed over."""
        try:
            lines = self.path.read_text("ascii", errors="replace").splitlines()
        except FileNotFoundError:
            return ()
        return tuple(entry for line in lines if (entry := _read_line(line)) is not None)

    def clear(self) -> None:
        """The book is empty."""
        self.path.unlink(missing_ok=True)

    def last(self, name: str) -> Recorded | None:
        """The newest process of that name."""
        return next((item for item in reversed(self.read()) if item.name == name), None)


def _await_command(process: psutil.Process) -> tuple[str, ...]:
    """Its command line, which a process has not for a moment while it becomes another program."""
    deadline_s = time.monotonic() + _BECOME_TIMEOUT_S
    while not (words := tuple(process.cmdline())) and time.monotonic() < deadline_s:
        time.sleep(_POLL_S)
    return words


def _read_line(line: str) -> Recorded | None:
    with contextlib.suppress(ValueError, TypeError, KeyError):
        plain = json.loads(line)
        return Recorded(
            name=str(plain["name"]),
            pid=int(plain["pid"]),
            boot=str(plain["boot"]),
            start=_read_start(str(plain["start"])),
            started_s=float(plain["started_s"]),
            command=tuple(str(word) for word in plain["command"]),
            script=str(plain.get("script", "")),
        )
    return None


def _read_start(said: str) -> str:
    """The start as `identify` says it; where there is no /proc, a shell has it from `ps` as a date."""
    if sys.platform == "linux":
        return said
    with contextlib.suppress(ValueError):
        import calendar  # noqa: PLC0415  # not on Linux

        return str(calendar.timegm(time.strptime(said, "%a %b %d %H:%M:%S %Y")))
    return said


def identify(pid: int) -> tuple[str, str] | None:
    """Boot and start of the living process with this pid; None when there is none, or only its unreaped rest."""
    if sys.platform == "linux":
        # Wall-clock times of starts move when the clock is set; the kernel's ticks do not.
        try:
            fields = Path(f"/proc/{pid}/stat").read_text("ascii", errors="replace").rpartition(")")[2].split()
        except OSError:
            return None
        return None if fields[0] in "ZX" else (read_boot(), fields[19])
    try:
        process = psutil.Process(pid)
        is_gone = process.status() == psutil.STATUS_ZOMBIE
        return None if is_gone else (read_boot(), str(int(process.create_time())))
    except psutil.Error:
        return None


@cache
def read_boot() -> str:
    """What names this boot of this machine."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return f"{psutil.boot_time():.0f}"


def _list_executables(program: str) -> tuple[str, ...]:
    """What may be the executable of a process that was started with this first word: a script runs another one."""
    path = shutil.which(program) or program
    found = [os.path.realpath(path)]
    with contextlib.suppress(OSError), Path(path).open("rb") as file:
        first = file.read(_SHEBANG_BYTES).partition(b"\n")[0].decode(errors="replace")
        if first.startswith("#!") and (words := first[2:].split()):
            name = words[-1] if words[0].endswith("/env") else words[0]
            found.append(os.path.realpath(shutil.which(name) or name))
    return tuple(found)


def find_survivors(book: ProcessBook, *, spare: frozenset[int] = frozenset()) -> tuple[psutil.Process, ...]:
    """Processes of the box that live, without this one and those to spare (and their groups)."""
    spared = spare | {os.getpid()}
    alive = [item for item in book.read() if item.pid not in spared and item.is_alive()]
    pids = {item.pid for item in alive}
    groups = {item.pid for item in alive if item.name != SUPERVISOR}
    found = []
    for process in psutil.process_iter():
        if process.pid in spared:
            continue
        with contextlib.suppress(psutil.Error, OSError):
            group = os.getpgid(process.pid)
            if group in spared:
                continue
            is_ours = process.pid in pids or group in groups or _is_marked(process, book.folder)
            if is_ours and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return tuple(found)


def _is_marked(process: psutil.Process, folder: Path) -> bool:
    try:
        return process.environ().get(MARK) == str(folder) and _is_in_our_space(process.pid)
    except (psutil.Error, OSError):
        return False


def _is_in_our_space(pid: int) -> bool:
    """Whether it counts pids as we do: a container's box may have a folder of the same name."""
    if sys.platform != "linux":
        return True
    return Path(f"/proc/{pid}/ns/pid").readlink() == Path("/proc/self/ns/pid").readlink()


def kill_survivors(book: ProcessBook, *, spare: frozenset[int] = frozenset(), timeout_s: float = 5.0) -> int:
    """No process of the box is left, but those to spare; how many there were.

    Raises StackError when one outlives SIGKILL by that long: it hangs in the kernel, or is another user's.
    """
    deadline_s = time.monotonic() + timeout_s
    count = 0
    while survivors := find_survivors(book, spare=spare):
        count = max(count, len(survivors))
        for process in survivors:
            with contextlib.suppress(psutil.Error):
                process.kill()
        if time.monotonic() > deadline_s:
            left = ", ".join(str(process.pid) for process in survivors)
            raise StackError(f"still alive after SIGKILL: pid {left}", hint="bv3-box down tries it again")
        time.sleep(_POLL_S)
    return count


def kill_group(pid: int) -> None:
    """The group that this process led is gone, or was already."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
