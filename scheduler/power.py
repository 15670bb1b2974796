"""How many runs a proof needs, and how likely a sweep of so many brings it. Pure; exact binomial sums.

A proof is what the scorecard calls one: of flake that Clopper and Pearson's one-sided upper 95% bound is at most the
target, of reach that the lower end of Wilson's two-sided 95% interval is at least it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

_DOUBT = 0.05
# the two-sided 95% quantile of the normal distribution
_Z = 1.959963984540054
# beyond these a proof is no matter of nights; they keep a search from going on for minutes
MOST_FAILURES = 400
MOST_MEASURED = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """A number of trials per site, and what it promises."""

    trials: int
    runs: int
    # those that enter the rate: of reach the runs on sites that can be measured
    counted: int
    # so many of them may fail at most; -1: too few to prove it even without a failure
    allowed: int
    # the probability that a sweep of so many proves it
    power: float
    # of reach: runs that are likely to be excluded on the product's word alone; a proof counts them as misses
    unverified: int = 0


def at_most(count: int, trials: int, share: float) -> float:
    """P(X <= count) for X ~ Binomial(trials, share)."""
    if count < 0:
        return 0.0
    if count >= trials or share <= 0.0:
        return 1.0
    if share >= 1.0:
        return 0.0
    if count > trials * share:
        return max(0.0, 1.0 - at_most(trials - count - 1, trials, 1.0 - share))
    # downwards from the largest term, until nothing is added
    relative = total = 1.0
    for number in range(count, 0, -1):
        relative *= number / (trials - number + 1) * (1.0 - share) / share
        total += relative
        if relative < total * 1e-17:
            break
    return min(1.0, _term(count, trials, share) * total)


def _term(count: int, trials: int, share: float) -> float:
    ways = math.lgamma(trials + 1) - math.lgamma(count + 1) - math.lgamma(trials - count + 1)
    return math.exp(ways + count * math.log(share) + (trials - count) * math.log1p(-share))


def fewest_runs(failures: int, target: float, least: int = 1) -> int:
    """The smallest number of runs, from `least`, of which so many may fail while at most `target` is proven.

    At 1%: 299 with none, 473 with one, 628 with two.
    """
    low, high = max(least, failures + 1) - 1, max(least, failures + 1)
    while at_most(failures, high, target) > _DOUBT:
        # each further failure costs about 1 / target runs
        low, high = high, high + math.ceil(1 / target)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if at_most(failures, middle, target) <= _DOUBT else (middle, high)
    return high


def most_failures(runs: int, target: float) -> int:
    """How many of the runs may fail while at most `target` is proven; -1: they are too few for any proof."""
    allowed = -1
    while at_most(allowed + 1, runs, target) <= _DOUBT:
        allowed += 1
    return allowed


def weigh_flake(trials: int, sites: int, *, target: float, assumed: float) -> Need:
    """What so many trials promise for a proof of flake, should its true share be `assumed`."""
    runs = trials * sites
    allowed = most_failures(runs, target)
    return Need(trials=trials, runs=runs, counted=runs, allowed=allowed, power=at_most(allowed, runs, assumed))


def need_for_flake(sites: int, *, target: float, assumed: float, power: float) -> Need | None:
    """The fewest trials that prove flake with this power; None: more than any night has."""
    least = 1
    for failures in range(MOST_FAILURES):
        # more runs at the same number of allowed failures only make one more likely
        least = fewest_runs(failures, target, least)
        need = weigh_flake(-(-least // sites), sites, target=target, assumed=assumed)
        if need.power >= power:
            return need
    return None


def wilson_low(successes: int, trials: int) -> float:
    """The lower end of Wilson's two-sided 95% interval."""
    share, z2 = successes / trials, _Z * _Z
    half = _Z * math.sqrt(share * (1.0 - share) / trials + z2 / (4 * trials * trials))
    return (share + z2 / (2 * trials) - half) / (1 + z2 / trials)


def weigh_reach(
    trials: int, sites: int, *, measurable: float, target: float, assumed: float, unverified: float = 0.0
) -> Need:
    """What so many trials promise for a proof of reach, should its true share be `assumed`.

    `measurable` is the share of runs that enter the rate; what is not measurable leaves it. Of that, the share of runs
    that are `unverified` must not make the difference: the rate is to be proven with them as misses too.
    """
    counted, doubted = round(trials * sites * measurable), round(trials * sites * unverified)
    least = _fewest_reached(counted, counted + doubted, target)
    return Need(
        trials=trials,
        runs=trials * sites,
        counted=counted,
        allowed=-1 if least is None else counted - least,
        # as many reached as that, or more: as few missed, or fewer
        power=0.0 if least is None else at_most(counted - least, counted, 1.0 - assumed),
        unverified=doubted,
    )


def _fewest_reached(counted: int, among: int, target: float) -> int | None:
    """Of so many `counted`, how many must be reached, as a share `among` more; None: all would not prove it."""
    if counted < 1 or wilson_low(counted, among) < target:
        return None
    low, high = -1, counted
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if wilson_low(middle, among) >= target else (middle, high)
    return high


def need_for_reach(
    sites: int, *, measurable: float, target: float, assumed: float, power: float, unverified: float = 0.0
) -> Need | None:
    """The fewest trials that prove reach with this power; None: more than any night has, or nothing is measurable."""
    trials = 0
    while sites * measurable > 0 and trials * sites * measurable < MOST_MEASURED:
        trials += 1
        need = weigh_reach(trials, sites, measurable=measurable, unverified=unverified, target=target, assumed=assumed)
        if need.power >= power:
            return need
    return None
