"""Which of a case's verdicts is quoted: the one of the version that its sweep adopted last, else its first.

Rules that have changed since grade nothing anew by themselves: what was read out loud stays what it was until
somebody adopts another version for the sweep.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from broker.store.tables import adoptions

# For `order by … limit 1` over verdicts `v` of one attempt or record; `:id` is the sweep's.
QUOTED_FIRST = """
    coalesce(v.grader_version = (select grader_version from adoptions where sweep_id = :id
        order by id desc limit 1), false) desc, v.id
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Adoption:
    """Somebody's word that the sweep's scorecard quotes this version."""

    grader_version: int
    requested_by: str
    adopted_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenVerdict:
    """One of an attempt's verdicts, in short."""

    attempt_id: int
    record_id: int | None
    grader_version: int
    bucket: str
    rule: str
    counts: bool


def read_adoption(connection: sa.Connection, sweep_id: str) -> Adoption | None:
    """The sweep's latest adoption; None: each attempt's first verdict is quoted."""
    row = connection.execute(
        sa.select(adoptions).where(adoptions.c.sweep_id == sweep_id).order_by(adoptions.c.id.desc()).limit(1)
    ).one_or_none()
    if row is None:
        return None
    return Adoption(grader_version=row.grader_version, requested_by=row.requested_by, adopted_at=row.adopted_at)


def adopt_version(connection: sa.Connection, sweep_id: str, *, grader_version: int, requested_by: str) -> None:
    """From here on the sweep's scorecard quotes this version."""
    connection.execute(
        adoptions.insert().values(sweep_id=sweep_id, grader_version=grader_version, requested_by=requested_by)
    )


def read_given(connection: sa.Connection, attempt_ids: list[int]) -> tuple[GivenVerdict, ...]:
    """Every verdict that these attempts were ever given, in the order of version and time."""
    rows = connection.execute(
        sa.text(
            "select attempt_id, record_id, grader_version, bucket, rule, counts from verdicts"
            " where attempt_id = any(:ids) order by attempt_id, grader_version, id"
        ),
        {"ids": attempt_ids},
    )
    return tuple(GivenVerdict(**dict(row)) for row in rows.mappings())
