"""`bv3-schedule` as a process against a real PostgreSQL and Valkey: what it writes, says and returns."""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Callable
from typing import Any

import pytest

from broker.suites import load_suite


def test_a_detached_sweep_is_planned_whole_and_named(start: Callable[..., Any], farm: Any) -> None:
    command = start("c7", "--detach")
    assert command.end() == 0, command.err
    sweep_id = farm.scalar("select id from sweeps")
    assert command.out == f"{sweep_id}\n"
    first, second = command.err.splitlines()
    assert first == f"{sweep_id}: known suite x 12, dry, 108 site-runs"
    assert second.startswith("follow it: ")
    assert second.endswith(f" follow {sweep_id}")
    assert farm.scalar("select count(*) from site_runs where state = 'planned'") == 108
    assert farm.scalar("select params ->> 'suite_version' from sweeps") == str(load_suite("known").version)


def test_sweeps_are_listed_newest_first_and_found_by_prefix(do: Callable[..., Any]) -> None:
    first = do("c7", "--n", "1", "--site", "x", "--detach", "--json").document["id"]
    second = do("c7", "--n", "1", "--site", "gmail", "--detach", "--json").document["id"]
    assert [sweep["id"] for sweep in do("list", "--json").document] == [second, first]
    assert do("status", "last", "--json").document["sites"] == ["gmail"]
    assert do("status", first[:-1], "--json").document["id"] == first
    ambiguous = do("status", "c7-")
    assert ambiguous.code == 2
    assert "error: 'c7-' fits more than one sweep" in ambiguous.err
    assert "…" not in ambiguous.err
    nameless = do("status", "")
    assert (nameless.code, nameless.err.splitlines()[0]) == (2, "error: say which sweep")


def test_a_detached_cancel_and_what_it_forbids(do: Callable[..., Any], farm: Any) -> None:
    do("c7", "--n", "2", "--site", "x", "--detach")
    farm.begin_run()
    cancelled = do("cancel", "last", "--detach")
    assert cancelled.code == 0
    assert "cancelled, 1 of 2 runs are dropped; 1 running one finishes" in cancelled.err
    assert farm.scalar("select string_agg(state, ' ' order by trial) from site_runs") == "started cancelled"
    for command, error in [("resume", "was cancelled: it can't be resumed"), ("cancel", "is cancelled: it takes no")]:
        again = do(command, "last")
        assert again.code == 2
        assert error in again.err


def test_the_second_interrupt_ends_at_once_and_leaves_the_sweep_paused(
    start_on_terminal: Callable[..., Any], farm: Any, wait_until: Callable[..., None]
) -> None:
    terminal = start_on_terminal("c7", "--n", "2", "--site", "x")
    wait_until(lambda: terminal.shows("0 of 2"), "the first look")
    farm.begin_run()
    terminal.press_ctrl_c()
    wait_until(lambda: terminal.shows("1 running one finishes"), "the message")

    def pressed_again() -> bool:
        # Signals that follow each other too fast for a hand are one press: send until one is another.
        # Not by the terminal's key: it throws away what was not read yet.
        terminal.process.send_signal(signal.SIGINT)
        return terminal.process.poll() is not None

    wait_until(pressed_again, "the end", 10)
    assert terminal.process.returncode == 130
    assert terminal.shows("stopping now; what boxes are at, they finish")
    assert terminal.shows("resume: ")
    assert farm.scalar("select count(*) from sweeps where paused_at is not null") == 1


def test_a_terminal_shows_a_block_of_boxes_and_a_hang_up_detaches(
    start_on_terminal: Callable[..., Any], farm: Any, wait_until: Callable[..., None]
) -> None:
    terminal = start_on_terminal("c7", "--n", "1", "--site", "x", "--site", "gmail")
    wait_until(lambda: terminal.shows("0 of 2"), "the first look")
    farm.begin_run()
    wait_until(lambda: terminal.shows(" box-a    ready     x#1"), "the box's line")
    assert terminal.shows("░" * 72)
    terminal.hang_up()
    assert terminal.process.wait(10) == 0
    assert farm.scalar("select count(*) from sweeps where paused_at is null and finished_at is null") == 1


def test_ctrl_c_while_following_stops_the_looking_and_not_the_sweep(
    start: Callable[..., Any], do: Callable[..., Any], farm: Any, wait_until: Callable[..., None]
) -> None:
    do("c7", "--n", "1", "--site", "x", "--detach")
    command = start("follow", "last")
    wait_until(lambda: "0 of 1" in command.err, "the first look")
    command.process.send_signal(signal.SIGINT)
    assert command.end(10) == 130
    assert "the sweep goes on; look again: " in command.err
    assert farm.scalar("select count(*) from sweeps where paused_at is null") == 1


def test_a_database_that_goes_away_is_told_and_waited_for(
    start: Callable[..., Any], farm: Any, road: Any, wait_until: Callable[..., None]
) -> None:
    command = start("c7", "--n", "1", "--site", "x", BV3_DATABASE_URL=road.url)
    wait_until(lambda: "0 of 1" in command.err, "the first look")
    road.cut()
    wait_until(lambda: "the farm is away: PostgreSQL" in command.err, "the message")
    attempt = farm.begin_run()
    road.mend()
    wait_until(lambda: "the farm is back after" in command.err, "its return")
    farm.end_run(attempt)
    wait_until(lambda: "1/1 x#1 ok" in command.err, "the run's line")


@pytest.mark.parametrize("away", ["BV3_DATABASE_URL", "BV3_BROKER_URL"])
def test_a_service_that_is_away_is_named_within_5_s_and_nothing_is_written(
    away: str, do: Callable[..., Any], farm: Any, free_port: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    scheme = {"BV3_DATABASE_URL": "postgresql://bv3:secret", "BV3_BROKER_URL": "redis://:secret"}[away]
    monkeypatch.setenv(away, f"{scheme}@127.0.0.1:{free_port()}/1")
    began_s = time.monotonic()
    answer = do("c7")
    assert time.monotonic() - began_s < 5
    assert answer.code == 3
    assert answer.err.startswith(f"error: {'Redis' if 'BROKER' in away else 'PostgreSQL'} at 127.0.0.1:")
    assert f"hint: check {away}" in answer.err
    assert "secret" not in answer.err
    assert farm.scalar("select count(*) from sweeps") == 0


def test_a_service_that_takes_connections_and_never_answers_is_named_within_5_s(
    do: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        monkeypatch.setenv("BV3_DATABASE_URL", f"postgresql://bv3@127.0.0.1:{deaf.getsockname()[1]}/x")
        began_s = time.monotonic()
        answer = do("c7")
    assert time.monotonic() - began_s < 5
    assert answer.code == 3
    assert answer.err.startswith("error: PostgreSQL did not answer within")


def test_ctrl_c_before_the_farm_is_there_says_that_nothing_was_planned(start: Callable[..., Any]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        command = start("c7", BV3_DATABASE_URL=f"postgresql://bv3@127.0.0.1:{deaf.getsockname()[1]}/x")
        connection, _ = deaf.accept()
        command.process.send_signal(signal.SIGINT)
        assert command.end() == 130
        connection.close()
    assert command.err == "error: interrupted; nothing was planned\n"


def test_a_process_whose_check_is_stuck_ends_all_the_same(start: Callable[..., Any]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        command = start("list", BV3_DATABASE_URL=f"postgresql://bv3@127.0.0.1:{deaf.getsockname()[1]}/x")
        assert command.end() == 3
    assert "Traceback" not in command.err


def test_a_database_without_our_tables_is_no_farm(
    do: Callable[..., Any], empty_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BV3_DATABASE_URL", empty_database)
    answer = do("list")
    assert answer.code == 3
    assert "has no bv3 tables" in answer.err
