"""A night of several sweeps: planned whole, worked in order, followed in turn, stopped together."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa

from broker.store.engine import begin
from broker.types import Bucket

PLANS = ["c7", "c8", "anon", "shapes"]


def work(farm: Any, runs: int) -> list[str]:
    """So many runs are done by hand, one after the other; the plan of each."""
    plans = []
    for _ in range(runs):
        attempt = farm.begin_run()
        plans.append(
            farm.scalar(
                "select s.plan from attempts a join site_runs r on r.id = a.run_id join sweeps s on s.id = r.sweep_id"
                f" where a.id = {attempt}"
            )
        )
        farm.end_run(attempt, Bucket.OK)
    return plans


def sweep_ids(farm: Any) -> list[str]:
    return str(farm.scalar("select string_agg(id, ' ' order by created_at) from sweeps")).split()


def test_a_night_is_planned_whole_and_named_in_order(do: Callable[..., Any], farm: Any) -> None:
    done = do("overnight", "--detach", "--json")
    assert [(sweep["plan"], sweep["counts"]["total"]) for sweep in done.document["sweeps"]] == [
        ("c7", 630),
        ("c8", 30),
        ("anon", 18),
        ("shapes", 75),
    ]
    assert sweep_ids(farm) == [sweep["id"] for sweep in done.document["sweeps"]]
    assert do("overnight", "--n", "1", "--detach").out.split() == sweep_ids(farm)[4:]


def test_nothing_of_a_night_is_planned_when_a_part_cant_be(do: Callable[..., Any], farm: Any) -> None:
    with begin(farm.engine) as connection:
        connection.execute(
            sa.text(
                "create function refuse() returns trigger language plpgsql as $$ begin"
                " if new.plan = 'shapes' then raise exception 'not this one'; end if; return new; end $$"
            )
        )
        connection.execute(
            sa.text("create trigger refuse before insert on sweeps for each row execute function refuse()")
        )
    with pytest.raises(sa.exc.DBAPIError, match="not this one"):
        do("overnight", "--detach")
    assert farm.scalar("select count(*) from sweeps") == 0


def test_earlier_sweeps_are_worked_first_and_each_has_its_scorecard_in_turn(
    start: Callable[..., Any], do: Callable[..., Any], farm: Any, wait_until: Callable[..., None]
) -> None:
    command = start("overnight", "--n", "1")
    wait_until(lambda: "0 of 9" in command.err, "the first look")
    known, *others = sweep_ids(farm)
    assert work(farm, 11) == ["c7"] * 9 + ["c8"] * 2
    wait_until(lambda: f"rows: results/{known}.jsonl" in command.out, "the scorecard of c7", 60)
    wait_until(lambda: "2 of 30" in command.err, "the look at c8")
    for sweep_id in others:
        assert do("cancel", sweep_id, "--detach").code == 0
    assert command.end() == 130
    assert re.findall(r"^rows: results/(\S+)\.jsonl$", command.out, re.MULTILINE) == [known, *others]


def test_an_interrupt_pauses_all_that_are_not_over_and_says_how_each_is_resumed(
    start: Callable[..., Any], farm: Any, wait_until: Callable[..., None]
) -> None:
    command = start("overnight", "--n", "1", "--json")
    wait_until(lambda: "0 of 9" in command.err, "the first look")
    attempt = farm.begin_run()
    command.process.send_signal(signal.SIGINT)
    wait_until(lambda: "no new runs; 1 running one finishes" in command.err, "the message")
    assert farm.scalar("select count(*) from sweeps where paused_at is not null") == 4
    farm.end_run(attempt)
    assert command.end() == 130
    ids = sweep_ids(farm)
    assert re.findall(r"^paused; resume: .* resume (\S+)$", command.err, re.MULTILINE) == ids
    endings = json.loads(command.out)["sweeps"]
    assert [ending["id"] for ending in endings] == ids
    assert [ending["rows"] for ending in endings] == [f"results/{ids[0]}.jsonl", None, None, None]


def test_a_second_interrupt_ends_at_once_and_names_each_that_is_left(
    start: Callable[..., Any], farm: Any, wait_until: Callable[..., None]
) -> None:
    command = start("overnight", "--n", "1")
    wait_until(lambda: "0 of 9" in command.err, "the first look")
    farm.begin_run()

    def pressed() -> bool:
        command.process.send_signal(signal.SIGINT)
        return command.process.poll() is not None

    wait_until(pressed, "the end", 30)
    assert command.end() == 130
    assert re.findall(r"^resume: .* resume (\S+)$", command.err, re.MULTILINE) == sweep_ids(farm)
    assert farm.scalar("select count(*) from sweeps where paused_at is not null") == 4
