"""False successes that hold a sweep and a box until a person has looked.

Each stands as an event of its box from the moment it was found, and another says who lifted it: a box works again
when none of its breaches is open. Sweep, then box, then attempt: locked in this order everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from broker.holds import HoldKind
from broker.store.holds import lift_hold, lock_boxes, place_hold, read_holds

_FOUND, _LIFTED = "breach", "breach_lifted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Breach:
    """A false success that nobody has lifted yet."""

    attempt_id: int
    # `x#1`, and which attempt of it
    run_name: str
    attempt_no: int
    box: str
    # what was claimed, and what is wrong with it
    said: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifted:
    """What lifting a sweep's breaches has done."""

    breaches: tuple[Breach, ...]
    # boxes that work again
    freed: tuple[str, ...]
    # (box, why) of those that stay held, for a breach elsewhere or by hand
    held: tuple[tuple[str, str], ...]


def halt_after_breach(connection: sa.Connection, attempt_id: int, said: str) -> None:
    """The attempt's sweep starts nothing more and its box gets no runs, until a person says otherwise."""
    reason = _hold_reason(attempt_id, said)
    connection.execute(
        sa.text(
            "update sweeps s set halted_at = coalesce(halted_at, clock_timestamp()), order_reason = :reason"
            " from attempts a join site_runs r on r.id = a.run_id where a.id = :id and s.id = r.sweep_id"
        ),
        {"id": attempt_id, "reason": reason},
    )
    box = connection.scalar(sa.text("select box from attempts where id = :id"), {"id": attempt_id})
    if box is not None:
        place_hold(connection, box, HoldKind.BREACH, reason, "grader")
    connection.execute(sa.text(_RECORD), {"id": attempt_id, "said": said})


# Lifted once, and found again since: that is another one to look at.
_OPEN = f"""
    e.kind = '{_FOUND}' and e.attempt_id is not null and not exists (
        select from box_events l where l.kind = '{_LIFTED}' and l.attempt_id = e.attempt_id and l.id > e.id)
"""

_RECORD = f"""
    insert into box_events (box, kind, run_id, attempt_id, facts)
    select a.box, '{_FOUND}', a.run_id, a.id, jsonb_build_object('said', cast(:said as text))
    from attempts a where a.id = :id and a.box is not null
        and not exists (select from box_events e where e.attempt_id = a.id and {_OPEN})
"""


def _hold_reason(attempt_id: int, said: str) -> str:
    return f"{_hold_prefix(attempt_id)} {said}"


def _hold_prefix(attempt_id: int) -> str:
    return f"false success in attempt {attempt_id}:"


def lock_breaches(connection: sa.Connection, sweep_id: str) -> tuple[Breach, ...]:
    """As `open_breaches`; until this transaction ends no other one can come."""
    connection.execute(sa.text("select from sweeps where id = :id for no key update"), {"id": sweep_id})
    return open_breaches(connection, sweep_id)


def open_breaches(connection: sa.Connection, sweep_id: str) -> tuple[Breach, ...]:
    """The sweep's breaches that nobody has lifted, oldest first."""
    return tuple(
        Breach(
            attempt_id=row.attempt_id,
            run_name=f"{row.site}#{row.trial}",
            attempt_no=row.number,
            box=row.box,
            said=row.said,
        )
        for row in connection.execute(
            sa.text(
                "select e.attempt_id, r.site, r.trial, a.number, e.box, coalesce(e.facts ->> 'said', '') as said"
                " from box_events e join site_runs r on r.id = e.run_id join attempts a on a.id = e.attempt_id"
                f" where r.sweep_id = :id and {_OPEN} order by e.id"
            ),
            {"id": sweep_id},
        )
    )


def lift_breaches(connection: sa.Connection, sweep_id: str, lifted_by: str) -> Lifted:
    """The sweep is halted no longer, and each of its boxes works again unless something else holds it.

    The sweep may be over. What was lifted, and by whom, stands in the events of the boxes.
    """
    breaches = lock_breaches(connection, sweep_id)
    connection.execute(sa.text("update sweeps set halted_at = null where id = :id"), {"id": sweep_id})
    connection.execute(
        sa.text(
            "insert into box_events (box, kind, run_id, attempt_id, facts)"
            f" select a.box, '{_LIFTED}', a.run_id, a.id, jsonb_build_object('by', cast(:by as text))"
            " from attempts a where a.id = any(:ids) order by a.id"
        ),
        {"ids": [breach.attempt_id for breach in breaches], "by": lifted_by},
    )
    names = sorted({breach.box for breach in breaches})
    # On its own: who waits here for another breach's hold must then see that breach too.
    lock_boxes(connection, names)
    before = read_holds(connection)
    for name in names:
        _lift_unless_another(connection, name, breaches, lifted_by)
    left = read_holds(connection)
    return Lifted(
        breaches=breaches,
        freed=tuple(name for name in names if name in before and name not in left),
        held=tuple((name, left[name][0].reason) for name in names if name in left),
    )


def _lift_unless_another(connection: sa.Connection, box: str, breaches: tuple[Breach, ...], lifted_by: str) -> None:
    """The box is held by the oldest of its breaches that are still open, or by none."""
    holds = read_holds(connection).get(box, ())
    reason = next((hold.reason for hold in holds if hold.kind is HoldKind.BREACH), None)
    mine = tuple(_hold_prefix(breach.attempt_id) for breach in breaches)
    if reason is None or not reason.startswith(mine):
        return
    lift_hold(connection, box, HoldKind.BREACH, lifted_by)
    if (another := _next_reason(connection, box)) is not None:
        place_hold(connection, box, HoldKind.BREACH, another, "grader")


def _next_reason(connection: sa.Connection, box: str) -> str | None:
    """Why the box must stay held: its oldest breach that is still open."""
    row = connection.execute(
        sa.text(
            "select e.attempt_id, coalesce(e.facts ->> 'said', '') as said from box_events e"
            f" where e.box = :box and {_OPEN} order by e.id limit 1"
        ),
        {"box": box},
    ).one_or_none()
    return None if row is None else _hold_reason(row.attempt_id, row.said)
