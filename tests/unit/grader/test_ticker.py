"""A long command says how far it is, and a short one nothing."""

from __future__ import annotations

from io import StringIO

from grader.ticker import Ticker


class _Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def _tick(stream: StringIO, times_s: list[float]) -> str:
    clock = iter([0.0, *times_s])
    ticker = Ticker("judged again", stream, lambda: next(clock))
    for done in range(1, len(times_s) + 1):
        ticker.show(done, len(times_s))
    return stream.getvalue()


def test_nothing_is_said_within_a_second() -> None:
    assert _tick(_Terminal(), [0.2, 0.5, 0.9]) == ""


def test_at_a_terminal_one_line_is_written_over_once_a_second() -> None:
    told = _tick(_Terminal(), [0.5, 1.0, 1.9, 2.1, 3.2])
    assert told == "judged again: 2 of 5\rjudged again: 4 of 5\rjudged again: 5 of 5\n"


def test_elsewhere_a_line_stays_and_comes_every_ten_seconds() -> None:
    assert _tick(StringIO(), [1.5, 3.0, 11.4, 11.6]) == "judged again: 1 of 4\njudged again: 4 of 4\n"
