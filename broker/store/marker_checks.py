"""What came of setting the catalogue of markers against a product's source: one row per check, none ever changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from broker.store.tables import marker_checks


@dataclass(frozen=True, slots=True, kw_only=True)
class NewMarkerCheck:
    """A check to be stored. `catalogue_sha256`: of the catalogue's text, so that another one is unverified."""

    product_revision: str
    catalogue_sha256: str
    total: int
    alive: int
    facts: Mapping[str, Any]
    checked_by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkerCheckRow:
    """A stored check."""

    id: int
    product_revision: str
    catalogue_sha256: str
    total: int
    alive: int
    facts: Mapping[str, Any]
    checked_by: str
    checked_at: datetime
    # the box that made it, and in which registration; None: a person did
    box: str | None
    token: UUID | None


def save_check(connection: sa.Connection, new: NewMarkerCheck) -> int:
    """The check is a row; its id."""
    statement = (
        sa.insert(marker_checks)
        .values(
            product_revision=new.product_revision,
            catalogue_sha256=new.catalogue_sha256,
            total=new.total,
            alive=new.alive,
            facts=dict(new.facts),
            checked_by=new.checked_by,
        )
        .returning(marker_checks.c.id)
    )
    return int(connection.execute(statement).scalar_one())


def find_latest(connection: sa.Connection, *, product_revision: str, catalogue_sha256: str) -> MarkerCheckRow | None:
    """The newest check of this catalogue against this revision, or None."""
    statement = (
        sa.select(marker_checks)
        .where(
            marker_checks.c.product_revision == product_revision,
            marker_checks.c.catalogue_sha256 == catalogue_sha256,
        )
        .order_by(marker_checks.c.id.desc())
        .limit(1)
    )
    row = connection.execute(statement).mappings().one_or_none()
    return None if row is None else MarkerCheckRow(**row)
