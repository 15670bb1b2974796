"""Signals as requests: the follower asks what was requested, and sleeps until something is."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from types import FrameType, TracebackType
from typing import Any, Self

# A terminal and a wrapper that passes signals on may both deliver the same Ctrl-C.
_SAME_PRESS_S = 0.4


class Interrupts:
    """While entered: the first Ctrl-C or SIGTERM sets `wants_stop`, a second raises KeyboardInterrupt.

    SIGHUP sets `is_hung_up`, and what is still written to the lost terminal goes nowhere. One that was
    ignored before (nohup) stays ignored.
    """

    def __init__(self) -> None:
        self.wants_stop = False
        self.is_hung_up = False
        self._stopped_at_s = 0.0
        # a third press must not tear the second one's farewell
        self._is_ending = False
        self._before: dict[signal.Signals, Any] = {}
        self._reader, self._writer = -1, -1
        self._terminals: tuple[int, ...] = ()

    def __enter__(self) -> Self:
        """The signals are taken from here on."""
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)
        # asked now: a terminal that has hung up no longer says that it is one
        self._terminals = tuple(number for number in (1, 2) if os.isatty(number))
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if number is signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN:
                continue
            self._before[number] = signal.signal(number, self._take)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """They do again what they did before; after a stop, further ones are ignored until the process has ended."""
        for number, handler in self._before.items():
            is_pressed_on = self.wants_stop and number is not signal.SIGHUP
            signal.signal(number, signal.SIG_IGN if is_pressed_on else handler or signal.SIG_DFL)
        os.close(self._reader)
        os.close(self._writer)

    def wait(self, timeout_s: float) -> None:
        """Returns after `timeout_s` seconds, or at once when a signal comes."""
        # A self-pipe: time.sleep goes on sleeping after a handler, and an Event set by one can deadlock.
        ready, _, _ = select.select([self._reader], [], [], timeout_s)
        if ready:
            os.read(self._reader, 4096)

    def drop_output(self) -> None:
        """What is written to stdout and stderr goes nowhere from now on, instead of failing."""
        _silence((1, 2))

    def _take(self, number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGHUP:
            self.is_hung_up = True
            _silence(self._terminals)
        elif not self.wants_stop:
            self.wants_stop, self._stopped_at_s = True, time.monotonic()
        elif time.monotonic() - self._stopped_at_s > _SAME_PRESS_S and not self._is_ending:
            self._is_ending = True
            raise KeyboardInterrupt
        with contextlib.suppress(BlockingIOError):  # full: the reader is awake already
            os.write(self._writer, b"!")


def _silence(descriptors: tuple[int, ...]) -> None:
    """What is written to these goes nowhere from now on, instead of failing."""
    null = os.open(os.devnull, os.O_WRONLY)
    for number in descriptors:
        os.dup2(null, number)
    os.close(null)
