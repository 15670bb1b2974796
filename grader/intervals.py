"""Intervals for proportions and medians. Pure, exact or named; no normal approximation but Wilson's."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

CONFIDENCE = 0.95
# The two-sided 95% quantile of the normal distribution.
_Z = 1.959963984540054
_BISECTIONS = 100
# where Stirling's series is good to 1e-16, and where a logarithm of nearly 1 is better summed
_SERIES_FROM = 16
_CLOSE = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """Both ends at 95%; one-sided, the other end is 0 or 1. `method` names how it was got."""

    low: float
    high: float
    method: str


def wilson(successes: int, trials: int) -> Interval | None:
    """Wilson's two-sided 95% interval of a proportion; None without a trial."""
    _check(successes, trials)
    if trials == 0:
        return None
    low, high = _score_ends(successes / trials, trials)
    return Interval(
        low=0.0 if successes == 0 else max(0.0, low),
        high=1.0 if successes == trials else min(1.0, high),
        method="Wilson, two-sided 95%",
    )


def _score_ends(share: float, trials: int) -> tuple[float, float]:
    z2 = _Z * _Z
    centre = (share + z2 / (2 * trials)) / (1 + z2 / trials)
    half = _Z * math.sqrt(share * (1 - share) / trials + z2 / (4 * trials * trials)) / (1 + z2 / trials)
    return centre - half, centre + half


def runs_missing(share: float, trials: int, target: float) -> int | None:
    """How many further trials at this very rate bring Wilson's lower end up to `target`; None: no number does."""
    if trials < 1 or share <= target:
        return None
    return _fewest(lambda more: _score_ends(share, trials + more)[0] >= target)


def upper_bound(successes: int, trials: int) -> Interval | None:
    """Clopper and Pearson's exact one-sided upper 95% bound of a proportion; None without a trial."""
    _check(successes, trials)
    if trials == 0:
        return None
    return Interval(low=0.0, high=_upper(successes, trials), method="Clopper-Pearson, one-sided 95%")


def lower_bound(successes: int, trials: int) -> Interval | None:
    """Clopper and Pearson's exact one-sided lower 95% bound of a proportion; None without a trial."""
    _check(successes, trials)
    if trials == 0:
        return None
    # what fails at most so often succeeds at least so often
    low = 1.0 - _upper(trials - successes, trials)
    return Interval(low=low, high=1.0, method="Clopper-Pearson, one-sided 95%")


def difference(first: tuple[int, int], second: tuple[int, int]) -> Interval | None:
    """Newcombe's hybrid score interval of `first` minus `second`, each (successes, trials); None without a trial.

    It puts Wilson's intervals of the two together (Newcombe 1998, method 10), so that it keeps its coverage
    where a normal approximation has none: few trials, rates near 0 or 1.
    """
    one, other = wilson(*first), wilson(*second)
    if one is None or other is None:
        return None
    p, q = first[0] / first[1], second[0] / second[1]
    return Interval(
        low=p - q - math.hypot(p - one.low, other.high - q),
        high=p - q + math.hypot(one.high - p, q - other.low),
        method="Newcombe hybrid score, two-sided 95%",
    )


def mcnemar(gained: int, lost: int) -> float | None:
    """McNemar's exact two-sided p for so many pairs that changed each way; None when no pair changed."""
    _check(gained, gained + lost)
    if gained + lost == 0:
        return None
    return min(1.0, 2.0 * binomial_at_most(min(gained, lost), gained + lost, 0.5))


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
    odds, relative, total = (1.0 - share) / share, 1.0, 1.0
    for count in range(successes, 0, -1):
        relative *= count / (trials - count + 1) * odds
        total += relative
        if relative < total * 1e-18:
            break
    return min(1.0, _binomial_term(successes, trials, share) * total)


def _binomial_term(successes: int, trials: int, share: float) -> float:
    """P(X = successes), by Loader's saddle-point form: differences of lgamma lose nine digits at a million trials."""
    rest = trials - successes
    if successes == 0 or rest == 0:
        return math.exp(rest * math.log1p(-share) if successes == 0 else successes * math.log(share))
    exponent = (
        _stirling_error(trials)
        - _stirling_error(successes)
        - _stirling_error(rest)
        - _deviance(successes, trials * share)
        - _deviance(rest, trials * (1.0 - share))
    )
    return math.exp(exponent) * math.sqrt(trials / (2.0 * math.pi * successes * rest))


def _stirling_error(number: int) -> float:
    """log(number!) less Stirling's approximation of it."""
    if number < _SERIES_FROM:
        return math.lgamma(number + 1) - (number + 0.5) * math.log(number) + number - 0.5 * math.log(2.0 * math.pi)
    square = float(number) * number
    return (1 / 12 - (1 / 360 - (1 / 1260 - 1 / 1680 / square) / square) / square) / number


def _deviance(count: float, expected: float) -> float:
    """The term count * log(count / expected) + expected - count, without cancellation where the two are close."""
    step = (expected - count) / count
    if abs(step) > _CLOSE:
        return count * math.log(count / expected) + expected - count
    # step - log(1 + step) as a series: s^2/2 - s^3/3 + s^4/4 ...
    power, total, order = step * step, 0.0, 2
    while abs(power) / order > total * 1e-18:
        total += power / order if order % 2 == 0 else -power / order
        power *= step
        order += 1
    return count * total


def clean_runs_missing(failures: int, trials: int, target: float) -> int:
    """How many further runs without a failure bring the exact upper bound down to `target`; 0: it is there.

    At a target of 1%, 299 clean runs are enough; at 3%, 99.
    """
    _check(failures, trials)
    if not 0.0 < target < 1.0:
        raise ValueError(f"a target must lie between 0 and 1, not {target}")

    def is_proven(more: int) -> bool:
        return trials + more > 0 and _upper(failures, trials + more) <= target

    return _fewest(is_proven)


def _fewest(is_enough: Callable[[int], bool]) -> int:
    """The smallest number, from 0, that is enough, where every larger one is too."""
    if is_enough(0):
        return 0
    high = 1
    while not is_enough(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
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
