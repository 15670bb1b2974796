"""A run reaches a box once: the five functions, against a real PostgreSQL, by each box's own login."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import psycopg
import pytest
import sqlalchemy as sa

from broker.errors import BoxHeldError, DatabaseError
from broker.store import dispatching, losing
from broker.store.box_client import BoxClient, Machine
from broker.store.engine import begin, with_driver
from broker.store.sweeps import order

NONCE = "n" * 32


def hand_out(engine: sa.Engine, box: str, slot: int = 1) -> dispatching.HandedOut:
    with begin(engine) as connection:
        run = dispatching.read_board(connection, planned_limit=1).planned[0]
        handed = dispatching.hand_out(connection, run_id=run.id, box=box, slot=slot)
    assert handed is not None
    return handed


def states(engine: sa.Engine, run_id: int) -> tuple[str, list[str], list[str]]:
    with begin(engine) as c:
        run = c.scalar(sa.text("select state from site_runs where id = :id"), {"id": run_id})
        handed = c.scalars(sa.text("select state from dispatches where run_id = :id order by number"), {"id": run_id})
        tried = c.scalars(sa.text("select state from attempts where run_id = :id order by number"), {"id": run_id})
        return str(run), list(handed), list(tried)


def test_a_second_process_for_a_box_is_refused_with_the_holders_name(make_box: Callable[[str], Any]) -> None:
    box = make_box("box-a")
    with pytest.raises(BoxHeldError, match="host m, pid 1"):
        box.client.register(Machine(machine="other", boot="b", namespace="n", pid=2), predecessor_dead=True)
    same_machine = Machine(machine="m", boot="b", namespace="n", pid=3)
    assert box.client.register(same_machine, predecessor_dead=True) != box.token
    assert box.client.beat(box.token, "ready", {}).answer == "stale"


def test_a_start_is_won_once_and_its_nonce_gets_the_same_yes(
    engine: sa.Engine, sweep: str, make_box: Callable[[str], Any]
) -> None:
    box = make_box("box-a")
    handed = hand_out(engine, "box-a")
    run, number = handed.order.run, handed.order.dispatch
    first = box.client.start(run, number, box.token, NONCE)
    assert first.won
    assert first.attempt_no == 1
    assert "{nonce}" not in first.payload
    assert box.client.start(run, number, box.token, NONCE) == first, "the reply may have been lost"
    assert not box.client.start(run, number, box.token, "m" * 32).won, "delivered twice, started once"
    assert states(engine, run) == ("started", ["started"], ["started"])
    assert box.client.step(first.attempt, box.token, "finished") == "ok"
    assert not box.client.start(run, number, box.token, NONCE).won, "a reply stuck for a minute revives nothing"
    assert states(engine, run) == ("started", ["done"], ["finished"])


def test_payloads_differ_in_their_first_24_characters(
    engine: sa.Engine, sweep: str, make_box: Callable[[str], Any]
) -> None:
    box = make_box("box-a")
    payloads = set()
    for index in range(3):
        handed = hand_out(engine, "box-a")
        start = box.client.start(handed.order.run, handed.order.dispatch, box.token, f"{index}" * 32)
        payloads.add(start.payload[:24])
        box.client.step(start.attempt, box.token, "finished")
    assert len(payloads) == 3


def test_a_box_can_start_only_what_was_handed_to_it(
    engine: sa.Engine, sweep: str, make_box: Callable[[str], Any]
) -> None:
    make_box("box-a")
    thief = make_box("box-b")
    handed = hand_out(engine, "box-a")
    answer = thief.client.start(handed.order.run, handed.order.dispatch, thief.token, NONCE)
    assert (answer.won, answer.reason) == (False, "not yours to start")
    assert not thief.client.start(10**9, 1, thief.token, NONCE).won
    assert not thief.client.start(handed.order.run, handed.order.dispatch, uuid4(), NONCE).won


@pytest.mark.parametrize("what", ["pause", "cancel"])
def test_after_an_order_to_stop_no_start_wins(
    engine: sa.Engine, sweep: str, make_box: Callable[[str], Any], what: Any
) -> None:
    box = make_box("box-a")
    handed = hand_out(engine, "box-a")
    with begin(engine) as connection:
        order(connection, sweep, what, "test")
    assert not box.client.start(handed.order.run, handed.order.dispatch, box.token, NONCE).won


def test_a_start_under_way_makes_a_cancel_wait_and_then_stand(
    engine: sa.Engine, sweep: str, make_box: Callable[[str], Any]
) -> None:
    """The start's transaction holds the sweep's row; the cancel returns only after it, and sees it."""
    box = make_box("box-a")
    handed = hand_out(engine, "box-a")
    url = with_driver(box.url)
    with psycopg.connect(
        host=url.host, port=url.port, user=url.username, password=url.password, dbname=url.database
    ) as slow:
        row = slow.execute(
            "select box.start(%s, %s, %s, %s)", (handed.order.run, handed.order.dispatch, box.token, NONCE)
        ).fetchone()
        assert row is not None
        assert row[0]["answer"] == "yes"
        with pytest.raises(sa.exc.OperationalError, match="lock timeout"), begin(engine) as connection:
            connection.execute(sa.text("set local lock_timeout = '200ms'"))
            order(connection, sweep, "cancel", "test")
    with begin(engine) as connection:
        order(connection, sweep, "cancel", "test")
    assert states(engine, handed.order.run)[0] == "started"


def test_released_plans_the_run_again_and_costs_no_attempt(
    engine: sa.Engine, sweep: str, make_box: Callable[[str], Any]
) -> None:
    box = make_box("box-a")
    handed = hand_out(engine, "box-a")
    run, number = handed.order.run, handed.order.dispatch
    assert box.client.released(run, number, box.token, "foreign backend", {"lost_s": 1.5}) == "ok"
    assert states(engine, run) == ("planned", ["released"], [])
    assert box.client.released(run, number, box.token, "again") == "over"
    again = hand_out(engine, "box-a")
    assert (again.order.run, again.order.dispatch) == (run, number + 1)


def test_a_box_reads_no_table_and_calls_no_other_function(make_box: Callable[[str], Any]) -> None:
    url = with_driver(make_box("box-a").url)
    with psycopg.connect(
        host=url.host, port=url.port, user=url.username, password=url.password, dbname=url.database, autocommit=True
    ) as connection:
        for statement in ("select * from public.boxes", "select box.own_row()", "create table box.mine (a int)"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement)


def test_a_login_without_a_box_is_told_so(make_box: Callable[[str], Any], engine: sa.Engine, database: str) -> None:
    with begin(engine) as connection:
        connection.execute(sa.text("drop role if exists box_nobody"))
        connection.execute(sa.text("create role box_nobody login password 'x' in role bv3_box"))
    url = sa.make_url(database).set(username="box_nobody", password="x").render_as_string(hide_password=False)
    client = BoxClient(url, application="stranger")
    with pytest.raises(DatabaseError, match="speaks for no box"):
        client.register(Machine(machine="m", boot="b", namespace="n", pid=1))
    client.close()
    with begin(engine) as connection:
        connection.execute(sa.text("drop role box_nobody"))


def test_a_lost_box_gives_its_runs_back_and_its_lease_ends(
    engine: sa.Engine, sweep: str, make_box: Callable[[str], Any]
) -> None:
    box = make_box("box-a")
    running, waiting = hand_out(engine, "box-a"), hand_out(engine, "box-a", slot=2)
    start = box.client.start(running.order.run, running.order.dispatch, box.token, NONCE)
    with begin(engine) as connection:
        beats = dispatching.read_board(connection, planned_limit=1).boxes[0].beats
        assert losing.lose_attempts(connection, box="box-a", beats=beats - 1, reason="stale look") == 0
        assert losing.lose_attempts(connection, box="box-a", beats=beats, reason="no beat for 45 s") == 1
    assert states(engine, running.order.run) == ("planned", ["lost"], ["lost"])
    assert states(engine, waiting.order.run) == ("planned", ["taken_back"], [])
    assert box.client.beat(box.token, "running", {"open": [start.attempt]}).answer == "stale"
    assert box.client.step(start.attempt, box.token, "finished") == "stale"


def test_an_attempt_that_three_beats_do_not_name_is_lost(
    engine: sa.Engine, sweep: str, make_box: Callable[[str], Any]
) -> None:
    box = make_box("box-a")
    handed = hand_out(engine, "box-a")
    start = box.client.start(handed.order.run, handed.order.dispatch, box.token, NONCE)
    box.client.beat(box.token, "running", {"open": []})
    box.client.beat(box.token, "running", {"open": []})
    box.client.beat(box.token, "running", {"open": [start.attempt]})
    for _ in range(2):
        box.client.beat(box.token, "running", {"open": []})
    with begin(engine) as connection:
        assert not dispatching.read_board(connection, planned_limit=1).boxes[0].has_unnamed
    box.client.beat(box.token, "running", {"open": []})
    with begin(engine) as connection:
        assert dispatching.read_board(connection, planned_limit=1).boxes[0].has_unnamed
        assert losing.lose_attempts(connection, box="box-a", beats=None, reason="unnamed") == 1
    assert states(engine, handed.order.run) == ("planned", ["lost"], ["lost"])
    assert box.client.beat(box.token, "ready", {}).answer == "ok", "the box itself is not lost"


def test_a_box_that_registered_anew_may_still_say_that_its_earlier_attempt_has_finished(
    engine: sa.Engine, sweep: str, make_box: Callable[[str], Any]
) -> None:
    """Its record is in the journal; told by nobody, three beats that name it no more would lose the attempt."""
    box = make_box("box-a")
    handed = hand_out(engine, "box-a")
    start = box.client.start(handed.order.run, handed.order.dispatch, box.token, NONCE)
    fresh = box.client.register(Machine(machine="m", boot="b", namespace="n", pid=2), predecessor_dead=True)
    assert box.client.step(start.attempt, box.token, "finished") == "stale"
    assert box.client.step(start.attempt, fresh, "finished") == "ok"
    assert states(engine, handed.order.run) == ("started", ["done"], ["finished"])


def test_a_take_back_loses_against_a_start_and_wins_before_it(
    engine: sa.Engine, sweep: str, make_box: Callable[[str], Any]
) -> None:
    box = make_box("box-a")
    first, second = hand_out(engine, "box-a"), hand_out(engine, "box-a", slot=2)
    assert box.client.start(first.order.run, first.order.dispatch, box.token, NONCE).won
    with begin(engine) as connection:
        assert not dispatching.take_back(connection, first.dispatch_id, "too late")
        assert dispatching.take_back(connection, second.dispatch_id, "in time")
    assert not box.client.start(second.order.run, second.order.dispatch, box.token, "m" * 32).won


def test_two_open_dispatches_of_one_run_or_slot_are_impossible(
    engine: sa.Engine, sweep: str, make_box: Callable[[str], Any]
) -> None:
    make_box("box-a")
    handed = hand_out(engine, "box-a")
    for run, slot in ((handed.order.run, 2), (handed.order.run + 1, 1)):
        with pytest.raises(sa.exc.IntegrityError), begin(engine) as connection:
            connection.execute(
                sa.text("insert into dispatches (run_id, number, box, slot) values (:run, 9, 'box-a', :slot)"),
                {"run": run, "slot": slot},
            )


def test_a_box_that_was_sent_a_run_twice_and_began_nothing_is_told_that_it_is_deaf(
    engine: sa.Engine, sweep: str, make_box: Callable[[str], Any]
) -> None:
    box = make_box("box-a")
    handed = hand_out(engine, "box-a")

    def is_deaf(*sent_ago_s: int) -> bool:
        times = ", ".join(f"clock_timestamp() - interval '{ago} seconds'" for ago in sent_ago_s)
        with begin(engine) as connection:
            connection.execute(sa.text(f"update dispatches set sent_at = array[{times}]"))
        return bool(box.client.beat(box.token, "ready", {}).deaf)

    assert not is_deaf(41), "once may be a message that was lost on its way"
    assert not is_deaf(41, 9)
    assert is_deaf(41, 11)
    start = box.client.start(handed.order.run, handed.order.dispatch, box.token, NONCE)
    assert start.won
    assert not is_deaf(41, 11)
