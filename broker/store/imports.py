"""Rows of another harness as a sweep that is over: nothing of it was run by a box, and nothing ever will be."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from broker.store.sweeps import IMPORT_PLAN
from broker.store.tables import attempts, records, site_runs, sweeps, verdicts
from broker.types import Bucket, Mode


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedRun:
    """One row: where it stood, what it says, and its bytes."""

    line: int
    arm: str
    site: str
    trial: int
    editor_shape: str
    raw: bytes
    bucket: Bucket
    detail: str
    facts: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewImport:
    """A file's rows, to be written as one sweep."""

    id: str
    suite: str
    requested_by: str
    # of the file's bytes
    sha256: str
    params: Mapping[str, Any]
    rule: str
    grader_version: int
    runs: tuple[ImportedRun, ...]


def find_import(connection: sa.Connection, *, suite: str, sha256: str) -> str | None:
    """The newest sweep into which this file was imported for this suite, or None.

    Until this transaction ends nobody else learns that there is none.
    """
    lock = sa.text("select pg_advisory_xact_lock(hashtextextended('import ' || :suite || :sha256, 0))")
    connection.execute(lock, {"suite": suite, "sha256": sha256})
    query = (
        "select id from sweeps where plan = :plan and suite = :suite and params ->> 'sha256' = :sha256"
        " order by created_at desc, id desc limit 1"
    )
    found: str | None = connection.scalar(sa.text(query), {"plan": IMPORT_PLAN, "suite": suite, "sha256": sha256})
    return found


def has_sweep(connection: sa.Connection, sweep_id: str) -> bool:
    """Whether there is a sweep of exactly this id."""
    return bool(connection.scalar(sa.text("select exists (select from sweeps where id = :id)"), {"id": sweep_id}))


def save_import(connection: sa.Connection, new: NewImport) -> None:
    """The sweep is there and finished, each row a closed run with one graded attempt, its record and its verdict."""
    connection.execute(
        sweeps.insert().values(
            id=new.id,
            plan=IMPORT_PLAN,
            suite=new.suite,
            # with which tasks the rows were made is not known
            suite_sha256="",
            mode=Mode.DRY.value,
            trials=max(run.trial for run in new.runs),
            retries=0,
            requested_by=new.requested_by,
            params=dict(new.params) | {"sha256": new.sha256},
            finished_at=sa.func.clock_timestamp(),
        )
    )
    run_ids = _insert(connection, site_runs, [_run_row(new, run) for run in new.runs])
    connection.execute(
        sa.text("update site_runs set closed_at = clock_timestamp() where sweep_id = :id"), {"id": new.id}
    )
    attempt_ids = _insert(
        connection,
        attempts,
        [
            {
                "run_id": run_id,
                "number": 1,
                # no box can ever name it: a box's nonces are hexadecimal
                "nonce": f"imported {new.id} {run.line}",
                "payload": "",
                "state": "graded",
            }
            for run_id, run in zip(run_ids, new.runs, strict=True)
        ],
    )
    record_ids = _insert(
        connection,
        records,
        [
            {
                "attempt_id": attempt_id,
                "standing": "imported",
                "sha256": hashlib.sha256(run.raw).hexdigest(),
                "raw": run.raw,
            }
            for attempt_id, run in zip(attempt_ids, new.runs, strict=True)
        ],
    )
    connection.execute(
        verdicts.insert(),
        [
            {
                "attempt_id": attempt_id,
                "record_id": record_id,
                "grader_version": new.grader_version,
                "bucket": run.bucket.value,
                "rule": new.rule,
                "detail": run.detail,
                "facts": dict(run.facts),
                "counts": True,
            }
            for attempt_id, record_id, run in zip(attempt_ids, record_ids, new.runs, strict=True)
        ],
    )


def _run_row(new: NewImport, run: ImportedRun) -> dict[str, Any]:
    return {
        "sweep_id": new.id,
        "arm": run.arm,
        "site": run.site,
        "trial": run.trial,
        "kind": "imported",
        "order_key": run.line,
        # what it was asked to do is not known
        "task": {"site": run.site, "editor_shape": run.editor_shape},
        "state": "closed",
        "reason": run.bucket.value,
    }


def _insert(connection: sa.Connection, table: sa.Table, rows: list[dict[str, Any]]) -> list[int]:
    """The ids of the new rows, in their order."""
    statement = table.insert().returning(table.c.id, sort_by_parameter_order=True)
    return list(connection.scalars(statement, rows))
