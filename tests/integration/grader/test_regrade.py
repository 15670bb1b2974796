"""Today's rules over yesterday's evidence: new verdicts beside the old, and nothing else changes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from broker.store import dispatching, grading, losing
from broker.store.engine import begin
from broker.store.progress import read_progress
from broker.store.sweeps import find_sweep
from broker.types import Bucket, Family
from grader import rules
from grader.evidence import Case
from grader.reading import read_attempts, read_sweep
from grader.rules.finding import Finding
from grader.storing import grade_pending, keep_record

Started = dict[str, Any]
Grade = Callable[..., Any]
VERSION = rules.GRADER_VERSION


def _buckets(engine: sa.Engine, sweep: str) -> dict[str, tuple[Bucket, int]]:
    with begin(engine) as connection:
        rows, _ = read_attempts(connection, find_sweep(connection, sweep))
    return {row.site: (row.bucket, row.grader_version) for row in rows}


def _everything_but_verdicts(engine: sa.Engine) -> dict[str, list[Any]]:
    with begin(engine) as connection:
        return {
            table: [tuple(row) for row in connection.execute(sa.text(f"select * from {table} order by 1"))]
            for table in ("sweeps", "site_runs", "dispatches", "attempts", "boxes", "records", "evidence")
        }


def _verdicts(engine: sa.Engine) -> list[Any]:
    with begin(engine) as connection:
        return [tuple(row) for row in connection.execute(sa.text("select * from verdicts order by id"))]


def _adoptions(engine: sa.Engine) -> list[Any]:
    with begin(engine) as connection:
        query = "select sweep_id, grader_version, requested_by from adoptions order by id"
        return [tuple(row) for row in connection.execute(sa.text(query))]


@pytest.fixture
def graded(
    engine: sa.Engine, sweep: str, start_all: Started, send: Callable[..., bytes], log_of: Callable[..., bytes]
) -> str:
    """A sweep of three runs, each graded once: ok, a failure of the product's, an exclusion."""
    for site, ending in (("x", "filled"), ("reddit", "declined"), ("gmail", "declined")):
        attempt = start_all[site]
        raw = send(attempt, log_of(site, ending))
        assert keep_record(engine, box=attempt.box.name, attempt=attempt.attempt, raw=raw).status == "stored"
    assert grade_pending(engine).graded == 3
    return sweep


@pytest.fixture
def finished(engine: sa.Engine, graded: str) -> str:
    """The same sweep, finished."""
    with begin(engine) as connection:
        dispatching.settle_graded(connection)
        assert dispatching.finish_sweeps(connection) == (graded,)
    return graded


@pytest.fixture
def change_rules(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Puts a rule of the next version before all others: one site's runs fall into another bucket."""

    def change(
        site: str, bucket: Bucket, *, version: int = VERSION + 1, why: str = "seen in another light", without: str = ""
    ) -> None:
        def seen_otherwise(case: Case) -> Finding | None:
            if case.record.site != site:
                return None
            return Finding(bucket=bucket, why=why)

        kept = (rule for rule in rules.RULES if rule.__name__ != without)
        monkeypatch.setattr(rules.decide, "__defaults__", ((seen_otherwise, *kept),))
        monkeypatch.setattr(rules, "GRADER_VERSION", version)

    return change


def test_nobody_is_asked_to_adopt_what_is_quoted(finished: str, bv3_grade: Grade) -> None:
    assert "--adopt" not in bv3_grade("regrade", finished).stdout


def test_a_new_version_grades_nothing_again_by_itself(
    engine: sa.Engine, finished: str, change_rules: Callable[..., None]
) -> None:
    before = _verdicts(engine)
    change_rules("x", Bucket.PRODUCT_FILL_DIED)
    assert grade_pending(engine, max_tries=None).graded == 0
    assert _verdicts(engine) == before


def test_a_regrade_names_what_flipped_and_changes_nothing_that_is_quoted(
    engine: sa.Engine, finished: str, change_rules: Callable[..., None], bv3_grade: Grade
) -> None:
    before, quoted = _everything_but_verdicts(engine), _buckets(engine, finished)
    old = _verdicts(engine)
    change_rules("x", Bucket.PRODUCT_FILL_DIED)
    done = bv3_grade("regrade", finished)
    assert (done.code, done.stderr) == (0, "")
    assert "1 flip against what is quoted" in done.stdout
    assert "1  ok -> product_fill_died" in done.stdout
    flip = (
        f"x#1 (attempt 1): ok (reached, grader {VERSION}) -> product_fill_died (seen_otherwise, grader {VERSION + 1})"
    )
    assert re.sub(r"attempt \d+", "attempt 1", flip) in re.sub(r"attempt \d+", "attempt 1", done.stdout)
    assert f"bv3-grade show {finished} x#1" in done.stdout
    assert f"the scorecard quotes each attempt's first verdict: grader {VERSION}\n" in done.stdout
    assert f"bv3-grade regrade {finished} --adopt" in done.stdout
    assert _buckets(engine, finished) == quoted
    assert _everything_but_verdicts(engine) == before
    assert _verdicts(engine)[: len(old)] == old, "verdicts are inserted, never updated"
    assert len(_verdicts(engine)) == 2 * len(old)
    assert _adoptions(engine) == []
    with begin(engine) as connection:
        assert read_progress(connection, finished, 0).families[Family.OK] == 1


def test_adopting_is_a_decision_with_a_name_and_the_scorecard_then_quotes_it(
    engine: sa.Engine, finished: str, change_rules: Callable[..., None], bv3_grade: Grade
) -> None:
    change_rules("x", Bucket.PRODUCT_FILL_DIED)
    assert bv3_grade("regrade", finished).code == 0
    done = bv3_grade("regrade", finished, "--adopt", "--json")
    document = json.loads(done.stdout)
    assert (done.code, document["inserted"], len(document["flips"])) == (0, 0, 1)
    assert document["quoted"]["changed"]
    assert document["quoted"]["grader_versions"] == [VERSION + 1]
    assert _buckets(engine, finished) == {
        "x": (Bucket.PRODUCT_FILL_DIED, VERSION + 1),
        "reddit": (Bucket.PRODUCT_NO_COMPOSER, VERSION + 1),
        "gmail": (Bucket.NOT_MEASURABLE, VERSION + 1),
    }
    ((sweep_id, version, who),) = _adoptions(engine)
    assert (sweep_id, version) == (finished, VERSION + 1)
    assert who == document["quoted"]["adopted"]["requested_by"]
    again = bv3_grade("regrade", finished, "--adopt")
    assert (again.code, "no flips" in again.stdout) == (0, True)
    assert f"was adopted by {who}" in again.stdout
    assert len(_adoptions(engine)) == 1, "it was adopted already"
    with begin(engine) as connection:
        assert read_progress(connection, finished, 0).families[Family.OK] == 0


def test_show_says_which_version_is_quoted_and_what_the_others_say(
    finished: str, change_rules: Callable[..., None], bv3_grade: Grade
) -> None:
    assert "the scorecard quotes" not in bv3_grade("show", finished, "x#1").stdout
    change_rules("x", Bucket.PRODUCT_FILL_DIED)
    bv3_grade("regrade", finished)
    shown = bv3_grade("show", finished, "x#1").stdout
    assert f"the scorecard quotes each attempt's first verdict: grader {VERSION}\n" in shown
    assert f"grader {VERSION + 1} says product_fill_died (rule seen_otherwise)" in shown
    bv3_grade("regrade", finished, "--adopt")
    shown = bv3_grade("show", finished, "x#1").stdout
    assert f"the scorecard quotes grader {VERSION + 1}: grader {VERSION + 1} was adopted by" in shown
    assert f"grader {VERSION} says ok (rule reached)" in shown
    (row,) = json.loads(bv3_grade("show", finished, "x#1", "--json").stdout)
    assert [verdict["bucket"] for verdict in row["verdicts"]] == ["ok", "product_fill_died"]


def test_a_flip_links_to_the_exported_slice(
    finished: str,
    change_rules: Callable[..., None],
    bv3_grade: Grade,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    change_rules("gmail", Bucket.PRODUCT_NO_COMPOSER, without="reached")
    first = bv3_grade("regrade", finished)
    assert "of its log slice (bv3-grade export" in first.stdout
    bv3_grade("export", finished)
    again = json.loads(bv3_grade("regrade", finished, "--json").stdout)
    (flip,) = [flip for flip in again["flips"] if flip["run"] == "x#1"]
    slice_ = (tmp_path / flip["artifact"]).read_bytes()
    assert flip["lines"]
    for line in flip["lines"]:
        assert slice_[line["start"] : line["end"]].count(b"\n") <= 1
        assert slice_[line["start"] : line["end"]].strip()
    assert f"{flip['artifact']} bytes {flip['lines'][0]['start']}-" in bv3_grade("regrade", finished).stdout


def test_rules_that_changed_without_a_new_version_are_named_and_nothing_is_written(
    engine: sa.Engine, finished: str, change_rules: Callable[..., None], bv3_grade: Grade
) -> None:
    before = _verdicts(engine)
    change_rules("x", Bucket.PRODUCT_FILL_DIED, version=VERSION)
    done = bv3_grade("regrade", finished, "--adopt")
    assert done.code == 1
    assert f"BROKEN PROMISE: the rules have changed and are still called version {VERSION}" in done.stdout
    assert "x#1" in done.stdout
    assert "reddit#1" not in done.stdout
    assert "nothing was written" in done.stdout
    assert (_verdicts(engine), _adoptions(engine)) == (before, [])


def test_unchanged_rules_write_nothing_and_find_nothing(engine: sa.Engine, finished: str, bv3_grade: Grade) -> None:
    before = _verdicts(engine)
    done = bv3_grade("regrade", finished)
    assert (done.code, "no flips" in done.stdout) == (0, True)
    assert "0 new verdicts, 3 known before, 0 failed" in done.stdout
    assert _verdicts(engine) == before


def test_a_record_on_which_grading_fails_is_named_keeps_its_verdict_and_the_others_are_graded(
    engine: sa.Engine, finished: str, change_rules: Callable[..., None], bv3_grade: Grade
) -> None:
    with begin(engine) as connection:
        connection.execute(
            sa.text(
                "update evidence set data = 'no compressed data' where sha256 in (select re.sha256"
                " from record_evidence re join records c on c.id = re.record_id join attempts a on a.id = c.attempt_id"
                " join site_runs r on r.id = a.run_id where r.site = 'x')"
            )
        )
    change_rules("reddit", Bucket.PRODUCT_FILL_DIED)
    done = bv3_grade("regrade", finished, "--adopt")
    assert done.code == 1
    assert re.search(r"not graded: x#1 \(attempt \d+, record \d+\): ValueError", done.stdout)
    assert f"the scorecard quotes grader {VERSION}, {VERSION + 1}: " in done.stdout
    assert _buckets(engine, finished) == {
        "x": (Bucket.OK, VERSION),
        "reddit": (Bucket.PRODUCT_FILL_DIED, VERSION + 1),
        "gmail": (Bucket.NOT_MEASURABLE, VERSION + 1),
    }


def test_a_false_success_that_a_regrade_finds_is_shouted_and_holds_no_box(
    engine: sa.Engine, finished: str, change_rules: Callable[..., None], bv3_grade: Grade
) -> None:
    before = _everything_but_verdicts(engine)
    change_rules("x", Bucket.PRODUCT_FALSE_SUCCESS, why="it says that it was sent")
    done = bv3_grade("regrade", finished)
    assert done.code == 1
    assert re.search(r"FALSE SUCCESS in x#1 \(attempt \d+\): it says that it was sent", done.stdout)
    assert _everything_but_verdicts(engine) == before
    assert json.loads(bv3_grade("regrade", finished, "--json").stdout)["breaches"], "until somebody has decided"
    assert bv3_grade("regrade", finished, "--adopt").code == 1
    assert bv3_grade("regrade", finished).code == 0


def test_a_finished_sweep_is_not_opened_again_by_new_infra_verdicts(
    engine: sa.Engine, finished: str, change_rules: Callable[..., None], bv3_grade: Grade
) -> None:
    change_rules("x", Bucket.INFRA_BROWSER)
    assert bv3_grade("regrade", finished, "--adopt").code == 0
    before = _everything_but_verdicts(engine)
    with begin(engine) as connection:
        assert dispatching.settle_graded(connection) == 0
        assert dispatching.finish_sweeps(connection) == ()
        assert not dispatching.needs_grading(connection)
        assert dispatching.read_board(connection, planned_limit=9).planned == ()
        assert find_sweep(connection, finished).state == "finished"
    assert _everything_but_verdicts(engine) == before


def test_a_sweep_that_is_not_finished_is_refused(engine: sa.Engine, graded: str, bv3_grade: Grade) -> None:
    before = _verdicts(engine)
    done = bv3_grade("regrade", graded)
    assert done.code == 2
    assert "is active, not finished" in done.stderr
    assert f"bv3-schedule cancel {graded}" in done.stderr
    assert _verdicts(engine) == before


def test_lost_attempts_and_late_records_are_judged_again_and_a_late_breach_follows_what_is_adopted(
    engine: sa.Engine,
    sweep: str,
    start_all: Started,
    send: Callable[..., bytes],
    log_of: Callable[..., bytes],
    change_rules: Callable[..., None],
    bv3_grade: Grade,
) -> None:
    attempt = start_all["x"]
    for each in start_all.values():
        with begin(engine) as connection:
            beats = connection.scalar(sa.text("select beats from boxes where name = :name"), {"name": each.box.name})
            losing.lose_attempts(connection, box=each.box.name, beats=beats, reason="silent")
    raw = send(attempt, log_of("x", "filled"))
    assert keep_record(engine, box=attempt.box.name, attempt=attempt.attempt, raw=raw).status == "late"
    assert grade_pending(engine).graded == 4
    with begin(engine) as connection:
        # their runs are to be tried again; nobody does
        connection.execute(sa.text("update site_runs set state = 'cancelled'"))
        assert dispatching.finish_sweeps(connection) == (sweep,)
    change_rules("x", Bucket.PRODUCT_FALSE_SUCCESS)
    done = bv3_grade("regrade", sweep, "--json")
    document = json.loads(done.stdout)
    assert (done.code, document["cases"], document["inserted"]) == (1, 4, 4)
    (flip,) = document["flips"]
    assert (flip["run"], flip["counts"], flip["old"]["bucket"]) == ("x#1", False, "ok")

    def late_breaches() -> int:
        with begin(engine) as connection:
            return read_sweep(connection, find_sweep(connection, sweep), 0).late_breaches

    assert late_breaches() == 0
    assert bv3_grade("regrade", sweep, "--adopt").code == 1
    assert late_breaches() == 1
    assert set(_buckets(engine, sweep).values()) == {(Bucket.INFRA_BOX_LOST, VERSION + 1)}


def test_a_record_that_is_still_waiting_for_its_first_verdict_is_left_to_the_grader(
    engine: sa.Engine, finished: str, bv3_grade: Grade
) -> None:
    with begin(engine) as connection:
        connection.execute(sa.text("delete from verdicts where bucket = 'ok'"))
    done = bv3_grade("regrade", finished)
    assert (done.code, "1 record without any verdict yet" in done.stdout) == (0, True)
    with begin(engine) as connection:
        assert len(grading.pending(connection, limit=9)) == 1


def test_two_regrades_of_one_sweep_do_not_meet(engine: sa.Engine, finished: str, bv3_grade: Grade) -> None:
    with begin(engine) as connection:
        connection.execute(
            sa.text("select pg_advisory_xact_lock(hashtextextended('regrade ' || :id, 0))"), {"id": finished}
        )
        done = bv3_grade("regrade", finished)
    assert (done.code, "being regraded by another command" in done.stderr) == (2, True)


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGINT])
def test_a_regrade_that_is_killed_in_the_middle_has_written_nothing_and_can_be_run_again(
    engine: sa.Engine,
    finished: str,
    database: str,
    valkey: str,
    bv3_grade: Grade,
    wait_until: Callable[..., None],
    sent: signal.Signals,
) -> None:
    with begin(engine) as connection:
        # as though an older version had judged them
        connection.execute(sa.text("update verdicts set grader_version = 0"))
    before = _verdicts(engine)
    environment = os.environ | {"BV3_DATABASE_URL": database, "BV3_BROKER_URL": valkey}
    with engine.connect() as blocking:
        # whoever inserts the same verdict waits for this transaction's end: the last of three
        blocking.execute(
            sa.text(
                "insert into verdicts (attempt_id, record_id, grader_version, bucket, rule, detail, counts)"
                " select attempt_id, record_id, :version, 'ok', 'r', '', false from verdicts"
                " order by record_id desc limit 1"
            ),
            {"version": VERSION},
        )
        command = [sys.executable, "-P", "-m", "grader.cli", "regrade", finished, "--adopt"]
        child = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

        def is_in_the_middle() -> bool:
            with begin(engine) as connection:
                return bool(
                    connection.scalar(
                        sa.text(
                            "select exists (select from pg_stat_activity where application_name = 'bv3-grade'"
                            " and wait_event_type = 'Lock' and query like 'INSERT INTO verdicts%')"
                        )
                    )
                )

        wait_until(is_in_the_middle, "the regrade waits in its third insert", 30)
        child.send_signal(sent)
        if sent is signal.SIGKILL:
            child.communicate(timeout=30)
            assert child.returncode == -signal.SIGKILL
        blocking.rollback()
        if sent is signal.SIGINT:
            child.communicate(timeout=30)
            assert child.returncode == 130

    def is_gone() -> bool:
        with begin(engine) as connection:
            query = "select not exists (select from pg_stat_activity where application_name = 'bv3-grade')"
            return bool(connection.scalar(sa.text(query)))

    wait_until(is_gone, "its session has ended", 30)
    assert (_verdicts(engine), _adoptions(engine)) == (before, [])
    done = bv3_grade("regrade", finished)
    assert (done.code, "3 new verdicts, 0 known before, 0 failed" in done.stdout) == (0, True)
