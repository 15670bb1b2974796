"""Time buckets of two sweeps side by side, each site with the same weight, so that no mix of sites moves them.

A bucket's figure is the median over sites of each site's median over its ok runs. A pooled median would move
when a slow site is reached more often, with no change in any site's time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from random import Random

from broker.types import Bucket
from grader.criteria.cells import Comparison, Rows
from grader.facts import AttemptRow
from grader.intervals import Interval, median

_DRAWS = 2_000
_SEED = 20_260_806
# of each side
_TAIL = 0.025
# with fewer of a site, its resamples say little of it
_LEAST_VALUES = 6
# the buckets that share no time with one another, and none with other_ms
LEAVES = ("prestage", "llm", "tools", "outside")

Times = Mapping[str, Sequence[int]]


def _wall_minus_other(row: AttemptRow) -> int | None:
    wall_ms, other_ms = row.facts.wall_ms, row.facts.timing.other_ms
    return None if wall_ms is None or other_ms is None else wall_ms - other_ms


def _outside(row: AttemptRow) -> int | None:
    """Wall that is neither prestage nor in the dispatch's own total: the classifier, the mount of the card."""
    timing, wall_ms = row.facts.timing, row.facts.wall_ms
    if wall_ms is None or timing.total_ms is None or timing.prestage_ms is None:
        return None
    return wall_ms - timing.prestage_ms - timing.total_ms


_MEASURES: Mapping[str, Callable[[AttemptRow], int | None]] = {
    "wall": lambda row: row.facts.wall_ms,
    "prestage": lambda row: row.facts.timing.prestage_ms,
    "total": lambda row: row.facts.timing.total_ms,
    "llm": lambda row: row.facts.timing.llm_ms,
    "tools": lambda row: row.facts.timing.tools_ms,
    "other": lambda row: row.facts.timing.other_ms,
    "task": lambda row: row.facts.timing.task_ms,
    "wall minus other": _wall_minus_other,
    "outside": _outside,
}
_WITH_INTERVAL = frozenset({"other", "wall minus other"})


def _ok_by_site(rows: Rows) -> dict[str, list[AttemptRow]]:
    sites: dict[str, list[AttemptRow]] = {}
    for row in rows:
        if row.bucket is Bucket.OK:
            sites.setdefault(row.site, []).append(row)
    return dict(sorted(sites.items()))


def _times(sites: Mapping[str, Sequence[AttemptRow]], name: str) -> Times:
    """This bucket's times by site, in ascending order; sites without one are left out."""
    measure, times = _MEASURES[name], dict[str, list[int]]()
    for site, rows in sites.items():
        values = [value for value in map(measure, rows) if value is not None]
        if values:
            times[site] = sorted(values)
    return times


def timed_sites(rows: Rows, name: str) -> set[str]:
    """The sites that have an ok run with this time."""
    return set(_times(_ok_by_site(rows), name))


def compare_buckets(ours: Rows, theirs: Rows) -> dict[str, Comparison]:
    """Every time bucket over the sites that have it in both."""
    here, there = _ok_by_site(ours), _ok_by_site(theirs)
    return {name: _compare(name, _times(here, name), _times(there, name)) for name in _MEASURES}


def _compare(name: str, ours: Times, theirs: Times) -> Comparison:
    sites = sorted(ours.keys() & theirs.keys())
    value, other = (median([_middle(times[site]) for site in sites]) for times in (ours, theirs))
    change = (value - other) / other if value is not None and other else None
    has_interval = name in _WITH_INTERVAL and change is not None
    return Comparison(
        label=name,
        unit="ms",
        value=value,
        other=other,
        change=change,
        interval=bootstrap_change([ours[site] for site in sites], [theirs[site] for site in sites])
        if has_interval
        else None,
    )


def _middle(values: Sequence[int]) -> float:
    middle = median(values)
    assert middle is not None  # noqa: S101 - a site without a value is not in the mapping
    return middle


def bootstrap_change(ours: Sequence[Sequence[int]], theirs: Sequence[Sequence[int]]) -> Interval | None:
    """The 95% interval of the relative change of the median over sites; the values of each site in ascending order.

    Bootstrap percentiles, resampled within each site; the seed is fixed, so that the same rows always give the
    same ends. None when a site has fewer than six values or the other's median can be 0.
    """
    if not ours or min(len(values) for values in (*ours, *theirs)) < _LEAST_VALUES:
        return None
    random = Random(_SEED)  # noqa: S311 - no secret hangs on it
    changes = []
    for _ in range(_DRAWS):
        value = median([_draw_median(values, random) for values in ours])
        other = median([_draw_median(values, random) for values in theirs])
        if value is None or not other:
            return None
        changes.append((value - other) / other)
    changes.sort()
    outside = math.floor(_TAIL * _DRAWS)
    return Interval(
        low=changes[outside - 1],
        high=changes[-outside],
        method=f"bootstrap within sites, {_DRAWS} draws, two-sided 95%",
    )


def _draw_median(values: Sequence[int], random: Random) -> float:
    """The median of one resample of `values` (ascending), without making the resample.

    The k-th smallest of n uniform draws follows Beta(k, n - k + 1), and a resample's k-th smallest is the value
    at that quantile: exact, and as quick for ten thousand values as for ten.
    """
    count = len(values)
    middle = (count + 1) // 2
    quantile = random.betavariate(middle, count - middle + 1)
    lower = values[min(count - 1, int(quantile * count))]
    if count % 2:
        return lower
    # the next one is the smallest of the draws above it
    quantile += (1.0 - quantile) * (1.0 - (1.0 - random.random()) ** (1.0 / (count - middle)))
    return (lower + values[min(count - 1, int(quantile * count))]) / 2
