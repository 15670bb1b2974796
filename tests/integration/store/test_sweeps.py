"""Sweeps are found by a prefix, ordered about by columns, and finished only when nothing is outstanding."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import sqlalchemy as sa

from broker.errors import UsageError
from broker.store import dispatching, losing
from broker.store.engine import begin
from broker.store.progress import read_progress
from broker.store.sweeps import find_sweep, has_active_sweep, list_sweeps, order


def test_a_sweep_is_found_by_id_prefix_or_last_and_nothing_else(engine: sa.Engine, sweep: str) -> None:
    with begin(engine) as connection:
        assert {find_sweep(connection, name).id for name in (sweep, "c7-2026", "last")} == {sweep}
        with pytest.raises(UsageError, match="there is no sweep 'c8'"):
            find_sweep(connection, "c8")
        connection.execute(
            sa.text(
                "insert into sweeps (id, plan, suite, suite_sha256, mode, trials, requested_by)"
                " values ('c7-20261129T230000Z-aaaa', 'c7', 'known', '', 'dry', 1, 'test')"
            )
        )
        with pytest.raises(UsageError, match="more than one") as two:
            find_sweep(connection, "c7-")
        assert two.value.hint == f"say more of it: c7-20261129T230000Z-aaaa, {sweep}"
        assert [row.id for row in list_sweeps(connection, 9)] == ["c7-20261129T230000Z-aaaa", sweep]


def test_of_many_sweeps_that_a_beginning_fits_six_are_named_and_more_are_hinted_at(
    engine: sa.Engine, sweep: str
) -> None:
    with begin(engine) as connection:
        connection.execute(
            sa.text(
                "insert into sweeps (id, plan, suite, suite_sha256, mode, trials, requested_by)"
                " select 'c7-20261129T23000' || n || 'Z-aaaa', 'c7', 'known', '', 'dry', 1, 'test'"
                " from generate_series(1, 6) n"
            )
        )
        with pytest.raises(UsageError, match="more than one") as many:
            find_sweep(connection, "c7-")
    assert many.value.hint is not None
    assert many.value.hint.count("c7-") == 6
    assert many.value.hint.endswith(", …")


def test_a_paused_sweep_hands_out_nothing_and_goes_on_when_resumed(engine: sa.Engine, sweep: str) -> None:
    with begin(engine) as connection:
        assert has_active_sweep(connection)
        assert order(connection, sweep, "pause", "interrupted").state == "paused"
        assert not has_active_sweep(connection)
        assert dispatching.read_board(connection, planned_limit=9).planned == ()
        assert order(connection, sweep, "resume", "").state == "active"
        assert len(dispatching.read_board(connection, planned_limit=9).planned) == 3


def test_cancel_closes_what_has_not_started_and_takes_no_further_order(
    engine: sa.Engine, sweep: str, make_box: Callable[[str], Any]
) -> None:
    make_box("box-a")
    with begin(engine) as connection:
        run = dispatching.read_board(connection, planned_limit=1).planned[0]
        dispatching.hand_out(connection, run_id=run.id, box="box-a", slot=1)
        row = order(connection, sweep, "cancel", "enough")
        assert (row.state, row.counts.cancelled, row.counts.planned) == ("cancelled", 3, 0)
        assert dispatching.finish_sweeps(connection) == (sweep,)
        with pytest.raises(UsageError, match="is cancelled"):
            order(connection, sweep, "resume", "")
        progress = read_progress(connection, sweep, 0)
        assert (progress.over, progress.total, progress.active_attempts) == (3, 3, 0)


def test_a_run_that_a_loss_plans_again_is_not_forgotten_by_a_cancel_at_the_same_moment(
    engine: sa.Engine, sweep: str, make_box: Callable[[str], Any]
) -> None:
    """The loss holds the sweep's row, so the cancel waits and sees the run that was planned again."""
    box = make_box("box-a")
    with begin(engine) as connection:
        run = dispatching.read_board(connection, planned_limit=1).planned[0]
        dispatching.hand_out(connection, run_id=run.id, box="box-a", slot=1)
    assert box.client.start(run.id, 1, box.token, "n" * 32).won
    with ThreadPoolExecutor(1) as other:
        with begin(engine) as connection:
            assert losing.lose_attempts(connection, box="box-a", beats=1, reason="silent") == 1
            cancelling = other.submit(_cancel, engine, sweep)
            with pytest.raises(TimeoutError):
                cancelling.result(timeout=0.3)
        assert cancelling.result(timeout=10) == 0
    with begin(engine) as connection:
        assert connection.scalar(sa.text("select state from site_runs where id = :id"), {"id": run.id}) == "cancelled"


def _cancel(engine: sa.Engine, sweep: str) -> int:
    with begin(engine) as connection:
        return order(connection, sweep, "cancel", "enough").counts.planned


def test_a_run_that_was_planned_again_while_its_sweep_was_cancelled_is_cancelled_too(
    engine: sa.Engine, sweep: str
) -> None:
    """Settling reads and writes in one statement, and a cancel may come between the two."""
    with begin(engine) as connection:
        order(connection, sweep, "cancel", "enough")
        connection.execute(sa.text("update site_runs set state = 'planned' where site = 'x'"))
        assert dispatching.finish_sweeps(connection) == ()
        dispatching.settle_graded(connection)
        assert dispatching.finish_sweeps(connection) == (sweep,)
        assert not has_active_sweep(connection)
