"""Raw first: what arrives on `results` is kept once, counted at most once, and never without its evidence."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa
import zstandard

from broker.chunks import MAX_EVIDENCE_BYTES, join_evidence, split_evidence
from broker.codec import encode
from broker.store import dispatching, grading, losing
from broker.store.box_client import StartAnswer
from broker.store.engine import begin
from broker.store.progress import read_progress
from broker.store.sweeps import find_sweep
from broker.types import Bucket, EvidenceRef, Family, Mode, RunRecord

NONCE = "n" * 32
LOG = b"20:07:04 I backend: a line\n" * 40_000
LOG_SHA = hashlib.sha256(LOG).hexdigest()


def make_record(order: Any, start: StartAnswer, **changes: Any) -> RunRecord:
    fields: dict[str, Any] = {
        "sweep": order.sweep,
        "run": order.run,
        "dispatch": order.dispatch,
        "attempt": start.attempt,
        "attempt_no": start.attempt_no,
        "nonce": NONCE,
        "box": "box-a",
        "arm": order.arm,
        "site": order.task.site,
        "trial": order.trial,
        "lane": "stub",
        "renderer": "playwright",
        "product_revision": "reference-1",
        "mode": Mode.DRY,
        "prompt": "",
        "payload": start.payload,
        "phases": (),
        "wall_ms": 1000,
        "budget_used": False,
        "parent": None,
        "children": (),
        "log": None,
        "metrics": (),
        "reads": (),
        "cards": (),
        "probe_before": None,
        "probe_after": None,
        "events": (),
        "evidence": (EvidenceRef(name="log", sha256=LOG_SHA, size=len(LOG), media_type="text/plain"),),
        "errors": (),
        "versions": {},
    }
    return RunRecord(**(fields | changes))


@pytest.fixture
def attempt(engine: sa.Engine, sweep: str, make_box: Callable[[str], Any]) -> tuple[Any, Any, StartAnswer]:
    """(box, order, start) of a started attempt."""
    box = make_box("box-a")
    with begin(engine) as connection:
        run = dispatching.read_board(connection, planned_limit=1).planned[0]
        handed = dispatching.hand_out(connection, run_id=run.id, box="box-a", slot=1)
    assert handed is not None
    return box, handed.order, box.client.start(handed.order.run, handed.order.dispatch, box.token, NONCE)


def save_log(engine: sa.Engine, data: bytes = LOG, sha256: str = LOG_SHA) -> list[bool]:
    chunks = list(split_evidence(data))
    done = []
    for index in reversed(range(len(chunks))):
        with begin(engine) as c:
            done.append(
                grading.save_chunk(c, box="box-a", sha256=sha256, index=index, total=len(chunks), data=chunks[index])
            )
    return done


def save(engine: sa.Engine, record: RunRecord | None, raw: bytes | None = None, **changes: Any) -> grading.Saved:
    data = raw if raw is not None else encode(record)
    arguments: dict[str, Any] = {"box": "box-a", "attempt": record.attempt if record else 1, "raw": data}
    with begin(engine) as connection:
        return grading.save_record(connection, **(arguments | changes), record=record)


def test_evidence_in_chunks_out_of_order_is_whole_when_the_last_has_come(
    engine: sa.Engine, attempt: tuple[Any, Any, StartAnswer]
) -> None:
    noise = random.Random(7).randbytes(600_000)
    done = save_log(engine, noise, hashlib.sha256(noise).hexdigest())
    assert len(done) > 2
    assert done == [False] * (len(done) - 1) + [True]
    assert save_log(engine, LOG, "0" * 64) == [False], "bytes of another hash are dropped"


def test_evidence_that_unpacks_to_more_than_may_be_is_dropped_before_it_is_unpacked(
    engine: sa.Engine, attempt: tuple[Any, Any, StartAnswer]
) -> None:
    claims_4_exabytes = b"\x28\xb5\x2f\xfd\xe0" + (2**62).to_bytes(8, "little") + b"\x01\x00\x00"
    zeros = zstandard.ZstdCompressor().compress(bytes(MAX_EVIDENCE_BYTES + 1))
    assert len(zeros) < 20_000, "a single message"
    for packed in (claims_4_exabytes, zeros):
        with pytest.raises(ValueError, match="bytes, 268435456 may be"):
            join_evidence([packed])
        with begin(engine) as connection:
            assert not grading.save_chunk(connection, box="box-a", sha256=LOG_SHA, index=0, total=1, data=packed)
    assert save_log(engine) == [True], "what the box really has is taken"


def test_a_record_whose_evidence_is_missing_is_asked_for_by_the_next_beat(
    engine: sa.Engine, attempt: tuple[Any, Any, StartAnswer]
) -> None:
    box, order, start = attempt
    record = make_record(order, start)
    assert save(engine, record).status == "missing_evidence"
    assert box.client.beat(box.token, "ready", {}).missing == {LOG_SHA}
    save_log(engine)
    sha256 = hashlib.sha256(encode(record)).hexdigest()
    before = box.client.beat(box.token, "ready", {"unacknowledged": [sha256]})
    assert (before.missing, before.stored) == (frozenset(), frozenset())
    assert save(engine, record).status == "stored"
    assert box.client.beat(box.token, "ready", {"unacknowledged": [sha256]}).stored == {sha256}
    with begin(engine) as connection:
        row = grading.pending(connection, limit=5)[0]
        assert grading.read_evidence(connection, row.record_id, "log") == LOG
        assert grading.read_evidence(connection, row.record_id, "screenshot") is None
        assert (row.payload, row.task.site) == (start.payload, "x")


def test_one_record_counts_and_the_others_are_kept_beside_it(
    engine: sa.Engine, attempt: tuple[Any, Any, StartAnswer]
) -> None:
    _, order, start = attempt
    save_log(engine)
    record = make_record(order, start)
    assert save(engine, record).status == "stored"
    assert save(engine, record).status == "again", "delivered twice, stored once"
    assert save(engine, replace(record, wall_ms=2000)).status == "duplicate"
    assert save(engine, replace(record, nonce="x" * 32)).status == "bad_nonce"
    assert save(engine, None, raw=b"\x00\xff", attempt=start.attempt).status == "unreadable"
    assert save(engine, replace(record, attempt=10**9)).status == "unknown"
    assert save(engine, record, box="box-b").status == "unknown"
    with begin(engine) as connection:
        standings = connection.scalars(sa.text("select standing from records order by id")).all()
    assert standings == ["counted", "duplicate", "unreadable"]


def test_a_record_of_a_lost_attempt_is_late_and_counts_nowhere(
    engine: sa.Engine, attempt: tuple[Any, Any, StartAnswer]
) -> None:
    _, order, start = attempt
    save_log(engine)
    with begin(engine) as connection:
        beats = dispatching.read_board(connection, planned_limit=1).boxes[0].beats
        losing.lose_attempts(connection, box="box-a", beats=beats, reason="silent")
        assert grading.pending_lost(connection, limit=5) == (start.attempt,)
    assert save(engine, make_record(order, start)).status == "late"
    with begin(engine) as connection:
        late = grading.pending(connection, limit=5)[0]
        for record_id, bucket, counts in ((None, Bucket.INFRA_BOX_LOST, True), (late.record_id, Bucket.OK, False)):
            verdict = grading.NewVerdict(
                attempt_id=start.attempt,
                record_id=record_id,
                grader_version=1,
                bucket=bucket,
                rule="r",
                detail="",
                facts={},
                counts=counts,
            )
            assert grading.save_verdict(connection, verdict)
            assert not grading.save_verdict(connection, verdict), "a verdict is inserted once"
        rows = grading.verdict_rows(connection, order.sweep)
        assert [(row.site, row.attempt_no, row.bucket) for row in rows] == [("x", 1, Bucket.INFRA_BOX_LOST)]
        assert read_progress(connection, order.sweep, 0).families[Family.INFRA] == 1


@pytest.mark.parametrize(("bucket", "again"), [(Bucket.INFRA_BROWSER, True), (Bucket.PRODUCT_NO_COMPOSER, False)])
def test_only_an_infra_verdict_plans_a_run_again_until_its_tries_are_used_up(
    engine: sa.Engine, attempt: tuple[Any, Any, StartAnswer], bucket: Bucket, again: bool
) -> None:
    box, order, start = attempt
    tries = 0
    while True:
        tries += 1
        box.client.step(start.attempt, box.token, "finished")
        record = make_record(order, start, nonce=f"{tries}" * 32 if tries > 1 else NONCE, evidence=())
        assert save(engine, record).status == "stored"
        with begin(engine) as connection:
            row = grading.pending(connection, limit=1)[0]
            assert dispatching.settle_graded(connection) == 0, "not before there is a verdict"
            grading.save_verdict(
                connection,
                grading.NewVerdict(
                    attempt_id=row.attempt_id,
                    record_id=row.record_id,
                    grader_version=1,
                    bucket=bucket,
                    rule="r",
                    detail="",
                    facts={},
                    counts=True,
                ),
            )
            assert dispatching.settle_graded(connection) == 1
            if connection.scalar(sa.text("select state from site_runs where id = :id"), {"id": order.run}) == "closed":
                break
            handed = dispatching.hand_out(connection, run_id=order.run, box="box-a", slot=1)
        assert handed is not None
        order = handed.order
        start = box.client.start(order.run, order.dispatch, box.token, f"{tries + 1}" * 32)
        assert start.won
    assert tries == (3 if again else 1)
    with begin(engine) as connection:
        assert find_sweep(connection, "last").counts.attempts == tries
        assert dispatching.finish_sweeps(connection) == (), "two runs are still planned"


def test_a_record_on_which_grading_fails_is_kept_and_marked_and_the_others_come_first(
    engine: sa.Engine, attempt: tuple[Any, Any, StartAnswer]
) -> None:
    _, order, start = attempt
    save(engine, make_record(order, start, evidence=()))
    save(engine, make_record(order, start, evidence=(), wall_ms=1))
    with begin(engine) as connection:
        first = grading.pending(connection, limit=9)[0]
        grading.mark_failed(connection, first.record_id, "ValueError: no")
        assert [row.tries for row in grading.pending(connection, limit=9)] == [0, 1]
