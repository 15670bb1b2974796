"""The box's one Celery worker, kept alive: told when to consume, listened to, killed beyond its limit, replaced."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from workers.journal import Journal
from workers.worker_process import WorkerProcess

log = structlog.get_logger(__name__)

# A main process that ticks every 5 s and has said nothing for so long stands still.
STILL_AFTER_S = 60.0
# Its imports, its connection to Redis.
START_TIMEOUT_S = 120.0
# A reason to refuse that lasts so long does not end by itself: a part may hang, which nobody else sees.
STUCK_AFTER_S = 5.0
# An idle worker that has been sent a run twice, and has had so long to begin it, hears nothing any more.
DEAF_AFTER_S = 15.0
# What an idle or contended worker may take to end: it has nothing to finish.
IDLE_END_S = 4.0
_BACKOFF_S = (0.0, 1.0, 5.0, 15.0, 30.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Doing:
    """What the worker does now, as it last said; replaced whole, so that another thread may read it."""

    # starting, ready, running or contended
    phase: str
    # the run's phase, or why it is contended
    detail: str
    since_s: float
    # when the worker last said anything at all
    heard_s: float


class Crew:
    """At most one worker process at a time.

    `report` takes box events; `tell_of_dead` is called when the farm should hear at once that a run has died.
    """

    def __init__(
        self,
        journal: Journal,
        *,
        start_worker: Callable[[], WorkerProcess],
        report: Callable[..., None],
        tell_of_dead: Callable[[], None],
    ) -> None:
        self._journal = journal
        self._start_worker = start_worker
        self._report = report
        self._tell_of_dead = tell_of_dead
        self._worker: WorkerProcess | None = None
        self._may_consume = False
        self._tries = 0
        self._due_s = 0.0
        self._heard_s = 0.0
        self._ending_s: float | None = None
        self._stuck: str | None = None
        now_s = time.monotonic()
        self.doing = Doing(phase="starting", detail="", since_s=now_s, heard_s=now_s)

    @property
    def news_fd(self) -> int | None:
        """Readable when the worker has said something or has ended."""
        return self._worker.news if self._worker else None

    @property
    def has_ended(self) -> bool:
        """Whether there is no worker, after it was asked to end."""
        return self._ending_s is not None and self._worker is None

    def start(self) -> None:
        """A worker process runs; it consumes once `let_go` was called."""
        self._heard_s = time.monotonic()
        self._worker = self._start_worker()
        self._do("starting", "")
        if self._may_consume:
            self._worker.let_go()

    def let_go(self) -> None:
        """The stack is healthy: this worker and its successors consume at once."""
        self._may_consume = True
        if self._worker is not None:
            self._worker.let_go()

    def settle(self) -> bool:
        """No run is open in the journal whose process is gone; those that were are reported. Whether any was."""
        died = self._journal.settle()
        for entry in died:
            log.warning("died", run=entry.name, attempt=entry.attempt)
            self._report("died", run=entry.name, attempt=str(entry.attempt))
        return bool(died)

    def listen(self) -> bool:
        """The worker's news are taken in; whether a beat should go out because of them."""
        is_news = False
        for line in self._worker.read_news() if self._worker else ():
            self._heard_s = time.monotonic()
            self.doing = dataclasses.replace(self.doing, heard_s=self._heard_s)
            word, _, detail = line.partition(" ")
            is_news = self._take(word, detail) or is_news
        return is_news

    def look_after(self) -> bool:
        """The worker is ended if it must be, settled if it has ended, replaced if it may be; whether that changed."""
        now_s = time.monotonic()
        if self._worker is None:
            if self._ending_s is None and now_s >= self._due_s:
                self.start()
            return False
        if (reason := self._reason_to_kill(now_s)) is not None:
            log.warning("worker killed", reason=reason)
            self._report("worker_killed", reason=reason)
            self._worker.kill()
        if self._worker.is_alive():
            return False
        self._bury(now_s)
        return True

    def ask_to_end(self) -> None:
        """No order is begun from here on; the one that runs is finished."""
        if self._ending_s is None:
            self._ending_s = time.monotonic()
            if self._worker is not None:
                self._worker.ask_to_end()

    def kill(self) -> None:
        """The worker's whole group is gone and its run is settled."""
        self._ending_s = self._ending_s or time.monotonic()
        if self._worker is not None:
            self._worker.kill()
            self._bury(time.monotonic())

    def replace(self) -> None:
        """The worker's group is gone and its run is settled; the next one waits to be started and let go."""
        self._may_consume = False
        if self._worker is not None:
            self._worker.kill()
            self._bury(time.monotonic())

    def hear_again(self) -> None:
        """The farm has sent in vain: an idle worker is asked to end, and its successor consumes anew.

        A connection to Redis may swallow everything with its socket open, and nothing is logged (faults.md 6).
        """
        idle_s = time.monotonic() - self.doing.since_s
        if self._worker is not None and self.doing.phase == "ready" and idle_s > DEAF_AFTER_S:
            log.warning("worker is deaf", idle_s=round(idle_s, 1))
            self._report("worker_deaf", idle_s=f"{idle_s:.0f}")
            self._do("starting", "deaf")
            self._worker.ask_to_end()

    def take_stuck(self) -> str | None:
        """The reason that the worker has been refused for again and again, each time it is so; asked once."""
        stuck, self._stuck = self._stuck, None
        return stuck

    def _take(self, word: str, detail: str) -> bool:
        if word == "phase":
            if self.doing.phase == "running":
                self._do("running", detail)
                return False
            self._do("running", detail)
        elif word == "contended":
            return self._take_refusal(detail)
        elif word == "fit":
            return self._take_recovery(detail)
        elif word in {"ready", "idle"}:
            self._tries = 0
            self._do("ready", "")
        elif word == "died":
            self._report("died", attempt=detail)
        else:
            return False
        return True

    def _take_recovery(self, detail: str) -> bool:
        """The box may take runs again: after how long, and which run it had refused."""
        seconds, _, run = detail.partition(" ")
        self._report("fit", reason=self.doing.detail, lost_s=seconds, run=run)
        return True

    def _take_refusal(self, detail: str) -> bool:
        """Said after each check: only a reason that was there before and is there now has lasted."""
        reason, _, said = detail.partition(" ")
        is_new = (self.doing.phase, self.doing.detail) != ("contended", reason)
        self._do("contended", reason)
        if is_new:
            self._report("contended", reason=reason, said=said)
        elif time.monotonic() - self.doing.since_s > STUCK_AFTER_S:
            self._stuck = reason
            # it has time again for what is done about it
            self.doing = dataclasses.replace(self.doing, since_s=time.monotonic())
        return is_new

    def _do(self, phase: str, detail: str) -> None:
        is_same = (self.doing.phase, self.doing.detail) == (phase, detail)
        since_s = self.doing.since_s if is_same else time.monotonic()
        self.doing = Doing(phase=phase, detail=detail, since_s=since_s, heard_s=self._heard_s)

    def _reason_to_kill(self, now_s: float) -> str | None:
        entry = self._journal.read_running()
        if entry is not None:
            over_s = now_s - entry.since_s - entry.wall_limit_s
            return f"{entry.name} ran {over_s:.0f} s beyond its wall limit" if over_s > 0 else None
        if self._ending_s is not None:
            return "it had nothing to finish" if now_s - self._ending_s > IDLE_END_S else None
        patience_s = STILL_AFTER_S if self.doing.phase != "starting" else START_TIMEOUT_S
        if self._may_consume and now_s - self._heard_s > patience_s:
            return f"it said nothing for {patience_s:.0f} s"
        return None

    def _bury(self, now_s: float) -> None:
        """The worker has ended: nothing of its group is left, its run is settled, its successor has a date."""
        if self._worker is None:
            return
        self.listen()
        self._worker.close()
        self._worker = None
        if self._ending_s is None:
            self._report("worker_ended")
        if self.settle():
            self._tell_of_dead()
        self._due_s = now_s + _BACKOFF_S[min(self._tries, len(_BACKOFF_S) - 1)]
        self._tries += 1
        self._do("starting", "")
