"""Processes of a box: recorded as they start, and ended by group, never by name.

Each is the leader of its own group, recorded as (name, pid, start in whole seconds) in the box's folder, and
carries the folder in its environment, so that a member that left its group (a browser does) is found too.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

# Set for every process that a box starts.
MARK = "BV3_BOX_FOLDER"
# `date` rounds down and the kernel counts in ticks.
_START_TOLERANCE_S = 2.0
_POLL_S = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A process as it was when it started."""

    name: str
    pid: int
    started_s: float

    def is_alive(self) -> bool:
        """Whether this very process lives: a pid alone may be somebody else's by now."""
        try:
            process = psutil.Process(self.pid)
            is_same = abs(process.create_time() - self.started_s) <= _START_TOLERANCE_S
            return is_same and process.status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessBook:
    """The file in which a box's processes are recorded, one line each: `name pid start`."""

    folder: Path

    @property
    def path(self) -> Path:
        """The file; a shell may append to it too."""
        return self.folder / "processes"

    def record(self, name: str, pid: int) -> None:
        """The process is in the book."""
        started_s = psutil.Process(pid).create_time()
        with self.path.open("a", encoding="ascii") as file:
            file.write(f"{name} {pid} {started_s:.2f}\n")

    def read(self) -> tuple[Recorded, ...]:
        """Every process in the book, oldest first; lines that were cut short are passed over."""
        try:
            lines = self.path.read_text("ascii", errors="replace").splitlines()
        except FileNotFoundError:
            return ()
        found = []
        for line in lines:
            with contextlib.suppress(ValueError):
                name, pid, started_s = line.split()
                found.append(Recorded(name=name, pid=int(pid), started_s=float(started_s)))
        return tuple(found)

    def clear(self) -> None:
        """The book is empty."""
        self.path.unlink(missing_ok=True)

    def last(self, name: str) -> Recorded | None:
        """The newest process of that name."""
        return next((item for item in reversed(self.read()) if item.name == name), None)


def find_survivors(book: ProcessBook, *, spare: frozenset[int] = frozenset()) -> tuple[psutil.Process, ...]:
    """Processes of the box that live, without this one and those to spare (and their groups)."""
    spared = spare | {os.getpid()}
    groups = {item.pid for item in book.read() if item.is_alive() and item.pid not in spared}
    found = []
    for process in psutil.process_iter():
        if process.pid in spared:
            continue
        with contextlib.suppress(psutil.Error, OSError):
            group = os.getpgid(process.pid)
            if group in spared:
                continue
            is_ours = group in groups or _is_marked(process, book.folder)
            if is_ours and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return tuple(found)


def _is_marked(process: psutil.Process, folder: Path) -> bool:
    try:
        return process.environ().get(MARK) == str(folder)
    except (psutil.Error, OSError):
        return False


def kill_survivors(book: ProcessBook, *, spare: frozenset[int] = frozenset(), timeout_s: float = 5.0) -> int:
    """No process of the box is left, but those to spare; how many there were.

    Raises TimeoutError when one outlives SIGKILL by that long (it hangs in the kernel).
    """
    deadline_s = time.monotonic() + timeout_s
    count = 0
    while survivors := find_survivors(book, spare=spare):
        count = max(count, len(survivors))
        for process in survivors:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"still alive after SIGKILL: {', '.join(str(p.pid) for p in survivors)}")
        time.sleep(_POLL_S)
    return count


def kill_group(pid: int) -> None:
    """The group that this process led is gone, or was already."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
