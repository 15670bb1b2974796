"""The stack as its supervisor keeps it: booted, watched, healed, a part started anew, and stopped."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import structlog

from broker.errors import StackError
from broker.settings import Manifest
from broker.types import Mode
from workers.boxfile import BoxFile
from workers.events import EventLog
from workers.processes import SUPERVISOR, ProcessBook, kill_survivors
from workers.stack.driver import make_driver
from workers.stack.facts import StackFacts

log = structlog.get_logger(__name__)

# Of the box, and no part of its stack.
NO_PARTS = frozenset({SUPERVISOR, "supervisord", "worker", "verification", "health-check"})


class StackKeeper:
    """One stack from its boot to its end."""

    def __init__(
        self, box: BoxFile, manifest: Manifest, book: ProcessBook, events: EventLog, *, mode: Mode, lock_fd: int
    ) -> None:
        self._book = book
        self._events = events
        self._driver = make_driver(box, manifest, book, mode=mode, lock_fd=lock_fd, announce=self._hear_part)
        self._seen = 0
        self.facts: StackFacts | None = None
        # those that have answered a real request since the boot began
        self.parts_up: tuple[str, ...] = ()

    def boot(self, *, give_up: Callable[[], bool]) -> None:
        """The stack is healthy. Raises StackError naming the part that is not."""
        begun_s = time.monotonic()
        self.parts_up = ()
        self.facts = None
        facts = self._driver.boot(give_up=give_up)
        seconds = round(time.monotonic() - begun_s, 1)
        log.info("stack is healthy", revision=facts.revision, mode=facts.mode.value, seconds=seconds)
        self._events.add("booted", mode=facts.mode.value, revision=facts.revision, seconds=str(seconds))
        self._seen = len(self._book.read())
        self.facts = facts

    def is_watched(self) -> bool:
        """Whether something starts again what ends; without it the stack must be booted anew."""
        return self._driver.is_alive()

    def clear(self) -> None:
        """Whoever watched over the parts has died: nothing of the stack is left."""
        log.warning("the stack's supervisor died")
        self._events.add("stack_died")
        self.facts = None
        try:
            self._driver.stop()
        except StackError as error:
            log.warning("stack", cause=error.message)
        kill_survivors(self._book, spare=frozenset({os.getpid()}))

    def restart(self, part: str) -> None:
        """The part is started anew and healthy again. Raises UsageError when there is no such part, StackError."""
        begun_s = time.monotonic()
        self._driver.restart(part)
        seconds = round(time.monotonic() - begun_s, 1)
        log.info("part started anew, as asked", part=part, seconds=seconds)
        self._events.add("restart_asked", part=part, seconds=str(seconds))

    def heal(self, reason: str) -> None:
        """A part that hangs, behind this refusal, is started anew."""
        if (part := self._driver.heal(reason)) is not None:
            log.warning("part started anew", part=part, reason=reason)
            self._events.add("healed", part=part, reason=reason)

    def notice_restarts(self) -> bool:
        """Each part that was started again since the last call is told of; whether any was."""
        processes = self._book.read()
        again = [item for item in processes[self._seen :] if item.name not in NO_PARTS]
        self._seen = len(processes)
        for item in again:
            log.warning("part restarted", part=item.name, pid=item.pid)
            self._events.add("part_restarted", part=item.name, pid=str(item.pid))
        return bool(again)

    def stop(self) -> None:
        """Nothing of the stack is left. Raises StackError naming what stayed."""
        self.facts = None
        self._driver.stop()

    def _hear_part(self, part: str) -> None:
        self.parts_up = (*self.parts_up, part)
