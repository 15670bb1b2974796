"""A sweep's scorecard: nine cells, and everything that must stand beside them to be read out loud. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import partial
from typing import Any

from broker.types import Bucket, Claim, Evidence, Family, Seen
from grader.criteria import Cell, Reading, Sample, SweepFacts, judge_criteria, reach_readings, unlike
from grader.criteria.cells import Counts, Group, SkillTally
from grader.facts import AttemptRow
from grader.ledger import GroupUse
from grader.marker_check import MarkerCheck

SCORECARD_SCHEMA = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Attempts by family; the four always sum to `attempts`. `reach` is empty where rates are not pooled."""

    attempts: int
    ok: int
    product: int
    infra: int
    not_measurable: int
    reach: tuple[Reading, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Exclusion:
    """Attempts of one site that were left out for one reason, and on whose word."""

    site: str
    rule: str
    evidence: Evidence | None
    attempts: int
    # the latest attempt's own words
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Miss:
    """One attempt in which the product failed, or which the infrastructure spoilt."""

    run: str
    attempt: int
    attempt_no: int
    bucket: Bucket
    rule: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Breakdown:
    """Attempts of one site, editor shape or box by bucket."""

    key: str
    tally: Tally
    buckets: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimByPage:
    """How often a claim of the product's met what bv3 read."""

    claim: Claim
    page: Seen
    attempts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Scorecard:
    """Everything that is printed of one sweep."""

    sweep: SweepFacts
    grader_versions: tuple[int, ...]
    boxes: tuple[str, ...]
    renderers: tuple[str, ...]
    lanes: tuple[str, ...]
    product_revisions: tuple[str, ...]
    # what a reference stack was told to inject, and by how much it shortened the product's waits
    faults: tuple[str, ...]
    leash_scales: tuple[float, ...]
    # why the attempts are not one sample, so that no rate of them is given; empty: they are
    not_pooled: str
    tally: Tally
    first_attempts: Tally
    retries: Tally
    criteria: tuple[Cell, ...]
    exclusions: tuple[Exclusion, ...]
    misses: tuple[Miss, ...]
    spoilt: tuple[Miss, ...]
    claim_by_page: tuple[ClaimByPage, ...]
    skills: SkillTally
    by_site: tuple[Breakdown, ...]
    by_shape: tuple[Breakdown, ...]
    by_box: tuple[Breakdown, ...]
    # shapes of the suite's sites that no run could be measured on, and those that were measured and never reached
    shapes_empty: tuple[str, ...] = ()
    shapes_unreached: tuple[str, ...] = ()
    # None: nobody asked
    markers: MarkerCheck | None = None
    # what the groups of a frozen suite were frozen with; None: the suite is not a frozen one
    freezes: tuple[GroupUse, ...] | None = None


def build_scorecard(
    sweep: SweepFacts,
    rows: Sequence[AttemptRow],
    *,
    baseline: Sample | None = None,
    known: Sample | None = None,
    markers: MarkerCheck | None = None,
    freezes: tuple[GroupUse, ...] | None = None,
) -> Scorecard:
    """The scorecard of these attempts, whatever their order.

    `baseline` is the sweep that criterion 6 is set against, `known` the one that 8 takes its gap from.
    """
    ordered = sorted(rows, key=lambda row: (row.trial, row.site, row.arm, row.attempt_no, row.attempt_id))
    sample = Sample(sweep=sweep, rows=ordered)
    groups, not_pooled = sample.groups, unlike(sample)
    count = partial(_tally, has_rates=not not_pooled)
    by_shape = _break_down(groups, lambda group: group.editor_shape, count)
    return Scorecard(
        sweep=sweep,
        grader_versions=tuple(sorted({row.grader_version for row in ordered})),
        boxes=_distinct(group.box for group in groups),
        renderers=_distinct(one.renderer for one in sample.conditions),
        lanes=_distinct(one.lane for one in sample.conditions),
        product_revisions=_distinct(one.product_revision for one in sample.conditions),
        faults=_distinct(one.faults for one in sample.conditions),
        leash_scales=tuple(sorted({one.leash_scale for one in sample.conditions})),
        not_pooled=not_pooled,
        tally=count(groups),
        first_attempts=count({group: times for group, times in groups.items() if group.is_first}),
        retries=count({group: times for group, times in groups.items() if not group.is_first}),
        criteria=judge_criteria(sample, baseline=baseline, known=known),
        exclusions=_exclusions(ordered),
        misses=_misses(ordered, Family.PRODUCT),
        spoilt=_misses(ordered, Family.INFRA),
        claim_by_page=_claim_by_page(groups),
        skills=sample.skills,
        by_site=_break_down(groups, lambda group: group.site, count),
        by_shape=by_shape,
        # imported attempts have none
        shapes_empty=_empty_shapes(sweep.suite_shapes, groups),
        shapes_unreached=tuple(one.key for one in by_shape if one.tally.product and not one.tally.ok),
        by_box=_break_down(
            {group: times for group, times in groups.items() if group.box}, lambda group: group.box, count
        ),
        markers=markers,
        freezes=freezes,
    )


def _tally(groups: Counts, *, has_rates: bool) -> Tally:
    """These attempts by family, with their reach."""
    families: Counter[Family] = Counter()
    for group, times in groups.items():
        families[group.bucket.family] += times
    return Tally(
        attempts=sum(groups.values()),
        ok=families[Family.OK],
        product=families[Family.PRODUCT],
        infra=families[Family.INFRA],
        not_measurable=families[Family.NOT_MEASURABLE],
        reach=reach_readings(groups) if has_rates else (),
    )


def _distinct(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({value for value in values if value}))


def _exclusions(rows: Sequence[AttemptRow]) -> tuple[Exclusion, ...]:
    groups: dict[tuple[str, str, str], list[AttemptRow]] = {}
    for row in rows:
        if row.bucket is Bucket.NOT_MEASURABLE:
            groups.setdefault((row.site, row.rule, str(row.facts.evidence)), []).append(row)
    return tuple(
        Exclusion(
            site=site,
            rule=rule,
            evidence=members[-1].facts.evidence,
            attempts=len(members),
            detail=members[-1].detail,
        )
        for (site, rule, _), members in sorted(groups.items())
    )


def _misses(rows: Sequence[AttemptRow], family: Family) -> tuple[Miss, ...]:
    buckets = {bucket for bucket in Bucket if bucket.family is family}
    return tuple(
        Miss(
            run=row.name,
            attempt=row.attempt_id,
            attempt_no=row.attempt_no,
            bucket=row.bucket,
            rule=row.rule,
            detail=row.detail,
        )
        for row in rows
        if row.bucket in buckets
    )


def _claim_by_page(groups: Counts) -> tuple[ClaimByPage, ...]:
    counts: Counter[tuple[Claim, Seen]] = Counter()
    for group, times in groups.items():
        # what an imported row claimed is not known
        counts[group.claim, group.page] += times * group.is_claim_known
    return tuple(ClaimByPage(claim=claim, page=page, attempts=counts[claim, page]) for claim in Claim for page in Seen)


def _break_down(groups: Counts, key: Callable[[Group], str], count: Callable[[Counts], Tally]) -> tuple[Breakdown, ...]:
    parts: dict[str, dict[Group, int]] = {}
    for group, times in groups.items():
        parts.setdefault(key(group), {})[group] = times
    return tuple(
        Breakdown(key=name, tally=count(part), buckets=_by_bucket(part)) for name, part in sorted(parts.items())
    )


def _empty_shapes(shapes: Mapping[str, str], groups: Counts) -> tuple[str, ...]:
    """The shapes of which no site has a measurable attempt, by site: an old row names its shape in other words."""
    measured = {group.site for group in groups if group.bucket.family in {Family.OK, Family.PRODUCT}}
    return tuple(sorted(set(shapes.values()) - {shape for site, shape in shapes.items() if site in measured}))


def _by_bucket(groups: Counts) -> dict[str, int]:
    buckets: Counter[str] = Counter()
    for group, times in groups.items():
        buckets[group.bucket.value] += times
    return dict(sorted(buckets.items()))


def to_json(card: Scorecard) -> dict[str, Any]:
    """The scorecard as plain JSON values, in the shape of docs/reference/scorecard-json.md."""
    plain: dict[str, Any] = _plain(asdict(card))
    return {"schema": SCORECARD_SCHEMA, **plain}


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value
