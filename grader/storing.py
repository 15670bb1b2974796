"""The grader's work on stored rows: keep what boxes send, then judge what is kept, each in its own transaction."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import sqlalchemy as sa
import structlog

from broker.codec import clean_text, decode, to_json
from broker.errors import CodecError, DatabaseError
from broker.store import grading
from broker.store.breaches import halt_after_breach
from broker.store.engine import begin
from broker.types import Bucket, RunRecord
from grader import rules
from grader.facts import VerdictFacts
from grader.grading import grade_record
from grader.rules import RULE_BOX_LOST, RULE_GRADING_FAILED, RULE_UNREADABLE

T = TypeVar("T")

_BATCH = 64
# A record on which grading failed so often is the instrument's failure, until another version of the rules.
MAX_TRIES = 3
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.2, 5.0
# SQLSTATE classes that pass: connection, resources, an operator's or the system's intervention, a rollback
_PASSING = ("08", "53", "57", "40", "25P03")

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What one round of grading did."""

    graded: int
    failed: int


def persist(engine: sa.Engine, work: Callable[[sa.Connection], T]) -> T:
    """The result of `work` in one committed transaction, however long PostgreSQL is away.

    `work` may run more than once, so it must be harmless to repeat: a commit whose answer was lost is tried
    again. Errors that are PostgreSQL's answer to what was asked are raised.
    """
    wait_s = _FIRST_WAIT_S
    while True:
        try:
            with begin(engine) as connection:
                return work(connection)
        except (DatabaseError, sa.exc.DBAPIError) as error:
            if not _is_away(error):
                raise
            log.warning("waiting for PostgreSQL", error=str(error).splitlines()[0], wait_s=wait_s)
            engine.dispose()
            time.sleep(wait_s)
            wait_s = min(wait_s * 2, _LONGEST_WAIT_S)


def _is_away(error: DatabaseError | sa.exc.DBAPIError) -> bool:
    if isinstance(error, DatabaseError) or error.connection_invalidated:
        return True
    state = getattr(error.orig, "sqlstate", None)
    # without a state there was no answer
    return isinstance(error, sa.exc.OperationalError) if state is None else state.startswith(_PASSING)


def keep_record(engine: sa.Engine, *, box: str, attempt: int, raw: bytes) -> grading.Saved:
    """The record is stored as it came, before anything is made of it; or it is said why not."""
    try:
        record = decode(RunRecord, raw)
    except CodecError as error:
        log.warning("unreadable record", box=box, attempt=attempt, error=error.message)
        record = None
    saved = persist(
        engine, lambda connection: grading.save_record(connection, box=box, attempt=attempt, raw=raw, record=record)
    )
    say = log.info if saved.status in {"stored", "again"} else log.warning
    say("record", status=saved.status, box=box, attempt=attempt)
    return saved


def grade_pending(engine: sa.Engine, *, max_tries: int | None = MAX_TRIES) -> Progress:
    """Every stored record and every lost attempt has a verdict of this version, or a mark why it has none."""
    graded = failed = 0
    tried: set[int] = set()
    while True:
        batch = persist(
            engine,
            lambda connection: grading.pending(connection, limit=_BATCH + len(tried), max_tries=max_tries),
        )
        fresh = [row for row in batch if row.record_id not in tried]
        if not fresh:
            break
        for row in fresh:
            tried.add(row.record_id)
            if _grade_one(engine, row):
                graded += 1
            else:
                failed += 1
    return Progress(graded=graded + _grade_lost(engine), failed=failed)


def _grade_one(engine: sa.Engine, row: grading.PendingRecord) -> bool:
    try:
        new = judge(row, persist(engine, lambda connection: grading.read_evidence(connection, row.record_id, "log")))
        persist(engine, lambda connection: _save(connection, new))
    except Exception as error:
        log.exception("grading failed", record=row.record_id, attempt=row.attempt_id)
        said = clean_text(f"{type(error).__name__}: {error}")[0]
        persist(engine, lambda connection: _give_up_on(connection, row, said))
        return False
    return True


def _give_up_on(connection: sa.Connection, row: grading.PendingRecord, said: str) -> None:
    """The failure is remembered; at the last try with a verdict at once, or its sweep would never finish."""
    grading.mark_failed(connection, row.record_id, said)
    if row.tries + 1 >= MAX_TRIES:
        _save(connection, _blame_harness(row, RULE_GRADING_FAILED, said))


def _blame_harness(row: grading.PendingRecord, rule: str, why: str) -> grading.NewVerdict:
    return grading.NewVerdict(
        attempt_id=row.attempt_id,
        record_id=row.record_id,
        grader_version=rules.GRADER_VERSION,
        bucket=Bucket.INFRA_HARNESS,
        rule=rule,
        detail=clean_text(why)[0][:500],
        facts=to_json(VerdictFacts()),
        counts=row.standing == "counted",
    )


def judge(row: grading.PendingRecord, slice_: bytes | None) -> grading.NewVerdict:
    """The verdict on a stored record with its log slice; only a counted record enters a rate."""
    try:
        record = decode(RunRecord, row.raw)
    except CodecError as error:
        return _blame_harness(row, RULE_UNREADABLE, error.message)
    graded = grade_record(record, slice_ or b"", row.task, planned_mode=row.mode, planned_payload=row.payload)
    return grading.NewVerdict(
        attempt_id=row.attempt_id,
        record_id=row.record_id,
        grader_version=rules.GRADER_VERSION,
        bucket=graded.verdict.bucket,
        rule=graded.verdict.rule,
        detail=graded.detail,
        facts=to_json(graded.facts),
        counts=row.standing == "counted",
    )


def _save(connection: sa.Connection, new: grading.NewVerdict) -> bool:
    if new.bucket is Bucket.PRODUCT_FALSE_SUCCESS:
        # before the verdict: sweep and box are locked before their attempt, everywhere
        halt_after_breach(connection, new.attempt_id, new.detail)
    return grading.save_verdict(connection, new)


def _grade_lost(engine: sa.Engine) -> int:
    """Each lost attempt gets its verdict; a record that comes late gets its own beside it."""
    graded = 0
    while lost := persist(
        engine,
        lambda connection: grading.pending_lost(connection, limit=_BATCH),
    ):
        for attempt_id in lost:
            persist(engine, partial(_save, new=judge_lost(attempt_id)))
            graded += 1
    return graded


def judge_lost(attempt_id: int) -> grading.NewVerdict:
    """The verdict on an attempt of which nothing came in time."""
    return grading.NewVerdict(
        attempt_id=attempt_id,
        record_id=None,
        grader_version=rules.GRADER_VERSION,
        bucket=Bucket.INFRA_BOX_LOST,
        rule=RULE_BOX_LOST,
        detail="the box fell silent and left no record in time",
        facts=to_json(VerdictFacts()),
        counts=True,
    )
