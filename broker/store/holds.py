"""What keeps a box from its work: one open row per box and kind, each with who wrote it and who lifted it.

Whoever writes or lifts one holds the box's row, so that a start either came before it or sees it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from broker.holds import HoldKind


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldRow:
    """A hold that is open."""

    id: int
    box: str
    kind: HoldKind
    reason: str
    held_at: datetime
    held_by: str


def place_hold(connection: sa.Connection, box: str, kind: HoldKind, reason: str, held_by: str) -> int | None:
    """The box is held from the end of this transaction on; None when a hold of this kind was open already."""
    lock_boxes(connection, (box,))
    hold_id: int | None = connection.scalar(
        sa.text(
            "insert into box_holds (box, kind, reason, held_by) values (:box, :kind, :reason, :by)"
            " on conflict (box, kind) where lifted_at is null do nothing returning id"
        ),
        {"box": box, "kind": kind.value, "reason": reason, "by": held_by},
    )
    if hold_id is not None:
        _tell(connection, "hold_placed", hold_id)
    return hold_id


def lift_hold(connection: sa.Connection, box: str, kind: HoldKind, lifted_by: str) -> bool:
    """No hold of this kind is open; False when none was."""
    lock_boxes(connection, (box,))
    hold_id = connection.scalar(
        sa.text(
            "update box_holds set lifted_at = clock_timestamp(), lifted_by = :by"
            " where box = :box and kind = :kind and lifted_at is null returning id"
        ),
        {"box": box, "kind": kind.value, "by": lifted_by},
    )
    if hold_id is not None:
        _tell(connection, "hold_lifted", hold_id)
    return hold_id is not None


def lock_boxes(connection: sa.Connection, names: Iterable[str]) -> None:
    """Nobody else holds, frees or starts on these boxes until this transaction ends."""
    statement = sa.text("select from boxes where name = any(:names) order by name for no key update")
    connection.execute(statement, {"names": sorted(names)})


def read_holds(connection: sa.Connection) -> Mapping[str, tuple[HoldRow, ...]]:
    """The open holds of every box that has one, oldest first."""
    found: dict[str, tuple[HoldRow, ...]] = {}
    query = "select id, box, kind, reason, held_at, held_by from box_holds where lifted_at is null order by held_at, id"
    for row in connection.execute(sa.text(query)):
        hold = HoldRow(
            id=row.id,
            box=row.box,
            kind=HoldKind(row.kind),
            reason=row.reason,
            held_at=row.held_at,
            held_by=row.held_by,
        )
        found[row.box] = (*found.get(row.box, ()), hold)
    return found


def _tell(connection: sa.Connection, event: str, hold_id: int) -> None:
    connection.execute(
        sa.text(
            "insert into box_events (box, kind, facts) select box, :event, jsonb_strip_nulls(jsonb_build_object("
            "'hold', id, 'kind', kind, 'reason', reason, 'lifted_by', lifted_by)) from box_holds where id = :id"
        ),
        {"event": event, "id": hold_id},
    )
