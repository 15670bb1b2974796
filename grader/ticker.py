"""How far a long command is, for whoever waits at a terminal."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import IO

_QUIET_S = 1.0
# where lines can't be written over, each stays
_PLAIN_STEP_S = 10.0


class Ticker:
    """Says `what` and how many of how many: not before a second has passed, then once a second at a terminal."""

    def __init__(self, what: str, stream: IO[str], clock: Callable[[], float] = time.monotonic) -> None:
        self._what, self._stream, self._clock = what, stream, clock
        self._is_terminal = stream.isatty()
        self._step_s = _QUIET_S if self._is_terminal else _PLAIN_STEP_S
        self._next_s = clock() + _QUIET_S

    def show(self, done: int, total: int) -> None:
        """The line is written when its time has come."""
        now_s = self._clock()
        if now_s < self._next_s:
            return
        self._next_s = now_s + self._step_s
        # the last one leaves an empty line for what follows
        end = "\n" if done == total or not self._is_terminal else "\r"
        self._stream.write(f"{self._what}: {done} of {total}{end}")
        self._stream.flush()
