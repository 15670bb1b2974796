"""`bv3-grade calibrate` over stored records, each with the truth that its stack recorded as evidence."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from broker.chunks import split_evidence
from broker.store import grading, losing
from broker.store.engine import begin
from broker.types import EvidenceRef
from grader.storing import grade_pending, keep_record

Started = dict[str, Any]


@pytest.fixture
def keep(engine: sa.Engine, send: Callable[..., bytes], log_of: Callable[..., bytes]) -> Callable[..., None]:
    """Stores the attempt's record with its slice and, unless None, this truth."""

    def store(attempt: Any, ending: str, truth: dict[str, Any] | None, **changes: Any) -> None:
        log = log_of(attempt.order.task.site, ending)
        references = list(attempt.record(log).evidence)
        if truth is not None:
            data = json.dumps({"fault": None, "evidence": None, "total_ms": 236, **truth}).encode()
            sha256 = hashlib.sha256(data).hexdigest()
            with begin(engine) as connection:
                assert grading.save_chunk(
                    connection,
                    box=attempt.box.name,
                    sha256=sha256,
                    index=0,
                    total=1,
                    data=b"".join(split_evidence(data)),
                )
            references.append(EvidenceRef(name="truth", sha256=sha256, size=len(data), media_type="application/json"))
        raw = send(attempt, log, evidence=tuple(references), faults="all seed 7", leash_scale=0.1, **changes)
        assert keep_record(engine, box=attempt.box.name, attempt=attempt.attempt, raw=raw).status == "stored"

    return store


def test_right_verdicts_end_well_and_the_page_is_written(
    engine: sa.Engine,
    sweep: str,
    start_all: Started,
    keep: Callable[..., None],
    bv3_grade: Callable[..., Any],
    tmp_path: Path,
) -> None:
    keep(start_all["x"], "filled", {"bucket": "ok"})
    keep(start_all["reddit"], "declined", {"bucket": "product_no_composer", "fault": "page_404"})
    keep(start_all["gmail"], "declined", {"bucket": "not_measurable", "evidence": "PROVEN"})
    grade_pending(engine)
    page = tmp_path / "table.md"
    done = bv3_grade("calibrate", "last", "--markdown", str(page))
    assert (done.code, done.stderr) == (0, "")
    assert "3 attempts: 3 set against their truth, 0 without one; 0 not graded yet" in done.stdout
    assert "misgraded 0 of 3, at most 63.16% at 95%" in done.stdout
    assert "| `page_404` | 1 | 0 |" in page.read_text()
    document = json.loads(bv3_grade("calibrate", sweep[:8], "--json").stdout)
    assert (document["product_revision"], document["leash_scales"]) == ("reference-1", [0.1])
    assert document["mixes"] == {"all seed 7": 3}
    assert document["confusion"] == [
        {"truth": "not_measurable", "verdict": "not_measurable", "attempts": 1},
        {"truth": "ok", "verdict": "ok", "attempts": 1},
        {"truth": "product_no_composer", "verdict": "product_no_composer", "attempts": 1},
    ]


def test_a_wrong_verdict_ends_with_1_and_the_command_that_shows_it(
    engine: sa.Engine, sweep: str, start_all: Started, keep: Callable[..., None], bv3_grade: Callable[..., Any]
) -> None:
    keep(start_all["x"], "filled", {"bucket": "product_unverified_fill", "fault": "editor_doubles"})
    keep(start_all["reddit"], "declined", None)
    with begin(engine) as connection:
        name = start_all["gmail"].box.name
        beats = connection.scalar(sa.text("select beats from boxes where name = :name"), {"name": name})
        assert losing.lose_attempts(connection, box=name, beats=beats, reason="silent") == 1
    grade_pending(engine)
    done = bv3_grade("calibrate", sweep)
    assert done.code == 1
    assert f"bv3-grade show {sweep} x#1" in done.stdout
    assert "reddit#1, attempt 1: product_no_composer, its record holds no truth" in done.stdout
    assert "gmail#1, attempt 1: infra_box_lost, it left no record" in done.stdout
    document = json.loads(bv3_grade("calibrate", sweep, "--json").stdout)
    [wrong] = document["misgraded"]
    assert (wrong["run"], wrong["fault"], wrong["differs"]) == ("x#1", "editor_doubles", ["bucket"])
    assert wrong["verdict"] == {"bucket": "ok", "evidence": None, "total_ms": 236, "rule": "reached"}
    assert (document["attempts"], document["compared"], len(document["untold"])) == (3, 1, 2)


def test_a_sweep_of_another_stack_and_one_that_is_named_twice_are_refused(
    engine: sa.Engine, sweep: str, start_all: Started, keep: Callable[..., None], bv3_grade: Callable[..., Any]
) -> None:
    assert bv3_grade("calibrate", "last", "last").code == 2
    keep(start_all["x"], "filled", {"bucket": "ok"}, product_revision="openswarm-0eccf09")
    grade_pending(engine)
    done = bv3_grade("calibrate", sweep)
    assert done.code == 2
    assert "ran on openswarm-0eccf09: only a reference stack tells the truth" in done.stderr


def test_a_page_that_can_not_be_written_is_said_after_the_tables(
    engine: sa.Engine,
    sweep: str,
    start_all: Started,
    keep: Callable[..., None],
    bv3_grade: Callable[..., Any],
    tmp_path: Path,
) -> None:
    keep(start_all["reddit"], "filled", {"bucket": "ok"})
    grade_pending(engine)
    done = bv3_grade("calibrate", sweep, "--markdown", str(tmp_path / "nowhere" / "table.md"))
    assert done.code == 2
    assert "can't write" in done.stderr
    assert "1 attempts: 1 set against their truth, 0 without one; 2 not graded yet" in done.stdout


def test_a_truth_that_can_not_even_be_unpacked_leaves_the_verdict_as_it_is(
    engine: sa.Engine, sweep: str, start_all: Started, keep: Callable[..., None], bv3_grade: Callable[..., Any]
) -> None:
    keep(start_all["x"], "filled", {"bucket": "infra_router"})
    with begin(engine) as connection:
        broken = connection.execute(
            sa.text(
                "update evidence e set data = 'no compressed data' from record_evidence r"
                " where r.sha256 = e.sha256 and r.name = 'truth'"
            )
        )
        assert broken.rowcount == 1
    assert grade_pending(engine).failed == 0
    with begin(engine) as connection:
        assert connection.scalar(sa.text("select bucket from verdicts")) == "ok"
    done = bv3_grade("calibrate", sweep)
    assert (done.code, done.stdout) == (2, "")
    assert "no attempt has a truth" in done.stderr
