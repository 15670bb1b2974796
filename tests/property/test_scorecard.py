"""What holds of every scorecard, whatever the attempts."""

from __future__ import annotations

import dataclasses
import random
import re
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from broker.types import Bucket, Claim, Evidence, Family, Mode, Seen
from grader.criteria import Cell, Mark, Sample, SweepFacts
from grader.evidence import Timing
from grader.facts import AttemptRow, SkillCounts, VerdictFacts
from grader.render import render_scorecard
from grader.scorecard import Scorecard, build_scorecard, to_json

SITES = ("x", "reddit", "youtube")
FLAKE = 7
INFRA = [bucket for bucket in Bucket if bucket.family is Family.INFRA]


def optional(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


MILLISECONDS = optional(st.integers(0, 300_000))
TIMINGS = st.builds(
    Timing,
    total_ms=MILLISECONDS,
    llm_ms=MILLISECONDS,
    tools_ms=MILLISECONDS,
    other_ms=MILLISECONDS,
    prestage_ms=MILLISECONDS,
    task_ms=MILLISECONDS,
    tier=optional(st.integers(0, 1)),
)
FACTS = st.builds(
    VerdictFacts,
    claim=st.sampled_from(Claim),
    page=st.sampled_from(Seen),
    evidence=optional(st.sampled_from(Evidence)),
    wall_ms=MILLISECONDS,
    timing=TIMINGS,
    mode=st.just(Mode.DRY),
    skills=st.builds(
        SkillCounts, recorded=st.integers(0, 2), refusals=st.dictionaries(st.sampled_from("ab"), st.just(1))
    ),
)


@st.composite
def attempts(
    draw: st.DrawFn, *, facts: st.SearchStrategy[VerdictFacts] = FACTS, max_size: int = 40
) -> list[AttemptRow]:
    buckets = draw(st.lists(st.sampled_from(Bucket), max_size=max_size))
    return [
        AttemptRow(
            run_id=number if draw(st.booleans()) else number // 2,
            attempt_id=number,
            attempt_no=draw(st.integers(1, 3)),
            arm=draw(st.sampled_from(["main", "part-2"])),
            site=draw(st.sampled_from(SITES)),
            trial=draw(st.integers(1, 12)),
            box=draw(st.sampled_from(["", "box-a", "box-b"])),
            editor_shape=draw(st.sampled_from(["textarea", "shadow DOM"])),
            bucket=bucket,
            rule=draw(st.sampled_from(["reached", "imported", "site_retired"])),
            detail="",
            grader_version=1,
            started_at=None,
            finished_at=None,
            facts=draw(facts),
        )
        for number, bucket in enumerate(buckets)
    ]


def sweep_of(rows: list[AttemptRow], **changes: Any) -> SweepFacts:
    runs = len({row.run_id for row in rows})
    values: dict[str, Any] = {
        "sweep": "c7-a",
        "plan": "c7",
        "suite": "known",
        "mode": Mode.DRY,
        "trials": 12,
        "runs": runs,
        "runs_closed": runs,
        "sites": SITES,
        "suite_sites": SITES,
        "state": "finished",
        "started_at": None,
        "finished_at": None,
    }
    return SweepFacts(**values | changes)


def card_of(rows: list[AttemptRow], **changes: Any) -> Scorecard:
    sweep = sweep_of(rows, **changes)
    return build_scorecard(sweep, rows, baseline=Sample(sweep=sweep, rows=rows), known=Sample(sweep=sweep, rows=rows))


SUITES = st.sampled_from(["known", "holdout", "anon"])


@given(rows=attempts(), suite=SUITES)
@settings(max_examples=60, deadline=None)
def test_families_sum_to_attempts_in_every_table(rows: list[AttemptRow], suite: str) -> None:
    card = card_of(rows, suite=suite)
    tallies = [card.tally, *(group.tally for group in (*card.by_site, *card.by_shape, *card.by_box))]
    for tally in tallies:
        assert tally.ok + tally.product + tally.infra + tally.not_measurable == tally.attempts
    boxed = sum(bool(row.box) for row in rows)
    for groups, total in ((card.by_site, len(rows)), (card.by_shape, len(rows)), (card.by_box, boxed)):
        assert sum(group.tally.attempts for group in groups) == total
        assert all(sum(group.buckets.values()) == group.tally.attempts for group in groups)
    assert sum(cross.attempts for cross in card.claim_by_page) == len(rows)
    assert card.first_attempts.attempts + card.retries.attempts == card.tally.attempts == len(rows)
    assert len(card.misses) == card.tally.product
    assert len(card.spoilt) == card.tally.infra
    assert sum(one.attempts for one in card.exclusions) == card.tally.not_measurable


@given(rows=attempts(), suite=SUITES, seed=st.integers(0, 2**16))
@settings(max_examples=40, deadline=None)
def test_the_order_of_rows_changes_nothing(rows: list[AttemptRow], suite: str, seed: int) -> None:
    shuffled = list(rows)
    random.Random(seed).shuffle(shuffled)
    assert card_of(shuffled, suite=suite) == card_of(rows, suite=suite)


def _rate(cell: Cell) -> tuple[Any, ...]:
    return cell.value, cell.numerator, cell.denominator, cell.interval, cell.also, cell.compared, cell.notes


def _add(rows: list[AttemptRow], **changes: Any) -> list[AttemptRow]:
    number = len(rows)
    values: dict[str, Any] = {
        "run_id": number,
        "attempt_id": number,
        "attempt_no": 1,
        "arm": "main",
        "site": "x",
        "trial": 3,
        "box": "box-a",
        "editor_shape": "textarea",
        "bucket": Bucket.OK,
        "rule": "reached",
        "detail": "",
        "grader_version": 1,
        "started_at": None,
        "finished_at": None,
        "facts": VerdictFacts(),
    }
    return [*rows, AttemptRow(**values | changes)]


# what an attempt that the infrastructure spoilt may say of where it ran, nothing at all included
SURROUNDINGS = st.fixed_dictionaries(
    {
        "mode": optional(st.sampled_from(Mode)),
        "lane": st.sampled_from(["", "opus"]),
        "renderer": st.sampled_from(["", "electron"]),
        "product_revision": st.sampled_from(["", "r2"]),
        "leash_scale": st.sampled_from([1.0, 0.1]),
        "faults": st.sampled_from(["", "all"]),
    }
)


@given(
    rows=attempts(),
    suite=SUITES,
    bucket=st.sampled_from(INFRA),
    timing=TIMINGS,
    rule=st.sampled_from(["box_lost", "imported"]),
    surroundings=SURROUNDINGS,
)
@settings(max_examples=100, deadline=None)
def test_an_infra_attempt_more_changes_no_rate_but_flake(
    rows: list[AttemptRow], suite: str, bucket: Bucket, timing: Timing, rule: str, surroundings: dict[str, Any]
) -> None:
    seen: dict[str, Any] = {"lane": "stub", "renderer": "playwright", "product_revision": "r1"}
    rows = [dataclasses.replace(row, facts=dataclasses.replace(row.facts, **seen)) for row in rows]
    facts = VerdictFacts(timing=timing, wall_ms=9, claim=Claim.FILLED, **surroundings)
    before, after = card_of(rows, suite=suite), card_of(_add(rows, bucket=bucket, facts=facts, rule=rule), suite=suite)
    for cell, again in zip(before.criteria, after.criteria, strict=True):
        if cell.number != FLAKE:
            assert _rate(cell) == _rate(again)
    assert (after.tally.infra, after.tally.reach) == (before.tally.infra + 1, before.tally.reach)
    assert after.not_pooled == before.not_pooled == ""
    flake, others = after.criteria[FLAKE - 1], {"lane", "renderer", "product_revision", "leash_scale", "faults"}
    if rows and facts.mode and _is_elsewhere(facts, others):
        assert (flake.value, flake.numerator, flake.denominator, flake.mark) == (None, None, None, Mark.OPEN)
        assert flake.hint.startswith("not pooled")
    else:
        assert (flake.numerator, flake.denominator) == (before.tally.infra + 1, len(rows) + 1)


def _is_elsewhere(facts: VerdictFacts, names: set[str]) -> bool:
    """Whether the spoilt attempt says of one of these what the others of the sweep do not."""
    return any(getattr(facts, name) not in {"", 1.0} for name in names)


def _numbers(value: Any) -> list[Any]:
    """Every reading in this JSON: the tallies' and those beside a cell."""
    if isinstance(value, list):
        return [number for item in value for number in _numbers(item)]
    if not isinstance(value, dict):
        return []
    here = [value[key] for key in ("numerator", "denominator", "value", "interval") if key in value]
    return here + [number for item in value.values() for number in _numbers(item)]


@given(
    rows=attempts(),
    suite=SUITES,
    other=st.sampled_from(
        [
            {"lane": "opus"},
            {"renderer": "electron"},
            {"product_revision": "r2"},
            {"mode": Mode.LIVE},
            {"leash_scale": 0.1},
        ]
    ),
    at=st.integers(0, 100),
    width=st.sampled_from([80, 100, 120]),
)
@settings(max_examples=60, deadline=None)
def test_unlike_attempts_have_no_rate_anywhere(
    rows: list[AttemptRow], suite: str, other: dict[str, Any], at: int, width: int
) -> None:
    mixed = _add(_add(rows, facts=VerdictFacts(mode=Mode.DRY)), facts=VerdictFacts(**{"mode": Mode.DRY} | other))
    random.Random(at).shuffle(mixed)
    card = card_of(mixed, suite=suite)
    (name,) = other
    assert card.not_pooled.startswith(f"{name.replace('_', ' ')} differs: ")
    breaches = card.criteria[2].numerator if card.criteria[2].mark is Mark.FAIL else None
    plain = to_json(card)
    plain["criteria"] = [cell for cell in plain["criteria"] if breaches is None or cell["number"] != 3]
    assert {number for number in _numbers(plain) if number is not None} == set()
    text = "\n".join(line.text for line in render_scorecard(card, width=width, markers=1))
    assert re.findall(r"\d+/\d+  |\d\.\d%", text) == []
    assert text.count("differs") == 1


@given(rows=attempts())
@settings(max_examples=40, deadline=None)
def test_turning_a_miss_into_a_hit_never_lowers_reach(rows: list[AttemptRow]) -> None:
    worse = _add(rows, bucket=Bucket.PRODUCT_NO_COMPOSER)
    better = _add(rows, bucket=Bucket.OK)
    for before, after in zip(card_of(worse).tally.reach, card_of(better).tally.reach, strict=True):
        assert before.value is not None
        assert after.value is not None
        assert after.value > before.value


@given(rows=attempts(), faults=st.text(min_size=1, max_size=20).map(str.strip).filter(bool), at=st.integers(0, 100))
@settings(max_examples=40, deadline=None)
def test_under_injected_faults_no_criterion_has_a_verdict(rows: list[AttemptRow], faults: str, at: int) -> None:
    faulted = _add(rows, facts=VerdictFacts(faults=faults, mode=Mode.DRY))
    random.Random(at).shuffle(faulted)
    assert {cell.mark for cell in card_of(faulted).criteria} == {Mark.OPEN}


@given(rows=attempts(), suite=SUITES, trials=st.integers(1, 11))
@settings(max_examples=40, deadline=None)
def test_nothing_passes_below_the_plans_size(rows: list[AttemptRow], suite: str, trials: int) -> None:
    few = [row for row in rows if row.site != "x"]
    few = few + [dataclasses.replace(row, site="x") for row in rows if row.site == "x"][: min(trials, 1)]
    marks = {cell.number: cell.mark for cell in card_of(few, suite=suite).criteria}
    assert Mark.PASS not in marks.values()


@given(rows=attempts(), suite=SUITES)
@settings(max_examples=40, deadline=None)
def test_a_verdict_is_never_without_a_value_and_an_open_one_says_why(rows: list[AttemptRow], suite: str) -> None:
    card = card_of(rows, suite=suite)
    for cell in card.criteria:
        if cell.mark is Mark.OPEN:
            assert cell.hint
            assert cell.proven is None
        else:
            assert cell.value is not None
            assert cell.proven is not None
            assert cell.proven or cell.hint
        if cell.interval is not None and cell.value is not None:
            assert cell.interval.low <= cell.value <= cell.interval.high


@given(rows=attempts(), suite=SUITES, width=st.integers(80, 200))
@settings(max_examples=30, deadline=None)
def test_every_scorecard_fits_its_screen_and_is_plain_json(rows: list[AttemptRow], suite: str, width: int) -> None:
    card = card_of(rows, suite=suite)
    assert max(len(line.text) for line in render_scorecard(card, width=width, markers=1)) <= width
    assert to_json(card)["tally"]["attempts"] == len(rows)
