"""Intervals agree with sums done the slow way, and say None where there is nothing to say."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grader.intervals import (
    binomial_at_most,
    clean_runs_missing,
    median,
    median_interval,
    runs_missing,
    upper_bound,
    wilson,
)

COUNTS = st.integers(1, 400).flatmap(lambda trials: st.tuples(st.integers(0, trials), st.just(trials)))


def _tail(successes: int, trials: int, share: float) -> float:
    p = Fraction(share)
    return float(sum(math.comb(trials, k) * p**k * (1 - p) ** (trials - k) for k in range(successes + 1)))


@given(trials=st.integers(1, 40), successes=st.integers(0, 40), share=st.floats(0.01, 0.99))
@settings(max_examples=150)
def test_the_binomial_tail_is_the_sum_of_its_terms(trials: int, successes: int, share: float) -> None:
    assert binomial_at_most(successes, trials, share) == pytest.approx(
        _tail(min(successes, trials), trials, share), abs=1e-12, rel=1e-9
    )


@given(counts=COUNTS)
def test_the_exact_bound_leaves_five_percent_below_it(counts: tuple[int, int]) -> None:
    successes, trials = counts
    bound = upper_bound(successes, trials)
    assert bound is not None
    if successes == trials:
        assert bound.high == 1.0
    else:
        assert _tail_floats(successes, trials, bound.high) == pytest.approx(0.05, rel=1e-9)
    assert bound.high >= successes / trials


def _tail_floats(successes: int, trials: int, share: float) -> float:
    return math.fsum(math.comb(trials, k) * share**k * (1 - share) ** (trials - k) for k in range(successes + 1))


@given(counts=COUNTS)
def test_wilsons_ends_are_where_the_score_test_turns(counts: tuple[int, int]) -> None:
    successes, trials = counts
    interval = wilson(successes, trials)
    assert interval is not None
    share = successes / trials
    for end in (interval.low, interval.high):
        if 0.0 < end < 1.0:
            z = abs(share - end) / math.sqrt(end * (1 - end) / trials)
            assert z == pytest.approx(1.959963984540054, rel=1e-7)
    assert 0.0 <= interval.low <= share <= interval.high <= 1.0


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    # from a statistics package, to ten digits
    [(70, 72, 0.9042582479, 0.9923489781), (0, 20, 0.0, 0.1611251580), (10, 10, 0.7224672001, 1.0)],
)
def test_wilson_agrees_with_known_values(successes: int, trials: int, low: float, high: float) -> None:
    interval = wilson(successes, trials)
    assert interval is not None
    assert interval.low == pytest.approx(low, abs=1e-9)
    assert interval.high == pytest.approx(high, abs=1e-9)


def test_clean_runs_prove_what_the_plan_says() -> None:
    assert clean_runs_missing(0, 0, 0.01) == 299
    assert clean_runs_missing(0, 108, 0.01) == 191
    assert clean_runs_missing(0, 299, 0.01) == 0
    assert clean_runs_missing(0, 100, 0.03) == 0


@given(failures=st.integers(0, 6), clean=st.integers(0, 400), target=st.sampled_from([0.01, 0.02, 0.05]))
@settings(max_examples=60)
def test_as_many_clean_runs_as_are_missing_prove_it_and_one_less_does_not(
    failures: int, clean: int, target: float
) -> None:
    trials = failures + clean
    missing = clean_runs_missing(failures, trials, target)
    proven = upper_bound(failures, trials + missing)
    assert proven is not None
    assert proven.high <= target
    if missing > 0 and (before := upper_bound(failures, trials + missing - 1)) is not None:
        assert before.high > target


@pytest.mark.parametrize(("trials", "target"), [(20, 0.90), (100, 0.90), (20, 0.94)])
def test_as_many_runs_as_are_missing_at_this_rate_bring_wilsons_low_end_to_the_target(
    trials: int, target: float
) -> None:
    more = runs_missing(0.95, trials, target)
    assert more is not None
    # 95% of it is a whole number
    enough = math.ceil((trials + more) / 20) * 20
    for total, is_enough in ((enough, True), (enough - 20, enough - 20 >= trials + more)):
        interval = wilson(total * 95 // 100, total) if total else None
        assert ((interval.low if interval else 0.0) >= target) is is_enough


def test_no_number_of_runs_proves_a_rate_below_its_target() -> None:
    assert runs_missing(0.90, 1_000, 0.90) is None
    assert runs_missing(0.5, 10, 0.90) is None
    assert runs_missing(1.0, 0, 0.90) is None
    assert runs_missing(1.0, 1_000, 0.90) == 0


def test_nothing_measured_has_no_interval_and_no_median() -> None:
    assert wilson(0, 0) is None
    assert upper_bound(0, 0) is None
    assert median([]) is None
    assert median_interval([]) is None
    assert median_interval([1, 2, 3, 4, 5]) is None


@pytest.mark.parametrize("counts", [(-1, 3), (4, 3), (1, 0)])
def test_more_successes_than_trials_are_refused(counts: tuple[int, int]) -> None:
    for estimate in (wilson, upper_bound):
        with pytest.raises(ValueError, match="no proportion"):
            estimate(*counts)


@pytest.mark.parametrize("count", [6, 7, 12, 36, 70, 101])
def test_the_median_interval_covers_95_percent_and_the_next_narrower_does_not(count: int) -> None:
    interval = median_interval(range(count))
    assert interval is not None
    outside = int(interval.low)
    assert interval.high == count - 1 - outside
    # the true median lies below the low end when at most `outside` values do
    assert 1 - 2 * _tail(outside, count, 0.5) >= 0.95
    assert 1 - 2 * _tail(outside + 1, count, 0.5) < 0.95


@given(values=st.lists(st.integers(0, 10_000), min_size=1, max_size=60))
def test_the_median_stands_in_the_middle_whatever_the_order(values: list[int]) -> None:
    middle = median(values)
    assert middle is not None
    assert sum(value <= middle for value in values) * 2 >= len(values)
    assert sum(value >= middle for value in values) * 2 >= len(values)
    assert middle == median(sorted(values, reverse=True))


def test_bounds_shrink_with_more_clean_runs() -> None:
    bounds = [upper_bound(2, trials) for trials in (10, 100, 1_000, 10_000, 100_000)]
    highs = [bound.high for bound in bounds if bound is not None]
    assert all(later < earlier for earlier, later in itertools.pairwise(highs))
