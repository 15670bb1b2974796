"""A box of a farm by hand: up without work, put to work, rested, ended. The tests follow one another."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from workers.control import ask
from workers.events import read_events
from workers.lock import bind_host_lock

ROOT = Path(__file__).resolve().parents[4]
pytestmark = pytest.mark.xdist_group("lifecycle_farm")


def run(box: Any, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "workers.cli", *words, "--box", str(box.file)],
        capture_output=True, text=True, cwd=ROOT, check=False, timeout=150,
    )  # fmt: skip


@pytest.fixture(scope="module")
def box(farm: Any) -> Iterator[Any]:
    """A box of a farm whose dispatcher runs."""
    farm.dispatch()
    made = farm.add_box("box-life")
    try:
        yield made
    finally:
        run(made, "down", "--now")


def bring_to_work(box: Any, wait_until: Any) -> None:
    """The box is ready for runs, whatever the test before left."""
    up = run(box, "up", "dry", "--work")
    assert up.returncode == 0, up.stderr
    wait_until(lambda: look(box)["phase"] == "ready", "ready", 60)


def look(box: Any) -> dict[str, Any]:
    seen = ask(box.folder, "look")
    assert seen is not None
    return seen


def test_a_box_that_is_up_is_given_nothing_until_it_works(farm: Any, box: Any, wait_until: Any) -> None:
    up = run(box, "up", "dry")
    assert up.returncode == 0, up.stderr
    wait_until(lambda: farm.phase_of("box-life") == "up", "the phase up", 20)
    sweep = farm.add_sweep("x")
    beats = farm.ask("select beats from boxes where name = 'box-life'")[0].beats
    wait_until(lambda: farm.ask("select beats from boxes where name = 'box-life'")[0].beats > beats + 1, "beats", 20)
    assert farm.ask("select count(*) from dispatches")[0][0] == 0
    again = run(box, "up", "dry", "--work")
    assert again.returncode == 0, again.stderr
    assert again.stdout == "box box-life was up already, dry, and works its queue\n"
    wait_until(lambda: len(farm.records_of(sweep)) == 1, "the record", 90)
    assert farm.records_of(sweep)[0].errors == ()
    told = json.loads(run(box, "status", "--json").stdout)
    assert (told["state"], told["works"], told["problems"]) == ("ready", True, [])
    assert told["lease"]["answered_s_ago"] < 15
    facts = farm.ask("select facts from boxes where name = 'box-life'")[0].facts
    assert facts["revision"] == told["revision"]
    assert facts["consumer_age_s"] < 30


def test_the_markers_of_what_runs_are_checked_once_and_registered(farm: Any, box: Any, wait_until: Any) -> None:
    wait_until(lambda: farm.ask("select count(*) from marker_checks")[0][0] == 1, "a check", 90)
    [row] = farm.ask("select product_revision, alive, total from marker_checks")
    assert row.product_revision == json.loads(run(box, "status", "--json").stdout)["revision"]
    assert 0 < row.alive <= row.total


def test_work_by_hand_is_followed_and_ctrl_c_leaves_the_stack_up(farm: Any, box: Any, wait_until: Any) -> None:
    bring_to_work(box, wait_until)
    second = run(box, "work")
    assert second.returncode == 3
    assert f"pid {look(box)['pid']}" in second.stderr
    ask(box.folder, "rest")
    wait_until(lambda: look(box)["phase"] == "up", "rest", 30)
    command = subprocess.Popen(
        [sys.executable, "-m", "workers.cli", "work", "--box", str(box.file)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT, start_new_session=True,
    )  # fmt: skip
    with command:
        wait_until(lambda: look(box)["phase"] == "ready", "ready", 60)
        sweep = farm.add_sweep("x", trials=4)
        wait_until(lambda: look(box)["run"] is not None, "a run", 60)
        command.send_signal(signal.SIGINT)
        _, said = command.communicate(timeout=90)
    assert command.returncode == 130
    assert "ready" in said.splitlines()
    assert any(f"{sweep} x#1: wait" in line for line in said.splitlines()), said
    assert look(box)["phase"] == "up"
    assert json.loads(run(box, "status", "--json").stdout)["problems"] == []
    wait_until(lambda: len(farm.records_of(sweep)) == 1, "the record of the run that was finished", 30)
    assert farm.records_of(sweep)[0].errors == ()
    farm.cancel(sweep)


def test_a_drained_box_says_so_and_rejoins(farm: Any, box: Any, wait_until: Any) -> None:
    bring_to_work(box, wait_until)
    assert run(box, "drain", "--reason", "new disk").returncode == 0
    wait_until(lambda: look(box)["holds"] != [], "the hold", 20)
    told = json.loads(run(box, "status", "--json").stdout)
    assert told["state"] == "held"
    assert [(hold["kind"], hold["reason"]) for hold in told["held"]] == [("drained", "new disk")]
    assert run(box, "resume").returncode == 0
    wait_until(lambda: look(box)["holds"] == [], "no hold", 20)
    kinds = [event["kind"] for event in read_events(box.folder)]
    assert kinds.count("held") == kinds.count("lifted") == 1


def test_a_quarantined_box_is_tried_by_itself_and_rejoins(farm: Any, box: Any, wait_until: Any) -> None:
    farm.ask(
        "insert into box_holds (box, kind, reason, held_by)"
        " values ('box-life', 'quarantined', 'three in a row', 'test') returning id"
    )
    wait_until(lambda: [hold["kind"] for hold in look(box)["holds"]] == ["quarantined"], "the hold", 20)
    assert json.loads(run(box, "status", "--json").stdout)["state"] == "held"
    lifted = "select count(*) from box_holds where kind = 'quarantined' and lifted_by = 'health check'"
    wait_until(lambda: farm.ask(lifted)[0][0] == 1, "the health check", 120)
    wait_until(lambda: look(box)["holds"] == [], "no hold", 20)
    [event] = [event for event in read_events(box.folder) if event["kind"] == "health_checked"]
    assert event["passed"] == "true"


def test_down_finishes_the_running_run_and_leaves_nothing(farm: Any, box: Any, wait_until: Any) -> None:
    bring_to_work(box, wait_until)
    sweep = farm.add_sweep("x", trials=12)
    wait_until(lambda: look(box)["run"] is not None, "a run", 60)
    down = run(box, "down")
    assert down.returncode == 0, down.stderr
    assert re.fullmatch(r"finishing .+ first; --now does not\n", down.stderr)
    assert {record.errors for record in farm.records_of(sweep)} == {()}
    assert len(farm.records_of(sweep)) < 12
    assert box.list_processes() == []
    wait_until(lambda: farm.phase_of("box-life") == "gone", "gone", 20)
    farm.cancel(sweep)


def test_down_now_ends_a_run_at_once(farm: Any, box: Any, wait_until: Any) -> None:
    bring_to_work(box, wait_until)
    sweep = farm.add_sweep("x", trials=4)
    wait_until(lambda: look(box)["run"] is not None, "a run", 60)
    # so that the run can't end by itself
    os.kill(box.find_part("renderer").pid, signal.SIGSTOP)
    begun = time.monotonic()
    assert run(box, "down", "--now").returncode == 0
    assert time.monotonic() - begun < 40
    assert box.list_processes() == []
    farm.cancel(sweep)


def test_two_boxes_on_one_host_lock_are_told_apart_by_name_within_seconds(
    farm: Any, tmp_path: Path, wait_until: Any
) -> None:
    """With isolation host the lock is the machine's: here it is held by whoever has this block of ports."""
    first = farm.add_box("box-lock-a")
    with first.file.open("a") as file:
        file.write("")
    assert run(first, "up", "dry").returncode == 0
    second = farm.add_box("box-lock-b")
    same_port = f"backend = {first.read_port('backend')}"
    second.file.write_text(second.file.read_text().replace(f"backend = {second.read_port('backend')}", same_port))
    try:
        begun = time.monotonic()
        refused = run(second, "up", "dry")
        took_s = time.monotonic() - begun
        assert refused.returncode == 3
        assert f"box box-lock-a, folder {first.folder}, pid {look(first)['pid']}" in refused.stderr
        assert took_s < 60
        # the refusal itself takes no time: the rest is a Python's start on a busy machine
        begun = time.monotonic()
        with pytest.raises(Exception, match="box box-lock-a"):
            bind_host_lock(f"bv3-stack-{first.read_port('backend')}")
        assert time.monotonic() - begun < 5
        assert json.loads(run(first, "status", "--json").stdout)["problems"] == []
    finally:
        assert run(first, "down").returncode == 0
        assert run(second, "down").returncode == 0
    assert first.list_processes() == []
