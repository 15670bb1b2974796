"""Stored raw first, graded as a step of its own; what one record breaks stops no other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa

from broker.errors import UsageError
from broker.holds import HoldKind
from broker.store import dispatching, grading, losing
from broker.store.breaches import lift_breaches
from broker.store.engine import begin
from broker.store.holds import place_hold, read_holds
from broker.store.sweeps import find_sweep, order
from broker.types import Bucket
from grader.reading import read_attempts, read_sweep
from grader.storing import MAX_TRIES, Progress, grade_pending, judge, keep_record, persist

Started = dict[str, Any]
Send = Callable[..., bytes]
LogOf = Callable[..., bytes]


def _keep(engine: sa.Engine, attempt: Any, raw: bytes) -> str:
    return keep_record(engine, box=attempt.box.name, attempt=attempt.attempt, raw=raw).status


def _buckets(engine: sa.Engine, sweep: str) -> dict[str, Bucket]:
    with begin(engine) as connection:
        rows, _ = read_attempts(connection, find_sweep(connection, sweep))
    return {row.site: row.bucket for row in rows}


def test_each_stored_record_gets_its_verdict_once(
    engine: sa.Engine, sweep: str, start_all: Started, send: Send, log_of: LogOf
) -> None:
    for site, ending in (("x", "filled"), ("reddit", "declined"), ("gmail", "declined")):
        attempt = start_all[site]
        assert _keep(engine, attempt, send(attempt, log_of(site, ending))) == "stored"
    assert grade_pending(engine).graded == 3
    assert grade_pending(engine).graded == 0
    assert _buckets(engine, sweep) == {
        "x": Bucket.OK,
        "reddit": Bucket.PRODUCT_NO_COMPOSER,
        "gmail": Bucket.NOT_MEASURABLE,
    }
    with begin(engine) as connection:
        states = set(connection.scalars(sa.text("select state from attempts")))
    assert states == {"graded"}


def test_a_record_that_can_not_be_graded_is_marked_and_in_the_end_the_instruments_failure_and_the_others_are_graded(
    engine: sa.Engine, sweep: str, start_all: Started, send: Send, log_of: LogOf
) -> None:
    broken, sound = start_all["x"], start_all["reddit"]
    _keep(engine, broken, send(broken, log_of("x", "filled")))
    with begin(engine) as connection:
        connection.execute(sa.text("update evidence set data = 'no compressed data'"))
    _keep(engine, sound, send(sound, log_of("reddit", "filled")))
    for _ in range(MAX_TRIES - 1):
        grade_pending(engine)
    assert _buckets(engine, sweep) == {"reddit": Bucket.OK}
    assert grade_pending(engine, max_tries=None).failed == 1
    assert grade_pending(engine, max_tries=None) == Progress(graded=0, failed=0)
    assert _buckets(engine, sweep) == {"reddit": Bucket.OK, "x": Bucket.INFRA_HARNESS}
    with begin(engine) as connection:
        row = connection.execute(sa.text("select tries, error from records where error is not null")).one()
        verdict = connection.execute(sa.text("select rule, detail, counts from verdicts where rule <> 'reached'")).one()
        dispatching.settle_graded(connection)
        runs = {run.site: run.state for run in connection.execute(sa.text("select site, state from site_runs"))}
    assert row.tries == MAX_TRIES
    assert "ValueError" in row.error
    assert tuple(verdict) == ("grading_failed", row.error, True)
    assert (runs["x"], runs["reddit"]) == ("planned", "closed"), "it is tried again, the sweep does not wait for ever"


def test_a_record_that_can_not_be_read_is_kept_and_counts_in_no_rate(
    engine: sa.Engine, sweep: str, start_all: Started
) -> None:
    assert _keep(engine, start_all["x"], b"{\x00 no json") == "unreadable"
    assert grade_pending(engine).graded == 1
    assert _buckets(engine, sweep) == {}
    with begin(engine) as connection:
        row = connection.execute(sa.text("select bucket, rule, counts from verdicts")).one()
    assert tuple(row) == ("infra_harness", "unreadable_record", False)


def test_a_lost_attempt_has_its_verdict_and_a_late_record_stands_beside_it(
    engine: sa.Engine, sweep: str, start_all: Started, send: Send, log_of: LogOf
) -> None:
    attempt = start_all["x"]
    with begin(engine) as connection:
        beats = connection.scalar(sa.text("select beats from boxes where name = :name"), {"name": attempt.box.name})
        assert losing.lose_attempts(connection, box=attempt.box.name, beats=beats, reason="silent") == 1
    assert grade_pending(engine).graded == 1
    assert _keep(engine, attempt, send(attempt, log_of("x", "filled"))) == "late"
    assert grade_pending(engine).graded == 1
    assert _buckets(engine, sweep) == {"x": Bucket.INFRA_BOX_LOST}
    with begin(engine) as connection:
        verdicts = connection.execute(sa.text("select bucket, counts from verdicts order by id")).all()
    assert [tuple(row) for row in verdicts] == [("infra_box_lost", True), ("ok", False)]


def test_a_verdict_that_counts_in_no_rate_ends_no_waiting(
    engine: sa.Engine, sweep: str, start_all: Started, send: Send, log_of: LogOf
) -> None:
    attempt = start_all["x"]
    with begin(engine) as connection:
        beats = connection.scalar(sa.text("select beats from boxes where name = :name"), {"name": attempt.box.name})
        losing.lose_attempts(connection, box=attempt.box.name, beats=beats, reason="silent")
    assert _keep(engine, attempt, send(attempt, log_of("x", "filled"))) == "late"
    with begin(engine) as connection:
        (late,) = grading.pending(connection, limit=9)
        grading.save_verdict(connection, judge(late, log_of("x", "filled")))
        connection.execute(
            sa.text("update attempts set lost_at = lost_at - interval '1 minute' where lost_at is not null")
        )
        connection.execute(sa.text("update site_runs set state = 'cancelled'"))
        # what a grader leaves that was killed between the two
        assert dispatching.needs_grading(connection)
        assert dispatching.finish_sweeps(connection) == ()
    assert grade_pending(engine).graded == 1
    with begin(engine) as connection:
        assert not dispatching.needs_grading(connection)


def test_the_last_failure_and_its_verdict_are_one(
    engine: sa.Engine, start_all: Started, send: Send, log_of: LogOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = start_all["x"]
    _keep(engine, broken, send(broken, log_of("x", "filled")))
    with begin(engine) as connection:
        connection.execute(sa.text("update evidence set data = 'no compressed data'"))
        connection.execute(sa.text("update records set tries = :tries"), {"tries": MAX_TRIES - 1})

    def die(_connection: sa.Connection, _new: grading.NewVerdict) -> bool:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(grading, "save_verdict", die)
        with pytest.raises(KeyboardInterrupt):
            grade_pending(engine)
    assert grade_pending(engine).failed == 1
    with begin(engine) as connection:
        assert connection.scalar(sa.text("select rule from verdicts")) == "grading_failed"


def _hold_others(connection: sa.Connection, attempt: Any) -> None:
    for name in connection.scalars(sa.text("select name from boxes where name <> :x"), {"x": attempt.box.name}).all():
        place_hold(connection, name, HoldKind.DRAINED, "by hand", "anna")


def test_a_send_in_a_dry_run_halts_its_sweep_and_holds_its_box(
    engine: sa.Engine, sweep: str, start_all: Started, send: Send, log_of: LogOf
) -> None:
    attempt = start_all["x"]
    _keep(engine, attempt, send(attempt, log_of("x", "sent")))
    grade_pending(engine)
    assert _buckets(engine, sweep) == {"x": Bucket.PRODUCT_FALSE_SUCCESS}
    with begin(engine) as connection:
        held = find_sweep(connection, sweep)
        reasons = [hold.reason for holds in read_holds(connection).values() for hold in holds]
    assert held.state == "halted"
    assert attempt.payload in (held.order_reason or "")
    assert len(reasons) == 1
    answer = attempt.box.client.beat(attempt.box.token, "ready", {})
    assert answer.answer == "hold"
    with begin(engine) as connection:
        _hold_others(connection, attempt)
        with pytest.raises(UsageError, match="halted for a false success"):
            order(connection, sweep, "resume", "not looked at")
        # a person has looked; grading again halts nothing anew
        lifted = lift_breaches(connection, sweep, "anna")
    assert (lifted.freed, lifted.held) == ((attempt.box.name,), ())
    assert [(breach.run_name, breach.attempt_id) for breach in lifted.breaches] == [("x#1", attempt.attempt)]
    assert attempt.payload in lifted.breaches[0].said
    grade_pending(engine)
    with begin(engine) as connection:
        assert find_sweep(connection, sweep).state == "active"
        held_ones = [hold.reason for holds in read_holds(connection).values() for hold in holds]
    assert attempt.box.client.beat(attempt.box.token, "ready", {}).answer == "ok", "its box works again"
    assert held_ones == ["by hand", "by hand"], "what is held for another reason stays held"


def test_a_box_held_for_a_sweep_that_is_over_is_let_go_and_no_other(
    engine: sa.Engine, sweep: str, start_all: Started, send: Send, log_of: LogOf
) -> None:
    attempt = start_all["x"]
    _keep(engine, attempt, send(attempt, log_of("x", "sent")))
    grade_pending(engine)
    with begin(engine) as connection:
        connection.execute(sa.text("update sweeps set finished_at = clock_timestamp() where id = :id"), {"id": sweep})
        _hold_others(connection, attempt)
        assert find_sweep(connection, sweep).state == "finished"
    assert attempt.box.client.beat(attempt.box.token, "ready", {}).answer == "hold"
    with begin(engine) as connection:
        assert lift_breaches(connection, sweep, "anna").freed == (attempt.box.name,)
        again = lift_breaches(connection, sweep, "anna")
        assert (again.breaches, again.freed) == ((), ())
    assert attempt.box.client.beat(attempt.box.token, "ready", {}).answer == "ok"


def test_storing_waits_until_postgresql_answers_again(engine: sa.Engine, sweep: str) -> None:
    calls: list[int] = []

    def read(connection: sa.Connection) -> int:
        calls.append(1)
        if len(calls) < 3:
            # what a restart of the server looks like from here
            connection.execute(sa.text("select pg_terminate_backend(pg_backend_pid())"))
        return int(connection.scalar(sa.text("select count(*) from site_runs")) or 0)

    assert persist(engine, read) == 3
    assert len(calls) == 3


def test_an_answer_that_is_an_error_is_raised_and_not_waited_for(engine: sa.Engine) -> None:
    with pytest.raises(sa.exc.ProgrammingError):
        persist(engine, lambda connection: connection.execute(sa.text("select no_such_column")))


def test_what_preflights_refused_is_counted_beside_flake(
    engine: sa.Engine, sweep: str, make_box: Callable[[str], Any]
) -> None:
    box = make_box("box-a")
    refused: list[int] = []
    for number, (reason, facts) in enumerate(
        [
            ("router: it does not answer", {"refused": True, "lost_s": 90}),
            ("router: it answers 503", {"refused": True, "lost_s": 30}),
            ("the sweep is paused", {"refused": False}),
        ]
    ):
        with begin(engine) as connection:
            run = dispatching.read_board(connection, planned_limit=1).planned[0]
            handed = dispatching.hand_out(connection, run_id=run.id, box=box.name, slot=1)
        assert handed is not None
        assert box.client.released(run.id, handed.order.dispatch, box.token, reason, facts) == "ok", number
        refused.append(run.id)
    # after it has handed a run back; the others: of a run that it never refused, and in a word that is no time
    waits = [(str(refused[0]), "60.0"), ("0", "9"), (str(refused[0]), "NaN")]
    events = [{"kind": "fit", "run": name, "lost_s": text} for name, text in waits]
    box.client.beat(box.token, "ready", {"events": events})
    with begin(engine) as connection:
        losses = grading.box_losses(connection, sweep)
        facts = read_sweep(connection, find_sweep(connection, sweep), 0)
    assert (losses.refusals, losses.minutes, losses.by_reason) == (2, 3.0, {"router": 2})
    assert (facts.refusals, facts.box_minutes_lost) == (2, 3.0)
