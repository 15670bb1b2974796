"""Intervals agree with an implementation that is not ours, scipy's, to 1e-9."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest
from scipy import stats  # type: ignore[import-untyped]

from grader import intervals

SMALL = [(successes, trials) for trials in (1, 2, 3, 9, 12, 20, 40) for successes in range(trials + 1)]
LARGE = [
    (round(share * trials), trials)
    for trials in (72, 102, 108, 299, 1_000, 20_000, 100_000, 1_000_000)
    for share in (0.0, 0.001, 0.01, 0.0437, 0.3, 0.5, 0.9118, 0.999, 1.0)
]
GRID = sorted({*SMALL, *LARGE})
EXACT = 1e-9


@pytest.mark.parametrize(("successes", "trials"), GRID)
def test_wilson_is_scipys(successes: int, trials: int) -> None:
    ours = intervals.wilson(successes, trials)
    theirs = stats.binomtest(successes, trials).proportion_ci(0.95, method="wilson")
    assert ours is not None
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=EXACT, rel=0)


@pytest.mark.parametrize(("successes", "trials"), GRID)
def test_the_one_sided_bounds_are_scipys(successes: int, trials: int) -> None:
    upper, lower = intervals.upper_bound(successes, trials), intervals.lower_bound(successes, trials)
    assert upper is not None
    assert lower is not None
    high = 1.0 if successes == trials else stats.beta.ppf(0.95, successes + 1, trials - successes)
    low = 0.0 if successes == 0 else stats.beta.ppf(0.05, successes, trials - successes + 1)
    assert (upper.low, upper.high) == pytest.approx((0.0, high), abs=EXACT, rel=0)
    assert (lower.low, lower.high) == pytest.approx((low, 1.0), abs=EXACT, rel=0)


@pytest.mark.parametrize("successes", [0, 1, 5, 36, 107, 108])
def test_the_upper_bound_is_the_one_that_scipy_calls_exact(successes: int) -> None:
    # `less` asks whether the share lies below, and so bounds it from above
    theirs = stats.binomtest(successes, 108, alternative="less").proportion_ci(0.95, method="exact")
    ours = intervals.upper_bound(successes, 108)
    assert ours is not None
    assert ours.high == pytest.approx(theirs.high, abs=EXACT, rel=0)


@pytest.mark.parametrize(("successes", "trials"), GRID)
def test_the_binomial_tail_is_scipys(successes: int, trials: int) -> None:
    for share in (0.0, 1e-6, 0.01, 0.05, successes / trials, 0.5, 0.9, 0.999, 1.0):
        ours = intervals.binomial_at_most(successes, trials, share)
        assert ours == pytest.approx(stats.binom.cdf(successes, trials, share), abs=EXACT, rel=0), share


def _pairs() -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    some = [(0, 1), (1, 1), (0, 20), (13, 15), (20, 20), (93, 102), (70, 72), (512, 1_000), (99_000, 100_000)]
    yield from ((first, second) for first in some for second in some)


@pytest.mark.parametrize(("first", "second"), list(_pairs()))
def test_the_interval_of_a_difference_is_newcombes_from_scipys_wilson(
    first: tuple[int, int], second: tuple[int, int]
) -> None:
    (p, one), (q, two) = (
        (successes / trials, stats.binomtest(successes, trials).proportion_ci(0.95, method="wilson"))
        for successes, trials in (first, second)
    )
    ours = intervals.difference(first, second)
    assert ours is not None
    low = p - q - math.sqrt((p - one.low) ** 2 + (two.high - q) ** 2)
    high = p - q + math.sqrt((one.high - p) ** 2 + (q - two.low) ** 2)
    assert (ours.low, ours.high) == pytest.approx((low, high), abs=EXACT, rel=0)
    assert ours.low <= p - q <= ours.high


def test_newcombes_published_example_is_met() -> None:
    # 56 of 70 against 48 of 80, in Newcombe (1998), table II
    ours = intervals.difference((56, 70), (48, 80))
    assert ours is not None
    assert (round(ours.low, 4), round(ours.high, 4)) == (0.0524, 0.3339)


@pytest.mark.parametrize("gained", [0, 1, 2, 5, 12, 100, 5_000])
@pytest.mark.parametrize("lost", [1, 2, 6, 12, 37, 4_800])
def test_mcnemars_test_is_the_exact_binomial_one(gained: int, lost: int) -> None:
    theirs = stats.binomtest(gained, gained + lost, 0.5).pvalue
    assert intervals.mcnemar(gained, lost) == pytest.approx(theirs, abs=EXACT, rel=0)
    assert intervals.mcnemar(lost, gained) == intervals.mcnemar(gained, lost)


def test_pairs_that_never_changed_say_nothing() -> None:
    assert intervals.mcnemar(0, 0) is None
    assert intervals.difference((0, 0), (1, 2)) is None
    assert intervals.difference((1, 2), (0, 0)) is None


@pytest.mark.parametrize("count", [*range(1, 120), 1_000, 9_999, 10_000, 100_000])
def test_the_median_interval_stands_on_the_ranks_that_scipy_gives(count: int) -> None:
    ours = intervals.median_interval(range(count))
    # the largest rank that leaves at most 2.5% outside
    rank = int(stats.binom.ppf(0.025, count, 0.5))
    rank -= stats.binom.cdf(rank, count, 0.5) > 0.025
    if rank < 0:
        assert ours is None
    else:
        assert ours is not None
        assert (ours.low, ours.high) == (rank, count - 1 - rank)
