"""The dispatcher against a real PostgreSQL and a real Valkey: row first, then the message."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from typing import Any

import psutil
import pytest
import redis
import sqlalchemy as sa

from broker.app import make_app
from broker.codec import from_json
from broker.errors import BrokerError
from broker.publish import Publisher
from broker.queues import queue_of_box
from broker.store import dispatching
from broker.store.engine import begin
from broker.types import RunOrder
from scheduler.dispatcher import Dispatcher


@pytest.fixture
def make_dispatcher(engine: sa.Engine) -> Iterator[Callable[[str], Dispatcher]]:
    connections: list[sa.Connection] = []

    def make(broker_url: str) -> Dispatcher:
        connections.append(engine.connect())
        return Dispatcher(connection=connections[-1], publisher=Publisher(app=make_app(broker_url)))

    yield make
    for connection in connections:
        connection.close()


def waiting(valkey: str, box: str) -> list[RunOrder]:
    with redis.Redis.from_url(valkey) as client:
        messages = client.lrange(queue_of_box(box), 0, -1)
    bodies = [json.loads(b64decode(json.loads(message)["body"])) for message in reversed(messages)]
    return [from_json(RunOrder, arguments[0]) for arguments, _, _ in bodies]


def test_a_tick_hands_each_box_its_runs_and_their_messages_carry_all_a_box_needs(
    sweep: str, make_box: Callable[[str], Any], valkey: str, make_dispatcher: Callable[[str], Dispatcher]
) -> None:
    make_box("box-a")
    make_box("box-b")
    assert make_dispatcher(valkey).tick(0.0)
    orders = [*waiting(valkey, "box-a"), *waiting(valkey, "box-b")]
    assert sorted(order.name for order in orders) == ["gmail#1", "reddit#1", "x#1"]
    assert all('"{payload}"' in order.task.prompt for order in orders)
    assert {order.sweep for order in orders} == {sweep}


def test_a_second_tick_sends_nothing_twice(
    sweep: str, make_box: Callable[[str], Any], valkey: str, make_dispatcher: Callable[[str], Dispatcher]
) -> None:
    make_box("box-a")
    dispatcher = make_dispatcher(valkey)
    for second in range(3):
        dispatcher.tick(float(second))
    assert len(waiting(valkey, "box-a")) == 2


def test_with_redis_away_the_row_stands_and_the_message_follows_when_it_is_back(
    engine: sa.Engine,
    sweep: str,
    make_box: Callable[[str], Any],
    valkey: str,
    make_dispatcher: Callable[[str], Dispatcher],
    free_port: Callable[[], int],
    wait_until: Callable[..., None],
) -> None:
    make_box("box-a")
    away = make_dispatcher(f"redis://127.0.0.1:{free_port()}/0")
    with pytest.raises(BrokerError, match=r"can't publish bv3\.run"):
        away.tick(0.0)
    with begin(engine) as connection:
        held = dispatching.read_board(connection, planned_limit=9).boxes[0].dispatches
    assert [dispatch.sent_at_beat for dispatch in held] == [None, None]

    back = make_dispatcher(valkey)

    def sent() -> bool:
        back.tick(1.0)
        return len(waiting(valkey, "box-a")) == 2

    wait_until(sent, "both messages", 10)


def command_line(process: psutil.Process) -> str:
    # a child of another test may have ended, and not be waited for yet
    with suppress(psutil.ZombieProcess, psutil.NoSuchProcess):
        return " ".join(process.cmdline())
    return ""


def test_a_redis_that_stands_still_holds_nobody_who_publishes(valkey: str) -> None:
    publisher = Publisher(app=make_app(valkey, answer_timeout_s=0.5))
    publisher.wake_grader()
    port = str(sa.make_url(valkey).port)
    server = next(child for child in psutil.Process().children() if port in command_line(child))
    with ThreadPoolExecutor(1) as other, ExitStack() as stack:
        stack.callback(server.resume)  # first of all, or a call that hangs would never end
        server.suspend()
        for call in (publisher.wake_grader, publisher.count_results):
            assert isinstance(other.submit(call).exception(timeout=10), BrokerError)
    publisher.wake_grader()


def test_an_attempt_whose_record_never_comes_is_lost_and_its_run_planned_again(
    engine: sa.Engine,
    sweep: str,
    make_box: Callable[[str], Any],
    valkey: str,
    make_dispatcher: Callable[[str], Dispatcher],
) -> None:
    box = make_box("box-a")
    dispatcher = make_dispatcher(valkey)
    dispatcher.tick(0.0)
    order = waiting(valkey, "box-a")[0]
    start = box.client.start(order.run, order.dispatch, box.token, "n" * 32)
    assert box.client.step(start.attempt, box.token, "finished") == "ok"

    def state() -> str:
        with begin(engine) as connection:
            return str(connection.scalar(sa.text("select state from attempts")))

    for second in range(10, 615, 10):
        dispatcher.tick(float(second))
        assert state() == ("finished" if second < 610 else "lost")
    with begin(engine) as connection:
        run = connection.execute(sa.text("select state, reason from site_runs where id = :id"), {"id": order.run}).one()
    assert run.reason == "infra_box_lost"
    assert run.state in {"planned", "dispatched"}


def test_a_look_at_the_boxes_does_not_read_every_dispatch_that_ever_was(engine: sa.Engine) -> None:
    """With 100,000 of them behind it and eight boxes, a look took 330 ms of the 200 between two ticks."""
    with begin(engine) as connection:
        # tables this small are read whole, unless that is forbidden
        connection.execute(sa.text("set local enable_seqscan = off"))
        plan = "\n".join(connection.scalars(sa.text(f"explain {dispatching.BOXES_QUERY}")))
    assert "ix_dispatches_released" in plan
    assert "Seq Scan on dispatches" not in plan


def test_one_dispatcher_holds_the_pen_and_the_next_gets_it_when_its_connection_ends(engine: sa.Engine) -> None:
    with engine.connect() as first:
        assert dispatching.take_pen(first)
        first.commit()
        with engine.connect() as second:
            assert not dispatching.take_pen(second)
    with engine.connect() as third:
        assert dispatching.take_pen(third)


def test_a_stopped_dispatcher_loses_lock_and_pen_together(engine: sa.Engine, wait_until: Callable[..., None]) -> None:
    """The session's own idle limit ends it, in or out of a transaction (here shortened from 15 s)."""
    with engine.connect() as stopped:
        assert dispatching.take_pen(stopped)
        assert stopped.scalar(sa.text("show idle_session_timeout")) == "15s"
        assert stopped.scalar(sa.text("show idle_in_transaction_session_timeout")) == "15s"
        stopped.execute(sa.text("set idle_in_transaction_session_timeout = '200ms'"))
        with engine.connect() as waiting_one:

            def gets_the_pen() -> bool:
                has_pen = dispatching.take_pen(waiting_one)
                waiting_one.commit()
                return has_pen

            wait_until(gets_the_pen, "the pen", 10)
        with pytest.raises(sa.exc.InternalError, match="idle-in-transaction timeout"):
            stopped.execute(sa.text("update sweeps set priority = 1"))
