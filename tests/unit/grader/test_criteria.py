"""What each criterion counts, and when it keeps its verdict to itself."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from broker.types import Bucket, Claim, Evidence, Mode
from grader.criteria import Cell, Mark, RetiredSite, SweepFacts
from grader.evidence import Timing
from grader.facts import AttemptRow, SkillCounts
from grader.intervals import runs_missing
from grader.render import render_scorecard
from grader.scorecard import build_scorecard

Row = Callable[..., AttemptRow]
Sweep = Callable[..., SweepFacts]
SITES = ("x", "linkedin", "reddit", "gmail", "youtube", "instagram", "tiktok", "substack", "twitch")
FAST = {"timing": Timing(prestage_ms=410, other_ms=25, tier=0), "wall_ms": 2_400, "claim": Claim.FILLED}
Whole = Callable[..., list[AttemptRow]]


@pytest.fixture
def whole(row_of: Row) -> Whole:
    """So many trials of the nine sites; all ok, and the first ones in these buckets instead."""

    def make(*buckets: Bucket, trials: int = 12, facts: Any = None) -> list[AttemptRow]:
        return [
            dataclasses.replace(
                row_of(number, buckets[number] if number < len(buckets) else Bucket.OK, facts=FAST | (facts or {})),
                site=SITES[number % 9],
                trial=number // 9 + 1,
            )
            for number in range(9 * trials)
        ]

    return make


def _cells(sweep: SweepFacts, rows: list[AttemptRow]) -> dict[int, Cell]:
    return {cell.number: cell for cell in build_scorecard(sweep, rows).criteria}


def test_targets_and_values_before_are_the_seeds(sweep_of: Sweep) -> None:
    cells = _cells(sweep_of(0), [])
    assert [(cell.target, cell.baseline) for cell in cells.values()] == [
        (">=90%", "57%"),
        (">=95%", "no honest data"),
        ("exactly 0", "unknown"),
        ("<=12s", "~21s"),
        ("<=3s", "~16s"),
        ("-50%", "unmeasured"),
        ("<=1%", "60%"),
        (">=80%, <=10pt", "untested"),
        (">=50% or gone", "0 of 55"),
    ]


# --- fewer runs than the plan


@pytest.mark.parametrize("trials", [1, 11])
def test_below_the_plans_size_nothing_passes(whole: Whole, sweep_of: Sweep, trials: int) -> None:
    cells = _cells(sweep_of(9 * trials, trials=trials), whole(trials=trials))
    assert {cell.mark for cell in cells.values()} == {Mark.OPEN}
    assert cells[1].value == 1.0
    assert cells[1].hint == cells[5].hint == f"n={trials} of the plan's 12"
    assert cells[7].hint == f"100 runs at least: {100 - 9 * trials} more"


def test_below_the_plans_size_only_what_is_proven_fails(whole: Whole, sweep_of: Sweep) -> None:
    none, some = [Bucket.PRODUCT_NO_COMPOSER] * 9, [Bucket.PRODUCT_NO_COMPOSER] * 2
    assert (_cells(sweep_of(9), whole(*none, trials=1))[1].mark, none) == (Mark.FAIL, none)
    two = _cells(sweep_of(9), whole(*some, trials=1))[1]
    assert (two.mark, two.value, two.hint) == (Mark.OPEN, 7 / 9, "n=1 of the plan's 12")


def test_a_site_with_fewer_runs_than_the_plan_makes_the_sample_small(whole: Whole, sweep_of: Sweep) -> None:
    rows = [row for row in whole() if row.site != "x" or row.trial < 12]
    assert _cells(sweep_of(107), rows)[1].hint == "n=11 of the plan's 12"


@pytest.mark.parametrize(
    ("infra", "total", "mark", "proven"),
    [
        (1, 9, Mark.OPEN, None),  # one of nine happens by chance at 1%
        (2, 9, Mark.FAIL, True),
        (2, 54, Mark.OPEN, None),
        (0, 108, Mark.PASS, False),
        (1, 108, Mark.PASS, False),
        (2, 108, Mark.FAIL, False),
        (5, 108, Mark.FAIL, True),
        (0, 306, Mark.PASS, True),
    ],
)
def test_flake_is_judged_on_a_hundred_attempts(
    whole: Whole, sweep_of: Sweep, infra: int, total: int, mark: Mark, proven: bool | None
) -> None:
    cell = _cells(sweep_of(total), whole(*[Bucket.INFRA_ROUTER] * infra, trials=total // 9))[7]
    assert (cell.mark, cell.proven, cell.numerator, cell.denominator) == (mark, proven, infra, total)


def test_retries_count_as_flake_and_refusals_stand_beside_it(whole: Whole, row_of: Row, sweep_of: Sweep) -> None:
    rows = whole(Bucket.INFRA_ROUTER)
    rows.append(dataclasses.replace(rows[0], attempt_no=2, attempt_id=999, bucket=Bucket.OK))
    sweep = sweep_of(108, refusals=3, box_minutes_lost=2.25, refusal_reasons={"foreign backend": 2, "router": 1})
    cell = _cells(sweep, rows)[7]
    assert (cell.numerator, cell.denominator) == (1, 109)
    assert cell.hint == "364 more clean runs for 95%"
    assert cell.notes == ("preflight refused 3 times (foreign backend 2, router 1), 2.2 box-minutes lost",)


# --- faults and unlike attempts


def test_under_injected_faults_nothing_is_judged_and_the_header_says_so(whole: Whole, sweep_of: Sweep) -> None:
    rows = whole(*[Bucket.PRODUCT_FALSE_SUCCESS] * 90, facts={"faults": "all seed 7"})
    card = build_scorecard(sweep_of(108), rows)
    assert {cell.mark for cell in card.criteria} == {Mark.OPEN}
    assert card.criteria[0].value == 18 / 108
    assert card.criteria[0].hint == "faults injected: all seed 7"
    lines = [line.text for line in render_scorecard(card, width=80, markers=93)]
    assert "faults injected: all seed 7" in lines[:5]


def test_one_faulted_attempt_is_enough_to_withhold_the_verdicts(whole: Whole, sweep_of: Sweep) -> None:
    rows = whole()
    rows[5] = dataclasses.replace(rows[5], facts=dataclasses.replace(rows[5].facts, faults="renderer_killed"))
    cells = _cells(sweep_of(108), rows)
    assert {cell.mark for cell in cells.values()} == {Mark.OPEN}
    assert (cells[1].value, cells[1].hint) == (None, "not pooled")
    assert build_scorecard(sweep_of(108), rows).not_pooled == "faults differs: none, renderer_killed"


def test_scaled_waits_are_not_the_products_but_a_false_success_is(whole: Whole, sweep_of: Sweep) -> None:
    cells = _cells(sweep_of(108), whole(Bucket.PRODUCT_FALSE_SUCCESS, facts={"leash_scale": 0.1}))
    assert [number for number, cell in cells.items() if cell.mark is not Mark.OPEN] == [3]
    assert cells[3].mark is Mark.FAIL
    assert cells[1].hint == "the product's waits were scaled by 0.1"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("renderer", "electron"),
        ("lane", "fast"),
        ("product_revision", "b"),
        ("mode", Mode.LIVE),
        ("leash_scale", 0.5),
        ("faults", "x"),
    ],
)
def test_rates_of_unlike_attempts_are_not_pooled(whole: Whole, sweep_of: Sweep, name: str, value: Any) -> None:
    rows = whole()
    rows[0] = dataclasses.replace(rows[0], facts=dataclasses.replace(rows[0].facts, **{name: value}))
    card = build_scorecard(sweep_of(108), rows)
    for cell in card.criteria:
        assert (cell.value, cell.numerator, cell.denominator, cell.interval, cell.also) == (None, None, None, None, ())
        assert cell.mark is Mark.OPEN
    assert {card.criteria[number - 1].hint for number in (1, 3, 4, 5, 6, 7)} == {"not pooled"}
    assert card.not_pooled.startswith(f"{name.replace('_', ' ')} differs: ")


def test_no_table_pools_what_the_criteria_do_not(whole: Whole, row_of: Row, sweep_of: Sweep) -> None:
    # one lane reaches all and the other none: half of them is no lane's reach
    rows = [
        row if row.bucket is Bucket.OK else dataclasses.replace(row, facts=dataclasses.replace(row.facts, lane="haiku"))
        for row in whole(*[Bucket.PRODUCT_NO_COMPOSER] * 54)
    ]
    rows.append(row_of(200, Bucket.INFRA_ROUTER, run_id=5, attempt_no=2))
    card = build_scorecard(sweep_of(108), rows)
    tables = (card.by_site, card.by_shape, card.by_box)
    tallies = [card.tally, card.first_attempts, card.retries, *(part.tally for table in tables for part in table)]
    assert {tally.reach for tally in tallies} == {()}
    assert (card.tally.ok, card.tally.product, card.tally.infra) == (54, 54, 1), "counts stay"
    lines = [line.text for line in render_scorecard(card, width=120, markers=93)]
    assert "no one sample, so no rates: lane differs: haiku, stub" in lines
    assert "first attempts alone: 108, reach -, infra 0" in lines
    assert not any("54/108" in line or "50.0%" in line for line in lines)
    assert sum("lane differs" in line for line in lines) == 1, "the reason is said once"


def test_a_false_success_among_unlike_attempts_is_a_count_and_no_rate(whole: Whole, sweep_of: Sweep) -> None:
    rows = whole(Bucket.PRODUCT_FALSE_SUCCESS)
    rows[1] = dataclasses.replace(rows[1], facts=dataclasses.replace(rows[1].facts, lane="haiku"))
    card = build_scorecard(sweep_of(108), rows)
    third = card.criteria[2]
    assert (third.mark, third.numerator, third.denominator) == (Mark.FAIL, 1, None)
    lines = [line.text for line in render_scorecard(card, width=120, markers=93)]
    assert any(line.startswith("3 false success claims    exactly 0     unknown        1     ") for line in lines)


@pytest.mark.parametrize(
    "facts",
    [
        {"mode": Mode.LIVE},
        {"product_revision": ""},
        {"lane": "haiku"},
        {"renderer": "electron"},
        {"product_revision": "b"},
        {"mode": None, "lane": "", "renderer": ""},
    ],
    ids=str,
)
def test_a_spoilt_attempt_under_other_conditions_takes_no_rate_away(
    whole: Whole, sweep_of: Sweep, facts: dict[str, Any]
) -> None:
    seen = {"product_revision": "a"}
    rows = whole(facts=seen)
    before = _cells(sweep_of(108), rows)
    spoilt = dataclasses.replace(rows[5].facts, **facts)
    again = dataclasses.replace(rows[5], attempt_no=2, attempt_id=999)
    rows[5] = dataclasses.replace(rows[5], bucket=Bucket.INFRA_HARNESS, rule="wrong_mode", facts=spoilt)
    after = _cells(sweep_of(108), [*rows, again])
    for number in (1, 4, 5, 6):
        assert after[number] == before[number]
    assert after[1].mark is Mark.PASS


@pytest.mark.parametrize(
    ("facts", "hint"),
    [
        # a mode that was not the plan's is what spoilt it, and an attempt that died early says little
        ({"mode": Mode.LIVE}, "364 more clean runs for 95%"),
        ({"product_revision": ""}, "364 more clean runs for 95%"),
        ({"mode": None, "lane": "", "renderer": ""}, "364 more clean runs for 95%"),
        ({"lane": "haiku"}, "not pooled, lane differs: haiku, stub"),
        ({"renderer": "electron"}, "not pooled, renderer differs: electron, playwright"),
    ],
    ids=str,
)
def test_flake_is_not_blanked_by_what_it_counts_but_by_another_lane(
    whole: Whole, sweep_of: Sweep, facts: dict[str, Any], hint: str
) -> None:
    rows = whole(facts={"product_revision": "a"})
    spoilt = dataclasses.replace(rows[5].facts, **facts)
    again = dataclasses.replace(rows[5], attempt_no=2, attempt_id=999)
    rows[5] = dataclasses.replace(rows[5], bucket=Bucket.INFRA_HARNESS, rule="wrong_mode", facts=spoilt)
    cell = _cells(sweep_of(108), [*rows, again])[7]
    assert cell.hint == hint
    assert (cell.value is None) is hint.startswith("not pooled")


def test_an_attempt_that_left_no_record_is_unlike_nothing(whole: Whole, sweep_of: Sweep) -> None:
    rows = whole(Bucket.INFRA_BOX_LOST)
    lost = dataclasses.replace(rows[0].facts, mode=None, renderer="", lane="")
    rows[0] = dataclasses.replace(rows[0], facts=lost)
    assert _cells(sweep_of(108), rows)[1].mark is Mark.PASS


# --- single criteria


def test_reach_that_is_met_only_if_the_products_word_is_believed_stays_open(whole: Whole, sweep_of: Sweep) -> None:
    rows = whole(*[Bucket.NOT_MEASURABLE] * 20)
    unverified = [
        dataclasses.replace(row, facts=dataclasses.replace(row.facts, evidence=Evidence.UNVERIFIED))
        if row.bucket is Bucket.NOT_MEASURABLE
        else row
        for row in rows
    ]
    cell = _cells(sweep_of(108), unverified)[1]
    assert (cell.mark, cell.proven) == (Mark.OPEN, None)
    assert cell.hint == "met only with 20 UNVERIFIED exclusions believed"
    assert (cell.also[0].numerator, cell.also[0].denominator) == (88, 108)


def test_reach_that_is_met_even_with_the_doubtful_as_misses_is_proven_only_if_they_agree(
    whole: Whole, sweep_of: Sweep
) -> None:
    rows = whole(*[Bucket.NOT_MEASURABLE] * 8)
    unverified = [
        dataclasses.replace(row, facts=dataclasses.replace(row.facts, evidence=Evidence.UNVERIFIED))
        if row.bucket is Bucket.NOT_MEASURABLE
        else row
        for row in rows
    ]
    cell = _cells(sweep_of(108), unverified)[1]
    assert (cell.mark, cell.proven) == (Mark.PASS, False)
    assert cell.hint == "not with UNVERIFIED counted as misses"


def test_reach_says_how_many_more_runs_would_prove_it(whole: Whole, sweep_of: Sweep) -> None:
    cell = _cells(sweep_of(108), whole(*[Bucket.PRODUCT_NO_COMPOSER] * 8))[1]
    assert (cell.mark, cell.proven) == (Mark.PASS, False)
    assert cell.hint == f"{runs_missing(100 / 108, 108, 0.90)} more measurable runs at this rate"


def test_prestage_of_an_infra_attempt_is_left_out(whole: Whole, sweep_of: Sweep) -> None:
    rows = whole(Bucket.INFRA_BROWSER)
    rows[0] = dataclasses.replace(
        rows[0], facts=dataclasses.replace(rows[0].facts, timing=Timing(prestage_ms=9, tier=0))
    )
    assert _cells(sweep_of(108), rows)[5].denominator == 107


def test_rows_of_the_older_harness_without_prestage_are_left_out_and_counted(whole: Whole, sweep_of: Sweep) -> None:
    rows = whole()
    for number in range(10):
        old = dataclasses.replace(rows[number].facts, timing=Timing(total_ms=900, other_ms=30))
        rows[number] = dataclasses.replace(rows[number], facts=old, rule="imported")
    cell = _cells(sweep_of(108), rows)[5]
    assert (cell.denominator, cell.notes) == (98, ("10 without a prestage time left out",))


def test_a_dry_sweep_never_settles_claims_or_skills(whole: Whole, sweep_of: Sweep) -> None:
    skills = SkillCounts(recorded=1, replays=2, replays_succeeded=1, refusals={"skill_not_recorded": 1})
    card = build_scorecard(sweep_of(108), whole(facts={"skills": skills}))
    assert card.criteria[2].mark is card.criteria[8].mark is Mark.OPEN
    assert (card.criteria[2].numerator, card.criteria[2].denominator) == (0, 108)
    assert "no dry log records" in card.criteria[8].hint
    assert card.criteria[8].notes == ("recorded 108, replayed 216 (108 succeeded), refused: skill_not_recorded 108",)
    assert (card.skills.recorded, card.skills.refusals) == (108, {"skill_not_recorded": 108})


def test_retired_sites_leave_the_denominator_with_their_evidence_by_name(whole: Whole, sweep_of: Sweep) -> None:
    rows = whole(Bucket.NOT_MEASURABLE)
    rows[0] = dataclasses.replace(rows[0], rule="site_retired", detail="410 by direct fetch, 2026-08-06")
    retired = RetiredSite(site="txti", date="2026-08-06", evidence="NXDOMAIN by direct fetch")
    card = build_scorecard(sweep_of(108, retired=(retired,)), rows)
    assert card.criteria[0].denominator == 107
    text = "\n".join(line.text for line in render_scorecard(card, width=120, markers=93))
    assert "txti (NXDOMAIN by direct fetch)" in text
    assert "x 1 (410 by direct fetch, 2026-08-06)" in text


def test_imported_rows_are_scored_with_what_they_have(row_of: Row, sweep_of: Sweep) -> None:
    facts = {
        "mode": None,
        "lane": "",
        "renderer": "",
        "wall_ms": 12_700,
        "timing": Timing(total_ms=1_211, tools_ms=1_046, other_ms=25),
    }
    rows = [
        row_of(number, rule="imported", site=SITES[number % 9], arm=f"part-{number // 54 + 1}", box="", facts=facts)
        for number in range(162)
    ]
    card = build_scorecard(sweep_of(162, plan="import"), rows)
    cells = {cell.number: cell for cell in card.criteria}
    assert cells[1].mark is Mark.PASS
    assert (cells[4].value, cells[6].value) == (12_700, 25)
    assert cells[5].hint == "no tier-0/1 hit was seen"
    assert cells[5].notes == ("162 without a prestage time left out",)
    assert card.boxes == ()
    assert render_scorecard(card, width=80, markers=93)
