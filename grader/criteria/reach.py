"""Criteria 1 and 8: composer reach on the known suite, on the frozen holdout, and the gap between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from broker.types import Bucket, Evidence, Family
from grader import intervals
from grader.criteria.cells import (
    HOLDOUT_SUITE,
    KNOWN_SUITE,
    Cell,
    Comparison,
    Counts,
    Reading,
    Sample,
    read_rate,
    settle,
)
from grader.criteria.conditions import SAME_REVISION, incomparable

_KNOWN_TARGET = 0.90
_HOLDOUT_TARGET = 0.80
_GAP_TARGET = 0.10
_NO_KNOWN = (
    "no finished c7 ran under its conditions on today's known suite, so no gap: bv3-schedule c7, or --known SWEEP"
)
_SHORT_HASH = 12
_NO_UNCONFIRMED = "without unconfirmed fills"
_AS_MISSES = "UNVERIFIED counted as misses"
_GAP_LABELS = {
    "reach": "known less holdout",
    _AS_MISSES: "UNVERIFIED as misses",
    _NO_UNCONFIRMED: "without unconfirmed",
}


def reach_readings(groups: Counts) -> tuple[Reading, ...]:
    """Reach, and again with each doubt counted the other way.

    Infra and not measurable are outside; UNVERIFIED exclusions are counted once as our misses; fills that
    were claimed where the page could not be read are misses, and are left out once.
    """
    reached = measurable = unverified = unconfirmed = 0
    for group, times in groups.items():
        bucket = group.bucket
        reached += times * (bucket is Bucket.OK)
        measurable += times * (bucket.family in {Family.OK, Family.PRODUCT})
        unverified += times * (group.evidence is Evidence.UNVERIFIED)
        unconfirmed += times * (bucket is Bucket.PRODUCT_UNCONFIRMED)
    readings = [read_rate("reach", reached, measurable)]
    if unverified:
        readings.append(read_rate(_AS_MISSES, reached, measurable + unverified))
    if unconfirmed:
        readings.append(read_rate(_NO_UNCONFIRMED, reached, measurable - unconfirmed))
    return tuple(readings)


def _with_reach(cell: Cell, readings: Sequence[Reading]) -> Cell:
    main, *others = readings
    return replace(
        cell,
        value=main.value,
        numerator=main.numerator,
        denominator=main.denominator,
        interval=main.interval,
        also=tuple(others),
    )


def judge_reach(sample: Sample) -> Cell:
    """1: composer reach on the known suite."""
    cell = Cell(number=1, name="composer reach, known", target=">=90%", baseline="57%")
    if sample.sweep.suite != KNOWN_SUITE:
        return replace(cell, hint="the known suite: bv3-schedule c7")
    readings = reach_readings(sample.groups)
    cell = _with_reach(cell, readings)
    if sample.blocked:
        return replace(cell, hint=sample.blocked)
    if cell.value is None:
        return replace(cell, hint="nothing was measurable")
    is_met = cell.value >= _KNOWN_TARGET
    if is_met and (doubt := _doubt(readings, _KNOWN_TARGET)):
        return replace(cell, hint=doubt)
    is_proven = _bears_out(readings, _KNOWN_TARGET, is_met=is_met)
    return settle(cell, is_met=is_met, is_proven=is_proven, small=sample.small, hint=_missing(readings, _KNOWN_TARGET))


def _doubt(readings: Sequence[Reading], target: float) -> str:
    """Why a target that is met is not: it is met only if the product's word on its exclusions is believed (seed 5)."""
    counted = next((one for one in readings if one.label == _AS_MISSES), None)
    if counted is None or counted.value is None or counted.value >= target:
        return ""
    return f"met only with {counted.denominator - readings[0].denominator} UNVERIFIED exclusions believed"


def _bears_out(readings: Sequence[Reading], target: float, *, is_met: bool) -> bool:
    """Whether the intervals of all ways of counting lie on the side of the target that the value is on."""
    ends = [reading.interval for reading in readings if reading.interval is not None]
    return all(end.low >= target if is_met else end.high < target for end in ends)


def _missing(readings: Sequence[Reading], target: float) -> str:
    """What would make a rate proven that is not."""
    main, *others = readings
    if main.value is None or main.interval is None or main.value < target:
        return "more runs"
    missing = []
    if main.interval.low < target:
        more = intervals.runs_missing(main.value, main.denominator, target)
        missing.append("more runs" if more is None else f"{more} more measurable runs at this rate")
    doubtful = [reading.label for reading in others if reading.interval and reading.interval.low < target]
    return "; ".join([*missing, *(f"not with {label}" for label in doubtful)])


def judge_holdout(sample: Sample, known: Sample | None) -> Cell:
    """8: reach on the frozen holdout and its gap to the known suite; a holdout that does better has no gap."""
    cell = Cell(number=8, name="holdout reach, gap", target=">=80%, <=10pt", baseline="untested")
    if sample.sweep.suite != HOLDOUT_SUITE:
        return replace(cell, hint="the frozen holdout: plan c8")
    readings = reach_readings(sample.groups)
    cell = _with_reach(cell, readings)
    if known is None:
        return replace(cell, hint=_NO_KNOWN)
    problem = _unfit(known) or incomparable(sample, known, SAME_REVISION) or _judged_apart(sample, known)
    if problem:
        return replace(cell, hint=problem)
    gaps = _gaps(readings, reach_readings(known.groups))
    cell = replace(cell, against=known.sweep.sweep, compared=gaps, notes=_tell_apart(sample, known))
    blocked = sample.blocked or (f"{known.sweep.sweep}: {known.blocked}" if known.blocked else "")
    if blocked:
        return replace(cell, hint=blocked)
    small = sample.small or (f"{known.sweep.sweep}: {known.small}" if known.small else "")
    return _settle_holdout(cell, readings, gaps, small)


def _settle_holdout(cell: Cell, readings: Sequence[Reading], gaps: Sequence[Comparison], small: str) -> Cell:
    """PASS by reach and gap both; proven by every way of counting them."""
    gap = gaps[0].change
    if cell.value is None or gap is None:
        return replace(cell, hint="nothing was measurable" if cell.value is None else "no known site was measurable")
    # the difference of two rates that are ten points apart may come out above it in binary
    has_reach, has_gap = cell.value >= _HOLDOUT_TARGET, round(gap, 12) <= _GAP_TARGET
    is_met = has_reach and has_gap
    if is_met and (doubt := _doubt(readings, _HOLDOUT_TARGET) or _doubt_gap(gaps)):
        return replace(cell, hint=doubt)
    ends = [one.interval for one in gaps if one.interval is not None]
    if is_met:
        is_proven = _bears_out(readings, _HOLDOUT_TARGET, is_met=True) and all(end.high <= _GAP_TARGET for end in ends)
    else:
        is_proven = (not has_reach and _bears_out(readings, _HOLDOUT_TARGET, is_met=False)) or (
            not has_gap and all(end.low > _GAP_TARGET for end in ends)
        )
    return settle(cell, is_met=is_met, is_proven=is_proven, small=small)


def _doubt_gap(gaps: Sequence[Comparison]) -> str:
    counted = next((one for one in gaps if one.label == _GAP_LABELS[_AS_MISSES]), None)
    if counted is None or counted.change is None or counted.change <= _GAP_TARGET:
        return ""
    return "the gap is met only with UNVERIFIED exclusions believed"


def _unfit(known: Sample) -> str:
    suite = known.sweep.suite
    return "" if suite == KNOWN_SUITE else f"{known.sweep.sweep} ran the suite {suite}, not {KNOWN_SUITE}"


def _judged_apart(sample: Sample, known: Sample) -> str:
    """Why the two sides' verdicts are not of the same rules, and what makes them so; empty: they are."""
    ours, theirs = sample.grader_versions, known.grader_versions
    if ours == theirs:
        return ""
    newest = {max(ours | theirs)}
    behind = [one.sweep.sweep for one in (sample, known) if one.grader_versions != newest]
    here, there = (", ".join(map(str, sorted(versions))) or "none" for versions in (ours, theirs))
    commands = "; ".join(f"bv3-grade regrade {sweep} --adopt" for sweep in behind)
    return f"not compared, grader version differs: {here} here, {there} there; {commands}"


def _tell_apart(sample: Sample, known: Sample) -> tuple[str, ...]:
    """What to know of the known sweep when reading the gap."""
    theirs, ended, notes = known.sweep, sample.sweep.finished_at, []
    if known.is_reworded:
        then, now = theirs.suite_sha256[:_SHORT_HASH], theirs.shipped_sha256[:_SHORT_HASH]
        notes.append(f"{theirs.sweep} ran another wording of the suite {theirs.suite} ({then}) than today's ({now})")
    if ended is not None and theirs.finished_at is not None and theirs.finished_at > ended:
        notes.append(f"{theirs.sweep} finished after this sweep")
    return tuple(notes)


def _gaps(holdout: Sequence[Reading], known: Sequence[Reading]) -> tuple[Comparison, ...]:
    """The gap, and once more for each way of counting that either side needs."""
    labels = dict.fromkeys(reading.label for reading in (*holdout, *known))
    return tuple(_gap(label, _by_label(holdout, label), _by_label(known, label)) for label in labels)


def _by_label(readings: Sequence[Reading], label: str) -> Reading:
    return next((reading for reading in readings if reading.label == label), readings[0])


def _gap(label: str, holdout: Reading, known: Reading) -> Comparison:
    is_known = holdout.value is not None and known.value is not None
    return Comparison(
        label=_GAP_LABELS.get(label, label),
        unit="share",
        value=holdout.value,
        other=known.value,
        change=known.value - holdout.value if is_known else None,  # type: ignore[operator]
        interval=intervals.difference((known.numerator, known.denominator), (holdout.numerator, holdout.denominator)),
    )
