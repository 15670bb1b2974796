"""Cases that were judged before, to be judged again: beside what they have, never over it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import sqlalchemy as sa

from broker.codec import from_json
from broker.store.grading import NewVerdict, PendingRecord
from broker.store.quoting import QUOTED_FIRST
from broker.store.tables import verdicts
from broker.types import Bucket, Mode, SiteTask

_PAGE = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredVerdict:
    """What of a verdict can flip, and whose it is."""

    grader_version: int
    bucket: Bucket
    rule: str
    # PROVEN or UNVERIFIED, as the facts have it
    evidence: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedCase:
    """A stored record, or a lost attempt without one, with the verdict that is quoted for it."""

    attempt_id: int
    attempt_no: int
    arm: str
    site: str
    trial: int
    # None: the attempt was lost and left none
    record: PendingRecord | None
    counts: bool
    quoted: StoredVerdict
    # of the asked version, when there is one
    same: StoredVerdict | None


def lock_regrade(connection: sa.Connection, sweep_id: str) -> bool:
    """Whether nobody else regrades the sweep until this transaction ends."""
    statement = sa.text("select pg_try_advisory_xact_lock(hashtextextended('regrade ' || :id, 0))")
    return bool(connection.scalar(statement, {"id": sweep_id}))


def count_cases(connection: sa.Connection, sweep_id: str) -> tuple[int, int]:
    """How many cases of the sweep were judged, and how many records wait for their first verdict."""
    row = connection.execute(sa.text(_COUNTS), {"id": sweep_id}).one()
    return row.judged, row.waiting


_COUNTS = """
    select count(*) filter (where judged) as judged, count(*) filter (where not judged) as waiting from (
        select exists (select from verdicts v where v.attempt_id = a.id and v.record_id = c.id) as judged
        from records c join attempts a on a.id = c.attempt_id join site_runs r on r.id = a.run_id
        where r.sweep_id = :id
        union all
        select exists (select from verdicts v where v.attempt_id = a.id and v.record_id is null)
        from attempts a join site_runs r on r.id = a.run_id where r.sweep_id = :id and a.state = 'lost') cases
"""


def read_cases(connection: sa.Connection, sweep_id: str, *, grader_version: int) -> Iterator[JudgedCase]:
    """Every case of the sweep that was judged: records as they were stored, then lost attempts.

    Read page by page, so that the records of a long sweep need not fit into memory.
    """
    for query in (_RECORDS, _LOST):
        after = 0
        while rows := connection.execute(
            sa.text(query), {"id": sweep_id, "version": grader_version, "after": after, "limit": _PAGE}
        ).all():
            yield from (_to_case(row) for row in rows)
            after = rows[-1].key


_VERDICT = "v.grader_version, v.bucket, v.rule, v.facts ->> 'evidence' as evidence, v.counts"
_COLUMNS = """
    a.id as attempt_id, a.number, a.payload, r.arm, r.site, r.trial, q.counts,
    q.grader_version as q_version, q.bucket as q_bucket, q.rule as q_rule, q.evidence as q_evidence,
    t.grader_version as t_version, t.bucket as t_bucket, t.rule as t_rule, t.evidence as t_evidence
"""
_RECORDS = f"""
    select c.id as key, c.id as record_id, c.standing, c.raw, c.tries, r.task, s.mode, {_COLUMNS}
    from records c join attempts a on a.id = c.attempt_id join site_runs r on r.id = a.run_id
        join sweeps s on s.id = r.sweep_id
        join lateral (select {_VERDICT} from verdicts v where v.attempt_id = a.id and v.record_id = c.id
            order by {QUOTED_FIRST} limit 1) q on true
        left join lateral (select {_VERDICT} from verdicts v where v.attempt_id = a.id and v.record_id = c.id
            and v.grader_version = :version) t on true
    where r.sweep_id = :id and c.id > :after order by c.id limit :limit
"""
_LOST = f"""
    select a.id as key, cast(null as bigint) as record_id, {_COLUMNS}
    from attempts a join site_runs r on r.id = a.run_id
        join lateral (select {_VERDICT} from verdicts v where v.attempt_id = a.id and v.record_id is null
            order by {QUOTED_FIRST} limit 1) q on true
        left join lateral (select {_VERDICT} from verdicts v where v.attempt_id = a.id and v.record_id is null
            and v.grader_version = :version) t on true
    where r.sweep_id = :id and a.state = 'lost' and a.id > :after order by a.id limit :limit
"""


def _to_case(row: sa.Row[Any]) -> JudgedCase:
    return JudgedCase(
        attempt_id=row.attempt_id,
        attempt_no=row.number,
        arm=row.arm,
        site=row.site,
        trial=row.trial,
        record=None if row.record_id is None else _to_record(row),
        counts=row.counts,
        quoted=_to_verdict(row.q_version, row.q_bucket, row.q_rule, row.q_evidence),
        same=None if row.t_version is None else _to_verdict(row.t_version, row.t_bucket, row.t_rule, row.t_evidence),
    )


def _to_record(row: sa.Row[Any]) -> PendingRecord:
    return PendingRecord(
        record_id=row.record_id,
        attempt_id=row.attempt_id,
        standing=row.standing,
        raw=bytes(row.raw),
        tries=row.tries,
        mode=Mode(row.mode),
        payload=row.payload,
        task=from_json(SiteTask, row.task),
    )


def _to_verdict(version: int, bucket: str, rule: str, evidence: str | None) -> StoredVerdict:
    return StoredVerdict(grader_version=version, bucket=Bucket(bucket), rule=rule, evidence=evidence)


def insert_verdict(connection: sa.Connection, new: NewVerdict) -> None:
    """The verdict is a row beside the others, and nothing else has changed: no attempt, run, sweep or box.

    Raises IntegrityError when the case has a verdict of that version.
    """
    connection.execute(verdicts.insert().values(asdict(new) | {"bucket": new.bucket.value, "facts": dict(new.facts)}))
