"""Beats: the box's life sign every 5 s, on a thread of its own, since PostgreSQL may hang."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import structlog

from broker.errors import DatabaseError
from broker.store.box_client import BeatAnswer, BoxClient
from workers.clock import note_offset

log = structlog.get_logger(__name__)

BEAT_EVERY_S = 5.0
# Beats right after a change are worth it, a storm of them is not.
LEAST_GAP_S = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Sign:
    """What a beat says."""

    phase: str
    facts: dict[str, Any]


@dataclass(slots=True)
class Pulse:
    """Beats until stopped. `look` gives what to say, `hear` takes each answer; both run on the beat's thread."""

    client: BoxClient
    token: UUID
    look: Callable[[], Sign]
    hear: Callable[[BeatAnswer], None]
    # where the farm's clock is noted
    folder: Path
    read_clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    _events: queue.SimpleQueue[dict[str, str]] = field(default_factory=queue.SimpleQueue)
    _unsent: list[dict[str, str]] = field(default_factory=list)
    _hurry: threading.Event = field(default_factory=threading.Event)
    _hurries: int = 0
    _ending: bool = False
    _thread: threading.Thread | None = None

    def open(self) -> None:
        """The first beat is on its way."""
        self._thread = threading.Thread(target=self._run, name="beats", daemon=True)
        self._thread.start()

    def add_event(self, kind: str, **facts: str) -> None:
        """The next beat that is answered carries this event."""
        self._events.put({"kind": kind, "at": datetime.now(UTC).isoformat(timespec="milliseconds"), **facts})

    def beat_now(self, *, times: int = 1) -> None:
        """That many beats go out as soon as may be, each with a fresh look."""
        self._hurries = max(self._hurries, times)
        self._hurry.set()

    def finish(self, attempt: int) -> None:
        """The farm knows that the attempt is finished. Only for `hear`. Raises DatabaseError."""
        self.client.step(attempt, self.token, "finished")

    def close(self, timeout_s: float = 15.0) -> None:
        """One last beat has been tried."""
        self._ending = True
        self._hurry.set()
        if self._thread is not None:
            self._thread.join(timeout_s)

    def _run(self) -> None:
        while not self._ending:
            begun_s = time.monotonic()
            self._beat()
            if self._hurries <= 0:
                self._hurry.wait(max(0.0, begun_s + BEAT_EVERY_S - time.monotonic()))
            self._hurry.clear()
            self._hurries -= 1
            if not self._ending:
                time.sleep(max(0.0, begun_s + LEAST_GAP_S - time.monotonic()))
        self._beat()

    def _beat(self) -> None:
        while not self._events.empty():
            self._unsent.append(self._events.get())
        try:
            sign = self.look()
            sent_at = self.read_clock()
            facts = {**sign.facts, "events": self._unsent, "clock": sent_at.isoformat()}
            answer = self.client.beat(self.token, sign.phase, facts)
            self._unsent = []
            self._note_clock(answer, sent_at)
            self.hear(answer)
        except DatabaseError as error:
            log.warning("no answer to a beat", cause=error.message)
        except Exception:
            # A box that stops beating is lost; whatever this was, the next beat may go well.
            log.exception("bug in a beat")

    def _note_clock(self, answer: BeatAnswer, sent_at: datetime) -> None:
        answered_at = self.read_clock()
        if answer.now is None:
            return
        try:
            note_offset(self.folder, answer.now, sent_at, answered_at)
        except OSError as error:
            # a full disk must not hide the farm's answer
            log.warning("the farm's clock can't be noted", cause=str(error))
