"""A box's life by hand, without a farm: up, status, restart, down. Real processes, the reference stack.

LIFECYCLE_ROUNDS in the environment says how often the box goes up and down, LIFECYCLE_KILLS how often something of
it is killed at a random moment, LIFECYCLE_SEED where the random numbers begin.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psutil
import pytest

from workers.events import read_events
from workers.lock import is_locked, read_folder_lock
from workers.processes import ProcessBook, identify

Wait = Callable[..., None]
PARTS = ("router", "backend", "sites", "renderer")
ROUNDS = int(os.environ.get("LIFECYCLE_ROUNDS", "2"))
KILLS = int(os.environ.get("LIFECYCLE_KILLS", "4"))
SEED = int(os.environ.get("LIFECYCLE_SEED", "20261130"))
pytestmark = [pytest.mark.xdist_group("lifecycle"), pytest.mark.timeout(300 + 60 * (ROUNDS + KILLS))]


def bring_up(box: Any) -> None:
    done = box.run("up", "dry")
    assert done.returncode == 0, f"{done.stdout}{done.stderr}{box.log}"


def test_up_status_and_down_leave_nothing_behind(box: Any) -> None:
    for _ in range(ROUNDS):
        up = box.run("up", "dry")
        assert up.returncode == 0, f"{up.stderr}{box.log}"
        assert [line.split()[0] for line in up.stderr.splitlines()] == [*PARTS]
        shown = box.run("status")
        assert shown.returncode == 0, shown.stdout
        # a path is not broken
        assert max(len(line) for line in shown.stdout.replace(str(box.folder), "…").splitlines()) <= 80
        down = box.run("down")
        assert (down.returncode, down.stderr) == (0, "")
        assert box.list_remains() == []
        assert box.run("status").returncode == 3
    again = box.run("down")
    assert again.returncode == 0
    assert box.list_remains() == []


def test_a_stand_in_that_shall_run_live_is_refused_before_anything_starts(box: Any) -> None:
    done = box.run("up", "live")
    assert done.returncode == 2
    assert "only runs dry" in done.stderr
    assert box.list_remains() == []
    assert ProcessBook(folder=box.folder).read() == ()


def test_the_status_says_what_is_and_the_commands_refuse_what_can_t_be(box: Any) -> None:
    bring_up(box)
    told = box.status()
    assert (told["state"], told["mode"], told["problems"], told["lease"]) == ("up", "dry", [], None)
    assert {part["name"]: part["health"] for part in told["parts"]} == {
        **dict.fromkeys(PARTS, "ok"),
        "supervisord": None,
    }
    assert all(psutil.pid_exists(part["pid"]) and part["memory_mb"] > 0 for part in told["parts"])
    assert told["revision"].startswith("reference-")

    again = box.run("up", "dry", "--json")
    assert again.returncode == 0
    assert json.loads(again.stdout)["was_up"] is True
    other = box.run("up", "live")
    assert other.returncode == 2
    assert "is up dry, not live" in other.stderr
    work = box.run("work")
    assert work.returncode == 2
    assert "belongs to no farm" in work.stderr
    nothing = box.run("restart", "frontend")
    assert nothing.returncode == 2
    assert "hint: its parts: router, backend, sites, renderer" in nothing.stderr

    before = box.find_part("backend")
    assert box.run("restart", "backend").returncode == 0
    after = box.find_part("backend")
    assert before.pid != after.pid
    log = box.run("logs", "backend", "-n", "100000").stdout
    assert len(re.findall(r"^\[stack\] BACKEND RESTARTED at \d\d:\d\d:\d\d$", log, re.MULTILINE)) == 1
    assert "restart_asked" in {event["kind"] for event in read_events(box.folder)}
    told = box.status()
    assert [part["restarts"] for part in told["parts"] if part["name"] == "backend"] == [1]
    assert told["problems"] == []
    assert box.run("down").returncode == 0
    assert box.list_remains() == []


def test_a_part_that_dies_is_started_again_counted_and_told_of(box: Any, wait_until: Wait) -> None:
    bring_up(box)
    for name in PARTS:
        part = box.find_part(name)
        assert part is not None
        os.kill(part.pid, signal.SIGKILL)
    wait_until(lambda: _restarts(box) == [1, 1, 1, 1] and not box.status()["problems"], "all parts again", 90)
    told = [event["part"] for event in read_events(box.folder) if event["kind"] == "part_restarted"]
    assert sorted(told) == sorted(PARTS)
    assert box.run("down").returncode == 0
    assert box.list_remains() == []


def _restarts(box: Any) -> list[int]:
    names = [item.name for item in ProcessBook(folder=box.folder).read()]
    return [names.count(name) - 1 for name in PARTS]


def test_a_dead_supervisor_is_seen_and_down_ends_what_it_left(box: Any) -> None:
    bring_up(box)
    os.kill(box.look()["pid"], signal.SIGKILL)
    told = box.run("status", "--json")
    assert told.returncode == 1
    found = json.loads(told.stdout)
    assert (found["state"], found["mode"]) == ("unattended", "dry")
    assert "the supervisor is dead" in found["problems"][0]
    assert {part["health"] for part in found["parts"] if part["name"] in PARTS} == {"ok"}
    down = box.run("down")
    assert down.returncode == 0
    assert re.search(r"ended \d+ processes that were left", down.stderr)
    assert box.list_remains() == []


def test_what_a_boot_before_recorded_is_dead_and_its_pids_are_others(box: Any) -> None:
    """As after a reboot: the book names pids that belong to others by now."""
    bring_up(box)
    supervisor = box.look()["pid"]
    os.kill(supervisor, signal.SIGKILL)
    with subprocess.Popen(["/bin/sh", "-c", "sleep 600 # python -m uvicorn backend.main:app"]) as stranger:
        book = ProcessBook(folder=box.folder)
        lines = [json.loads(line) for line in book.path.read_text().splitlines()]
        foreign = [{**line, "pid": stranger.pid, "boot": "an earlier one"} for line in lines]
        book.path.write_text("".join(json.dumps(line) + "\n" for line in [*lines, *foreign]))
        assert box.run("down").returncode == 0
        assert stranger.poll() is None
        stranger.kill()
    assert box.list_remains() == []


def test_down_never_touches_the_box_beside_it(box: Any, neighbour: Any) -> None:
    bring_up(box)
    bring_up(neighbour)
    pids = sorted(process.pid for process in neighbour.list_processes())
    assert box.run("down", "--now").returncode == 0
    assert box.list_remains() == []
    assert sorted(process.pid for process in neighbour.list_processes()) == pids
    assert neighbour.status()["problems"] == []
    assert neighbour.run("down").returncode == 0
    assert neighbour.list_remains() == []


def test_another_s_process_on_a_port_is_named_at_up_and_left_alone_at_down(box: Any, wait_until: Wait) -> None:
    port = int(re.findall(r"router = (\d+)", box.file.read_text())[0])
    words = [sys.executable, "-m", "infra.reference", "router", "--port", str(port)]
    with subprocess.Popen(words) as stranger:
        try:
            wait_until(lambda: box.list_remains() != [], "the listener")
            up = box.run("up", "dry")
            assert up.returncode == 3
            assert f"port {port} (router) of box box-life is taken" in up.stderr
            assert "hint:" in up.stderr
            down = box.run("down")
            assert down.returncode == 0
            assert f"pid {stranger.pid}" in down.stderr
            assert stranger.poll() is None
            assert box.list_processes() == []
        finally:
            stranger.kill()


def test_an_interrupted_up_ends_what_it_has_started(box: Any, wait_until: Wait) -> None:
    with box.start("up", "dry") as command:
        wait_until(lambda: box.find_part("backend") is not None, "a part", 60)
        command.send_signal(signal.SIGINT)
        _, said = command.communicate(timeout=60)
    assert command.returncode == 130
    assert "Traceback" not in said
    assert box.list_remains() == []


def test_a_box_that_is_only_being_born_is_ended_too(box: Any, wait_until: Wait) -> None:
    """`up` dies when its supervisor has just begun to import: `down` waits for it, and it does not come up later."""
    with box.start("up", "dry") as command:
        wait_until(lambda: is_locked(box.folder), "the lock", 60)
        command.kill()
    pid, name = read_folder_lock(box.folder)
    assert name == "box-life"
    assert box.run("down").returncode == 0
    assert identify(pid) is None
    assert box.list_remains() == []


def test_whatever_is_killed_at_any_moment_down_or_up_puts_it_right(box: Any) -> None:
    dice = random.Random(SEED)
    boot_s = 6.0
    for number in range(KILLS):
        victim = dice.choice(["up", "supervisor", "supervisord", *PARTS])
        began_s = time.monotonic()
        with box.start("up", "dry") as command:
            delay_s = dice.uniform(0.0, boot_s * 1.5)
            with suppress(subprocess.TimeoutExpired):
                command.wait(delay_s)
            story = f"round {number}, seed {SEED}: {victim} killed {delay_s:.2f} s after the start"
            kill(box, command, victim)
            # what it is for is seen by the next command, not by waiting for this one
            if dice.random() < 0.5:
                command.kill()
            command.communicate(timeout=120)
        if command.returncode == 0:
            boot_s = time.monotonic() - began_s
        if dice.random() < 0.5:
            up = box.run("up", "dry")
            assert up.returncode == 0, f"{story}: {up.stderr}{box.log}"
            # a part that was killed just now may be coming up again
            _await_health(box, story)
        down = box.run("down", *(["--now"] if dice.random() < 0.5 else []))
        assert down.returncode == 0, f"{story}: {down.stderr}{box.log}"
        assert box.list_remains() == [], story


def kill(box: Any, command: subprocess.Popen[str], victim: str) -> None:
    """SIGKILL for it, if it has begun."""
    pid = command.pid
    if victim != "up":
        part = box.find_part(victim)
        if part is None or not part.is_alive():
            return
        pid = part.pid
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _await_health(box: Any, story: str, timeout_s: float = 90.0) -> None:
    deadline_s = time.monotonic() + timeout_s
    while problems := box.status()["problems"]:
        assert time.monotonic() < deadline_s, f"{story}: {problems}"
