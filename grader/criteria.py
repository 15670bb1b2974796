"""The nine criteria, each a small pure function from a sweep's rows to one cell.

PASS is the point estimate at the plan's size; `proven` asks the interval. OPEN says what is missing.
A rate over nothing is None, never 0 or 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from broker.types import Bucket, Claim, Evidence, Family, Mode
from grader import intervals
from grader.facts import AttemptRow
from grader.intervals import Interval

KNOWN_SUITE = "known"
_REACH_TARGET = 0.90
_PRESTAGE_TARGET_MS = 3_000
# fewer make no interval of a median
_PRESTAGE_VALUES = 6
_FLAKE_TARGET = 0.01
_FLAKE_RUNS = 100
_FAST_TIERS = frozenset({0, 1})


class Mark(StrEnum):
    """A criterion's verdict."""

    PASS = "PASS"  # noqa: S105 - no password
    FAIL = "FAIL"
    OPEN = "OPEN"


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepFacts:
    """What a scorecard must know of a sweep beside its attempts."""

    sweep: str
    plan: str
    suite: str
    mode: Mode
    trials: int
    # runs that the plan made, cancelled ones included, and those that are over and were not cancelled
    runs: int
    runs_closed: int
    # sites that the plan made runs for, and sites of its suite
    sites: tuple[str, ...]
    suite_sites: tuple[str, ...]
    state: str
    started_at: datetime | None
    finished_at: datetime | None
    # attempts that have no verdict yet
    ungraded: int = 0
    # preflight refusals, and what they cost
    refusals: int = 0
    box_minutes_lost: float = 0.0
    # breaches found in records that came too late to count in a rate
    late_breaches: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A rate with its counts, under another way of counting; `value` None: nothing to measure."""

    label: str
    numerator: int
    denominator: int
    value: float | None
    interval: Interval | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One row of the scorecard. `unit` of value and interval: share, ms, or count."""

    number: int
    name: str
    target: str
    baseline: str
    value: float | None = None
    unit: str = "share"
    numerator: int | None = None
    denominator: int | None = None
    interval: Interval | None = None
    mark: Mark = Mark.OPEN
    # whether the interval bears the mark out; None while it is open
    proven: bool | None = None
    # what is missing, or what to know when reading it
    hint: str = ""
    # the same rate under other ways of counting what is in doubt
    also: tuple[Reading, ...] = ()


Rows = Sequence[AttemptRow]


def judge_criteria(sweep: SweepFacts, rows: Rows) -> tuple[Cell, ...]:
    """The nine cells, in order."""
    cells = tuple(judge(sweep, rows) for judge in _CRITERIA)
    problem = _pooling_problem(rows)
    return tuple(_unpooled(cell, problem) if problem else cell for cell in cells)


def is_complete(sweep: SweepFacts, rows: Rows) -> bool:
    """Whether every run of the plan is over, with no attempt left to grade and none left to retry."""
    return sweep.ungraded == 0 and sweep.runs_closed == len({row.run_id for row in rows}) == sweep.runs > 0


def _progress_hint(sweep: SweepFacts, rows: Rows) -> str:
    return f"{len({row.run_id for row in rows})} of {sweep.runs} runs are graded"


def _pooling_problem(rows: Rows) -> str:
    for what in ("renderer", "lane", "product_revision", "mode"):
        found = {str(getattr(row.facts, what)) for row in rows if row.facts.mode is not None}
        if len(found) > 1:
            return f"not pooled, {what.replace('_', ' ')} differs: {', '.join(sorted(found))}"
    return ""


def _unpooled(cell: Cell, problem: str) -> Cell:
    if cell.value is None or (cell.mark is Mark.FAIL and cell.unit == "count"):
        return cell
    return replace(cell, value=None, interval=None, mark=Mark.OPEN, proven=None, hint=problem, also=())


def _reading(label: str, numerator: int, denominator: int) -> Reading:
    return Reading(
        label=label,
        numerator=numerator,
        denominator=denominator,
        value=numerator / denominator if denominator else None,
        interval=intervals.wilson(numerator, denominator),
    )


def reach_readings(rows: Rows) -> tuple[Reading, ...]:
    """Reach, and again with each doubt counted the other way.

    Infra and not measurable are outside; UNVERIFIED exclusions are counted once as our misses; fills that
    were claimed where the page could not be read are misses, and are left out once.
    """
    reached = sum(row.bucket is Bucket.OK for row in rows)
    measurable = sum(row.bucket.family in {Family.OK, Family.PRODUCT} for row in rows)
    unverified = sum(row.facts.evidence is Evidence.UNVERIFIED for row in rows)
    unconfirmed = sum(row.bucket is Bucket.PRODUCT_UNCONFIRMED for row in rows)
    readings = [_reading("reach", reached, measurable)]
    if unverified:
        readings.append(_reading("UNVERIFIED exclusions counted as misses", reached, measurable + unverified))
    if unconfirmed:
        readings.append(_reading("without unconfirmed fills", reached, measurable - unconfirmed))
    return tuple(readings)


def judge_reach(sweep: SweepFacts, rows: Rows) -> Cell:
    """1: composer reach on the known suite."""
    cell = Cell(number=1, name="composer reach, known", target=">= 90%", baseline="57%")
    if sweep.suite != KNOWN_SUITE:
        return replace(cell, hint="the known suite: bv3-schedule c7")
    main, *others = reach_readings(rows)
    cell = replace(
        cell,
        value=main.value,
        numerator=main.numerator,
        denominator=main.denominator,
        interval=main.interval,
        also=tuple(others),
    )
    missing = len(set(sweep.suite_sites) - set(sweep.sites))
    if missing:
        return replace(cell, hint=f"{len(sweep.sites)} of the suite's {len(sweep.suite_sites)} sites")
    if not is_complete(sweep, rows):
        return replace(cell, hint=_progress_hint(sweep, rows))
    if main.value is None or main.interval is None:
        return replace(cell, hint="nothing was measurable")
    is_met = main.value >= _REACH_TARGET
    lows = [reading.interval.low for reading in (main, *others) if reading.interval]
    is_proven = min(lows) >= _REACH_TARGET if is_met else main.interval.high < _REACH_TARGET
    return _marked(cell, is_met=is_met, is_proven=is_proven)


def _marked(cell: Cell, *, is_met: bool, is_proven: bool, hint: str = "more runs") -> Cell:
    return replace(
        cell,
        mark=Mark.PASS if is_met else Mark.FAIL,
        proven=is_proven,
        hint="" if is_proven else hint,
    )


def judge_verified_writes(_sweep: SweepFacts, _rows: Rows) -> Cell:
    """2: verified writes; a dry run writes nothing."""
    return Cell(number=2, name="verified writes", target=">= 95%", baseline="-", hint="live rounds: plan c2")


def judge_false_success(sweep: SweepFacts, rows: Rows) -> Cell:
    """3: false success claims. One is enough to fail; none in a dry sweep settles nothing."""
    claims = sum(row.facts.claim is not Claim.NONE for row in rows) + sweep.late_breaches
    false = sum(row.bucket is Bucket.PRODUCT_FALSE_SUCCESS for row in rows) + sweep.late_breaches
    cell = Cell(
        number=3,
        name="false success claims",
        target="0",
        baseline="-",
        value=float(false) if claims else None,
        unit="count",
        numerator=false,
        denominator=claims,
        hint="a dry sweep can't settle this: plan c2",
    )
    return replace(cell, mark=Mark.FAIL, proven=True, hint="a claim without a postcondition") if false else cell


def judge_write_time(_sweep: SweepFacts, rows: Rows) -> Cell:
    """4: median wall time of successful writes; in a dry sweep the wall of its ok runs stands for it."""
    walls = [row.facts.wall_ms for row in rows if row.bucket is Bucket.OK and row.facts.wall_ms is not None]
    return Cell(
        number=4,
        name="median successful write",
        target="<= 12 s",
        baseline="~21 s",
        value=intervals.median(walls),
        unit="ms",
        denominator=len(walls),
        interval=intervals.median_interval(walls),
        hint="dry proxy: wall of ok runs; plan c2",
    )


def judge_prestage(sweep: SweepFacts, rows: Rows) -> Cell:
    """5: prestage of runs whose first dispatch found its composer without a model (tier 0 or 1)."""
    times = [
        row.facts.timing.prestage_ms
        for row in rows
        if row.facts.timing.tier in _FAST_TIERS
        and row.facts.timing.prestage_ms is not None
        and row.bucket.family is not Family.INFRA
    ]
    middle, interval = intervals.median(times), intervals.median_interval(times)
    cell = Cell(
        number=5,
        name="prestage, tier-0/1 hits",
        target="<= 3 s",
        baseline="~16 s",
        value=middle,
        unit="ms",
        denominator=len(times),
        interval=interval,
    )
    if middle is None:
        return replace(cell, hint="no tier-0/1 hit was seen")
    if not is_complete(sweep, rows):
        return replace(cell, hint=_progress_hint(sweep, rows))
    if interval is None:
        return replace(cell, hint=f"{_PRESTAGE_VALUES} values at least: {_PRESTAGE_VALUES - len(times)} more")
    is_met = middle <= _PRESTAGE_TARGET_MS
    is_proven = interval.high <= _PRESTAGE_TARGET_MS if is_met else interval.low > _PRESTAGE_TARGET_MS
    return _marked(cell, is_met=is_met, is_proven=is_proven)


def judge_other_ms(_sweep: SweepFacts, rows: Rows) -> Cell:
    """6: the part of the time that the product's own code owns, against a baseline; alone it shows its median."""
    times = [
        row.facts.timing.other_ms for row in rows if row.bucket is Bucket.OK and row.facts.timing.other_ms is not None
    ]
    return Cell(
        number=6,
        name="other_ms vs baseline",
        target="-50%",
        baseline="-",
        value=intervals.median(times),
        unit="ms",
        denominator=len(times),
        interval=intervals.median_interval(times),
        hint="no baseline sweep",
    )


def judge_flake(sweep: SweepFacts, rows: Rows) -> Cell:
    """7: attempts that the infrastructure spoilt, over all attempts, with the exact one-sided bound."""
    total, infra = len(rows), sum(row.bucket.family is Family.INFRA for row in rows)
    cell = Cell(
        number=7,
        name="infrastructure flake",
        target="<= 1%",
        baseline="60%",
        value=infra / total if total else None,
        numerator=infra,
        denominator=total,
        interval=intervals.upper_bound(infra, total),
    )
    if infra > _FLAKE_TARGET * max(total, _FLAKE_RUNS) and is_complete(sweep, rows):
        lower = intervals.wilson(infra, total)
        return _marked(cell, is_met=False, is_proven=lower is not None and lower.low > _FLAKE_TARGET)
    if not is_complete(sweep, rows):
        return replace(cell, hint=_progress_hint(sweep, rows))
    if total < _FLAKE_RUNS:
        return replace(cell, hint=f"{_FLAKE_RUNS} runs at least: {_FLAKE_RUNS - total} more")
    missing = intervals.clean_runs_missing(infra, total, _FLAKE_TARGET)
    return _marked(cell, is_met=True, is_proven=missing == 0, hint=f"{missing} more clean runs")


def judge_holdout(_sweep: SweepFacts, _rows: Rows) -> Cell:
    """8: reach on the frozen holdout and its gap to the known suite."""
    return Cell(number=8, name="holdout reach, gap", target=">= 80%, 10", baseline="-", hint="plan c8")


def judge_fast_path(_sweep: SweepFacts, _rows: Rows) -> Cell:
    """9: the learned fast path; nothing is recorded in a dry run."""
    return Cell(
        number=9,
        name="learned fast path",
        target=">= 50%",
        baseline="0/55",
        hint="a dry sweep can't record: plan c2",
    )


_CRITERIA: tuple[Callable[[SweepFacts, Rows], Cell], ...] = (
    judge_reach,
    judge_verified_writes,
    judge_false_success,
    judge_write_time,
    judge_prestage,
    judge_other_ms,
    judge_flake,
    judge_holdout,
    judge_fast_path,
)
