"""Freezes and the ledger of their uses: rows that are added, and never changed or deleted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from broker.freezes import Freeze, FreezeUse, FrozenTask, SearchedSource
from broker.store.tables import freeze_uses, freezes


@dataclass(frozen=True, slots=True, kw_only=True)
class FreezeRow:
    """A freeze as it is on record, and how many sweeps were planned with it."""

    id: int
    freeze: Freeze
    recorded_at: datetime
    uses: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """The first attempt of a site on its host, in which sweep and when; of an imported one, when it was imported."""

    site: str
    host: str
    sweep: str
    at: datetime
    is_imported: bool


def lock_freezes(connection: sa.Connection, suite: str) -> datetime:
    """The database's clock. Until this transaction ends nobody else plans or freezes this suite."""
    lock = sa.text("select pg_advisory_xact_lock(hashtextextended('freeze ' || :suite, 0))")
    connection.execute(lock, {"suite": suite})
    now: datetime = connection.execute(sa.text("select clock_timestamp()")).scalar_one()
    return now


def read_freezes(connection: sa.Connection, suite: str | None = None) -> tuple[FreezeRow, ...]:
    """The freezes of this suite, or of all, in the order in which they were recorded."""
    rows = connection.execute(
        sa.text(
            'select f.*, p."group" as followed,'
            " (select count(*) from freeze_uses u where u.freeze_id = f.id) as uses"
            " from freezes f left join freezes p on p.id = f.follows"
            " where cast(:suite as text) is null or f.suite = :suite order by f.id"
        ),
        {"suite": suite},
    )
    return tuple(
        FreezeRow(id=row.id, freeze=_to_freeze(row), recorded_at=row.recorded_at, uses=row.uses) for row in rows
    )


def _to_freeze(row: sa.Row[Any]) -> Freeze:
    return Freeze(
        suite=row.suite,
        group=row.group,
        sha256=row.sha256,
        frozen_at=row.frozen_at,
        product_revision=row.product_revision,
        frozen_by=row.frozen_by,
        taken_over=row.taken_over,
        tasks=tuple(row.tasks),
        reason=row.reason,
        follows=row.followed,
    )


def save_freeze(connection: sa.Connection, freeze: Freeze) -> int:
    """The freeze is a row; its id. The one that it follows is a row already."""
    followed = sa.select(freezes.c.id).where(freezes.c.suite == freeze.suite, freezes.c.group == freeze.follows)
    statement = freezes.insert().values(
        suite=freeze.suite,
        group=freeze.group,
        sha256=freeze.sha256,
        frozen_at=freeze.frozen_at,
        product_revision=freeze.product_revision,
        frozen_by=freeze.frozen_by,
        taken_over=freeze.taken_over,
        reason=freeze.reason,
        follows=followed.scalar_subquery() if freeze.follows is not None else None,
        tasks=[dict(task) for task in freeze.tasks],
    )
    return int(connection.execute(statement.returning(freezes.c.id)).scalar_one())


def save_use(
    connection: sa.Connection, *, sweep_id: str, freeze_id: int, source: SearchedSource | None, requested_by: str
) -> None:
    """The use is a row."""
    connection.execute(
        freeze_uses.insert().values(
            sweep_id=sweep_id,
            freeze_id=freeze_id,
            source_revision=source.revision if source else None,
            source=source.path if source else None,
            source_files=source.files if source else None,
            source_binaries=source.binaries if source else None,
            requested_by=requested_by,
        )
    )


def read_uses(
    connection: sa.Connection, *, sweep_id: str | None = None, suite: str | None = None
) -> tuple[FreezeUse, ...]:
    """The uses that this sweep is, or all of this suite's, or all: by freeze, then in the order of planning."""
    rows = connection.execute(
        sa.text(
            "select u.sweep_id, u.used_at, u.source_revision, u.source, u.source_files, u.source_binaries, f.*,"
            ' u.requested_by as used_by, p."group" as followed,'
            " (select count(*) from freeze_uses e where e.freeze_id = f.id and e.id <= u.id) as number"
            " from freeze_uses u join freezes f on f.id = u.freeze_id left join freezes p on p.id = f.follows"
            " where (cast(:sweep as text) is null or u.sweep_id = :sweep)"
            " and (cast(:suite as text) is null or f.suite = :suite) order by f.id, u.id"
        ),
        {"sweep": sweep_id, "suite": suite},
    )
    return tuple(
        FreezeUse(
            sweep=row.sweep_id,
            freeze=_to_freeze(row),
            number=row.number,
            used_at=row.used_at,
            requested_by=row.used_by,
            source=_to_source(row),
        )
        for row in rows
    )


def _to_source(row: sa.Row[Any]) -> SearchedSource | None:
    if row.source is None:
        return None
    return SearchedSource(
        path=row.source, revision=row.source_revision, files=row.source_files, binaries=row.source_binaries
    )


def first_attempts(connection: sa.Connection, suite: str, tasks: Sequence[FrozenTask]) -> tuple[Begun, ...]:
    """When each of these sites was first run, if it was: by its host in any suite, or imported by its name in this one.

    Of a site that was both imported and run there are both: when an imported one was run is not known.
    """
    rows = connection.execute(
        sa.text(
            # each site of each sweep once before anything is compared or sorted: there are far more attempts
            "with seen as (select r.sweep_id, r.site, r.task ->> 'host' as host, r.kind = 'imported' as is_imported,"
            "  min(a.started_at) as started_at from site_runs r join attempts a on a.run_id = r.id group by 1, 2, 3, 4)"
            " select distinct on (k.site, k.host, e.is_imported)"
            "  k.site, k.host, e.sweep_id, e.started_at, e.is_imported"
            " from unnest(cast(:sites as text[]), cast(:hosts as text[])) as k(site, host)"
            " cross join seen e join sweeps s on s.id = e.sweep_id"
            # by name alone where the host is not known: a site that moved was never run at its new host
            " where (s.suite = :suite and e.site = k.site and e.host is null) or e.host = k.host"
            "  or right(e.host, length(k.host) + 1) = '.' || k.host"
            " order by k.site, k.host, e.is_imported, e.started_at"
        ),
        {
            "suite": suite,
            "sites": [task["site"] for task in tasks],
            "hosts": [task["host"] for task in tasks],
        },
    )
    return tuple(
        Begun(site=row.site, host=row.host, sweep=row.sweep_id, at=row.started_at, is_imported=row.is_imported)
        for row in rows
    )
