"""The dispatcher's side of the store. Every change is conditional on the state it was decided from.

Lock order, everywhere: sweep, box, dispatch, run, attempt.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from broker.codec import from_json
from broker.holds import HoldKind
from broker.store.holds import read_holds
from broker.store.standing import CheckState, RecentAttempt, read_checks, read_recent
from broker.types import Mode, RunOrder, SiteTask

# What a beat says of a box that takes runs; of one that is up without working its queue, or contended, it says others.
WORKING_PHASES = frozenset({"ready", "running"})
# "bv3 dispatch" in two numbers: whoever holds this lock holds the pen
_PEN = {"a": 0x6276, "b": 0x64}


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenDispatch:
    """A run that is handed out to a box and has not ended there."""

    id: int
    run_id: int
    number: int
    slot: int
    started: bool
    # None: never sent
    sent_at_beat: int | None
    sent_ago_s: float
    # the sweep is paused, cancelled, halted or past its deadline
    sweep_stopped: bool
    # its sweep asks for a revision whose markers were checked
    needs_verified: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxState:
    """A registered box as the database sees it now."""

    name: str
    token: str
    beats: int
    phase: str
    # by what it is held: `drained: new disk`; None: by nothing
    held: str | None
    may_work: bool
    mode: str | None
    # since it last handed a run back; None: never
    released_ago_s: float | None
    # it has an open attempt that three of its beats in a row did not name
    has_unnamed: bool
    dispatches: tuple[OpenDispatch, ...]
    # no marker is dead at the revision that it runs
    verified: bool
    is_quarantined: bool
    # its last judged attempts, oldest first
    recent: tuple[RecentAttempt, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRun:
    """A run that waits for a box."""

    id: int
    mode: str
    needs_verified: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """All that one tick decides from, read in one transaction. `planned` is in order, as far as it was read."""

    boxes: tuple[BoxState, ...]
    planned: tuple[PlannedRun, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HandedOut:
    """A dispatch that is a row now, and the order to send for it."""

    dispatch_id: int
    box: str
    order: RunOrder


def take_pen(connection: sa.Connection) -> bool:
    """Whether this connection is the one dispatcher's, until it ends."""
    # A stopped dispatcher must lose lock and pen together (DELIVERY, "Dispatcher").
    connection.execute(sa.text("set idle_session_timeout = '15s'"))
    connection.execute(sa.text("set idle_in_transaction_session_timeout = '15s'"))
    return bool(connection.scalar(sa.text("select pg_try_advisory_lock(:a, :b)"), _PEN))


def lock_sweeps(connection: sa.Connection) -> None:
    """No order changes a sweep under way until this transaction ends: it is there already, or it waits.

    Without it a cancel would pass by a run that is just being planned again, and two transactions that change
    several rows each could wait for one another.
    """
    connection.execute(sa.text("select id from sweeps where finished_at is null order by id for share"))


def read_board(connection: sa.Connection, *, planned_limit: int) -> Board:
    """The boxes with what they hold, and the next planned runs of active sweeps."""
    held: dict[str, list[OpenDispatch]] = {}
    for row in connection.execute(sa.text(_OPEN_DISPATCHES)):
        held.setdefault(row.box, []).append(
            OpenDispatch(
                id=row.id,
                run_id=row.run_id,
                number=row.number,
                slot=row.slot,
                started=row.state == "started",
                sent_at_beat=row.sent_at_beat,
                sent_ago_s=row.sent_ago_s,
                sweep_stopped=row.sweep_stopped,
                needs_verified=row.needs_verified,
            )
        )
    boxes = _read_boxes(connection, held)
    can_verified = any(box.verified for box in boxes)
    planned = connection.execute(sa.text(_PLANNED), {"limit": planned_limit, "can_verified": can_verified})
    return Board(
        boxes=boxes,
        planned=tuple(PlannedRun(id=row.id, mode=row.mode, needs_verified=row.needs_verified) for row in planned),
    )


def _read_boxes(connection: sa.Connection, dispatches: Mapping[str, list[OpenDispatch]]) -> tuple[BoxState, ...]:
    holds, checks, recent = read_holds(connection), read_checks(connection), read_recent(connection)
    return tuple(
        BoxState(
            name=row.name,
            token=str(row.token),
            beats=row.beats,
            phase=row.phase,
            held=f"{held[0].kind}: {held[0].reason}" if held else None,
            may_work=not held and row.phase in WORKING_PHASES,
            mode=row.mode,
            released_ago_s=row.released_ago_s,
            has_unnamed=row.has_unnamed,
            dispatches=tuple(dispatches.get(row.name, ())),
            verified=row.name in checks and checks[row.name].state is CheckState.VERIFIED,
            is_quarantined=any(hold.kind is HoldKind.QUARANTINED for hold in held),
            recent=recent.get(row.name, ()),
        )
        for row in connection.execute(sa.text(BOXES_QUERY))
        for held in (holds.get(row.name, ()),)
    )


_STOPPED = (
    "(s.paused_at is not null or s.cancelled_at is not null or s.halted_at is not null"
    " or coalesce(s.deadline <= clock_timestamp(), false))"
)

NEEDS_VERIFIED = "(s.params ->> 'unverified' is distinct from 'true')"

_OPEN_DISPATCHES = f"""
    select d.id, d.run_id, d.number, d.box, d.slot, d.state, d.sent_at_beat,
        extract(epoch from clock_timestamp() - coalesce(d.sent_at[cardinality(d.sent_at)], d.created_at))::float
            as sent_ago_s,
        {_STOPPED} as sweep_stopped, {NEEDS_VERIFIED} as needs_verified
    from dispatches d join site_runs r on r.id = d.run_id join sweeps s on s.id = r.sweep_id
    where d.state in ('open', 'started') order by d.id
"""

BOXES_QUERY = """
    select b.name, b.token, b.beats, b.phase, b.facts ->> 'mode' as mode,
        (select extract(epoch from clock_timestamp() - max(d.ended_at))::float
         from dispatches d where d.box = b.name and d.state = 'released') as released_ago_s,
        exists (select from attempts a where a.box = b.name and a.state = 'started' and a.unnamed_beats >= 3)
            as has_unnamed
    from boxes b where b.token is not null order by b.name
"""

# A sweep that waits for a check must not stand before one that needs none: it is left out while no box fits.
# And so many of each kind, or a long sweep of one kind would hide the other from the boxes that fit it alone.
_PLANNED = f"""
    select id, mode, needs_verified from (
        select r.id, s.mode, {NEEDS_VERIFIED} as needs_verified, s.priority, r.order_key, s.created_at,
            row_number() over (partition by s.mode, {NEEDS_VERIFIED}
                order by s.priority desc, r.order_key, s.created_at, r.id) as place
        from site_runs r join sweeps s on s.id = r.sweep_id
        where r.state = 'planned' and s.finished_at is null and not {_STOPPED}
            and (:can_verified or not {NEEDS_VERIFIED})
    ) planned
    where place <= :limit order by priority desc, order_key, created_at, id
"""


def hand_out(connection: sa.Connection, *, run_id: int, box: str, slot: int) -> HandedOut | None:
    """The run is dispatched to the box's slot, as rows; None when it is not planned any more, or the box is lost.

    A box may have been lost since the look that this was decided from, and nobody looks at the dispatches of one
    without a lease.
    """
    run = connection.execute(
        sa.text(
            "update site_runs set state = 'dispatched', dispatched_at = clock_timestamp()"
            " where id = :id and state = 'planned'"
            " and exists (select from boxes where name = :box and token is not null) returning *"
        ),
        {"id": run_id, "box": box},
    ).one_or_none()
    if run is None:
        return None
    row = connection.execute(
        sa.text(
            "insert into dispatches (run_id, number, box, slot) values (:run, (select coalesce(max(number), 0) + 1"
            " from dispatches where run_id = :run), :box, :slot) returning id, number"
        ),
        {"run": run_id, "box": box, "slot": slot},
    ).one()
    return HandedOut(dispatch_id=row.id, box=box, order=_to_order(run, row.number, _mode_of(connection, run.sweep_id)))


def read_order(connection: sa.Connection, dispatch_id: int) -> HandedOut | None:
    """The order of a dispatch that is still open, to send it again."""
    row = connection.execute(
        sa.text(
            "select r.*, d.number, d.box from dispatches d join site_runs r on r.id = d.run_id"
            " where d.id = :id and d.state = 'open'"
        ),
        {"id": dispatch_id},
    ).one_or_none()
    if row is None:
        return None
    order = _to_order(row, row.number, _mode_of(connection, row.sweep_id))
    return HandedOut(dispatch_id=dispatch_id, box=row.box, order=order)


def _mode_of(connection: sa.Connection, sweep_id: str) -> Mode:
    return Mode(connection.execute(sa.text("select mode from sweeps where id = :id"), {"id": sweep_id}).scalar_one())


def _to_order(run: sa.Row[Any], number: int, mode: Mode) -> RunOrder:
    return RunOrder(
        sweep=run.sweep_id,
        run=run.id,
        dispatch=number,
        arm=run.arm,
        trial=run.trial,
        mode=mode,
        task=from_json(SiteTask, run.task),
    )


def mark_sent(connection: sa.Connection, dispatch_id: int) -> None:
    """The dispatch remembers when it was sent, and at which of the box's beats."""
    connection.execute(
        sa.text(
            "update dispatches d set sent_at = sent_at || clock_timestamp(), sent_at_beat = b.beats"
            " from boxes b where d.id = :id and b.name = d.box"
        ),
        {"id": dispatch_id},
    )


def take_back(connection: sa.Connection, dispatch_id: int, reason: str) -> bool:
    """The run is planned again, unless the box has started it: then nothing changed and it is False."""
    run_id = connection.scalar(
        sa.text(
            "update dispatches set state = 'taken_back', ended_at = clock_timestamp(), reason = :reason"
            " where id = :id and state = 'open' returning run_id"
        ),
        {"id": dispatch_id, "reason": reason},
    )
    if run_id is None:
        return False
    connection.execute(
        sa.text("update site_runs set state = 'planned' where id = :id and state = 'dispatched'"), {"id": run_id}
    )
    return True


def settle_graded(connection: sa.Connection) -> int:
    """Runs whose last attempt is graded are closed, or planned again after an infra verdict with tries left.

    A run that was planned again while its sweep was being cancelled is cancelled too: nobody else would end it.
    """
    changed = connection.execute(sa.text(_SETTLE))
    connection.execute(sa.text(_CANCEL_LATE))
    return changed.rowcount


_SETTLE = """
    update site_runs r set
        state = case when last.again then 'planned' else 'closed' end,
        closed_at = case when last.again then null else clock_timestamp() end,
        reason = last.bucket
    from (
        select distinct on (a.run_id) a.run_id, a.state, v.bucket,
            v.bucket like 'infra%' and a.number <= s.retries and s.cancelled_at is null as again
        from site_runs sr join sweeps s on s.id = sr.sweep_id join attempts a on a.run_id = sr.id
            -- the first one, whatever version is quoted later
            left join lateral (select bucket from verdicts v where v.attempt_id = a.id and v.counts
                order by v.id limit 1) v on true
        where sr.state = 'started'
        order by a.run_id, a.number desc
    ) last
    where r.id = last.run_id and r.state = 'started' and last.state = 'graded' and last.bucket is not null
"""


_CANCEL_LATE = """
    update site_runs r set state = 'cancelled', closed_at = clock_timestamp(), reason = s.order_reason
    from sweeps s where s.id = r.sweep_id and r.state = 'planned' and s.cancelled_at is not null
"""


def finish_sweeps(connection: sa.Connection) -> tuple[str, ...]:
    """Sweeps of which no run and no verdict is outstanding are finished now; their ids."""
    return tuple(
        connection.scalars(
            sa.text(
                "update sweeps s set finished_at = clock_timestamp() where finished_at is null"
                " and not exists (select from site_runs r where r.sweep_id = s.id"
                "   and r.state in ('planned', 'dispatched', 'started'))"
                " and not exists (select from site_runs r join attempts a on a.run_id = r.id where r.sweep_id = s.id"
                "   and not exists (select from verdicts v where v.attempt_id = a.id and v.counts))"
                " returning s.id"
            )
        )
    )


def needs_grading(connection: sa.Connection) -> bool:
    """Whether an attempt is reported or lost and has waited two seconds for its verdict."""
    return bool(
        connection.scalar(
            sa.text(
                "select exists (select from attempts a where a.state in ('reported', 'lost')"
                " and coalesce(a.lost_at, a.reported_at) < clock_timestamp() - interval '2 seconds'"
                " and not exists (select from verdicts v where v.attempt_id = a.id and v.counts))"
            )
        )
    )
