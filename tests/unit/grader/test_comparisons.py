"""Criteria 6 and 8: two sweeps side by side, and what must never stand there."""

from __future__ import annotations

import dataclasses
import random
import statistics
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

import pytest

from broker.types import Bucket, Evidence, Mode
from grader.criteria import Cell, Comparison, Mark, Sample, SweepFacts
from grader.criteria.shift import bootstrap_change
from grader.evidence import Timing
from grader.facts import AttemptRow
from grader.lines import percent
from grader.render import render_scorecard
from grader.scorecard import build_scorecard

Row = Callable[..., AttemptRow]
Sweep = Callable[..., SweepFacts]
SITES = ("x", "linkedin", "reddit", "gmail", "youtube", "instagram", "tiktok", "substack", "twitch")
BEFORE = {"prestage_ms": 400, "total_ms": 2_000, "llm_ms": 300, "tools_ms": 700, "other_ms": 1_000}


@pytest.fixture
def timed(row_of: Row, sweep_of: Sweep) -> Callable[..., Sample]:
    """A whole sweep of ok runs with these times, each site a little slower than the one before."""

    def make(sweep: str = "c7-after", *, wall_ms: int = 5_000, facts: Any = None, **times: int) -> Sample:
        rows = []
        for number in range(108):
            slow = number % 9 + number // 9
            timing = Timing(**{name: value + slow for name, value in (BEFORE | times).items()})
            row = row_of(number, facts={"timing": timing, "wall_ms": wall_ms + 5 * slow} | (facts or {}))
            rows.append(dataclasses.replace(row, site=SITES[number % 9], trial=number // 9 + 1))
        return Sample(sweep=sweep_of(108, sweep=sweep), rows=rows)

    return make


def _sixth(sample: Sample, baseline: Sample) -> Cell:
    return build_scorecard(sample.sweep, sample.rows, baseline=baseline).criteria[5]


def _bucket(cell: Cell, name: str) -> Comparison:
    return next(one for one in cell.compared if one.label == name)


Timed = Callable[..., Sample]


def test_half_the_other_ms_and_nothing_elsewhere_passes(timed: Timed) -> None:
    after = timed(other_ms=400, total_ms=1_400, wall_ms=4_400)
    cell = _sixth(after, timed("c7-before"))
    assert (cell.mark, cell.proven, cell.hint) == (Mark.PASS, True, "")
    assert cell.against == "c7-before"
    # every site's times differ by 0 to 8 ms, every trial's by 0 to 11: medians of 4 + 5.5
    assert cell.value == pytest.approx(409.5 / 1_009.5 - 1)
    assert cell.interval is not None
    assert cell.value is not None
    assert cell.interval.low <= cell.value <= cell.interval.high <= -0.5
    assert "bootstrap within sites" in cell.interval.method


def test_all_time_buckets_are_shown_for_both(timed: Timed) -> None:
    cell = _sixth(timed(other_ms=400), timed("c7-before"))
    names = ["wall", "prestage", "total", "llm", "tools", "other", "task", "wall minus other", "outside"]
    assert [one.label for one in cell.compared] == names
    assert (_bucket(cell, "other").other, _bucket(cell, "other").value) == (1_009.5, 409.5)
    assert _bucket(cell, "task").value is None
    assert _bucket(cell, "outside").other == pytest.approx(5_000 + 5 * 9.5 - 400 - 2_000 - 2 * 9.5)


def test_less_than_half_fails_and_nothing_is_moved(timed: Timed) -> None:
    cell = _sixth(timed(other_ms=700, total_ms=1_700, wall_ms=4_700), timed("c7-before"))
    assert (cell.mark, cell.proven, cell.hint) == (Mark.FAIL, True, "")


def test_time_that_moved_into_another_bucket_fails_and_the_bucket_is_named(timed: Timed) -> None:
    cell = _sixth(timed(other_ms=400, tools_ms=1_300), timed("c7-before"))
    assert (cell.mark, cell.proven) == (Mark.FAIL, True)
    assert cell.hint == "time moved into tools (+600 ms)"
    assert _bucket(cell, "other").change == pytest.approx(-0.594, abs=0.001)


def test_time_that_moved_out_of_the_products_buckets_is_found_in_the_wall(timed: Timed) -> None:
    after = timed(other_ms=400, total_ms=1_400, wall_ms=5_000)
    assert _sixth(after, timed("c7-before")).hint == "time moved into outside (+600 ms)"


def test_a_rise_of_up_to_a_tenth_elsewhere_is_no_shift(timed: Timed) -> None:
    # wall minus other was 4,000 and some
    for more_ms, mark in ((380, Mark.PASS), (440, Mark.FAIL)):
        after = timed(other_ms=400, total_ms=1_400, wall_ms=4_400 + more_ms)
        assert _sixth(after, timed("c7-before")).mark is mark


def test_another_product_revision_is_what_the_baseline_is_for(timed: Timed) -> None:
    after, before = timed(other_ms=400, facts={"product_revision": "b"}), timed(facts={"product_revision": "a"})
    assert _sixth(after, before).compared


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"renderer": "electron"}, "renderer differs: playwright here, electron there"),
        ({"lane": "fast"}, "lane differs: stub here, fast there"),
        ({"lane": ""}, "lane differs: stub here, unknown there"),
        ({"leash_scale": 0.1}, "leash scale differs: 1.0 here, 0.1 there"),
        ({"faults": "all seed 7"}, "faults differs: none here, all seed 7 there"),
        ({"mode": Mode.LIVE}, "mode differs: dry here, live there"),
    ],
)
def test_sweeps_of_other_conditions_are_not_compared(timed: Timed, changes: dict[str, Any], reason: str) -> None:
    cell = _sixth(timed(other_ms=400), timed("c7-before", facts=changes))
    assert (cell.mark, cell.hint, cell.against, cell.compared) == (Mark.OPEN, f"not compared, {reason}", None, ())
    assert cell.unit == "ms", "its own median stands there all the same"


def test_sweeps_of_other_sites_or_suites_are_not_compared(timed: Timed) -> None:
    after, before = timed(other_ms=400), timed("c7-before")
    fewer = dataclasses.replace(before, sweep=dataclasses.replace(before.sweep, sites=SITES[:-1]))
    assert _sixth(after, fewer).hint == "not compared, sites differ: only here twitch"
    other = dataclasses.replace(before, sweep=dataclasses.replace(before.sweep, suite="anon"))
    assert _sixth(after, other).hint == "not compared, suite differs: known here, anon there"


def test_a_baseline_that_is_itself_no_one_sample_is_not_compared(timed: Timed) -> None:
    before = timed("c7-before")
    mixed = [before.rows[0], *timed(facts={"product_revision": "b"}).rows[1:]]
    cell = _sixth(timed(other_ms=400), dataclasses.replace(before, rows=mixed))
    assert cell.hint.startswith("c7-before: not pooled, product revision differs")


def test_a_small_or_unfinished_baseline_settles_nothing(timed: Timed, sweep_of: Sweep) -> None:
    after, before = timed(other_ms=400, total_ms=1_400, wall_ms=4_400), timed("c7-before")
    small = Sample(sweep=sweep_of(9, sweep="c7-before"), rows=before.rows[:9])
    cell = _sixth(after, small)
    assert (cell.mark, cell.hint, cell.interval) == (Mark.OPEN, "c7-before: n=1 of the plan's 12", None)
    running = Sample(sweep=sweep_of(108, sweep="c7-before", runs_closed=107), rows=before.rows)
    assert _sixth(after, running).hint == "c7-before: 107 of 108 runs are graded"


def test_a_slow_site_that_is_reached_more_often_is_no_slower_product(timed: Timed) -> None:
    before = timed("c7-before")
    # the slowest site had one ok run of twelve before, and has twelve now; its times are the same
    rows = [
        dataclasses.replace(row, facts=dataclasses.replace(row.facts, timing=Timing(other_ms=9_000)))
        if row.site == "twitch"
        else row
        for row in before.rows
    ]
    missed = [
        dataclasses.replace(row, bucket=Bucket.PRODUCT_NO_COMPOSER) if row.site == "twitch" and row.trial > 1 else row
        for row in rows
    ]
    cell = _sixth(dataclasses.replace(before, rows=rows), dataclasses.replace(before, rows=missed))
    assert cell.value == 0.0


def test_sites_without_an_ok_run_in_one_of_the_two_are_left_out_by_name(timed: Timed) -> None:
    after, before = timed(other_ms=400, total_ms=1_400, wall_ms=4_400), timed("c7-before")
    missed = [
        dataclasses.replace(row, bucket=Bucket.PRODUCT_FILL_DIED) if row.site == "reddit" else row
        for row in before.rows
    ]
    cell = _sixth(after, dataclasses.replace(before, rows=missed))
    assert cell.notes == ("left out, without an ok run in one of the two: reddit",)
    assert cell.mark is Mark.PASS


def test_without_wall_times_a_shift_can_not_be_ruled_out(timed: Timed) -> None:
    cell = _sixth(timed(other_ms=400), timed("c7-before", facts={"wall_ms": None}))
    assert (cell.mark, cell.hint) == (Mark.OPEN, "no wall times in both: time may have moved")


def test_imported_rows_whose_lane_nobody_knows_are_compared_among_themselves(timed: Timed) -> None:
    unknown = {"lane": "", "renderer": "", "mode": None}
    after, before = timed(other_ms=400, facts=unknown), timed("c7-before", facts=unknown)
    assert _sixth(after, before).compared
    assert not _sixth(timed(other_ms=400), before).compared


# --- the interval


def _resample_by_hand(ours: list[list[int]], theirs: list[list[int]]) -> tuple[float, float]:
    source = random.Random(2)
    changes = []
    for _ in range(4_000):
        here, there = (
            statistics.median(statistics.median(source.choices(values, k=len(values))) for values in sites)
            for sites in (ours, theirs)
        )
        changes.append((here - there) / there)
    changes.sort()
    return changes[99], changes[-100]


@pytest.mark.parametrize("counts", [(12, 12, 12), (7, 30, 13), (6, 6, 101)])
def test_the_interval_is_that_of_resampling_by_hand(counts: Iterable[int]) -> None:
    source = random.Random(1)
    ours = [sorted(source.randrange(300, 600) for _ in range(count)) for count in counts]
    theirs = [sorted(source.randrange(800, 1_200) for _ in range(count)) for count in counts]
    found = bootstrap_change(ours, theirs)
    assert found is not None
    assert (found.low, found.high) == pytest.approx(_resample_by_hand(ours, theirs), abs=0.025)
    assert bootstrap_change(ours, theirs) == found


def test_fewer_than_six_runs_of_a_site_have_no_interval() -> None:
    assert bootstrap_change([[1] * 6, [1] * 5], [[1] * 6, [1] * 6]) is None
    assert bootstrap_change([], []) is None
    assert bootstrap_change([[1] * 6], [[0] * 6]) is None


# --- the holdout


@pytest.fixture
def reach(row_of: Row, sweep_of: Sweep) -> Callable[..., Sample]:
    """A sweep with so many hits of so many measurable runs, spread over sites."""

    def make(suite: str, hits: int, runs: int, *, sites: int, facts: Any = None, unverified: int = 0) -> Sample:
        names = tuple(f"{suite}-{number}" for number in range(sites))
        buckets = [Bucket.OK] * hits + [Bucket.PRODUCT_NO_COMPOSER] * (runs - hits)
        buckets += [Bucket.NOT_MEASURABLE] * unverified
        rows = [
            dataclasses.replace(
                row_of(
                    number,
                    bucket,
                    facts=(facts or {})
                    | ({"evidence": Evidence.UNVERIFIED} if bucket is Bucket.NOT_MEASURABLE else {}),
                ),
                site=names[number % sites],
            )
            for number, bucket in enumerate(buckets)
        ]
        facts_of = sweep_of(len(rows), sweep=f"{suite}-sweep", suite=suite, sites=names, suite_sites=names)
        return Sample(sweep=facts_of, rows=rows)

    return make


Reach = Callable[..., Sample]


def _eighth(holdout: Sample, known: Sample | None) -> Cell:
    return build_scorecard(holdout.sweep, holdout.rows, known=known).criteria[7]


def test_the_holdout_alone_has_reach_and_says_what_is_missing(reach: Reach) -> None:
    cell = _eighth(reach("holdout", 17, 20, sites=10), None)
    assert (cell.value, cell.numerator, cell.denominator) == (0.85, 17, 20)
    assert (cell.mark, cell.compared) == (Mark.OPEN, ())
    assert "--known SWEEP" in cell.hint


def test_reach_and_a_small_gap_pass_and_twenty_runs_prove_nothing(reach: Reach) -> None:
    cell = _eighth(reach("holdout", 17, 20, sites=10), reach("known", 100, 108, sites=9))
    assert (cell.mark, cell.proven, cell.hint, cell.against) == (Mark.PASS, False, "more runs", "known-sweep")
    (gap,) = cell.compared
    assert (gap.label, gap.other, gap.value) == ("known less holdout", 100 / 108, 0.85)
    assert gap.change == pytest.approx(100 / 108 - 0.85)
    assert gap.interval is not None
    assert gap.interval.low < 0.0
    assert gap.interval.high > 0.10


def test_many_runs_prove_the_gap(reach: Reach) -> None:
    cell = _eighth(reach("holdout", 900, 1_000, sites=10), reach("known", 1_000, 1_080, sites=9))
    assert (cell.mark, cell.proven) == (Mark.PASS, True)


@pytest.mark.parametrize(
    ("hits", "known_hits", "mark", "proven"),
    [
        (850, 1_079, Mark.FAIL, True),  # reach is met, the gap is not
        (700, 760, Mark.FAIL, True),  # no gap, but no reach
        (1_000, 900, Mark.PASS, True),  # a holdout that does better has no gap
        (890, 1_074, Mark.FAIL, False),  # 10.4 points
    ],
)
def test_both_reach_and_gap_must_hold(reach: Reach, hits: int, known_hits: int, mark: Mark, proven: bool) -> None:
    cell = _eighth(reach("holdout", hits, 1_000, sites=10), reach("known", known_hits, 1_080, sites=9))
    assert (cell.mark, cell.proven) == (mark, proven)


def test_a_gap_that_is_met_only_if_the_products_word_is_believed_stays_open(reach: Reach) -> None:
    holdout = reach("holdout", 34, 38, sites=2, unverified=4)
    cell = _eighth(holdout, reach("known", 104, 108, sites=9))
    assert (cell.mark, cell.hint) == (Mark.OPEN, "the gap is met only with UNVERIFIED exclusions believed")
    assert cell.value == 34 / 38


def test_the_gap_is_printed_again_when_an_exclusion_is_unverified(reach: Reach) -> None:
    known = reach("known", 950, 1_000, sites=9, unverified=200)
    cell = _eighth(reach("holdout", 900, 1_000, sites=10), known)
    assert [one.label for one in cell.compared] == ["known less holdout", "UNVERIFIED as misses"]
    assert cell.compared[1].other == 950 / 1_200


@pytest.mark.parametrize(
    "changes",
    [{"renderer": "electron"}, {"lane": "fast"}, {"product_revision": "b"}, {"leash_scale": 0.1}, {"faults": "all"}],
)
def test_the_gap_is_not_taken_from_another_product_or_lane(reach: Reach, changes: dict[str, Any]) -> None:
    cell = _eighth(reach("holdout", 17, 20, sites=10), reach("known", 100, 108, sites=9, facts=changes))
    assert (cell.mark, cell.compared) == (Mark.OPEN, ())
    assert cell.hint.startswith("not compared")
    assert cell.value == 0.85


def test_the_gap_is_taken_from_the_whole_known_suite_alone(reach: Reach, sweep_of: Sweep) -> None:
    holdout, known = reach("holdout", 17, 20, sites=10), reach("known", 100, 108, sites=9)
    assert "ran the suite holdout, not known" in _eighth(holdout, holdout).hint
    part = dataclasses.replace(known, sweep=dataclasses.replace(known.sweep, suite_sites=(*known.sweep.sites, "more")))
    assert _eighth(holdout, part).hint == "known-sweep: 9 of the suite's 10 sites"
    few = reach("known", 9, 9, sites=9)
    assert _eighth(holdout, few).hint == "known-sweep: n=1 of the plan's 12"


def test_no_gap_is_taken_between_verdicts_of_two_versions_of_the_rules(reach: Reach) -> None:
    holdout, known = reach("holdout", 17, 20, sites=10), reach("known", 100, 108, sites=9)
    older, newer = (
        dataclasses.replace(known, rows=[dataclasses.replace(row, grader_version=version) for row in known.rows])
        for version in (0, 2)
    )
    cell = _eighth(holdout, older)
    assert (cell.mark, cell.compared, cell.value) == (Mark.OPEN, (), 0.85)
    assert cell.hint == ("not compared, grader version differs: 1 here, 0 there; bv3-grade regrade known-sweep --adopt")
    assert _eighth(holdout, newer).hint.endswith("1 here, 2 there; bv3-grade regrade holdout-sweep --adopt")
    mixed = dataclasses.replace(known, rows=[*older.rows[:50], *newer.rows[50:]])
    assert _eighth(holdout, mixed).hint.endswith(
        "1 here, 0, 2 there; bv3-grade regrade holdout-sweep --adopt; bv3-grade regrade known-sweep --adopt"
    )


def test_a_gap_tells_what_its_known_sweep_was_apart_in(reach: Reach) -> None:
    holdout, known = reach("holdout", 17, 20, sites=10), reach("known", 100, 108, sites=9)
    assert _eighth(holdout, known).notes == ()
    ended = known.sweep.finished_at
    assert ended is not None
    later = dataclasses.replace(known.sweep, finished_at=ended + timedelta(seconds=1))
    assert _eighth(holdout, dataclasses.replace(known, sweep=later)).notes == ("known-sweep finished after this sweep",)
    worded = dataclasses.replace(known.sweep, suite_sha256="a" * 64, shipped_sha256="b" * 64)
    cell = _eighth(holdout, dataclasses.replace(known, sweep=worded))
    assert cell.notes == (
        "known-sweep ran another wording of the suite known (aaaaaaaaaaaa) than today's (bbbbbbbbbbbb)",
    )
    assert cell.compared
    # of an imported sweep nobody knows
    unknown = dataclasses.replace(worded, suite_sha256="")
    assert _eighth(holdout, dataclasses.replace(known, sweep=unknown)).notes == ()


def test_a_comparison_is_on_the_screen_and_fits_it(timed: Timed) -> None:
    after, before = timed(other_ms=400, tools_ms=1_300), timed("c7-before")
    card = build_scorecard(after.sweep, after.rows, baseline=before)
    for width in (80, 120):
        lines = [line.text for line in render_scorecard(card, width=width, markers=93)]
        assert max(map(len, lines)) <= width
        text = "\n".join(lines)
        assert "6 other_ms vs baseline, against c7-before:" in text
        assert "time moved into tools (+600 ms)" in text
        assert "-59.4%" in text


@pytest.mark.parametrize(("hits", "gap"), [(17, "+7.6"), (20, "-7.4")])
def test_the_gap_on_the_screen_says_whose_rates_these_are_and_which_sign_is_worse(
    reach: Reach, hits: int, gap: str
) -> None:
    holdout = reach("holdout", hits, 20, sites=10)
    card = build_scorecard(holdout.sweep, holdout.rows, known=reach("known", 100, 108, sites=9))
    lines = [line.text for line in render_scorecard(card, width=80, markers=93)]
    at = lines.index("8 holdout reach, gap, against known-sweep:")
    head, row, *note = lines[at + 1 : at + 5]
    assert head.split("  ") == [*[""] * 15, " known", " holdout", "gap, points", "95% interval"]
    assert row.split()[3:6] == ["92.6%", percent(hits / 20), gap]
    assert row.index(gap) + len(gap) == head.index("gap, points") + len("gap, points")
    assert "above 0 the holdout does worse" in " ".join(" ".join(note).split())
