"""A holdout's gap without being told from what: the last finished c7 that ran like it."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from broker.store.engine import begin
from broker.store.sweeps import NewSweep, create_sweep
from broker.store.tables import attempts, site_runs, sweeps, verdicts
from broker.suites import load_suite
from scheduler.plan import PLANS, plan_runs

Grade = Callable[..., Any]
BEGAN = datetime(2026, 11, 29, 22, tzinfo=UTC)


@pytest.fixture
def finish(engine: sa.Engine) -> Callable[..., str]:
    """Writes a graded sweep of the plan that ended on that day; every `missed`th attempt is a miss."""

    def write(
        plan: str,
        day: int,
        *,
        n: int = 1,
        sites: tuple[str, ...] = (),
        missed: int = 0,
        sha256: str = "",
        version: int = 1,
        **facts: Any,
    ) -> str:
        suite = load_suite(PLANS[plan].suite)
        runs = plan_runs(PLANS[plan], suite, sites, n, "default")
        sweep_id = f"{plan}-202611{day:02}T220000Z-aaaa"
        new = NewSweep(
            id=sweep_id,
            plan=plan,
            suite=suite.name,
            suite_sha256=sha256 or suite.sha256,
            mode="dry",
            trials=n,
            priority=0,
            retries=2,
            requested_by="test",
            params={},
            runs=runs,
        )
        seen = {"mode": "dry", "product_revision": "21a08c23", "renderer": "playwright", "lane": "stub"} | facts
        with begin(engine) as connection:
            create_sweep(connection, new)
            mine = site_runs.c.sweep_id == sweep_id
            for number, run in enumerate(connection.scalars(sa.select(site_runs.c.id).where(mine)).all(), start=1):
                made = attempts.insert().values(
                    run_id=run, number=1, nonce=f"{sweep_id}-{run}", payload="probe", state="graded"
                )
                attempt = connection.execute(made.returning(attempts.c.id)).scalar_one()
                bucket = "product_no_composer" if missed and number % missed == 0 else "ok"
                said = {"rule": "by_hand", "detail": "", "facts": seen, "grader_version": version, "counts": True}
                connection.execute(verdicts.insert().values(attempt_id=attempt, bucket=bucket, **said))
            connection.execute(site_runs.update().where(mine).values(state="closed"))
            ended = sweeps.update().where(sweeps.c.id == sweep_id)
            connection.execute(ended.values(finished_at=BEGAN + timedelta(days=day)))
        return sweep_id

    return write


@pytest.fixture
def read_cell(bv3_grade: Grade) -> Callable[..., dict[str, Any]]:
    """Criterion 8 of the sweep's scorecard."""

    def read(sweep: str, *options: str) -> dict[str, Any]:
        done = bv3_grade("scorecard", sweep, *options, "--json")
        assert done.code == 0, done.stderr
        cell: dict[str, Any] = json.loads(done.stdout)["criteria"][7]
        return cell

    return read


def test_the_gap_is_taken_from_the_last_finished_c7_with_its_interval(
    finish: Callable[..., str], read_cell: Callable[..., Any], bv3_grade: Grade
) -> None:
    older = finish("c7", 1, n=12, missed=9)
    last = finish("c7", 2, n=12)
    holdout = finish("c8", 3, n=2, missed=10)
    cell = read_cell(holdout)
    assert (cell["against"], cell["numerator"], cell["denominator"]) == (last, 27, 30)
    gap = cell["compared"][0]
    assert gap["change"] == pytest.approx(0.1)
    assert gap["interval"]["low"] < 0.1 < gap["interval"]["high"]
    assert cell["mark"] == "PASS"
    # named by hand, another one
    assert read_cell(holdout, "--known", older)["against"] == older
    shown = bv3_grade("scorecard", holdout, COLUMNS="80").stdout
    assert f"8 holdout reach, gap, against {last}:" in shown
    assert "retired since 2026-08-06, not in the suite's runs: txti" in shown
    assert max(map(len, shown.splitlines())) <= 80


@pytest.mark.parametrize(
    "other", [{"product_revision": "99999999"}, {"renderer": "electron"}, {"lane": "opus"}, {"faults": "all"}]
)
def test_a_c7_that_ran_under_other_conditions_is_passed_over(
    other: dict[str, str], finish: Callable[..., str], read_cell: Callable[..., Any]
) -> None:
    holdout = finish("c8", 3, n=2)
    finish("c7", 4, n=12, **other)
    alone = read_cell(holdout)
    assert (alone["mark"], alone["against"], alone["compared"], alone["value"]) == ("OPEN", None, [], 1.0)
    assert alone["hint"].startswith("no finished c7 ran under its conditions")
    assert "bv3-schedule c7" in alone["hint"]
    assert "--known SWEEP" in alone["hint"]
    like = finish("c7", 1, n=12)
    assert read_cell(holdout)["against"] == like


def test_a_c7_of_some_sites_or_another_plan_is_no_counterpart(
    finish: Callable[..., str], read_cell: Callable[..., Any]
) -> None:
    holdout = finish("c8", 3, n=2)
    finish("c7", 5, n=12, sites=("x", "reddit"))
    finish("known", 6, n=3)
    assert read_cell(holdout)["against"] is None
    whole = finish("c7", 4, n=1)
    cell = read_cell(holdout)
    # too small to judge by, and it says so
    assert (cell["against"], cell["mark"], cell["hint"]) == (whole, "OPEN", f"{whole}: n=1 of the plan's 12")


def test_a_c7_that_is_not_over_is_no_counterpart(
    engine: sa.Engine, finish: Callable[..., str], read_cell: Callable[..., Any]
) -> None:
    holdout, running = finish("c8", 3, n=2), finish("c7", 4, n=12)
    with begin(engine) as connection:
        connection.execute(sweeps.update().where(sweeps.c.id == running).values(finished_at=None))
    assert read_cell(holdout)["against"] is None


def test_a_finished_holdout_s_gap_does_not_move_when_later_c7s_end(
    finish: Callable[..., str], read_cell: Callable[..., Any]
) -> None:
    holdout = finish("c8", 5, n=2)
    later = finish("c7", 7, n=12, missed=2)
    cell = read_cell(holdout)
    assert (cell["against"], cell["notes"]) == (later, [f"{later} finished after this sweep"])
    # the first that came after it, and not each new one
    finish("c7", 9, n=12)
    assert read_cell(holdout)["against"] == later
    finish("c7", 2, n=12)
    before = finish("c7", 4, n=12)
    cell = read_cell(holdout)
    assert (cell["against"], cell["notes"]) == (before, [])


def test_a_holdout_that_is_not_over_is_set_against_the_last_c7(
    engine: sa.Engine, finish: Callable[..., str], read_cell: Callable[..., Any]
) -> None:
    holdout = finish("c8", 5, n=2)
    finish("c7", 4, n=12)
    last = finish("c7", 7, n=12)
    with begin(engine) as connection:
        connection.execute(sweeps.update().where(sweeps.c.id == holdout).values(finished_at=None))
    assert read_cell(holdout)["against"] == last


def test_a_c7_on_another_wording_of_its_suite_is_taken_by_name_alone(
    finish: Callable[..., str], read_cell: Callable[..., Any]
) -> None:
    holdout, older = finish("c8", 5, n=2), finish("c7", 4, n=12, sha256="e" * 64)
    alone = read_cell(holdout)
    assert (alone["mark"], alone["against"]) == ("OPEN", None)
    assert "on today's known suite" in alone["hint"]
    named = read_cell(holdout, "--known", older)
    assert named["against"] == older
    assert named["notes"][0].startswith(f"{older} ran another wording of the suite known (eeeeeeeeeeee)")
    like = finish("c7", 3, n=12)
    assert read_cell(holdout)["against"] == like


def test_a_c7_that_other_rules_have_judged_gives_no_gap_and_the_command_that_mends_it(
    finish: Callable[..., str], read_cell: Callable[..., Any]
) -> None:
    holdout, known = finish("c8", 5, n=2, version=2), finish("c7", 4, n=12)
    finish("c7", 3, n=12, version=2)
    cell = read_cell(holdout)
    assert (cell["mark"], cell["compared"]) == ("OPEN", [])
    assert cell["hint"].endswith(f"2 here, 1 there; bv3-grade regrade {known} --adopt")
