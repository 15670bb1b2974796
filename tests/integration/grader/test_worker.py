"""The grader's real worker process, fed through a real Redis, and what its commands then say."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
import sqlalchemy as sa

from broker.app import make_app
from broker.codec import encode
from broker.publish import Publisher
from broker.queues import RESULTS, STORE_EVIDENCE, STORE_RECORD
from broker.store.engine import begin

Command = Callable[..., Any]


@pytest.fixture
def worker(database: str, valkey: str, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    log = (tmp_path / "grader.log").open("wb")
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "grader.cli", "work"],
        env=os.environ | {"BV3_DATABASE_URL": database, "BV3_BROKER_URL": valkey},
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    yield process
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=30)
    log.close()


def _verdicts(engine: sa.Engine) -> int:
    with begin(engine) as connection:
        return int(connection.scalar(sa.text("select count(*) from verdicts where counts")) or 0)


def test_what_boxes_send_is_stored_graded_and_told(
    engine: sa.Engine,
    sweep: str,
    start_all: dict[str, Any],
    log_of: Callable[..., bytes],
    valkey: str,
    worker: subprocess.Popen[bytes],
    wait_until: Callable[..., None],
    bv3_grade: Command,
    tmp_path: Path,
) -> None:
    app = make_app(valkey)
    publisher = Publisher(app=app)
    # nothing of ours, before and between: dropped
    app.send_task(STORE_RECORD, kwargs={"box": "Box\x00", "attempt": "1", "data": "***"})
    app.send_task(STORE_RECORD, kwargs={"no": "such argument"})
    app.send_task(STORE_EVIDENCE, kwargs={"box": "box-0", "sha256": "x", "index": 5, "total": 1, "data": ""})
    for site, ending in (("x", "filled"), ("reddit", "filled"), ("gmail", "declined")):
        attempt = start_all[site]
        log = log_of(site, ending)
        record = attempt.record(log)
        publisher.send_evidence(attempt.box.name, record.evidence[0].sha256, log)
        for _ in range(2):
            publisher.send_record(attempt.box.name, attempt.attempt, encode(record))
    wait_until(lambda: _verdicts(engine) == 3, "three verdicts", 60)
    with redis.Redis.from_url(valkey) as client:
        wait_until(lambda: client.llen(RESULTS) == 0, "an empty queue", 30)

    card = json.loads(bv3_grade("scorecard", "last", "--json").stdout)
    assert card["sweep"]["sweep"] == sweep
    assert card["tally"] | {"reach": None} == {
        "attempts": 3,
        "ok": 2,
        "product": 0,
        "infra": 0,
        "not_measurable": 1,
        "reach": None,
    }
    assert [(one["site"], one["rule"], one["evidence"]) for one in card["exclusions"]] == [
        ("gmail", "sign_in_page", "PROVEN")
    ]

    command = [sys.executable, "-P", "-m", "grader.cli", "scorecard", sweep[:12]]
    environment = os.environ | {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}
    printed = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert printed.returncode == 0, printed.stderr
    assert "3 runs, 3 attempts (0 retries)     ok 2   product 0   infra 0   not measurable 1" in printed.stdout

    out = tmp_path / "results" / f"{sweep}.jsonl"
    assert bv3_grade("export", "last", "--out", str(out)).code == 0
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [(row["site"], row["bucket"]) for row in rows] == [
        ("x", "ok"),
        ("reddit", "ok"),
        ("gmail", "not_measurable"),
    ]
    for row in rows:
        assert Path(row["artifact"]).read_bytes() == log_of(
            row["site"], "declined" if row["site"] == "gmail" else "filled"
        )
    assert rows[0]["total_ms"] == 236
    assert rows[0]["started_at"].endswith("+00:00")

    shown = " ".join(bv3_grade("show", "last", "x#1").stdout.split())  # however it was wrapped
    assert "rule reached" in shown
    assert "fill target" in shown

    began = time.monotonic()
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(timeout=30) == 0
    assert time.monotonic() - began < 10


def test_wrong_requests_are_answered_with_a_cause_and_a_hint(sweep: str, bv3_grade: Command) -> None:
    for arguments, cause, hint in (
        (("scorecard", "c8"), "error: there is no sweep 'c8'", "hint: "),
        (("show", "last", "x"), "error: 'x' names no run", "hint: SITE#TRIAL"),
        (("show", "last", "x#1"), "has no graded attempt of x#1", "hint: "),
        (("scorecard",), "error: Missing argument 'SWEEP'", ""),
        (("no-such",), "error: there is no command 'no-such'", "hint: commands: "),
    ):
        done = bv3_grade(*arguments)
        assert done.code == 2, done.stderr
        assert cause in done.stderr
        assert hint in done.stderr
        assert "Traceback" not in done.stderr
        assert done.stdout == ""


def test_a_database_that_is_away_is_told_within_five_seconds(bv3_grade: Command, free_port: Callable[[], int]) -> None:
    began = time.monotonic()
    done = bv3_grade("scorecard", "last", BV3_DATABASE_URL=f"postgresql://bv3@127.0.0.1:{free_port()}/bv3")
    assert done.code == 3
    assert "PostgreSQL at 127.0.0.1" in done.stderr
    assert "hint: " in done.stderr
    assert time.monotonic() - began < 5


def test_a_database_without_tables_is_told(bv3_grade: Command, empty_database: str) -> None:
    done = bv3_grade("scorecard", "last", BV3_DATABASE_URL=empty_database)
    assert done.code == 3
    assert "has no bv3 tables" in done.stderr


def test_the_gate_fails_with_a_failed_criterion_only(
    engine: sa.Engine,
    sweep: str,
    start_all: dict[str, Any],
    send: Callable[..., bytes],
    log_of: Callable[..., bytes],
    bv3_grade: Command,
) -> None:
    from grader.storing import grade_pending, keep_record  # noqa: PLC0415 - its engine is this test's

    attempt = start_all["x"]
    keep_record(engine, box=attempt.box.name, attempt=attempt.attempt, raw=send(attempt, log_of("x", "filled")))
    grade_pending(engine)
    assert bv3_grade("scorecard", "last", "--gate").code == 0
    breach = start_all["reddit"]
    keep_record(engine, box=breach.box.name, attempt=breach.attempt, raw=send(breach, log_of("reddit", "sent")))
    assert bv3_grade("grade").stdout == "graded 1, failed 0\n"
    assert bv3_grade("scorecard", "last", "--gate").code == 1
    assert bv3_grade("scorecard", "last").code == 0


def test_help_is_quick_and_needs_no_farm(bv3_grade: Command) -> None:
    done = bv3_grade("--help", BV3_DATABASE_URL="nonsense", BV3_BROKER_URL="nonsense")
    assert done.code == 0
    assert "scorecard" in done.stdout
