"""One part of the running farm: the small state machine from waiting to ready, and back after a death."""

from __future__ import annotations

import time
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from broker.errors import Bv3Error, DatabaseError
from infra.embedded.lifetime import RECOVERED_AFTER_S, rest_s
from infra.embedded.logs import read_tail
from infra.embedded.processes import Child, start
from infra.embedded.services import Service


class PartState(StrEnum):
    """Where a part stands."""

    WAITING = "waiting"  # for the parts that it needs
    STARTING = "starting"  # it runs and does not serve yet
    READY = "ready"
    RESTING = "resting"  # it died, and is started again after a pause
    FAILED = "failed"  # it never served, and won't


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a part does not serve."""

    message: str
    hint: str | None = None
    # The last lines that it wrote.
    tail: tuple[str, ...] = ()


@dataclass(slots=True, kw_only=True)
class Part:
    """A service and its process."""

    service: Service
    log: Path
    mark: str
    state: PartState = PartState.WAITING
    child: Child | None = None
    deaths: int = 0
    restarts: int = 0
    failure: Failure | None = None
    has_served: bool = False
    # Whether an earlier keeper started the process that runs now.
    is_adopted: bool = False
    ready_after_s: float | None = None
    # On the monotonic clock.
    _due_s: float = 0.0
    _asked_s: float = 0.0
    _begun_s: float = 0.0
    _log_from: int = 0

    @property
    def name(self) -> str:
        """As commands name it."""
        return self.service.name

    @property
    def needs(self) -> tuple[str, ...]:
        """Parts that must be ready before it starts."""
        return self.service.needs

    @property
    def is_alive(self) -> bool:
        """Whether its process runs."""
        return self.child is not None and self.child.is_alive()

    def adopt(self, child: Child) -> None:
        """The process that an earlier keeper started is this part's."""
        self.child = child
        self.has_served = True
        self.is_adopted = True
        self._asked_s = self._begun_s = time.monotonic() - max(0.0, time.time() - child.since)
        self.state = PartState.STARTING

    def stop(self, *, within_s: float | None = None) -> bool:
        """Its process is gone. False: it had to be killed."""
        if self.child is None:
            return True
        limit_s = self.service.stop_timeout_s if within_s is None else within_s
        return self.child.end(by=self.service.stop_signal, within_s=limit_s)

    def turn(self, *, needs_ready: bool, may_move: bool) -> bool:
        """One step of the state machine; whether anything changed."""
        before = self.state
        if self.state in (PartState.WAITING, PartState.RESTING):
            if needs_ready and time.monotonic() >= self._due_s:
                self._launch(may_move=may_move)
        elif self.state in (PartState.STARTING, PartState.READY) and not self.is_alive:
            self._die()
        elif self.state is PartState.STARTING:
            self._knock()
        return self.state is not before

    def _launch(self, *, may_move: bool) -> None:
        self._log_from = self.log.stat().st_size if self.log.exists() else 0
        self._asked_s = time.monotonic()
        try:
            launch = self.service.prepare(may_move=may_move)
            self.child = start(launch, mark=self.mark, log=self.log)
        except Bv3Error as error:
            # A database that is just away comes back; a port, a disk, a version does not by waiting.
            is_final = not isinstance(error, DatabaseError)
            self._fail(Failure(message=error.message, hint=error.hint), is_final=is_final)
        except OSError as error:
            self._fail(Failure(message=f"{self.name} can't be started: {error}"))
        else:
            self.is_adopted = False
            self._begun_s = time.monotonic()
            self.state = PartState.STARTING

    def _knock(self) -> None:
        age_s = time.monotonic() - self._begun_s
        if self.service.is_ready():
            self.state = PartState.READY
            self.has_served = True
            # Its preparation counts, the making of a database above all; not against the limit of its start.
            self.ready_after_s = time.monotonic() - self._asked_s
            self.failure = None
        elif age_s > self.service.start_timeout_s:
            self.stop(within_s=5)
            self._fail(self._describe(f"{self.name} was not ready after {age_s:.0f} s"), is_final=True)

    def _die(self) -> None:
        if self.state is PartState.READY and time.monotonic() - self._begun_s > RECOVERED_AFTER_S:
            self.deaths = 0
        died = "died" if self.has_served else "did not start"
        outcome = self.child.outcome if self.child else "ended"
        self._fail(self._describe(f"{self.name} {died}: {outcome}"))

    def _fail(self, failure: Failure, *, is_final: bool = False) -> None:
        self.child = None
        self.failure = failure
        self.deaths += 1
        self.restarts += self.has_served
        self._due_s = time.monotonic() + rest_s(self.deaths)
        hopeless = not self.has_served and (is_final or self.deaths >= self.service.attempts)
        self.state = PartState.FAILED if hopeless else PartState.RESTING

    def _describe(self, message: str) -> Failure:
        return Failure(message=message, hint=f"its log is {self.log}", tail=read_tail(self.log, self._log_from))
