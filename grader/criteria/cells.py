"""What a criterion is judged on, and what a judged one holds; the one rule by which a mark is given."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from typing import Any, NamedTuple

from broker.types import Bucket, Claim, Evidence, Family, Mode, Seen
from grader import intervals
from grader.facts import AttemptRow
from grader.intervals import Interval

KNOWN_SUITE, HOLDOUT_SUITE = "known", "holdout"
# Trials per site of the plan that a suite is judged by: c7 runs the known suite 12 times, c8 the holdout twice, as the
# seed did; anon and shapes three times.
_PLANNED_TRIALS = {KNOWN_SUITE: 12, HOLDOUT_SUITE: 2, "anon": 3, "shapes": 3}
_OTHER_TRIALS = 12
# what the infrastructure spoilt enters no rate but that of flake
INFRA = frozenset(bucket for bucket in Bucket if bucket.family is Family.INFRA)

Rows = Sequence[AttemptRow]


class Mark(StrEnum):
    """A criterion's verdict."""

    PASS = "PASS"  # noqa: S105 - no password
    FAIL = "FAIL"
    OPEN = "OPEN"


@dataclass(frozen=True, slots=True, kw_only=True)
class RetiredSite:
    """A site of the suite that has left the denominator, and the evidence that took it out."""

    site: str
    date: str
    evidence: str


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
    # sites that the plan made runs for, and sites of its suite that are not retired
    sites: tuple[str, ...]
    suite_sites: tuple[str, ...]
    state: str
    started_at: datetime | None
    finished_at: datetime | None
    # attempts that have no verdict yet
    ungraded: int = 0
    # preflight refusals, what they cost, and how many there were of each reason
    refusals: int = 0
    box_minutes_lost: float = 0.0
    refusal_reasons: Mapping[str, int] = field(default_factory=dict)
    # breaches found in records that came too late to count in a rate
    late_breaches: int = 0
    retired: tuple[RetiredSite, ...] = ()
    # the editor's shape of each site of the suite that is not retired
    suite_shapes: Mapping[str, str] = field(default_factory=dict)
    # of the suite's file as the sweep ran it, and as it ships today; empty: not known
    suite_sha256: str = ""
    shipped_sha256: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A rate with its counts, under another way of counting; `value` None: nothing to measure."""

    label: str
    numerator: int
    denominator: int
    value: float | None
    interval: Interval | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One measure of this sweep beside the same of another; None: not measured there."""

    label: str
    # ms: `change` is relative to the other; share: it is the other less this one
    unit: str
    value: float | None
    other: float | None
    change: float | None
    # of the change
    interval: Interval | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One row of the scorecard. `unit` of value and interval: share, ms, count, or change (a share of the other's)."""

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
    # what is missing, or why it failed
    hint: str = ""
    # what to know when reading it, whatever the mark
    notes: tuple[str, ...] = ()
    # the same rate under other ways of counting what is in doubt
    also: tuple[Reading, ...] = ()
    # the sweep it is set against, and the measures side by side
    against: str | None = None
    compared: tuple[Comparison, ...] = ()


class Conditions(NamedTuple):
    """What must not differ between attempts of one rate; `mode` None: the attempt left no record."""

    mode: Mode | None
    renderer: str
    lane: str
    product_revision: str
    leash_scale: float
    faults: str


def _group_key(row: AttemptRow) -> tuple[Any, ...]:
    facts = row.facts
    judged = row.bucket, facts.evidence, facts.claim, facts.page, "claim" not in facts.unknown
    return row.site, row.editor_shape, row.box, row.attempt_no == 1, *judged


class Group(NamedTuple):
    """Attempts that every count of a scorecard counts alike."""

    site: str
    editor_shape: str
    box: str
    is_first: bool
    bucket: Bucket
    evidence: Evidence | None
    claim: Claim
    page: Seen
    is_claim_known: bool


Counts = Mapping[Group, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillTally:
    """What the attempts' logs say of learned skills, summed."""

    recorded: int
    replays: int
    replays_succeeded: int
    # by the name of the marker that says why
    refusals: dict[str, int]


@dataclass(frozen=True, kw_only=True)
class Sample:
    """A sweep with its graded attempts."""

    sweep: SweepFacts
    rows: Rows

    @cached_property
    def is_complete(self) -> bool:
        """Whether every run of the plan is over, with no attempt left to grade and none left to retry."""
        sweep = self.sweep
        return sweep.ungraded == 0 and sweep.runs_closed == self._graded_runs == sweep.runs > 0

    @cached_property
    def _graded_runs(self) -> int:
        return len({row.run_id for row in self.rows})

    @cached_property
    def trials(self) -> int:
        """Runs of the site that has the fewest."""
        # of the attempts of a run, any names its site
        runs = Counter({row.run_id: row.site for row in self.rows}.values())
        return min((runs[site] for site in self.sweep.sites), default=0)

    @cached_property
    def conditions(self) -> frozenset[Conditions]:
        """What the attempts ran under, each combination once."""
        return self.measured_conditions | self.spoilt_conditions

    @property
    def measured_conditions(self) -> frozenset[Conditions]:
        """The same of the attempts that the infrastructure did not spoil: what every rate but flake rests on."""
        return self._conditions[False]

    @property
    def spoilt_conditions(self) -> frozenset[Conditions]:
        """The same of those that it spoilt."""
        return self._conditions[True]

    @cached_property
    def _conditions(self) -> Mapping[bool, frozenset[Conditions]]:
        """What attempts ran under, by whether they were spoilt."""
        # through plain tuples: a hundred thousand of them are hashed
        found: dict[bool, set[tuple[Any, ...]]] = {False: set(), True: set()}
        for row in self.rows:
            facts = row.facts
            found[row.bucket in INFRA].add(
                (facts.mode, facts.renderer, facts.lane, facts.product_revision, facts.leash_scale, facts.faults)
            )
        return {is_spoilt: frozenset(map(Conditions._make, values)) for is_spoilt, values in found.items()}

    @cached_property
    def groups(self) -> Counts:
        """How many attempts each group has: a hundred thousand come down to some dozen, once for all counts."""
        counts: Counter[tuple[Any, ...]] = Counter()
        counts.update(map(_group_key, self.rows))
        return {Group._make(key): times for key, times in counts.items()}

    @cached_property
    def skills(self) -> SkillTally:
        """The attempts' skill counts in one."""
        refusals: Counter[str] = Counter()
        recorded = replays = succeeded = 0
        for skills in (row.facts.skills for row in self.rows):
            recorded += skills.recorded
            replays += skills.replays
            succeeded += skills.replays_succeeded
            if skills.refusals:
                refusals.update(skills.refusals)
        return SkillTally(
            recorded=recorded,
            replays=replays,
            replays_succeeded=succeeded,
            refusals=dict(sorted(refusals.items())),
        )

    @cached_property
    def grader_versions(self) -> frozenset[int]:
        """The versions of the rules that gave the verdicts."""
        return frozenset({row.grader_version for row in self.rows})

    @property
    def is_reworded(self) -> bool:
        """Whether the suite's file was another one than today's; where either is not known, it is not said."""
        then, now = self.sweep.suite_sha256, self.sweep.shipped_sha256
        return bool(then and now and then != now)

    @property
    def blocked(self) -> str:
        """Why no rate of this sweep settles anything yet; empty: nothing stands in the way."""
        missing = set(self.sweep.suite_sites) - set(self.sweep.sites)
        if missing:
            return f"{len(self.sweep.sites)} of the suite's {len(self.sweep.suite_sites)} sites"
        return self.unfinished

    @property
    def unfinished(self) -> str:
        """What is not over or not graded yet; empty: nothing."""
        if self.is_complete:
            return ""
        over = min(self._graded_runs, self.sweep.runs_closed)
        waiting = f", {self.sweep.ungraded} attempts not yet" if self.sweep.ungraded else ""
        return f"{over} of {self.sweep.runs} runs are graded{waiting}"

    @property
    def small(self) -> str:
        """By how much the sample is below the plan's own size; empty: it is not."""
        planned = _PLANNED_TRIALS.get(self.sweep.suite, _OTHER_TRIALS)
        return "" if self.trials >= planned else f"n={self.trials} of the plan's {planned}"


def read_rate(label: str, numerator: int, denominator: int) -> Reading:
    """The rate with Wilson's interval."""
    return Reading(
        label=label,
        numerator=numerator,
        denominator=denominator,
        value=numerator / denominator if denominator else None,
        interval=intervals.wilson(numerator, denominator),
    )


def settle(cell: Cell, *, is_met: bool, is_proven: bool, small: str = "", hint: str = "more runs") -> Cell:
    """The cell with its mark, which is the point estimate's. `hint` stands there while the interval does not agree.

    `small` says that the sample is below the plan's size: then nothing passes, and only what the interval
    refutes already fails.
    """
    if small and (is_met or not is_proven):
        return replace(cell, hint=small)
    return replace(
        cell,
        mark=Mark.PASS if is_met else Mark.FAIL,
        proven=is_proven,
        hint="" if is_proven else hint,
    )
