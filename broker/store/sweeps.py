"""Sweeps and their runs: made in one transaction, ordered about by columns, read for progress."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Literal

import sqlalchemy as sa

from broker.errors import UsageError
from broker.store.tables import site_runs, sweeps
from broker.types import SiteTask

# The plan of a sweep whose runs another harness did.
IMPORT_PLAN = "import"

SweepState = Literal["active", "paused", "cancelled", "halted", "finished"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRun:
    """One planned trial."""

    arm: str
    site: str
    trial: int
    order_key: int
    task: SiteTask


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSweep:
    """A sweep to be written, with all its runs: an empty one would look finished."""

    id: str
    plan: str
    suite: str
    suite_sha256: str
    mode: str
    trials: int
    priority: int
    retries: int
    requested_by: str
    params: Mapping[str, Any]
    runs: tuple[NewRun, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCounts:
    """How many runs are in which state, and how many attempts there are."""

    planned: int
    dispatched: int
    started: int
    closed: int
    cancelled: int
    total: int
    attempts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRow:
    """A sweep as it stands."""

    id: str
    plan: str
    suite: str
    mode: str
    trials: int
    retries: int
    state: SweepState
    created_at: datetime
    finished_at: datetime | None
    order_reason: str | None
    requested_by: str
    params: Mapping[str, Any]
    counts: RunCounts
    # of the suite's file as it was planned; empty: an imported sweep's
    suite_sha256: str = ""


_STATE = """
    case when s.cancelled_at is not null and exists (
            select from site_runs c where c.sweep_id = s.id and c.state <> 'closed') then 'cancelled'
         when s.finished_at is not null or s.cancelled_at is not null then 'finished'
         when s.halted_at is not null then 'halted'
         when s.paused_at is not null then 'paused'
         else 'active' end
"""

_SELECT = f"""
    select s.*, {_STATE} as state,
        count(r.id) filter (where r.state = 'planned') as planned,
        count(r.id) filter (where r.state = 'dispatched') as dispatched,
        count(r.id) filter (where r.state = 'started') as started,
        count(r.id) filter (where r.state = 'closed') as closed,
        count(r.id) filter (where r.state = 'cancelled') as cancelled,
        count(r.id) as total,
        (select count(*) from attempts a join site_runs ar on ar.id = a.run_id where ar.sweep_id = s.id) as attempts
    from sweeps s left join site_runs r on r.sweep_id = s.id
"""


def create_sweep(connection: sa.Connection, new: NewSweep) -> None:
    """The sweep and all its runs are written, or nothing is."""
    if not new.runs:
        raise UsageError("a sweep without runs can't be planned")
    connection.execute(
        sweeps.insert().values(
            id=new.id,
            plan=new.plan,
            suite=new.suite,
            suite_sha256=new.suite_sha256,
            mode=new.mode,
            trials=new.trials,
            priority=new.priority,
            retries=new.retries,
            requested_by=new.requested_by,
            params=dict(new.params),
        )
    )
    connection.execute(
        site_runs.insert(),
        [
            {
                "sweep_id": new.id,
                "arm": run.arm,
                "site": run.site,
                "trial": run.trial,
                "order_key": run.order_key,
                "task": json.loads(json.dumps(asdict(run.task))),
            }
            for run in new.runs
        ],
    )


def refuse_nameless(reference: str) -> None:
    """Raises UsageError when the reference is empty: it would fit every sweep."""
    if not reference:
        raise UsageError("say which sweep", hint="an id, a unique beginning of one, or `last`")


def find_sweep(connection: sa.Connection, reference: str) -> SweepRow:
    """The sweep meant by an id, a unique prefix of one, or `last`. Raises UsageError otherwise.

    `last` is the newest one that boxes were to run: an imported sweep is older than the day it was imported.
    """
    refuse_nameless(reference)
    if reference == "last":
        query = "select id from sweeps where plan <> :imported order by created_at desc, id desc limit 1"
        found = list(connection.scalars(sa.text(query), {"imported": IMPORT_PLAN}))
    else:
        query = "select id from sweeps where starts_with(id, :ref) order by id = :ref desc, created_at desc limit 7"
        found = list(connection.scalars(sa.text(query), {"ref": reference}))
    if not found:
        why = ": `last` is none that was imported" if reference == "last" else ""
        raise UsageError(f"there is no sweep {reference!r}{why}", hint="bv3-schedule list shows them")
    if len(found) > 1 and found[0] != reference:
        shown = [*found[:6], *(["…"] if len(found) > 6 else [])]  # noqa: PLR2004 - one more was asked for than is shown
        raise UsageError(f"{reference!r} fits more than one sweep", hint="say more of it: " + ", ".join(shown))
    row = connection.execute(sa.text(f"{_SELECT} where s.id = :id group by s.id"), {"id": found[0]}).one()
    return _to_row(row)


def list_sweeps(connection: sa.Connection, limit: int) -> tuple[SweepRow, ...]:
    """The newest sweeps first, at most `limit`."""
    statement = sa.text(f"{_SELECT} group by s.id order by s.created_at desc, s.id desc limit :limit")
    return tuple(_to_row(row) for row in connection.execute(statement, {"limit": limit}))


def _to_row(row: sa.Row[Any]) -> SweepRow:
    return SweepRow(
        id=row.id,
        plan=row.plan,
        suite=row.suite,
        suite_sha256=row.suite_sha256,
        mode=row.mode,
        trials=row.trials,
        retries=row.retries,
        state=row.state,
        created_at=row.created_at,
        finished_at=row.finished_at,
        order_reason=row.order_reason,
        requested_by=row.requested_by,
        params=row.params,
        counts=RunCounts(
            planned=row.planned,
            dispatched=row.dispatched,
            started=row.started,
            closed=row.closed,
            cancelled=row.cancelled,
            total=row.total,
            attempts=row.attempts,
        ),
    )


def has_active_sweep(connection: sa.Connection) -> bool:
    """Whether any sweep still wants its runs to be done, or has one under way."""
    return bool(
        connection.scalar(
            sa.text(
                "select exists (select from sweeps s where finished_at is null and ("
                " (paused_at is null and halted_at is null)"
                " or exists (select from site_runs r"
                "  where r.sweep_id = s.id and r.state in ('dispatched', 'started'))))"
            )
        )
    )


def active_attempts(connection: sa.Connection, sweep_id: str) -> int:
    """How many attempts of the sweep a box has started and not finished."""
    return int(
        connection.scalar(
            sa.text(
                "select count(*) from attempts a join site_runs r on r.id = a.run_id"
                " where r.sweep_id = :id and a.state = 'started'"
            ),
            {"id": sweep_id},
        )
        or 0
    )


def order(
    connection: sa.Connection, sweep_id: str, what: Literal["pause", "resume", "cancel"], reason: str
) -> SweepRow:
    """The order stands in the sweep's row; once this is committed no start of the sweep can win against it.

    Cancel also cancels every run that has not started; with no run waiting or under way any more it is refused,
    and a sweep of which it dropped none is finished, not cancelled, once those under way are. Resume ends a pause,
    never a halt: a halted sweep takes it only once its breaches are lifted (`lift_breaches`). A finished or
    cancelled sweep takes no order: UsageError.
    """
    row = connection.execute(
        sa.text(f"select plan, {_STATE} as state from sweeps s where id = :id for no key update"), {"id": sweep_id}
    ).one()
    if row.plan == IMPORT_PLAN:
        raise UsageError(f"sweep {sweep_id} was imported: it takes no {what}")
    if row.state in {"finished", "cancelled"}:
        raise UsageError(f"sweep {sweep_id} is {row.state}: it takes no {what}")
    if what == "resume" and row.state == "halted":
        raise UsageError(f"sweep {sweep_id} is halted for a false success: it takes no resume before that is lifted")
    if what == "cancel" and not _has_open_run(connection, sweep_id):
        raise UsageError(f"every run of sweep {sweep_id} is over: nothing is left to cancel")
    column = {
        "pause": "paused_at = clock_timestamp()",
        "resume": "paused_at = null",
        "cancel": "cancelled_at = clock_timestamp()",
    }[what]
    connection.execute(
        sa.text(f"update sweeps set {column}, order_reason = :reason where id = :id"),
        {"id": sweep_id, "reason": reason},
    )
    if what == "cancel":
        _cancel_unstarted(connection, sweep_id, reason)
    return find_sweep(connection, sweep_id)


def _has_open_run(connection: sa.Connection, sweep_id: str) -> bool:
    query = (
        "select exists (select from site_runs where sweep_id = :id and state in ('planned', 'dispatched', 'started'))"
    )
    return bool(connection.scalar(sa.text(query), {"id": sweep_id}))


def _cancel_unstarted(connection: sa.Connection, sweep_id: str, reason: str) -> None:
    connection.execute(
        sa.text(
            "update dispatches d set state = 'taken_back', ended_at = clock_timestamp(), reason = :reason"
            " from site_runs r where r.id = d.run_id and r.sweep_id = :id and d.state = 'open'"
        ),
        {"id": sweep_id, "reason": reason},
    )
    connection.execute(
        sa.text(
            "update site_runs set state = 'cancelled', closed_at = clock_timestamp(), reason = :reason"
            " where sweep_id = :id and state in ('planned', 'dispatched')"
        ),
        {"id": sweep_id, "reason": reason},
    )
