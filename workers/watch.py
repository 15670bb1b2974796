"""Looking, while a run is on, whether its box is still its own: another stack may come and go within the run."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

import structlog

from workers.conditions import Condition

log = structlog.get_logger(__name__)

LOOK_EVERY_S = 1.0
# A router that answers late once is slow, and one that has not answered for two looks is away.
_LOOKS_UNTIL_AWAY = {"router": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Intrusion:
    """What was seen, and when first."""

    condition: Condition
    at: datetime


class Watch:
    """Looks about once a second on a thread of its own, from `open` to `close`. `look` gives what refuses now."""

    def __init__(self, look: Callable[[], tuple[Condition, ...]], *, every_s: float = LOOK_EVERY_S) -> None:
        self._look = look
        self._every_s = every_s
        self._ending = threading.Event()
        self._found: dict[str, Intrusion] = {}
        # how many looks in a row each reason has refused, up to now
        self._streak: dict[str, int] = {}
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)

    def open(self) -> None:
        """It looks from now on."""
        self._thread.start()

    def stop(self) -> None:
        """It begins no other look by itself."""
        self._ending.set()

    def close(self) -> tuple[Intrusion, ...]:
        """It has looked once more, and no longer does; everything that it has seen, the first of each reason."""
        self.stop()
        if self._thread.is_alive():
            self._thread.join()
        self._look_once()
        # what has only begun to be away is looked at again, until it is or it is not
        while any(0 < count < _LOOKS_UNTIL_AWAY.get(reason, 1) for reason, count in self._streak.items()):
            time.sleep(min(self._every_s, LOOK_EVERY_S) / 10)
            self._look_once()
        return tuple(self._found.values())

    def _run(self) -> None:
        while not self._ending.wait(self._every_s):
            try:
                self._look_once()
            except Exception:
                # the last look is on the run's own thread, and there it counts
                log.exception("bug in the watch")

    def _look_once(self) -> None:
        at, refusing = datetime.now(UTC), self._look()
        self._streak = {item.reason: self._streak.get(item.reason, 0) + 1 for item in refusing}
        for item in refusing:
            if self._streak[item.reason] >= _LOOKS_UNTIL_AWAY.get(item.reason, 1):
                self._found.setdefault(item.reason, Intrusion(condition=item, at=at))
