"""What a plan costs and what the suites cover, asked of a farm that has done something."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa

from broker.store.coverage import read_measurable, read_measured, read_run_time
from broker.store.engine import begin
from broker.suites import load_suite
from broker.types import Bucket

SITES = [task.site for task in load_suite("known").tasks]


@pytest.fixture
def measured(do: Callable[..., Any], farm: Any) -> str:
    """A finished c7 of one trial: six sites reached, two signed out, one spoilt and tried again; its id."""
    sweep_id = str(do("c7", "--n", "1", "--detach", "--json").document["id"])
    buckets = {2: Bucket.NOT_MEASURABLE, 5: Bucket.NOT_MEASURABLE, 8: Bucket.INFRA_ROUTER}
    for number in range(10):
        evidence = {2: "PROVEN", 5: "UNVERIFIED"}.get(number)
        farm.end_run(farm.begin_run(), buckets.get(number, Bucket.OK), evidence=evidence)
    assert farm.scalar("select count(*) from sweeps where finished_at is not null") == 1
    with begin(farm.engine) as connection:
        # ten starts on one box, 30 s from one to the next, of which each run takes 20
        connection.execute(
            sa.text(
                "update attempts set started_at = timestamptz '2026-11-29 22:00Z' + (id - least) * interval '30 s',"
                " finished_at = timestamptz '2026-11-29 22:00:20Z' + (id - least) * interval '30 s'"
                " from (select min(id) as least from attempts) as first"
            )
        )
    return sweep_id


def test_the_cost_of_a_plan_is_what_its_runs_took_here_from_start_to_start(
    measured: str, do: Callable[..., Any]
) -> None:
    before = do("list", "--json").document
    document = do("plan", "c7", "--prove", "flake=1%", "--prove", "reach=70%", "--json").document
    assert document["time"] == {"seconds": 30.0, "runs": 10}
    assert (document["boxes"], document["boxes_from"]) == (1, "the boxes that are here now")
    assert document["hours"] == pytest.approx(108 * 30 / 3600)
    assert document["measurable"] == {"sweep": measured, "measurable": 7, "judged": 9, "unverified": 1}
    flake, reach = document["proofs"]
    assert flake["need"]["hours"] == pytest.approx(630 * 30 / 3600)
    assert reach["need"]["counted"] == round(reach["need"]["runs"] * 7 / 9)
    assert reach["need"]["unverified"] == round(reach["need"]["runs"] / 9)
    # 7 of 8 at the best, as long as nobody can say what the eighth was
    assert do("plan", "c7", "--prove", "reach=90%", "--json").document["proofs"][0]["need"] is None
    assert "while 1 of 9 are UNVERIFIED" in " ".join(do("plan", "c7", "--prove", "reach=90%").out.split())
    assert do("plan", "c7", "--boxes", "4", "--json").document["hours"] == pytest.approx(108 * 30 / 4 / 3600)
    # nothing is known of a suite by what another took
    assert do("plan", "c8", "--json").document["time"] is None
    assert do("list", "--json").document == before


def test_the_screen_says_hours_and_what_they_rest_on(measured: str, do: Callable[..., Any]) -> None:
    lines = do("plan", "c7", "--prove", "flake=1%", "--power", "0.8").out.splitlines()
    assert max(map(len, lines)) <= 80
    assert "--n 70: 630 runs; 2 may be spoilt; chance 86.64%; about 5.2 h on 1 box" in "\n".join(lines)
    assert measured not in "\n".join(lines)


@pytest.mark.usefixtures("measured")
def test_measurable_runs_are_counted_by_suite_and_shape(do: Callable[..., Any]) -> None:
    document = do("suites", "known", "--json").document
    shapes = {shape["shape"]: shape["measurable_runs"] for shape in document["shapes"]}
    assert sum(shapes.values()) == 7
    assert shapes["monaco"] == 0
    assert {shape["measurable_runs"] for shape in do("suites", "anon", "--json").document["shapes"]} == {0}
    shown = do("suites").out
    assert "without a measurable run here: " in shown
    assert "no site has" not in shown


@pytest.mark.usefixtures("measured")
def test_a_sweep_of_some_sites_or_an_unfinished_one_says_nothing_of_the_suite(
    engine: sa.Engine, do: Callable[..., Any], farm: Any
) -> None:
    do("c7", "--n", "1", "--site", "x", "--detach")
    farm.end_run(farm.begin_run(), Bucket.NOT_MEASURABLE)
    do("c7", "--n", "1", "--detach")
    farm.end_run(farm.begin_run(), Bucket.NOT_MEASURABLE)
    with begin(engine) as connection:
        found = read_measurable(connection, "known", SITES)
        assert found is not None
        assert (found.measurable, found.judged, found.unverified) == (7, 9, 1)
        assert read_measurable(connection, "holdout", ["bsky"]) is None
        time = read_run_time(connection, "known")
        assert time is not None
        assert time.runs == 12
        assert read_run_time(connection, "shapes") is None
        assert sum(read_measured(connection).values()) == 7


@pytest.mark.parametrize("facts", [{"faults": "fill:error"}, {"faults": "natures all"}, {"leash_scale": 0.1}])
def test_a_rehearsal_says_nothing_of_the_suite(
    facts: dict[str, Any], measured: str, engine: sa.Engine, do: Callable[..., Any], farm: Any
) -> None:
    with begin(engine) as connection:
        runs, took = read_measured(connection), read_run_time(connection, "known")
    do("c7", "--n", "1", "--detach")
    for _ in range(9):
        farm.end_run(farm.begin_run(), Bucket.OK, **facts)
    with begin(engine) as connection:
        assert read_measured(connection) == runs
        assert read_run_time(connection, "known") == took
        found = read_measurable(connection, "known", SITES)
    assert found is not None
    assert found.sweep == measured


@pytest.mark.usefixtures("measured")
def test_a_run_was_of_the_shape_that_its_site_had_then(engine: sa.Engine, do: Callable[..., Any]) -> None:
    with begin(engine) as connection:
        connection.execute(
            sa.text("update site_runs set task = task || '{\"editor_shape\": \"monaco\"}' where task ->> 'site' = 'x'")
        )
        measured = read_measured(connection)
    assert (measured.get(("known", "x", "monaco")), measured.get(("known", "x", "draft"))) == (1, None)
    shapes = {one["shape"]: one["measurable_runs"] for one in do("suites", "known", "--json").document["shapes"]}
    assert (shapes["draft"], shapes["monaco"]) == (0, 1)


def test_a_farm_that_has_done_nothing_has_no_times_and_no_measurable_runs(
    do: Callable[..., Any], engine: sa.Engine
) -> None:
    document = do("plan", "c7", "--json").document
    assert (document["hours"], document["boxes_from"]) == (None, "no box is here now, one is assumed")
    assert {shape["measurable_runs"] for shape in do("suites", "--json").document["shapes"]} == {0}
    with begin(engine) as connection:
        assert read_measured(connection) == {}
