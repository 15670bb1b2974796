"""Criteria 4, 5 and 6: how long it takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from broker.types import Bucket, Mode
from grader import intervals
from grader.criteria.cells import INFRA, Cell, Comparison, Sample, settle
from grader.criteria.conditions import OTHER_REVISION, incomparable, other_sites
from grader.criteria.shift import LEAVES, compare_buckets, timed_sites
from grader.facts import AttemptRow

_PRESTAGE_TARGET_MS = 3_000
# fewer make no interval of a median
_PRESTAGE_VALUES = 6
_FAST_TIERS = frozenset({0, 1})
_OTHER_TARGET = -0.50
_SHIFT_TARGET = 0.10
_IMPORTED = "imported"


def judge_write_time(sample: Sample) -> Cell:
    """4: median wall time of successful writes; in a dry sweep the wall of its ok runs stands for it."""
    walls = [row.facts.wall_ms for row in sample.rows if row.bucket is Bucket.OK and row.facts.wall_ms is not None]
    is_dry = sample.sweep.mode is Mode.DRY
    return Cell(
        number=4,
        name="median successful write",
        target="<=12s",
        baseline="~21s",
        value=intervals.median(walls),
        unit="ms",
        denominator=len(walls),
        interval=intervals.median_interval(walls),
        hint="dry proxy: ok runs; plan c2" if is_dry else "live rounds: plan c2",
    )


def judge_prestage(sample: Sample) -> Cell:
    """5: prestage of runs whose first dispatch found its composer without a model (tier 0 or 1)."""
    measured = [row for row in sample.rows if row.bucket not in INFRA]
    hits = [row for row in measured if row.facts.timing.tier in _FAST_TIERS]
    times = [row.facts.timing.prestage_ms for row in hits if row.facts.timing.prestage_ms is not None]
    middle, interval = intervals.median(times), intervals.median_interval(times)
    cell = Cell(
        number=5,
        name="prestage, tier-0/1 hits",
        target="<=3s",
        baseline="~16s",
        value=middle,
        unit="ms",
        denominator=len(times),
        interval=interval,
        notes=_left_out(measured, len(hits) - len(times)),
    )
    if middle is None:
        return replace(cell, hint="no tier-0/1 hit was seen")
    if sample.blocked:
        return replace(cell, hint=sample.blocked)
    if interval is None:
        return replace(cell, hint=f"{_PRESTAGE_VALUES} values at least: {_PRESTAGE_VALUES - len(times)} more")
    is_met = middle <= _PRESTAGE_TARGET_MS
    is_proven = interval.high <= _PRESTAGE_TARGET_MS if is_met else interval.low > _PRESTAGE_TARGET_MS
    return settle(cell, is_met=is_met, is_proven=is_proven, small=sample.small)


def _left_out(measured: list[AttemptRow], untimed: int) -> tuple[str, ...]:
    """Attempts that may have been hits and carry no time: rows of an older harness, and hits without one."""
    legacy = sum(row.rule == _IMPORTED and row.facts.timing.prestage_ms is None for row in measured)
    left = legacy + untimed
    return (f"{left} without a prestage time left out",) if left else ()


def judge_other_ms(sample: Sample, baseline: Sample | None) -> Cell:
    """6: the part of the time that the product's own code owns, against a baseline; alone it shows its median."""
    times = [
        row.facts.timing.other_ms
        for row in sample.rows
        if row.bucket is Bucket.OK and row.facts.timing.other_ms is not None
    ]
    cell = Cell(
        number=6,
        name="other_ms vs baseline",
        target="-50%",
        baseline="unmeasured",
        value=intervals.median(times),
        unit="ms",
        denominator=len(times),
        interval=intervals.median_interval(times),
        hint="none named: --baseline SWEEP",
    )
    if baseline is None:
        return cell
    problem = other_sites(sample, baseline) or incomparable(sample, baseline, OTHER_REVISION)
    if problem:
        return replace(cell, hint=problem)
    return _judge_change(replace(cell, against=baseline.sweep.sweep), sample, baseline)


def _judge_change(cell: Cell, sample: Sample, baseline: Sample) -> Cell:
    compared = compare_buckets(sample.rows, baseline.rows)
    other = compared["other"]
    cell = replace(cell, compared=tuple(compared.values()), notes=_sites_left_out(sample, baseline))
    if other.value is None or other.change is None:
        why = "the baseline's other_ms is 0" if other.value is not None else "no site has ok runs with times in both"
        return replace(cell, hint=why)
    cell = replace(cell, value=other.change, unit="change", interval=other.interval)
    for one in (sample, baseline):
        if one.blocked:
            return replace(cell, hint=_name(one, one.blocked, sample))
    rest = compared["wall minus other"]
    if rest.change is None:
        return replace(cell, hint="no wall times in both: time may have moved")
    return _mark_change(cell, compared, small=_smaller(sample, baseline))


def _mark_change(cell: Cell, compared: Mapping[str, Comparison], *, small: str) -> Cell:
    other, rest = compared["other"], compared["wall minus other"]
    assert other.change is not None  # noqa: S101 - the caller looked
    assert rest.change is not None  # noqa: S101
    has_fallen, has_moved = other.change <= _OTHER_TARGET, rest.change > _SHIFT_TARGET
    falls, moves = other.interval, rest.interval
    if has_fallen and not has_moved:
        bears_out = falls is not None and moves is not None
        is_proven = bears_out and falls.high <= _OTHER_TARGET and moves.high <= _SHIFT_TARGET  # type: ignore[union-attr]
    else:
        is_proven = (not has_fallen and falls is not None and falls.low > _OTHER_TARGET) or (
            has_moved and moves is not None and moves.low > _SHIFT_TARGET
        )
    settled = settle(cell, is_met=has_fallen and not has_moved, is_proven=is_proven, small=small, hint=_wanting(falls))
    if not has_moved:
        return settled
    moved = f"time moved into {_destinations(compared)}"
    return replace(settled, hint=f"{moved}; {settled.hint}" if settled.hint else moved)


def _wanting(interval: object) -> str:
    return "an interval needs 6 ok runs of each site" if interval is None else "more runs"


def _destinations(compared: Mapping[str, Comparison]) -> str:
    """The buckets that grew, the most first; what is in no bucket of the product's is `outside`."""
    rises = {
        name: one.value - one.other
        for name in LEAVES
        if (one := compared[name]).value is not None and one.other is not None
    }
    grown = sorted(((rise, name) for name, rise in rises.items() if rise > 0), reverse=True)
    return ", ".join(f"{name} (+{rise:.0f} ms)" for rise, name in grown) or "wall, in no bucket that was measured"


def _sites_left_out(sample: Sample, baseline: Sample) -> tuple[str, ...]:
    ours, theirs = (timed_sites(one.rows, "other") for one in (sample, baseline))
    left = sorted(ours ^ theirs)
    return (f"left out, without an ok run in one of the two: {', '.join(left)}",) if left else ()


def _smaller(sample: Sample, baseline: Sample) -> str:
    return next((_name(one, one.small, sample) for one in (sample, baseline) if one.small), "")


def _name(one: Sample, text: str, sample: Sample) -> str:
    return text if one is sample else f"{one.sweep.sweep}: {text}"
