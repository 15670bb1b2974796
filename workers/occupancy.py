"""Who is at work on a box's product just now: a run of the farm's, or somebody by hand."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from broker.errors import BoxHeldError
from workers.journal import Journal
from workers.processes import ProcessBook

# A preflight and a start are over by then; what the farm's silence left in the journal is older.
_ARRIVAL_S = 60.0
_LOCK = "by-hand.lock"


def find_run(folder: Path) -> str:
    """The farm's run that is between its arrival and its record on the box with this folder; empty without one.

    A run is in the journal before its preflight asks `find_handwork`, and `occupy` precedes this: of two that begin
    at the same moment at least one sees the other.
    """
    path = folder / "journal.sqlite"
    if not path.exists():
        return ""
    journal = Journal(path)
    try:
        entry = journal.read_running() or journal.read_arriving(since_s=time.monotonic() - _ARRIVAL_S)
    finally:
        journal.close()
    return f"{entry.sweep} {entry.name}" if entry else ""


def is_worked(folder: Path) -> bool:
    """Whether a worker takes runs from the box's queue."""
    worker = ProcessBook(folder=folder).last("worker")
    return worker is not None and worker.is_alive()


@contextmanager
def occupy(folder: Path, doing: str) -> Iterator[None]:
    """Within the block this process alone works on the product by hand, and no run of the farm's begins.

    A run's preflight finds it (`find_handwork`). Raises BoxHeldError naming who has it.
    """
    with (folder / _LOCK).open("a+") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid, said = _read(held)
            raise BoxHeldError(
                f"{said or 'another command'} works on this box's product", holder={"pid": pid}
            ) from None
        held.seek(0)
        held.truncate()
        held.write(f"{os.getpid()} {doing}")
        held.flush()
        yield


def find_handwork(folder: Path) -> str:
    """What another process does on the product by hand, with its pid; empty when none does."""
    try:
        held = (folder / _LOCK).open("r")
    except FileNotFoundError:
        return ""
    with held:
        try:
            fcntl.flock(held, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            pid, said = _read(held)
            return "" if pid == os.getpid() else f"{said or 'something'} by hand (pid {pid})"
    return ""


def _read(held: IO[str]) -> tuple[int, str]:
    held.seek(0)
    pid, _, doing = held.read().partition(" ")
    return (int(pid) if pid.isdecimal() else 0), doing
