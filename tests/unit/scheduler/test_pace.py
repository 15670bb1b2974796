"""The time left is a range between the overall and the recent pace."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.pace import Estimate, Pace, describe_left


def test_nothing_is_promised_before_three_runs_are_over() -> None:
    pace = Pace()
    for at_s, over in [(0.0, 0), (4.0, 1), (8.0, 2)]:
        pace.note(at_s, over)
    assert pace.estimate(9.0, 108) is None
    pace.note(12.0, 3)
    assert pace.estimate(12.0, 108) is not None


def test_a_steady_pace_gives_a_narrow_range() -> None:
    pace = Pace()
    for over in range(51):
        pace.note(over * 4.0, over)
    estimate = pace.estimate(200.0, 100)
    assert estimate is not None
    assert estimate.runs_per_min == pytest.approx(15.0)
    assert estimate.low_s == pytest.approx(200.0)
    assert estimate.high_s == pytest.approx(200.0)


def test_a_pace_that_drops_widens_the_range() -> None:
    pace = Pace()
    for over in range(31):
        pace.note(over * 2.0, over)
    for over in range(31, 41):
        pace.note(60.0 + (over - 30) * 10.0, over)
    estimate = pace.estimate(160.0, 80)
    assert estimate is not None
    assert estimate.low_s == pytest.approx(160.0)
    assert estimate.high_s > 350.0


def test_what_was_over_before_the_first_look_counts_for_no_pace() -> None:
    pace = Pace()
    pace.note(0.0, 60)
    for step in range(1, 5):
        pace.note(step * 10.0, 60 + step)
    estimate = pace.estimate(40.0, 108)
    assert estimate is not None
    assert estimate.runs_per_min == pytest.approx(6.0)


@given(st.lists(st.tuples(st.floats(0.1, 50), st.integers(0, 4)), min_size=3, max_size=60), st.integers(0, 200))
def test_the_best_case_is_never_longer_than_the_worst(steps: list[tuple[float, int]], extra: int) -> None:
    pace, now_s, over = Pace(), 0.0, 0
    for wait_s, more in steps:
        now_s, over = now_s + wait_s, over + more
        pace.note(now_s, over)
    estimate = pace.estimate(now_s, over + extra)
    assert estimate is None or 0 <= estimate.low_s <= estimate.high_s


@pytest.mark.parametrize(
    ("low_s", "high_s", "words"),
    [
        (0, 0, "about 10 s left"),
        (33, 41, "30 to 50 s left"),
        (36, 39, "30 to 40 s left"),
        (190, 230, "3 to 4 min left"),
        (61, 118, "1 to 2 min left"),
        (10, 300, "1 to 5 min left"),
        (7000, 10000, "1 to 3 h left"),
        (3600, 7200, "1 to 2 h left"),
        (7200, 7200, "about 2 h left"),
    ],
)
def test_the_range_reads_in_words(low_s: float, high_s: float, words: str) -> None:
    assert describe_left(Estimate(runs_per_min=1.0, low_s=low_s, high_s=high_s)) == words
