"""Attempts that nobody will finish or report are lost; their runs are planned again while tries are left.

Conditional on the state it was decided from, in the lock order of `broker.store.dispatching`.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from broker.store.dispatching import lock_sweeps, take_back


def lose_attempts(connection: sa.Connection, *, box: str, beats: int | None, reason: str) -> int:
    """Open attempts of the box are lost and their runs planned again while tries are left; how many were lost.

    With `beats` all of them, if the box has not beaten since; its lease then ends, so that it must register
    anew. Without, those that three beats in a row did not name.
    """
    lock_sweeps(connection)
    row = connection.execute(
        sa.text("select beats from boxes where name = :box for update"), {"box": box}
    ).one_or_none()
    if row is None or (beats is not None and row.beats != beats):
        return 0
    if beats is not None:
        connection.execute(
            sa.text("update boxes set token = null, phase = 'gone' where name = :box"),
            {"box": box},
        )
        _take_back_all(connection, box, reason)
    lost = connection.execute(
        sa.text(
            "update attempts set state = 'lost', lost_at = clock_timestamp(), reason = :reason"
            " where box = :box and state = 'started' and (not :unnamed or unnamed_beats >= 3)"
            " returning id, run_id, dispatch_id, number"
        ),
        {"box": box, "reason": reason, "unnamed": beats is None},
    ).all()
    for attempt in lost:
        connection.execute(
            sa.text(
                "update dispatches set state = 'lost', ended_at = clock_timestamp(), reason = :reason"
                " where id = :id and state = 'started'"
            ),
            {"id": attempt.dispatch_id, "reason": reason},
        )
        _plan_after_loss(connection, attempt, box=box, reason=reason)
    return len(lost)


def read_unreported(connection: sa.Connection) -> frozenset[int]:
    """Attempts that a box has finished and whose record is not stored, or can't be read."""
    return frozenset(connection.scalars(sa.text("select id from attempts where state = 'finished'")))


def lose_unreported(connection: sa.Connection, attempt_id: int, reason: str) -> bool:
    """The finished attempt is lost and its run planned again while tries are left; False when its record came."""
    lock_sweeps(connection)
    attempt = connection.execute(
        sa.text(
            "update attempts set state = 'lost', lost_at = clock_timestamp(), reason = :reason"
            " where id = :id and state = 'finished' returning id, run_id, number, box"
        ),
        {"id": attempt_id, "reason": reason},
    ).one_or_none()
    if attempt is None:
        return False
    _plan_after_loss(connection, attempt, box=attempt.box, reason=reason)
    return True


def _plan_after_loss(connection: sa.Connection, attempt: sa.Row[Any], *, box: str, reason: str) -> None:
    connection.execute(sa.text(_AFTER_LOSS), {"run": attempt.run_id, "number": attempt.number})
    connection.execute(
        sa.text(
            "insert into box_events (box, kind, run_id, attempt_id, facts)"
            " values (:box, 'attempt_lost', :run, :attempt, jsonb_build_object('reason', cast(:reason as text)))"
        ),
        {"box": box, "run": attempt.run_id, "attempt": attempt.id, "reason": reason},
    )


_AFTER_LOSS = """
    update site_runs r set
        state = case when :number <= s.retries and s.cancelled_at is null then 'planned' else 'closed' end,
        closed_at = case when :number <= s.retries and s.cancelled_at is null then null else clock_timestamp() end,
        reason = 'infra_box_lost'
    from sweeps s where s.id = r.sweep_id and r.id = :run and r.state = 'started'
"""


def _take_back_all(connection: sa.Connection, box: str, reason: str) -> None:
    waiting = connection.scalars(
        sa.text("select id from dispatches where box = :box and state = 'open'"), {"box": box}
    ).all()
    for dispatch_id in waiting:
        take_back(connection, dispatch_id, reason)
