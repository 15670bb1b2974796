"""A plan of a frozen suite at the door: judged with everything that is known, and entered in the ledger."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import sqlalchemy as sa

from broker.freezes import SearchedSource, load_freezes
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
from scheduler.freezing import Known, Standing, group_tasks, judge


def search_hosts(suite: Suite, source: Path | None) -> SearchedSource | None:
    """The checkout, found to name no host of the suite; None when none was named, or the suite is not a frozen one.

    Raises UsageError when it names one, or can't be read in full.
    """
    if source is None or not suite.is_frozen:
        return None
    return search_source(source, sorted({task.host for task in suite.tasks}), what=suite.name)


def admit_frozen(
    connection: sa.Connection, sweep: NewSweep, suite: Suite, source: SearchedSource | None
) -> tuple[Standing, ...]:
    """The sweep's use of each group is in the ledger, with committed freezes that were not on record yet.

    Call it in the transaction that writes the sweep, after `create_sweep`: a refusal undoes both. A suite that is not
    frozen passes. Raises UsageError with what is wrong.
    """
    if not suite.is_frozen:
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
    if not suite.is_frozen:
        return ()
    known = _know(suite, datetime.now(UTC)) if connection is None else read_known(connection, suite)
    return judge(suite, known, sites={run.site for run in sweep.runs}, mode=sweep.mode)


def read_known(connection: sa.Connection, suite: Suite) -> Known:
    """All that is known of the suite's freezes; nobody else plans or freezes it until the transaction ends."""
    now = lock_freezes(connection, suite.name)
    known = _know(suite, now)
    rows = read_freezes(connection, suite.name)
    # of sites that a freeze holds, too: one that left the file is judged as well
    tasks = [task for tasks in group_tasks(suite).values() for task in tasks]
    tasks += [task for row in rows for task in row.freeze.tasks]
    by_site = {(task["site"], task["host"]): task for task in tasks}
    return Known(
        committed=known.committed,
        rows=rows,
        shipped=known.shipped,
        begun=first_attempts(connection, suite.name, list(by_site.values())),
        now=now,
    )


def _know(suite: Suite, now: datetime) -> Known:
    others = tuple(load_suite(name) for name in suite_names() if name != suite.name)
    return Known(committed=load_freezes(), shipped=(suite, *others), now=now)
