"""Follow a sweep: look, show, obey signals, bear an outage, until the sweep is over or we are let go."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum

import sqlalchemy as sa

from broker.errors import DatabaseError, ServiceError, UsageError
from broker.store.progress import Progress, read_progress
from broker.store.sweeps import active_attempts, order
from scheduler.farm import Farm
from scheduler.interrupts import Interrupts
from scheduler.launcher import call
from scheduler.listing import running_ones
from scheduler.progress import Screen

# How long a farm may be away before the follower gives up; the sweep does not mind.
_OUTAGE_LIMIT_S = 90.0
_OUTAGE_LOOK_S = 1.0
# How long a finished attempt may wait for its verdict once nothing runs any more.
_GRADING_LIMIT_S = 90.0
# Grading that takes longer is said to be what we wait for.
_GRADING_TOLD_S = 2.0
_TERMINAL_GONE = {errno.EIO, errno.EPIPE}


class Ending(StrEnum):
    """Why following ended."""

    FINISHED = "finished"
    PAUSED = "paused"
    CANCELLED = "cancelled"
    HALTED = "halted"
    # the terminal hung up: the sweep goes on
    DETACHED = "detached"
    # Ctrl-C while only looking: the sweep goes on
    LEFT = "left"


def pause_sweeps(connection: sa.Connection, sweep_ids: Sequence[str]) -> tuple[str, ...]:
    """Those of the sweeps that are not over start no run any more; they are named."""
    stopped = []
    for sweep_id in sweep_ids:
        # it is over: nothing is left to pause
        with suppress(UsageError):
            order(connection, sweep_id, "pause", "interrupted")
            stopped.append(sweep_id)
    return tuple(stopped)


@dataclass(slots=True, kw_only=True)
class Follower:
    """Looks at one sweep. `may_pause`: whether Ctrl-C stops the sweep, and the `others`, or only the looking."""

    farm: Farm
    sweep_id: str
    screen: Screen
    interrupts: Interrupts
    may_pause: bool
    others: tuple[str, ...] = ()
    clock: Callable[[], float] = time.monotonic
    _last_verdict: int = field(default=0, init=False)
    _is_stopping: bool = field(default=False, init=False)
    _away_since_s: float | None = field(default=None, init=False)
    _quiet_since_s: float | None = field(default=None, init=False)
    _has_told_grading: bool = field(default=False, init=False)

    def follow(self) -> Ending:
        """Returns when the sweep is over or stands still with nothing running and all graded, or we are let go.

        Raises ServiceError when the farm stays away.
        """
        try:
            while (ending := self._look()) is None:
                self.interrupts.wait(self.screen.interval_s)
        except OSError as error:
            if error.errno not in _TERMINAL_GONE:
                raise
            # Before its SIGHUP reached us: nobody reads what we write.
            self.interrupts.drop_output()
            ending = Ending.DETACHED
        finally:
            self.screen.close()
        return ending

    def _look(self) -> Ending | None:
        if self.interrupts.is_hung_up:
            return Ending.DETACHED
        if self.interrupts.wants_stop and not self.may_pause:
            return Ending.LEFT
        try:
            if self.interrupts.wants_stop and not self._is_stopping:
                self._pause()
            with self.farm.begin() as connection:
                progress = read_progress(connection, self.sweep_id, self._last_verdict)
        except DatabaseError as error:
            self._bear(error)
            return None
        self._note_return()
        self._last_verdict = max((run.verdict_id for run in progress.fresh), default=self._last_verdict)
        self.screen.show(progress)
        return self._ending(progress)

    def _pause(self) -> None:
        with self.farm.begin() as connection:
            stopped = pause_sweeps(connection, (self.sweep_id, *self.others))
            running = sum(active_attempts(connection, sweep_id) for sweep_id in stopped)
        self._is_stopping = True
        if stopped:
            finishing = f"; {running_ones(running)} (Ctrl-C again stops now)" if running else ""
            self.screen.say(f"no new runs{finishing}")

    def _bear(self, error: DatabaseError) -> None:
        now_s = self.clock()
        if self._away_since_s is None:
            self._away_since_s = now_s
            self.screen.say(f"the farm is away: {error.message}; trying again for {_OUTAGE_LIMIT_S:.0f} s")
        elif now_s - self._away_since_s > _OUTAGE_LIMIT_S:
            raise ServiceError(
                f"the farm is away since {now_s - self._away_since_s:.0f} s: {error.message}",
                hint=f"what was done is kept; look again: {call('follow', self.sweep_id)}",
            ) from error
        self.interrupts.wait(_OUTAGE_LOOK_S)
        self.farm.rejoin()

    def _note_return(self) -> None:
        if self._away_since_s is not None:
            self.screen.say(f"the farm is back after {self.clock() - self._away_since_s:.0f} s")
            self._away_since_s = None

    def _ending(self, progress: Progress) -> Ending | None:
        if progress.state == "active" or progress.active_attempts:
            self._quiet_since_s = None
            return None
        # a graded run is closed a moment later: what is shown last must count it
        if outstanding := progress.ungraded or progress.begun:
            now_s = self.clock()
            self._quiet_since_s = self._quiet_since_s if self._quiet_since_s is not None else now_s
            quiet_s = now_s - self._quiet_since_s
            if quiet_s >= _GRADING_TOLD_S and not self._has_told_grading:
                self._has_told_grading = True
                self.screen.say(f"nothing runs any more; waiting for verdicts ({outstanding} to come)")
            if quiet_s < _GRADING_LIMIT_S:
                return None
            self.screen.say(f"{outstanding} verdicts have not come in {_GRADING_LIMIT_S:.0f} s")
        return Ending(progress.state)
