"""Ending a box: through its supervisor while that lives, else by what was written down. Nothing else is touched."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil

from broker.errors import ServiceError, StackError
from broker.types import WALL_LIMIT_S
from workers import control
from workers.boxfile import BoxFile
from workers.control import ask
from workers.lock import find_holder, is_locked, lock_folder, read_folder_lock
from workers.machine import describe_process, find_holders, list_listeners
from workers.processes import SUPERVISOR, ProcessBook, find_survivors, identify, kill_survivors
from workers.scratch import drop_scratch, find_scratch
from workers.sockets import drop_sockets, find_socket, short_folder
from workers.stack import parts
from workers.stack.driver import facts_path, folder_of

# After its run a supervisor stores the record, stops the stack and says that it is gone.
_END_TIMEOUT_S = 60.0
_END_NOW_TIMEOUT_S = 30.0
# From a supervisor's birth until it answers: its imports, on a busy machine.
_BEGIN_S = 30.0
_KILL_TIMEOUT_S = 10.0
_POLL_S = 0.05

Say = Callable[[str], None]


def bring_down(box: BoxFile, *, now: bool, say: Say) -> None:
    """Nothing of the box is left: no process, no port, no lock, no temporary folder.

    What others have is left alone, and said. Raises StackError naming what could not be ended.
    """
    if not box.folder.is_dir():
        return
    _end_supervisor(box, now=now, say=say)
    end_by_book(box, say=say)


def end_by_book(box: BoxFile, *, say: Say) -> None:
    """As `bring_down`, of a box that no supervisor answers for. Raises BoxHeldError when one does."""
    with lock_folder(box.folder, box=box.name):
        book = ProcessBook(folder=box.folder)
        if killed := kill_survivors(book):
            say(f"ended {killed} processes that were left")
        book.clear()
        facts_path(box).unlink(missing_ok=True)
        drop_sockets(box.folder, control.SOCKET)
        drop_sockets(folder_of(box), parts.SOCKET)
        drop_scratch(box.folder)
        if left := list_left(box, say=say):
            raise StackError(f"box {box.name} is not ended: {'; '.join(left)}", hint="bv3-box down tries it again")


def list_left(box: BoxFile, *, say: Say = lambda _line: None) -> list[str]:
    """What of the box is still there. `say` hears of ports that other processes have: they are none of ours."""
    book = ProcessBook(folder=box.folder)
    left = [f"process {one.pid} ({describe_process(one.pid)})" for one in find_survivors(book)]
    left += list(_judge_ports(box, say))
    if find_holder(box.lock_name).folder == str(box.folder):
        left.append(f"the host lock {box.lock_name}")
    places = [find_socket(box.folder, control.SOCKET), find_socket(folder_of(box), parts.SOCKET)]
    places += [short_folder(box.folder), short_folder(folder_of(box))]
    places += [found] if (found := find_scratch(box.folder)) else []
    return left + [str(place) for place in places if place.exists()]


def _judge_ports(box: BoxFile, say: Say) -> Iterator[str]:
    """Ports of the stack that somebody holds whom we can't name: it may be what we should have ended."""
    named = {port: name for name, port in box.list_own_ports().items()}
    for item in list_listeners(named):
        what = f"port {item.port} ({named[item.port]})"
        if holders := find_holders([item]):
            say(f"{what} is another's and left alone: {describe_process(holders[0])}")
        else:
            yield f"{what}, held by a process that this user can't see"


def _end_supervisor(box: BoxFile, *, now: bool, say: Say) -> None:
    """No supervisor has the folder any more: it has ended, or was killed when it did not in time."""
    if not is_locked(box.folder):
        return
    pid, _ = read_folder_lock(box.folder)
    identity = identify(pid)
    _free_folder(box, now=now, say=say)
    # it has let go of the folder a moment before its end
    deadline_s = time.monotonic() + _KILL_TIMEOUT_S
    while identity is not None and identify(pid) == identity:
        if time.monotonic() > deadline_s:
            raise _name_stuck(box, pid)
        time.sleep(_POLL_S)


def _free_folder(box: BoxFile, *, now: bool, say: Say) -> None:
    """No process has the folder's lock."""
    patience_s = _ask_to_end(box, now=now, say=say)
    if patience_s is not None and _await_free(box.folder, patience_s):
        return
    if patience_s is not None and not now:
        say(f"not ended within {patience_s:.0f} s: ending it at once")
        with suppress(ServiceError):
            ask(box.folder, "end_now")
        if _await_free(box.folder, _END_NOW_TIMEOUT_S):
            return
    _kill_supervisor(box)


def _ask_to_end(box: BoxFile, *, now: bool, say: Say) -> float | None:
    """How long to wait for it; None when it stands still."""
    deadline_s = time.monotonic() + _BEGIN_S
    try:
        while (seen := ask(box.folder, "look")) is None:
            # it has just begun, or is just ending
            if not is_locked(box.folder):
                return 0.0
            if time.monotonic() > deadline_s:
                return None
            time.sleep(_POLL_S)
        ask(box.folder, "end_now" if now else "end")
    except ServiceError as error:
        say(f"{error.message}: it is killed")
        return None
    run = seen["run"]
    # A box that was told to rest or to drain works no queue any more and may finish its last run all the same.
    if now or not (seen["works"] or run or seen["phase"] == "draining"):
        return _END_NOW_TIMEOUT_S if now else _END_TIMEOUT_S
    if run or seen["phase"] == "running":
        say(f"finishing {run['name'] if run else 'the run that begins'} first; --now does not")
    # also without one: it may begin before the supervisor hears of the end
    return float(run["wall_limit_s"] if run else WALL_LIMIT_S) + _END_TIMEOUT_S


def _kill_supervisor(box: BoxFile) -> None:
    _signal_supervisor(box, signal.SIGKILL)
    if not _await_free(box.folder, _KILL_TIMEOUT_S):
        raise _name_stuck(box, read_folder_lock(box.folder)[0])


def _name_stuck(box: BoxFile, pid: int) -> StackError:
    return StackError(
        f"the supervisor of box {box.name} (pid {pid} on host {socket.gethostname()}) does not end",
        hint="look at it by hand: it hangs in the kernel, or is another user's",
    )


def _signal_supervisor(box: BoxFile, number: int) -> None:
    """The supervisor that has the folder's lock has the signal: the process that wrote itself down there."""
    pid, _ = read_folder_lock(box.folder)
    recorded = ProcessBook(folder=box.folder).last(SUPERVISOR)
    is_recorded = recorded is not None and recorded.pid == pid and recorded.is_alive()
    if is_recorded or _holds_lock(pid, box.folder):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _holds_lock(pid: int, folder: Path) -> bool:
    """Whether this process has the folder's lock file open: one that has not come to its book yet."""
    with suppress(psutil.Error, OSError):
        return any(Path(file.path).parent == folder for file in psutil.Process(pid).open_files())
    return False


def _await_free(folder: Path, timeout_s: float) -> bool:
    deadline_s = time.monotonic() + timeout_s
    while is_locked(folder):
        if time.monotonic() > deadline_s:
            return False
        time.sleep(_POLL_S)
    return True
