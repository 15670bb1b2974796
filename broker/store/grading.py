"""The grader's side of the store: raw first, verdicts inserted and never updated."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Literal

import sqlalchemy as sa
import zstandard
from sqlalchemy.dialects.postgresql import insert

from broker.chunks import join_evidence
from broker.codec import from_json
from broker.store.quoting import QUOTED_FIRST
from broker.store.tables import box_notes, evidence, evidence_chunks, record_evidence, records, verdicts
from broker.types import Bucket, Mode, RunRecord, SiteTask

# What a record's arrival can come to.
SaveStatus = Literal["stored", "again", "duplicate", "late", "unreadable", "missing_evidence", "unknown", "bad_nonce"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """What became of a record that arrived; `record_id` when it is a row now."""

    status: SaveStatus
    record_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingRecord:
    """A stored record that is to be judged."""

    record_id: int
    attempt_id: int
    standing: str
    raw: bytes
    tries: int
    # what the sweep planned and the start gave out, to be set against what the record says
    mode: Mode
    payload: str
    task: SiteTask


@dataclass(frozen=True, slots=True, kw_only=True)
class NewVerdict:
    """A verdict to be inserted; `counts` is False for a record that enters no rate."""

    attempt_id: int
    record_id: int | None
    grader_version: int
    bucket: Bucket
    rule: str
    detail: str
    facts: Mapping[str, Any]
    counts: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictRow:
    """An attempt with the verdict that stands for it, or with none yet (`bucket` None)."""

    run_id: int
    arm: str
    site: str
    trial: int
    attempt_id: int
    attempt_no: int
    attempt_state: str
    # empty: imported, no box of ours
    box: str
    started_at: datetime | None
    finished_at: datetime | None
    record_id: int | None
    bucket: Bucket | None
    rule: str | None
    detail: str | None
    facts: Mapping[str, Any]
    grader_version: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Losses:
    """What preflight refusals cost a sweep; printed beside criterion 7, or flake could hide there."""

    refusals: int
    minutes: float
    by_reason: Mapping[str, int]


def save_chunk(connection: sa.Connection, *, box: str, sha256: str, index: int, total: int, data: bytes) -> bool:
    """The chunk is kept; True once the evidence is whole. Bytes whose hash is not `sha256` are dropped."""
    if connection.scalar(sa.select(evidence.c.sha256).where(evidence.c.sha256 == sha256)):
        _forget_missing(connection, sha256)
        return True
    mine = (evidence_chunks.c.sha256 == sha256) & (evidence_chunks.c.box == box)
    connection.execute(
        insert(evidence_chunks)
        .values(sha256=sha256, box=box, index=index, total=total, data=data)
        .on_conflict_do_nothing()
    )
    # counted first: reading all of them at every arrival would cost the square of their number
    if (connection.scalar(sa.select(sa.func.count()).select_from(evidence_chunks).where(mine)) or 0) < total:
        return False
    chunks = connection.scalars(sa.select(evidence_chunks.c.data).where(mine).order_by(evidence_chunks.c.index)).all()
    connection.execute(evidence_chunks.delete().where(mine))
    try:
        plain = join_evidence([bytes(chunk) for chunk in chunks])
    except ValueError:
        return False
    if hashlib.sha256(plain).hexdigest() != sha256:
        return False
    connection.execute(
        insert(evidence)
        .values(sha256=sha256, size=len(plain), data=zstandard.ZstdCompressor().compress(plain))
        .on_conflict_do_nothing()
    )
    _forget_missing(connection, sha256)
    return True


def _forget_missing(connection: sa.Connection, sha256: str) -> None:
    connection.execute(
        box_notes.delete().where((box_notes.c.kind == "missing_evidence") & (box_notes.c.sha256 == sha256))
    )


def save_record(connection: sa.Connection, *, box: str, attempt: int, raw: bytes, record: RunRecord | None) -> Saved:
    """The record's bytes are kept, or it is said why not. `record` None: the bytes can't be read.

    At most one record per attempt counts: the first of the box that started it, while the attempt is not lost.
    """
    sha256 = hashlib.sha256(raw).hexdigest()
    row = connection.execute(
        sa.text("select id, nonce, box, state from attempts where id = :id for no key update"), {"id": attempt}
    ).one_or_none()
    if row is None or row.box != box:
        _note(connection, box, "unknown_record", sha256)
        return Saved(status="unknown")
    if record is not None and (record.nonce != row.nonce or record.attempt != attempt):
        return Saved(status="bad_nonce")
    known = connection.scalar(
        sa.select(records.c.id).where((records.c.attempt_id == attempt) & (records.c.sha256 == sha256))
    )
    if known is not None:
        return Saved(status="again", record_id=known)
    if record is not None and _note_missing(connection, box, record):
        return Saved(status="missing_evidence")
    status = _standing(connection, attempt, row.state, record)
    standing = "counted" if status == "stored" else status
    record_id = connection.execute(
        records.insert()
        .values(attempt_id=attempt, box=box, standing=standing, sha256=sha256, raw=raw)
        .returning(records.c.id)
    ).scalar_one()
    for reference in record.evidence if record else ():
        connection.execute(
            insert(record_evidence)
            .values(
                record_id=record_id,
                name=reference.name,
                sha256=reference.sha256,
                media_type=reference.media_type,
            )
            .on_conflict_do_nothing()
        )
    if status == "stored":
        connection.execute(
            sa.text(
                "update attempts set state = 'reported', reported_at = clock_timestamp(),"
                " finished_at = coalesce(finished_at, clock_timestamp())"
                " where id = :id and state in ('started', 'finished')"
            ),
            {"id": attempt},
        )
        # A record may overtake the box's own `finished`, whose reply was lost: the slot is free all the same.
        connection.execute(
            sa.text(
                "update dispatches d set state = 'done', ended_at = clock_timestamp() from attempts a"
                " where a.id = :id and d.id = a.dispatch_id and d.state = 'started'"
            ),
            {"id": attempt},
        )
    return Saved(status=status, record_id=record_id)


def _standing(connection: sa.Connection, attempt: int, state: str, record: RunRecord | None) -> SaveStatus:
    if record is None:
        return "unreadable"
    counted = connection.scalar(
        sa.select(records.c.id).where((records.c.attempt_id == attempt) & (records.c.standing == "counted"))
    )
    if counted is not None:
        return "duplicate"
    return "late" if state == "lost" else "stored"


def _note_missing(connection: sa.Connection, box: str, record: RunRecord) -> bool:
    named = {reference.sha256 for reference in record.evidence}
    if not named:
        return False
    there = set(connection.scalars(sa.select(evidence.c.sha256).where(evidence.c.sha256.in_(named))))
    for sha256 in sorted(named - there):
        _note(connection, box, "missing_evidence", sha256)
    return bool(named - there)


def _note(connection: sa.Connection, box: str, kind: str, sha256: str) -> None:
    known = connection.scalar(sa.text("select true from boxes where name = :box"), {"box": box})
    if known:
        connection.execute(insert(box_notes).values(box=box, kind=kind, sha256=sha256).on_conflict_do_nothing())


def pending(connection: sa.Connection, *, limit: int, max_tries: int | None = None) -> tuple[PendingRecord, ...]:
    """Stored records without any verdict, fewest tries first, then oldest; imported ones were judged elsewhere.

    A record that another version of the rules has judged is not among them: to judge it again is somebody's
    decision (`regrade`), not what a new version does by itself. With `max_tries`, without those on which
    grading has failed so often.
    """
    rows = connection.execute(
        sa.text(
            "select r.id, r.attempt_id, r.standing, r.raw, r.tries, a.payload, s.task, w.mode"
            " from records r join attempts a on a.id = r.attempt_id join site_runs s on s.id = a.run_id"
            " join sweeps w on w.id = s.sweep_id"
            " where not exists (select from verdicts v where v.attempt_id = r.attempt_id and v.record_id = r.id)"
            " and r.standing <> 'imported'"
            " and (cast(:max_tries as integer) is null or r.tries < :max_tries)"
            " order by r.tries, r.id limit :limit"
        ),
        {"max_tries": max_tries, "limit": limit},
    )
    return tuple(
        PendingRecord(
            record_id=row.id,
            attempt_id=row.attempt_id,
            standing=row.standing,
            raw=bytes(row.raw),
            tries=row.tries,
            mode=Mode(row.mode),
            payload=row.payload,
            task=from_json(SiteTask, row.task),
        )
        for row in rows
    )


def pending_lost(connection: sa.Connection, *, limit: int) -> tuple[int, ...]:
    """Lost attempts that have no verdict of their own (one without a record) yet."""
    return tuple(
        connection.scalars(
            sa.text(
                "select a.id from attempts a where a.state = 'lost' and not exists"
                " (select from verdicts v where v.attempt_id = a.id and v.record_id is null)"
                " order by a.id limit :limit"
            ),
            {"limit": limit},
        )
    )


def read_evidence(connection: sa.Connection, record_id: int, name: str) -> bytes | None:
    """The plain bytes of a record's evidence of that name, or None when it names none."""
    packed = connection.scalar(
        sa.text(
            "select e.data from record_evidence re join evidence e on e.sha256 = re.sha256"
            " where re.record_id = :record and re.name = :name"
        ),
        {"record": record_id, "name": name},
    )
    return None if packed is None else join_evidence([bytes(packed)])


def save_verdict(connection: sa.Connection, new: NewVerdict) -> bool:
    """The verdict is a row, and its attempt is graded; False when this version had judged it before."""
    plain = asdict(new) | {"bucket": new.bucket.value, "facts": dict(new.facts)}
    inserted = connection.execute(
        insert(verdicts).values(**plain).on_conflict_do_nothing().returning(verdicts.c.id)
    ).scalar_one_or_none()
    if inserted is None:
        return False
    connection.execute(
        sa.text(
            "update attempts set state = 'graded', graded_at = clock_timestamp() where id = :id and state = 'reported'"
        ),
        {"id": new.attempt_id},
    )
    return True


def mark_failed(connection: sa.Connection, record_id: int, error: str) -> None:
    """The record remembers that grading it failed, and how; the others go on (faults.md 19)."""
    connection.execute(
        sa.text("update records set tries = tries + 1, error = :error where id = :id"),
        {"id": record_id, "error": error[:2000]},
    )


def verdict_rows(connection: sa.Connection, sweep_id: str) -> tuple[VerdictRow, ...]:
    """One row per attempt of the sweep, by trial, site and number, with the verdict that is quoted."""
    rows = connection.execute(
        sa.text(
            "select r.id as run_id, r.arm, r.site, r.trial, a.id as attempt_id, a.number as attempt_no,"
            # when an imported attempt ran is not known
            " a.state as attempt_state, coalesce(a.box, '') as box, a.finished_at,"
            " case when r.kind <> 'imported' then a.started_at end as started_at, v.record_id, v.bucket, v.rule,"
            " v.detail, v.facts, v.grader_version"
            " from attempts a join site_runs r on r.id = a.run_id"
            " left join lateral (select * from verdicts v where v.attempt_id = a.id and v.counts"
            f"   order by {QUOTED_FIRST} limit 1) v on true"
            " where r.sweep_id = :id order by r.order_key, r.id, a.number"
        ),
        {"id": sweep_id},
    )
    return tuple(
        VerdictRow(
            **dict(row) | {"bucket": Bucket(row["bucket"]) if row["bucket"] else None, "facts": row["facts"] or {}}
        )
        for row in rows.mappings()
    )


def count_late_breaches(connection: sa.Connection, sweep_id: str) -> int:
    """False successes in records that count in no rate: they enter the hard gate all the same."""
    return int(
        connection.scalar(
            sa.text(
                "select count(*) from records s join attempts a on a.id = s.attempt_id"
                " join site_runs r on r.id = a.run_id"
                " join lateral (select v.bucket from verdicts v"
                f"   where v.attempt_id = a.id and v.record_id = s.id   order by {QUOTED_FIRST} limit 1) v on true"
                " where r.sweep_id = :id and s.standing = 'late' and v.bucket = 'product_false_success'"
            ),
            {"id": sweep_id},
        )
        or 0
    )


def planned_shapes(connection: sa.Connection, sweep_id: str) -> dict[str, str]:
    """The sites that the sweep has runs for, each with its editor's shape."""
    rows = connection.execute(
        sa.text(
            "select distinct site, coalesce(task ->> 'editor_shape', '') as shape from site_runs where sweep_id = :id"
        ),
        {"id": sweep_id},
    )
    return {row.site: row.shape for row in rows}


def box_losses(connection: sa.Connection, sweep_id: str) -> Losses:
    """What the boxes refused before any start, with the minutes their refusals and waits took.

    A box hands a refused run back at once and says `fit` when it could take another: both are lost time.
    """
    # A box's own words: what is no number is no time.
    seconds = (
        r"sum(case when {0}.facts ->> 'lost_s' ~ '^\d{{1,6}}(\.\d+)?$' then ({0}.facts ->> 'lost_s')::float else 0 end)"
    )
    rows = connection.execute(
        sa.text(
            "with refused as (select e.box, e.run_id, e.facts,"
            " coalesce(split_part(e.facts ->> 'reason', ':', 1), 'unnamed') as reason"
            " from box_events e join site_runs r on r.id = e.run_id"
            " where r.sweep_id = :id and e.kind = 'released' and coalesce(e.facts ->> 'refused', '') = 'true'),"
            " waited as (select e.facts from box_events e where e.kind = 'fit' and exists"
            " (select from refused where refused.box = e.box and refused.run_id::text = e.facts ->> 'run'))"
            f" select reason, count(*) as times, {seconds.format('refused')} as lost_s,"
            f" (select coalesce({seconds.format('waited')}, 0) from waited) as waited_s"
            " from refused group by 1 order by 2 desc, 1"
        ),
        {"id": sweep_id},
    ).all()
    waited_s = rows[0].waited_s if rows else 0.0
    return Losses(
        refusals=sum(row.times for row in rows),
        minutes=(sum(row.lost_s for row in rows) + waited_s) / 60,
        by_reason={row.reason: row.times for row in rows},
    )
