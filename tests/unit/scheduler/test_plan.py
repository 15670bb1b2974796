"""The plan is arithmetic: what is asked for is what is planned, in an order that spreads sites evenly."""

from __future__ import annotations

import re
from collections import Counter
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.errors import UsageError
from broker.suites import Suite, load_suite
from broker.types import Mode, Retirement, SiteTask
from scheduler.plan import PLANS, SERIES, choose_tasks, find_plan, name_sweep, plan_runs
from scheduler.plan_commands import PLAN_NAMES
from scheduler.request import Request, split

C7 = PLANS["c7"]


def task(site: str, *, retired: Retirement | None = None) -> SiteTask:
    return SiteTask(
        site=site,
        prompt='say "{payload}"',
        payload="probe {nonce} coverage",
        entry=f"https://{site}.example/",
        host=f"{site}.example",
        path_rule="^/",
        visibility="public",
        kind="post",
        editor_shape="textarea",
        retired=retired,
    )


def suite(count: int) -> Suite:
    return Suite(name="known", version=1, sha256="0" * 64, tasks=tuple(task(f"s{i}") for i in range(count)))


suites = st.integers(1, 30).map(suite)
trials = st.integers(1, 15)


@given(suites, trials)
def test_every_site_has_each_trial_exactly_once(drawn: Suite, n: int) -> None:
    runs = plan_runs(C7, drawn, (), n, "default")
    assert Counter((run.site, run.trial) for run in runs) == {
        (each.site, trial): 1 for each in drawn.tasks for trial in range(1, n + 1)
    }


@given(suites, trials)
def test_a_trial_is_over_before_the_next_begins(drawn: Suite, n: int) -> None:
    runs = plan_runs(C7, drawn, (), n, "default")
    assert [run.trial for run in runs] == sorted(run.trial for run in runs)


@given(suites, trials)
def test_order_keys_are_unique_and_rise(drawn: Suite, n: int) -> None:
    keys = [run.order_key for run in plan_runs(C7, drawn, (), n, "default")]
    assert keys == sorted(set(keys))


@given(st.integers(2, 12), st.integers(2, 6))
def test_no_box_is_tied_to_a_site_when_boxes_take_turns(count: int, rounds: int) -> None:
    """With as many boxes as sites, dealt in turn, each trial puts a site on another box."""
    drawn = suite(count)
    runs = plan_runs(C7, drawn, (), min(count, rounds), "default")
    places = [(run.site, index % count) for index, run in enumerate(runs)]
    assert len(set(places)) == len(places)


@given(suites, st.data())
def test_named_sites_are_planned_alone_in_the_suites_order(drawn: Suite, data: st.DataObject) -> None:
    every = [each.site for each in drawn.tasks]
    named = data.draw(st.lists(st.sampled_from(every), min_size=1))
    assert [each.site for each in choose_tasks(drawn, named)] == [site for site in every if site in named]


def test_c7_plans_108_dry_site_runs_of_the_known_suite() -> None:
    runs = plan_runs(C7, load_suite("known"), (), C7.trials, "default")
    assert len(runs) == 108
    assert C7.mode is Mode.DRY
    assert {run.site for run in runs[:9]} == {run.site for run in runs}


def test_a_retired_site_is_left_out_and_refused_with_its_evidence() -> None:
    gone = task("gone", retired=Retirement(date="2026-08-06", evidence="the page says so"))
    drawn = Suite(name="known", version=1, sha256="0" * 64, tasks=(task("here"), gone))
    assert [each.site for each in choose_tasks(drawn, ())] == ["here"]
    with pytest.raises(UsageError, match="'gone' is retired since 2026-08-06: the page says so"):
        choose_tasks(drawn, ["gone"])


@pytest.mark.parametrize("n", [0, -3])
def test_less_than_one_trial_is_refused(n: int) -> None:
    with pytest.raises(UsageError, match=re.escape("--n must be at least 1 (trials per site)")):
        plan_runs(C7, suite(2), (), n, "default")


def test_more_trials_than_order_keys_can_count_are_refused() -> None:
    with pytest.raises(UsageError, match="at most"):
        plan_runs(C7, suite(2), (), 10**7, "default")


def test_an_unknown_site_is_named_with_its_neighbour_and_the_choices() -> None:
    with pytest.raises(UsageError, match="no site 'redit' in the suite 'known'") as caught:
        choose_tasks(load_suite("known"), ["redit"])
    assert caught.value.hint is not None
    assert caught.value.hint.startswith("did you mean 'reddit'? sites: x, linkedin, reddit,")


def test_an_unknown_plan_lists_only_what_there_is() -> None:
    with pytest.raises(UsageError, match="no plan 'shape'") as caught:
        find_plan("shape")
    assert caught.value.hint == "did you mean 'shapes'? plans: c7, c8, anon, shapes, known, overnight"


@pytest.mark.parametrize(
    ("name", "suite_name", "trials"),
    [("c8", "holdout", 2), ("anon", "anon", 3), ("shapes", "shapes", 3), ("known", "known", 3)],
)
def test_every_plan_is_dry_and_runs_each_living_site_of_its_suite(name: str, suite_name: str, trials: int) -> None:
    plan, drawn = PLANS[name], load_suite(suite_name)
    planned = plan_runs(plan, drawn, (), plan.trials, "default")
    assert (plan.suite, plan.mode) == (suite_name, Mode.DRY)
    living = [each.site for each in drawn.tasks if each.retired is None]
    assert sorted(run.site for run in planned) == sorted(living * trials)


def test_the_command_line_offers_exactly_the_plans_there_are() -> None:
    assert (*PLANS, *SERIES) == PLAN_NAMES


def test_the_parts_of_a_night_are_plans_and_the_first_goes_before_the_others() -> None:
    parts = split(Request(plan="overnight", n=None, sites=(), boxes=3, source=Path("/checkout")))
    assert [(part.plan, part.n, part.priority) for part in parts] == [
        ("c7", 70, 0),
        ("c8", None, -1),
        ("anon", None, -2),
        ("shapes", None, -3),
    ]
    assert {(part.boxes, part.source) for part in parts} == {(3, Path("/checkout"))}
    assert {part.plan for parts in SERIES.values() for part in parts} <= set(PLANS)


def test_a_number_of_trials_for_a_night_is_that_of_its_first_plan_alone() -> None:
    parts = split(Request(plan="overnight", n=34, sites=(), boxes=None))
    assert [part.n for part in parts] == [34, None, None, None]


def test_a_request_for_one_plan_is_itself() -> None:
    request = Request(plan="c7", n=0, sites=("x",), boxes=None)
    assert split(request) == (request,)


def test_a_sweeps_name_tells_plan_and_utc_time() -> None:
    here = datetime(2026, 11, 30, 0, 0, 3, tzinfo=timezone(timedelta(hours=2)))
    assert re.fullmatch(r"c7-20261129T220003Z-[a-z0-9]{4}", name_sweep(C7, here, Random(1)))


@given(st.integers(0, 2**32))
def test_two_sweeps_of_one_second_rarely_share_a_name(seed: int) -> None:
    random, now = Random(seed), datetime(2026, 1, 1, tzinfo=UTC)
    assert len({name_sweep(C7, now, random) for _ in range(20)}) >= 19


def test_the_reference_lists_the_plans_as_they_are() -> None:
    page = (Path(__file__).parents[3] / "docs" / "reference" / "plans.md").read_text("utf-8")
    rows = [
        [cell.strip(" `") for cell in line.split("|")[1:-1]] for line in page.splitlines() if line.startswith("| `")
    ]
    counts = {name: len(plan_runs(plan, load_suite(plan.suite), (), 1, "main")) for name, plan in PLANS.items()}
    alone = [[name, plan.suite, str(plan.trials), str(plan.trials * counts[name])] for name, plan in PLANS.items()]
    assert [row[:4] for row in rows[: len(PLANS)]] == alone
    night = [(part.plan, part.trials or PLANS[part.plan].trials) for part in SERIES["overnight"]]
    assert rows[len(PLANS) :] == [[name, str(trials), str(trials * counts[name])] for name, trials in night]
