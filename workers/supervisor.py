"""The one process that answers for a box: it keeps the stack, and, in a farm, holds the lease and one worker.

It is `up` (the stack is kept alive, no queue is worked) or at work. It runs no order itself, so nothing that an
order does can stop it. It can be asked over a socket in the box's folder (`workers.control`).
"""

from __future__ import annotations

import os
import select
import signal
import socket
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import structlog

from broker.errors import EXIT_INTERRUPTED, EXIT_OK, EXIT_SERVICE, Bv3Error, StackError, UsageError
from broker.holds import say_what_ends
from broker.markers import name_catalogue
from broker.ready import tell_ready
from broker.settings import Manifest
from broker.types import Mode
from workers.boxfile import BoxFile
from workers.checks import HealthCheck, Verifier
from workers.control import NO_FARM_HINT, ControlServer, Request
from workers.events import EventLog
from workers.farmside import FarmSide
from workers.holding import Holding
from workers.lease import end_predecessor
from workers.lock import LOCK_VARIABLE, bind_host_lock, inherit_folder_lock, lock_folder
from workers.processes import ProcessBook, kill_survivors
from workers.scratch import drop_scratch, make_scratch
from workers.stack.facts import StackFacts
from workers.stackkeeper import StackKeeper

log = structlog.get_logger(__name__)

LOOK_EVERY_S = 1.0
# Before the stack is booted once more, when that has failed in the middle of the box's life.
_BOOT_PAUSES_S = (5.0, 15.0, 30.0)


@dataclass(slots=True)
class Told:
    """What this supervisor has been told. Set by signals and by the control socket, read by the main loop."""

    drain: bool = False
    stop_now: bool = False


class Supervisor:
    """One box. `run` ends everything that it started before it returns."""

    def __init__(
        self, box: BoxFile, box_file: Path, manifest: Manifest, *, mode: Mode = Mode.DRY, works: bool = True
    ) -> None:
        if works and not box.has_farm:
            raise UsageError(f"box {box.name} belongs to no farm, so there is no queue to work", hint=NO_FARM_HINT)
        self._box = box
        self._mode = mode
        self._manifest = manifest
        self._works = works
        self._book = ProcessBook(folder=box.folder)
        self._events = EventLog(box.folder)
        self._told = Told()
        self._holding = Holding(box.folder)
        self._holds = self._list_holds()
        self._verifier = Verifier(box.folder, self._book, self._events.add)
        self._stack: StackKeeper | None = None
        self._stage = "starting"
        self._began_s = time.time()
        self._run: dict[str, Any] | None = None
        self._farm: FarmSide | None = None
        if box.has_farm:
            self._farm = FarmSide(
                box,
                box_file,
                self._book,
                self._events,
                self._holding,
                name_phase=self._name_phase,
                describe=self._describe,
                wake=self._wake_up,
            )
        self._health = HealthCheck(box_file, self._book, self._note_health)
        # what wakes the main loop: a signal, the beat's thread, or the control socket's
        self._waker, self._woken = socket.socketpair()
        for end in (self._waker, self._woken):
            end.setblocking(False)  # noqa: FBT003  # the socket module has no name for it

    def run(self) -> int:
        """The box has been up until it was told to end; the exit code.

        Raises BoxHeldError when another process has it, DatabaseError when the farm is away at the start,
        StackError when the stack does not come up.
        """
        box = self._box
        with ExitStack() as held:
            held.enter_context(_take_folder(box))
            self._install_signals()
            end_predecessor(self._book)
            held.callback(drop_scratch, box.folder)
            make_scratch(box.folder)
            control = held.enter_context(
                ControlServer(box.folder, look=self._look, hear=self._hear_end, wake=self._wake_up)
            )
            # the predecessor's stack held it until it was gone
            lock = bind_host_lock(box.lock_name)
            held.callback(lock.release)
            if self._farm is not None:
                self._farm.open(held)
            tell_ready()
            self._stack = StackKeeper(box, self._manifest, self._book, self._events, mode=self._mode, lock_fd=lock.fd)
            self._live(self._stack, control)
        if self._farm is not None and self._farm.is_stale:
            return EXIT_SERVICE
        return EXIT_INTERRUPTED if self._told.stop_now else EXIT_OK

    def _live(self, stack: StackKeeper, control: ControlServer) -> None:
        if self._farm is not None:
            self._farm.begin()
        try:
            if self._farm is not None and self._works:
                self._farm.work(is_stack_healthy=False)
            self._boot(stack)
            self._loop(stack, control)
        except StackError:
            if not self._told.drain:
                raise
        finally:
            self._end(stack)

    def _boot(self, stack: StackKeeper) -> None:
        self._stage = "starting"
        self._verifier.forget()
        stack.boot(give_up=self._is_over)
        self._stage = "up"
        if self._farm is not None:
            if self._farm.wants_work:
                self._farm.work(is_stack_healthy=True)
            self._farm.beat_now()

    def _loop(self, stack: StackKeeper, control: ControlServer) -> None:
        while not self._is_over():
            farm = self._farm
            if self._told.drain:
                if farm is None or farm.is_resting:
                    return
                farm.rest()
            self._sleep()
            for request in control.take():
                self._answer(stack, request)
            if farm is not None:
                farm.look_after(is_stack_healthy=stack.facts is not None)
                self._note_run(farm)
            stack.notice_restarts()
            self._notice_holds()
            if not stack.is_watched():
                self._boot_again(stack)
            self._look_after_checks(stack)
            if farm is not None and (reason := farm.take_stuck()) is not None:
                stack.heal(reason)

    def _is_over(self) -> bool:
        """Whether the box ends now: told so at once, told so before its stack was up, or no longer its own."""
        is_stale = self._farm is not None and self._farm.is_stale
        return is_stale or self._told.stop_now or (self._told.drain and self._stage == "starting")

    def _sleep(self) -> None:
        """Until something happens, or it is time to look."""
        sources = [self._woken.fileno()]
        if self._farm is not None and (news := self._farm.news_fd) is not None:
            sources.append(news)
        select.select(sources, [], [], LOOK_EVERY_S)
        with suppress(BlockingIOError):
            while self._woken.recv(64):
                pass

    def _answer(self, stack: StackKeeper, request: Request) -> None:
        try:
            if request.word == "restart":
                stack.restart(request.part)
            elif request.word == "work":
                self._work()
            elif request.word == "rest":
                if self._farm is not None:
                    self._farm.rest()
            else:
                raise UsageError(f"the box can't be asked to {request.word}")  # one way of refusing
        except Bv3Error as error:
            request.refuse(error)
        else:
            request.accept()

    def _work(self) -> None:
        if self._farm is None:
            raise UsageError(
                f"box {self._box.name} belongs to no farm, so there is no queue to work", hint=NO_FARM_HINT
            )
        if self._told.drain:
            raise UsageError("the box is ending", hint="bv3-box up boots it again")
        self._farm.work(is_stack_healthy=True)

    def _boot_again(self, stack: StackKeeper) -> None:
        """Whoever watched over the parts has died: all of them are started anew, and the worker with them."""
        for pause_s in (*_BOOT_PAUSES_S, None):
            self._stage = "starting"
            stack.clear()
            if self._farm is not None:
                self._farm.replace_worker()
            try:
                self._boot(stack)
            except (Bv3Error, OSError) as error:
                # also what the product answers while its backend is started anew
                if pause_s is None or self._is_over():
                    raise
                log.warning("not up again", cause=str(error))
                self._events.add("boot_failed", cause=str(error))
                select.select([self._woken.fileno()], [], [], pause_s)
            else:
                return

    def _look_after_checks(self, stack: StackKeeper) -> None:
        farm, facts = self._farm, stack.facts
        if facts is None:
            return
        # a tree with changes of its own has a revision that says nothing of what it prints
        is_wanted = farm is None or farm.is_verified is False or facts.tree_clean is False
        found = self._verifier.look_after(facts, is_wanted=is_wanted)
        if found is not None:
            self._events.add("verified", alive=str(found["alive"]), total=str(found["total"]))
            if farm is not None:
                farm.tell_verified(found)

        self._health.look_after(self._holding.wanted_check, may_start=self._run is None)

    def _list_holds(self) -> list[dict[str, str]]:
        found = self._holding.holds
        return [{"kind": hold.kind, "reason": hold.reason, "ends": say_what_ends(hold.kind)} for hold in found]

    def _notice_holds(self) -> None:
        """A hold that has begun or ended is an event, and the farm hears at once of the box's own."""
        before, self._holds = self._holds, self._list_holds()
        for hold in self._holds:
            if hold not in before:
                self._events.add("held", hold=hold["kind"], reason=hold["reason"])
        for hold in before:
            if hold not in self._holds:
                self._events.add("lifted", hold=hold["kind"], reason=hold["reason"])
        if before != self._holds and self._farm is not None:
            self._farm.beat_now()

    def _note_health(self, hold: int, passed: bool, detail: str) -> None:  # noqa: FBT001  # a callback's order
        self._holding.note_check(hold, passed, detail)
        self._events.add("health_checked", hold=str(hold), passed=str(passed).lower(), detail=detail)

    def _end(self, stack: StackKeeper) -> None:
        """Nothing of the box is left, its records are stored if the farm is there, and it has said that it is gone."""
        self._stage = "ending"
        self._health.close()
        self._verifier.close()
        if self._farm is not None:
            self._farm.kill_worker()
        try:
            stack.stop()
        except StackError as error:
            log.error("stack", cause=error.message)  # noqa: TRY400  # what follows ends it
        # before the last beat, which takes it to the farm
        self._events.add("ended")
        if self._farm is not None:
            self._farm.save(at_once=self._told.stop_now)
            self._stage = "gone"
            self._farm.close()
        kill_survivors(self._book)
        self._book.clear()

    def _note_run(self, farm: FarmSide) -> None:
        entry = farm.read_running()
        self._run = (
            {
                "name": f"{entry.sweep} {entry.name}",
                "attempt": entry.attempt,
                "age_s": round(time.monotonic() - entry.since_s, 1),
                "wall_limit_s": entry.wall_limit_s,
            }
            if entry
            else None
        )

    def _look(self) -> dict[str, Any]:
        """What `bv3-box status` shows of the supervisor. Runs on the control socket's thread."""
        stack, farm = self._stack, self._farm
        doing = farm.doing if farm else None
        now_s = time.monotonic()
        return {
            "box": self._box.name,
            "pid": os.getpid(),
            "began_s": self._began_s,
            "mode": self._mode.value,
            "stage": self._stage,
            "phase": self._name_phase(),
            "detail": doing.detail if doing else "",
            "phase_age_s": round(now_s - doing.since_s, 1) if doing else None,
            "consumer_age_s": round(now_s - doing.heard_s, 1) if doing else None,
            "works": bool(farm and farm.wants_work),
            "run": self._run,
            "parts_up": list(stack.parts_up) if stack else [],
            "holds": self._holds,
            "lease": farm.describe_lease() if farm else None,
        }

    def _name_phase(self) -> str:
        """In one word, as beats tell it: gone, draining, or what the worker does; `up` without one."""
        farm = self._farm
        doing = farm.doing if farm else None
        if self._stage == "gone":
            return "gone"
        if self._told.drain or self._stage == "ending" or (farm and doing and not farm.wants_work):
            return "draining"
        if doing is not None:
            return doing.phase
        return "up" if self._stage == "up" else "starting"

    def _describe(self) -> dict[str, Any]:
        """What beats tell of box and stack."""
        box = self._box
        told = {"mode": self._mode.value, "stack": box.stack, "renderer": box.renderer, "lane": box.lane}
        facts: StackFacts | None = self._stack.facts if self._stack else None
        if facts is None:
            return told
        build = {"revision": facts.revision, "tree_clean": facts.tree_clean, "catalogue_sha256": name_catalogue()}
        return {**told, **build}

    def _install_signals(self) -> None:
        signal.set_wakeup_fd(self._waker.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            # nohup has it ignored
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._take_signal)

    def _take_signal(self, *_: object) -> None:
        """The first one drains, the second one stops at once."""
        self._told.stop_now = self._told.drain
        self._told.drain = True

    def _hear_end(self, word: str) -> None:
        self._told.stop_now = self._told.stop_now or word == "end_now"
        self._told.drain = True

    def _wake_up(self) -> None:
        with suppress(BlockingIOError):
            self._waker.send(b"x")


def _take_folder(box: BoxFile) -> IO[str]:
    fd = os.environ.pop(LOCK_VARIABLE, None)
    return lock_folder(box.folder, box=box.name) if fd is None else inherit_folder_lock(int(fd), box=box.name)
