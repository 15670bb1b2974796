"""A box's life from outside: brought up, followed, put to work. Its end is `workers.ending`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from broker.errors import EXIT_INTERRUPTED, EXIT_OK, BoxHeldError, ServiceError, StackError, UsageError
from broker.types import Mode
from workers.boxfile import BoxFile
from workers.boxrules import STAND_INS
from workers.control import NO_FARM_HINT, ask
from workers.ending import end_by_book
from workers.lock import LOCK_VARIABLE, Holder, is_locked, lock_folder, name_holder
from workers.outcome import read_outcome
from workers.stack.parts import REPOSITORY

LOG = "box.log"
_POLL_S = 0.1
_GIVE_UP_S = 20.0
# From a supervisor's birth until it answers: its imports, on a busy machine.
_BEGIN_S = 30.0
# Of the supervisor: a part may take a minute to come up before it is asked anything else.
_ORDER_TIMEOUT_S = 120.0

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A box that is up."""

    # it was up before we came
    was_up: bool
    parts: tuple[str, ...]
    seconds: float
    works: bool


def bring_up(box: BoxFile, box_file: Path, *, mode: Mode, works: bool, say: Say) -> Arrival:
    """The box is up in this mode, its stack healthy, and at work if it shall be; `say` hears of each part.

    Raises UsageError when it is up in the other mode, StackError with the cause when it does not come up: whatever
    was started has been ended then. On KeyboardInterrupt too.
    """
    if works and not box.has_farm:
        raise UsageError(f"box {box.name} belongs to no farm, so there is no queue to work", hint=NO_FARM_HINT)
    began_s = time.monotonic()
    seen = _await_answer(box)
    if seen is None:
        if mode is Mode.LIVE and box.stack in STAND_INS:
            raise UsageError(f"the stack {box.stack} is a stand-in and only runs dry", hint="bv3-box up dry")
        with _started(box, box_file, mode=mode, works=works) as process:
            seen = _follow_boot(box, say, process)
        return Arrival(was_up=False, parts=tuple(seen["parts_up"]), seconds=_since(began_s), works=seen["works"])
    if seen["mode"] != mode.value:
        raise UsageError(f"box {box.name} is up {seen['mode']}, not {mode.value}", hint="bv3-box down ends it first")
    seen = _follow_boot(box, say, None)
    if works and not seen["works"]:
        ask(box.folder, "work", timeout_s=_ORDER_TIMEOUT_S)
    return Arrival(
        was_up=True, parts=tuple(seen["parts_up"]), seconds=_since(began_s), works=works or bool(seen["works"])
    )


def _await_answer(box: BoxFile) -> dict[str, Any] | None:
    """The supervisor's words; one that has just begun is waited for. None without one."""
    deadline_s = time.monotonic() + _BEGIN_S
    while (seen := ask(box.folder, "look")) is None and is_locked(box.folder) and time.monotonic() < deadline_s:
        time.sleep(_POLL_S)
    return seen


@contextmanager
def _started(box: BoxFile, box_file: Path, *, mode: Mode, works: bool) -> Iterator[subprocess.Popen[bytes]]:
    """A supervisor of its own session. When the block fails, nothing of what it started is left."""
    words = [sys.executable, "-m", "workers.cli", "supervise", mode.value, "--box", str(box_file.absolute())]
    # The lock is taken here and handed on, so that from its birth there is no moment at which `down` would not see it.
    with lock_folder(box.folder, box=box.name) as lock, (box.folder / LOG).open("ab") as log:
        process = subprocess.Popen(
            [*words, *(["--work"] if works else [])],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=REPOSITORY,
            env={**os.environ, LOCK_VARIABLE: str(lock.fileno())},
            pass_fds=[lock.fileno()],
            start_new_session=True,
        )
        name_holder(lock, process.pid, box.name)
    try:
        yield process
    except BaseException:
        _end_what_was_started(box, process)
        raise
    # it lives on without us
    process.returncode = process.returncode or 0


def _end_what_was_started(box: BoxFile, process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(_GIVE_UP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    # not when it was refused because another has the folder
    with suppress(ServiceError):
        end_by_book(box, say=lambda _line: None)


def _follow_boot(box: BoxFile, say: Say, process: subprocess.Popen[bytes] | None) -> dict[str, Any]:
    """The supervisor's words when its stack is healthy. Raises StackError when it has ended before."""
    told = 0
    while True:
        seen = ask(box.folder, "look")
        if seen is not None:
            for part in seen["parts_up"][told:]:
                say(f"{part} is healthy")
            told = len(seen["parts_up"])
            if seen["stage"] == "up":
                return seen
        if process is not None and process.poll() is not None:
            raise _read_failure(box, process)
        if process is None and (seen is None or seen["stage"] != "starting"):
            raise StackError(f"box {box.name} is ending", hint="bv3-box up boots it again when it is down")
        time.sleep(_POLL_S)


def _read_failure(box: BoxFile, process: subprocess.Popen[bytes]) -> StackError:
    outcome = read_outcome(box.folder, pid=process.pid)
    log = box.folder / LOG
    if outcome is None:
        return StackError(f"the supervisor of box {box.name} died ({process.returncode})", hint=f"see {log}")
    if not outcome.cause:
        return StackError(f"box {box.name} was told to end before it was up", hint=f"see {log}")
    return StackError(outcome.cause, hint=outcome.hint or f"see {log}")


def _since(began_s: float) -> float:
    return round(time.monotonic() - began_s, 1)


def follow_work(box: BoxFile, *, say: Say) -> int:
    """The running box works its queue, followed until it ends or the user leaves; the exit code.

    The first interrupt lets the running run finish and ends the work, the stack stays up; the second only leaves.
    Raises BoxHeldError when it works already: whoever made it do so follows it.
    """
    seen = ask(box.folder, "look")
    if seen is not None and seen["works"]:
        holder = Holder(pid=seen["pid"], box=box.name, folder=str(box.folder))
        raise BoxHeldError(
            f"this box is already worked: {holder}",
            holder=holder.describe(),
            hint="bv3-box status shows what it does, bv3-box logs -f follows it",
        )
    ask(box.folder, "work", timeout_s=_ORDER_TIMEOUT_S)
    say(f"box {box.name} works its queue; Ctrl-C finishes the running run and ends the work, the stack stays up")
    try:
        return _follow_phases(box, say=say, is_over=lambda seen: not seen["works"])
    except KeyboardInterrupt:
        say("finishing the running run; Ctrl-C again leaves it to it")
        ask(box.folder, "rest", timeout_s=_ORDER_TIMEOUT_S)
        with suppress(KeyboardInterrupt):
            _follow_phases(box, say=say, is_over=lambda seen: seen["phase"] == "up")
        return EXIT_INTERRUPTED


def _follow_phases(box: BoxFile, *, say: Say, is_over: Callable[[dict[str, Any]], bool]) -> int:
    said = ""
    while (seen := ask(box.folder, "look")) is not None:
        if (line := describe_phase(seen)) != said:
            say(line)
            said = line
        if is_over(seen):
            return EXIT_OK
        time.sleep(_POLL_S)
    say(f"box {box.name} has ended")
    return EXIT_OK


def describe_phase(seen: dict[str, Any]) -> str:
    """What a supervisor does, in a line."""
    run = f" {seen['run']['name']}" if seen["run"] else ""
    detail = f": {seen['detail']}" if seen["detail"] else ""
    return f"{seen['phase']}{run}{detail}"
