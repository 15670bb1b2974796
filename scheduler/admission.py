"""A plan of a frozen suite at the door: judged with everything that is known, and entered in the ledger."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import sqlalchemy as sa

from broker.freezes import SearchedSource, freeze_tasks, load_freezes
from broker.source_search import search_source
from broker.store.freezes import (
    first_attempts,
    lock_freezes,
    read_freezes,
    save_freeze,
    save_use,
)
from broker.store.sweeps import NewSweep
from broker.suites import Suite, load_suite, suite_names
from scheduler.freezing import Known, Standing, is_guarded, judge


def search_hosts(suite: Suite, source: Path | None) -> SearchedSource | None:
    """The checkout, found to name no host of the suite; None when none was named, or the suite is not a frozen one.

    Raises UsageError when it names one, or can't be read in full.
    """
    if source is None or not is_guarded(suite, load_freezes()):
        return None
    return search_source(source, sorted({task.host for task in suite.tasks}), what=suite.name)


def admit_frozen(
    connection: sa.Connection, sweep: NewSweep, suite: Suite, source: SearchedSource | None
) -> tuple[Standing, ...]:
    """The sweep's use of each group is in the ledger, with committed freezes that were not on record yet.

    Call it in the transaction that writes the sweep, after `create_sweep`: a refusal undoes both. A suite that neither
    its file nor any freeze calls frozen passes. Raises UsageError with what is wrong.
    """
    recorded = tuple(row.freeze for row in read_freezes(connection, suite.name))
    if not is_guarded(suite, (*load_freezes(), *recorded)):
        return ()
    known = read_known(connection, suite)
    standings = judge(suite, known, sites={run.site for run in sweep.runs}, mode=sweep.mode)
    for standing in standings:
        ids = {group: row.id for group, row in standing.lineage.rows.items()}
        for freeze in standing.lineage.entering:
            ids[freeze.group] = save_freeze(connection, freeze)
        if standing.is_used:
            save_use(
                connection,
                sweep_id=sweep.id,
                freeze_id=ids[standing.lineage.tip.group],
                source=source,
                requested_by=sweep.requested_by,
            )
    return standings


def preview_frozen(connection: sa.Connection | None, sweep: NewSweep, suite: Suite) -> tuple[Standing, ...]:
    """The same judgement, and nothing is written; without a connection, of a farm that has nothing on record."""
    recorded = () if connection is None else tuple(row.freeze for row in read_freezes(connection, suite.name))
    if not is_guarded(suite, (*load_freezes(), *recorded)):
        return ()
    known = _know(suite, datetime.now(UTC)) if connection is None else read_known(connection, suite)
    return judge(suite, known, sites={run.site for run in sweep.runs}, mode=sweep.mode)


def read_known(connection: sa.Connection, suite: Suite) -> Known:
    """All that is known of the suite's freezes; nobody else plans or freezes it until the transaction ends."""
    now = lock_freezes(connection, suite.name)
    known = _know(suite, now)
    return replace(
        known,
        rows=read_freezes(connection, suite.name),
        begun=first_attempts(connection, suite.name, freeze_tasks(suite.tasks)),
    )


def _know(suite: Suite, now: datetime) -> Known:
    others = tuple(load_suite(name) for name in suite_names() if name != suite.name)
    return Known(committed=load_freezes(), shipped=(suite, *others), now=now)
