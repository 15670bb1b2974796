"""One order from arrival to record: preflight, start, then the phases on the product, and always a record."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import structlog

from broker.errors import Bv3Error, DatabaseError, StackError
from broker.store.box_client import StartAnswer
from broker.types import Phase, PhaseSpan, RunOrder
from workers import attempt as steps
from workers.attempt import Bench, Trail
from workers.cleaning import NotCleanError
from workers.client.errors import BackendAwayError, BackendRefusedError, CommandFailedError, ProductError
from workers.farm import FarmDoor
from workers.journal import Entry, RunState
from workers.preflight import Readiness, Refusal
from workers.record import BoxFacts, Notes, build_record, encode_record

T = TypeVar("T")
log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    """Runs one order at a time. `announce` tells whoever watches which phase has begun."""

    bench: Bench
    farm: FarmDoor
    box: BoxFacts
    announce: Callable[[str], None]
    make_nonce: Callable[[], str]
    # why the box is drained by its own word, which the farm may not have heard yet
    read_drained: Callable[[], str | None]

    def run(self, order: RunOrder) -> Refusal | None:
        """The order is done with: recorded, handed back, or known already. A refusal is returned."""
        arrived_s = time.monotonic()
        entry = self.bench.journal.intend(
            order.run,
            order.dispatch,
            nonce=self.make_nonce(),
            sweep=order.sweep,
            name=order.name,
            since_s=arrived_s,
            wall_limit_s=order.wall_limit_s,
        )
        if entry.state is not RunState.INTENT:
            log.info("known already", state=entry.state)
            if entry.state is RunState.RELEASED:
                # the farm did not hear it, or it would not send it again
                self.farm.release(order, "handed back before")
            return None
        clock = _Clock(arrived_s=arrived_s)
        try:
            with clock.measure(Phase.PREFLIGHT):
                self.announce(Phase.PREFLIGHT)
                ready = self._check(order)
        except Refusal as refusal:
            self._hand_back(order, refusal.message, clock, refused=True)
            return refusal
        with clock.measure(Phase.START):
            answer = self._start(order, entry, clock)
        if answer is not None:
            self._run_attempt(order, entry, answer, ready, clock)
        return None

    def _check(self, order: RunOrder) -> Readiness:
        try:
            return self.bench.preflight.check(order.mode)
        except Refusal:
            raise
        except Bv3Error as error:
            raise Refusal("clean_start", error.message) from error
        except Exception as error:
            # Nobody would hand the order back, and the farm would wait for it for ever.
            log.exception("bug in the preflight")
            raise Refusal("harness", f"{type(error).__name__}: {error}") from error

    def _start(self, order: RunOrder, entry: Entry, clock: _Clock) -> StartAnswer | None:
        """The farm's yes, on disk; None when it said no, or could not be asked: then the order is left."""
        if (drained := self.read_drained()) is not None:
            log.info("not started", reason=f"drained: {drained}")
            self._hand_back(order, f"the box is drained: {drained}", clock, refused=False)
            return None
        try:
            answer = self.farm.start(order, entry.nonce)
        except DatabaseError as error:
            log.warning("the farm does not answer, the order is left", cause=error.message)
            return None
        if not answer.won:
            log.info("not started", reason=answer.reason)
            self._hand_back(order, answer.reason, clock, refused=False)
            return None
        self.bench.journal.mark_started(order.run, order.dispatch, attempt=answer.attempt, attempt_no=answer.attempt_no)
        structlog.contextvars.bind_contextvars(attempt=answer.attempt)
        return answer

    def _hand_back(self, order: RunOrder, reason: str, clock: _Clock, *, refused: bool) -> None:
        self.bench.journal.release(order.run, order.dispatch, reason)
        self.farm.release(order, reason, {"refused": refused, "lost_s": clock.read_s()})

    def _run_attempt(self, order: RunOrder, entry: Entry, answer: StartAnswer, ready: Readiness, clock: _Clock) -> None:
        notes = Notes(order=order, answer=answer, nonce=entry.nonce, mode=ready.mode, probe_before=ready.probe)
        notes.spans = clock.spans
        self._run_phases(notes, clock)
        record = build_record(notes, self.box)
        hashes = tuple(ref.sha256 for ref in notes.evidence)
        self.bench.journal.mark_recorded(order.run, order.dispatch, record=encode_record(record), evidence=hashes)
        # The record is safe; only now may the farm give this slot away.
        if self.farm.finish(answer.attempt):
            self.bench.journal.mark_told(answer.attempt)
        log.info("recorded", wall_ms=notes.wall_ms, errors=[f"{e.phase}: {e.message}" for e in notes.errors])

    def _run_phases(self, notes: Notes, clock: _Clock) -> None:
        trail = self._try(Phase.RESET, notes, clock, lambda: steps.reset(self.bench, notes))
        trail = trail or steps.mark_files(self.bench)
        if not notes.has_failed(Phase.RESET):
            self._try(Phase.LAUNCH, notes, clock, lambda: steps.launch(self.bench, notes, trail))
        if trail.may_run:
            self._observe(notes, trail, clock)
        self._try(Phase.CAPTURE, notes, clock, lambda: steps.capture(self.bench, notes, trail))
        self._try(Phase.TEARDOWN, notes, clock, lambda: steps.teardown(self.bench, notes, trail))

    def _observe(self, notes: Notes, trail: Trail, clock: _Clock) -> None:
        # A launch that failed halfway is waited for all the same when the message may have arrived.
        self._try(Phase.WAIT, notes, clock, lambda: steps.wait(self.bench, notes, trail))
        self._try(Phase.AUDIT, notes, clock, lambda: steps.audit(self.bench, notes, trail))

    def _try(self, phase: Phase, notes: Notes, clock: _Clock, step: Callable[[], T]) -> T | None:
        """The step's result; a failure is noted and the attempt goes on to what can still be done."""
        self.announce(phase)
        self.farm.tell_phase(notes.answer.attempt, phase)
        with clock.measure(phase):
            try:
                return step()
            except Bv3Error as error:
                notes.fail(phase, _kind_of(error), error.message)
            except Exception as error:  # a bug of ours costs this attempt, never its record
                log.exception("bug in a phase", phase=phase)
                notes.fail(phase, "harness", f"{type(error).__name__}: {error}")
        return None


class _Clock:
    """Measures phases from the order's arrival."""

    def __init__(self, *, arrived_s: float) -> None:
        self._arrived_s = arrived_s
        self.spans: list[PhaseSpan] = []

    def read_s(self) -> float:
        """Seconds since the order's arrival."""
        return round(time.monotonic() - self._arrived_s, 3)

    @contextmanager
    def measure(self, phase: Phase) -> Iterator[None]:
        """The block's duration is noted as the phase's, however it ends."""
        begun_s = time.monotonic()
        try:
            yield
        finally:
            self.spans.append(
                PhaseSpan(
                    phase=phase,
                    started_ms=round((begun_s - self._arrived_s) * 1000),
                    duration_ms=round((time.monotonic() - begun_s) * 1000),
                )
            )


def _kind_of(error: Bv3Error) -> str:
    """The part that failed, as the record names it."""
    if isinstance(error, NotCleanError):
        return "clean_start"
    if isinstance(error, CommandFailedError):
        return "renderer"
    if isinstance(error, BackendAwayError | BackendRefusedError | ProductError | StackError):
        return "backend"
    return "harness"
