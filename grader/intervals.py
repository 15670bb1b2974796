"""Intervals for proportions and medians. Pure, exact or named; no normal approximation but Wilson's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

CONFIDENCE = 0.95
# The two-sided 95% quantile of the normal distribution.
_Z = 1.959963984540054
_BISECTIONS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """Both ends at 95%; `low` is 0 for a one-sided upper bound. `method` names how it was got."""

    low: float
    high: float
    method: str


def wilson(successes: int, trials: int) -> Interval | None:
    """Wilson's two-sided 95% interval of a proportion; None without a trial."""
    _check(successes, trials)
    if trials == 0:
        return None
    share, z2 = successes / trials, _Z * _Z
    centre = (share + z2 / (2 * trials)) / (1 + z2 / trials)
    half = _Z * math.sqrt(share * (1 - share) / trials + z2 / (4 * trials * trials)) / (1 + z2 / trials)
    return Interval(
        low=0.0 if successes == 0 else max(0.0, centre - half),
        high=1.0 if successes == trials else min(1.0, centre + half),
        method="Wilson, two-sided 95%",
    )


def upper_bound(successes: int, trials: int) -> Interval | None:
    """Clopper and Pearson's exact one-sided upper 95% bound of a proportion; None without a trial."""
    _check(successes, trials)
    if trials == 0:
        return None
    return Interval(low=0.0, high=_upper(successes, trials), method="Clopper-Pearson, one-sided 95%")


def _upper(successes: int, trials: int) -> float:
    if successes == trials:
        return 1.0
    if successes == 0:
        return float(1.0 - (1.0 - CONFIDENCE) ** (1.0 / trials))
    low, high = successes / trials, 1.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        if binomial_at_most(successes, trials, middle) > 1.0 - CONFIDENCE:
            low = middle
        else:
            high = middle
    return high


def binomial_at_most(successes: int, trials: int, share: float) -> float:
    """P(X <= successes) for X ~ Binomial(trials, share), summed from its largest term until nothing is added."""
    if successes >= trials or share <= 0.0:
        return 1.0
    if successes < 0 or share >= 1.0:
        return 0.0
    if successes > trials * share:
        return 1.0 - binomial_at_most(trials - successes - 1, trials, 1.0 - share)
    log_term = (
        math.lgamma(trials + 1)
        - math.lgamma(successes + 1)
        - math.lgamma(trials - successes + 1)
        + successes * math.log(share)
        + (trials - successes) * math.log1p(-share)
    )
    odds, relative, total = (1.0 - share) / share, 1.0, 1.0
    for count in range(successes, 0, -1):
        relative *= count / (trials - count + 1) * odds
        total += relative
        if relative < total * 1e-18:
            break
    return min(1.0, math.exp(log_term) * total)


def clean_runs_missing(failures: int, trials: int, target: float) -> int:
    """How many further runs without a failure bring the exact upper bound down to `target`; 0: it is there.

    At a target of 1%, 299 clean runs are enough; at 3%, 99.
    """
    _check(failures, trials)
    if not 0.0 < target < 1.0:
        raise ValueError(f"a target must lie between 0 and 1, not {target}")

    def is_proven(more: int) -> bool:
        return trials + more > 0 and _upper(failures, trials + more) <= target

    if is_proven(0):
        return 0
    high = 1
    while not is_proven(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_proven(middle) else (middle, high)
    return high


def median(values: Sequence[float]) -> float | None:
    """The middle value; the mean of the two middle ones for an even number; None without values."""
    ordered = sorted(values)
    if not ordered:
        return None
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def median_interval(values: Sequence[float]) -> Interval | None:
    """The 95% interval of the median by order statistics, free of any distribution; None below six values."""
    ordered = sorted(values)
    rank = _outermost_rank(len(ordered))
    if rank is None:
        return None
    return Interval(low=ordered[rank], high=ordered[-1 - rank], method="order statistics, two-sided 95%")


def _outermost_rank(count: int) -> int | None:
    """The largest r (from 0) with P(X <= r) <= 2.5% for X ~ Binomial(count, 1/2)."""
    each_side = (1.0 - CONFIDENCE) / 2
    if count == 0 or binomial_at_most(0, count, 0.5) > each_side:
        return None
    low, high = 0, count // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if binomial_at_most(middle, count, 0.5) <= each_side else (low, middle)
    return low


def _check(successes: int, trials: int) -> None:
    if not 0 <= successes <= trials:
        raise ValueError(f"{successes} of {trials} is no proportion")
