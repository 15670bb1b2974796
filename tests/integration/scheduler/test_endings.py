"""How a followed sweep ends: rows in a file, a scorecard, and the exit code that a script reads."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa


def test_a_followed_sweep_tells_each_run_and_returns_0_when_it_is_complete(
    start: Callable[..., Any], farm: Any, wait_until: Callable[..., None]
) -> None:
    command = start("c7", "--n", "1", "--site", "x", "--site", "gmail", "--json")
    wait_until(lambda: "0 of 2" in command.err, "the first look")
    farm.end_run(farm.begin_run())
    wait_until(lambda: "1/2 x#1 ok" in command.err, "the first line")
    farm.end_run(farm.begin_run())
    assert command.end() == 0, command.err
    assert "2/2 gmail#1 ok" in command.err
    document = json.loads(command.out)
    assert (document["state"], document["families"]["ok"]) == ("finished", 2)
    assert document["scorecard"]
    assert len((command.folder.parent / document["rows"]).read_text("utf-8").splitlines()) == 2


def test_the_first_interrupt_pauses_waits_and_names_the_resume_command(
    start: Callable[..., Any], do: Callable[..., Any], farm: Any, wait_until: Callable[..., None]
) -> None:
    command = start("c7", "--n", "2", "--site", "x")
    wait_until(lambda: "0 of 2" in command.err, "the first look")
    attempt = farm.begin_run()
    command.process.terminate()
    wait_until(lambda: "no new runs; 1 running one finishes (Ctrl-C again stops now)" in command.err, "the message")
    assert farm.scalar("select order_reason from sweeps where paused_at is not null") == "interrupted"
    assert command.process.poll() is None
    farm.end_run(attempt)
    assert command.end() == 130, command.err
    sweep_id = farm.scalar("select id from sweeps")
    assert command.err.splitlines()[-1].endswith(f" resume {sweep_id}")
    assert (command.folder.parent / "results" / f"{sweep_id}.jsonl").exists()

    resumed = start("resume", sweep_id)
    wait_until(lambda: "1 of 2" in resumed.err, "the look of the resumed")
    farm.end_run(farm.begin_run())
    assert resumed.end() == 0, resumed.err
    assert farm.scalar("select count(*) from attempts") == 2

    over = do("resume", "last", "--json")
    assert over.document["state"] == "finished"
    assert f"{sweep_id} is finished" in over.err


def test_cancel_leaves_what_a_box_is_at_and_closes_the_rest(
    start: Callable[..., Any], do: Callable[..., Any], farm: Any, wait_until: Callable[..., None]
) -> None:
    do("c7", "--n", "2", "--site", "x", "--detach")
    attempt = farm.begin_run()
    command = start("cancel", "last")
    wait_until(lambda: "cancelled, 1 of 2 runs are dropped; 1 running one finishes" in command.err, "the order")
    assert farm.scalar("select string_agg(state, ' ' order by trial) from site_runs") == "started cancelled"
    assert command.process.poll() is None
    farm.end_run(attempt)
    assert command.end() == 0, command.err


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_rows_that_cant_be_written_in_the_end_cost_the_rows_alone(
    options: tuple[str, ...], start: Callable[..., Any], farm: Any, wait_until: Callable[..., None]
) -> None:
    command = start("c7", "--n", "1", "--site", "x", "--out", "away", *options)
    wait_until(lambda: "0 of 1" in command.err, "the first look")
    out = command.folder.parent / "away"
    out.rmdir()
    out.write_text("a file")
    farm.end_run(farm.begin_run())
    assert command.end() == 2
    assert "error: can't write away" in command.err
    assert "hint: write them elsewhere: bv3-grade export c7-" in command.err
    if options:
        document = json.loads(command.out)
        assert (document["rows"], document["state"]) == (None, "finished")
        assert len(document["scorecard"]["criteria"]) == 9
    else:
        assert "1 composer reach, known" in command.out
        assert "rows:" not in command.out


def test_cancelling_what_is_all_under_way_drops_nothing_and_the_sweep_finishes(
    start: Callable[..., Any], do: Callable[..., Any], farm: Any, wait_until: Callable[..., None]
) -> None:
    do("c7", "--n", "1", "--site", "x", "--detach")
    attempt = farm.begin_run()
    command = start("cancel", "last", "--json")
    wait_until(lambda: "cancelled, nothing was waiting; 1 running one finishes" in command.err, "the order")
    wait_until(lambda: "0 of 1  cancelled" in command.err, "a progress line")
    farm.box.client.step(attempt, farm.box.token, "finished")
    wait_until(lambda: "nothing runs any more; waiting for verdicts (1 to come)" in command.err, "the reason to wait")
    farm.end_run(attempt)
    assert command.end() == 0, command.err
    assert json.loads(command.out)["state"] == "finished"
    again = do("cancel", "last")
    assert again.code == 2
    assert "is finished: it takes no cancel" in again.err


def test_a_sweep_whose_runs_are_all_over_takes_no_cancel(do: Callable[..., Any], farm: Any) -> None:
    sweep_id = do("c7", "--n", "1", "--site", "x", "--detach").out.strip()
    farm.end_run(farm.begin_run())
    with farm.engine.begin() as connection:
        connection.execute(sa.text("update sweeps set finished_at = null, paused_at = now()"))
    refused = do("cancel", "last")
    assert refused.code == 2
    assert f"every run of sweep {sweep_id} is over: nothing is left to cancel" in refused.err
    assert farm.scalar("select cancelled_at from sweeps") is None
