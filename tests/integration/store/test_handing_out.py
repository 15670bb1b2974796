"""Which runs the dispatcher sees, and to whom none is handed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sqlalchemy as sa

from broker.store import dispatching
from broker.store.engine import begin
from broker.store.losing import lose_attempts
from broker.store.sweeps import NewRun, NewSweep, create_sweep
from broker.suites import load_suite


def _add_sweep(engine: sa.Engine, name: str, *, trials: int, priority: int, unverified: bool) -> None:
    suite = load_suite("known")
    [task] = [task for task in suite.tasks if task.site == "x"]
    runs = tuple(
        NewRun(arm="default", site="x", trial=trial, order_key=trial, task=task) for trial in range(1, trials + 1)
    )
    new = NewSweep(
        id=f"c7-20261129T220003Z-{name}",
        plan="c7",
        suite=suite.name,
        suite_sha256=suite.sha256,
        mode="dry",
        trials=trials,
        priority=priority,
        retries=2,
        requested_by="test",
        params={"unverified": unverified},
        runs=runs,
    )
    with begin(engine) as connection:
        create_sweep(connection, new)


def test_no_run_is_handed_to_a_box_that_was_lost_since_the_look(
    engine: sa.Engine, sweep: str, make_box: Callable[[str], Any]
) -> None:
    make_box("box-a")
    with begin(engine) as connection:
        board = dispatching.read_board(connection, planned_limit=1)
        [box] = board.boxes
        lose_attempts(connection, box=box.name, beats=box.beats, reason="no beat for 45 s")
        assert dispatching.hand_out(connection, run_id=board.planned[0].id, box=box.name, slot=1) is None
        assert len(dispatching.read_board(connection, planned_limit=9).planned) == 3, f"the runs of {sweep} still wait"


def test_a_long_sweep_hides_no_other_from_a_box_that_fits_that_alone(
    engine: sa.Engine, make_box: Callable[[str], Any]
) -> None:
    make_box("box-a")
    _add_sweep(engine, "aaaa", trials=5, priority=9, unverified=False)
    _add_sweep(engine, "bbbb", trials=5, priority=0, unverified=True)
    with begin(engine) as connection:
        planned = connection.execute(sa.text(dispatching._PLANNED), {"limit": 2, "can_verified": True}).all()
    assert [row.needs_verified for row in planned] == [True, True, False, False]
