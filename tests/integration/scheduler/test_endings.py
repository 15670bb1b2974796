"""How a followed sweep ends: rows in a file, a scorecard, and the exit code that a script reads."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any


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
    wait_until(lambda: "0 of 2" in command.out, "the first look")
    attempt = farm.begin_run()
    command.process.terminate()
    wait_until(lambda: "no new runs; 1 running one finishes (Ctrl-C again stops now)" in command.out, "the message")
    assert farm.scalar("select order_reason from sweeps where paused_at is not null") == "interrupted"
    assert command.process.poll() is None
    farm.end_run(attempt)
    assert command.end() == 130, command.err
    sweep_id = farm.scalar("select id from sweeps")
    assert command.out.splitlines()[-1].endswith(f" resume {sweep_id}")
    assert (command.folder.parent / "results" / f"{sweep_id}.jsonl").exists()

    resumed = start("resume", sweep_id)
    wait_until(lambda: "1 of 2" in resumed.out, "the look of the resumed")
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
    wait_until(lambda: "cancelled, 1 run will not be done" in command.out, "the order")
    assert farm.scalar("select string_agg(state, ' ' order by trial) from site_runs") == "started cancelled"
    assert command.process.poll() is None
    farm.end_run(attempt)
    assert command.end() == 0, command.err
