"""Who starts a farm, who keeps it, and when it stops."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tomllib
from collections.abc import Callable
from typing import Any

import psycopg

Wait = Callable[..., None]
Kill = Callable[[int], None]

_SWEEP = """
    insert into sweeps (id, plan, suite, suite_sha256, mode, trials, requested_by)
    values ('c7-x', 'c7', 'known', '', 'dry', 1, 'a test')
"""


def test_up_status_and_down_leave_nothing_running(stopped: Any) -> None:
    farm = stopped
    first = farm.start("up", "--boxes", "2", "--json")
    address = json.loads(first.stdout)
    began, *came_up = first.stderr.splitlines()
    assert began == "starting the farm …"
    assert {"postgres ready", "flower ready", "box-b started"} <= {" ".join(line.split()[:2]) for line in came_up}
    assert farm.start("ensure", "--boxes", "2").stderr == "", "all was there"
    seen = farm.status()
    assert seen["running"]
    assert seen["phase"] == "ready"
    assert {name: part["state"] for name, part in seen["parts"].items()} == dict.fromkeys(
        ["schema", "valkey", "postgres", "dispatcher", "grader", "flower", "box-a", "box-b"], "ready"
    )
    assert seen["boxes"] == address["boxes"] == ["box-a", "box-b"]
    shown = farm.start("status").stdout
    assert seen["flower"]["url"] in shown
    assert "box-b        started" in shown
    assert json.loads(farm.start("status", "--json").stdout)["parts"].keys() == seen["parts"].keys()
    said = farm.start("down").stderr
    assert farm.is_gone()
    order = [line.split()[0] for line in said.splitlines() if " stopped " in line]
    assert order.index("dispatcher") < order.index("box-a") < order.index("grader") < order.index("flower")
    assert order[-3:] == ["flower", "postgres", "valkey"]


def test_only_what_starts_now_is_told(stopped: Any) -> None:
    farm = stopped
    farm.up_store()
    grown = farm.done("ensure", "--boxes", "1").stderr
    assert "valkey ready" in grown
    assert "postgres ready" not in grown


def test_a_command_that_comes_while_the_farm_stops_says_what_it_waits_for(stopped: Any, wait_until: Wait) -> None:
    farm = stopped
    farm.up()
    box = farm.pids()["box-a"]
    os.kill(box, signal.SIGSTOP)  # the farm's stop waits for it
    os.kill(farm.keeper_pid(), signal.SIGTERM)
    wait_until(lambda: not (farm.home / "farm.json").exists(), "it stops")
    user = farm.begin_joining("--store-only", stderr=subprocess.PIPE)
    assert user.stderr.readline() == "waiting for an earlier farm to stop:\n"
    os.kill(box, signal.SIGCONT)
    said = user.communicate("")[1].splitlines()
    again = said.index("starting the farm …")
    assert "postgres stopped" in " ".join(said[:again])
    assert "postgres ready" in " ".join(said[again:])


def test_more_boxes_than_a_farm_can_have_are_refused(farm: Any) -> None:
    refused = farm.run("ensure", "--boxes", "999")
    assert refused.returncode == 2
    assert "at most 200" in refused.stderr


def test_down_without_a_farm_says_so_and_is_content(stopped: Any) -> None:
    assert "no farm was running" in stopped.done("down").stdout
    assert stopped.run("status").returncode == 3


def test_ports_and_data_are_the_same_at_the_next_start(farm: Any) -> None:
    before = farm.up_store()
    with psycopg.connect(_plain(before["database_url"])) as connection:
        connection.execute("create table if not exists kept (n int)")
    ports = (farm.home / "farm" / "ports.json").read_text()
    farm.down()
    after = farm.up_store()
    assert after["database_url"] == before["database_url"]
    assert (farm.home / "farm" / "ports.json").read_text() == ports
    with psycopg.connect(_plain(after["database_url"])) as connection:
        connection.execute("select from kept")


def test_two_commands_at_once_share_one_farm(stopped: Any, wait_until: Wait) -> None:
    farm = stopped
    first, second = farm.begin_joining("--store-only"), farm.begin_joining("--boxes", "2")
    for user in (first, second):
        assert user.stdout is not None
        while user.stdout.readline() != "ready\n":
            assert user.poll() is None
    keeper = farm.keeper_pid()
    assert farm.status()["boxes"] == ["box-a", "box-b"]
    first.communicate("")
    assert farm.status()["phase"] == "ready"
    assert farm.keeper_pid() == keeper
    second.communicate("")
    wait_until(farm.is_gone, "the farm is gone")


def test_a_killed_command_does_not_orphan_the_farm(stopped: Any, wait_until: Wait) -> None:
    farm = stopped
    user = farm.join("--store-only")
    assert farm.status()["users"][0].startswith(f"pid {user.pid} ")
    user.kill()
    wait_until(farm.is_gone, "the farm is gone")


def test_an_active_sweep_keeps_the_farm_until_it_is_finished(stopped: Any, wait_until: Wait) -> None:
    farm = stopped
    user = farm.join("--store-only")
    address = json.loads((farm.home / "farm.json").read_text())
    with psycopg.connect(_plain(address["database_url"]), autocommit=True) as connection:
        connection.execute(_SWEEP)
        user.kill()
        user.wait()
        refused = farm.run("down")
        assert refused.returncode == 3
        assert "a sweep is active" in refused.stderr
        seen = farm.status()
        assert (seen["phase"], seen["active_sweep"], seen["users"]) == ("ready", True, [])
        connection.execute("update sweeps set finished_at = clock_timestamp()")
    wait_until(farm.is_gone, "the farm is gone")


def test_down_refuses_while_a_command_uses_the_farm_unless_forced(stopped: Any) -> None:
    farm = stopped
    user = farm.join("--store-only")
    refused = farm.run("down")
    assert refused.returncode == 3
    assert f"pid {user.pid}" in refused.stderr
    assert farm.status()["phase"] == "ready"
    farm.down(force=True)
    assert farm.is_gone()


def test_a_farm_that_was_brought_up_stays_without_users_and_stops_on_sigterm(farm: Any, wait_until: Wait) -> None:
    farm.up_store()
    user = farm.join("--store-only")
    user.communicate("")
    assert farm.status()["phase"] == "ready"
    os.kill(farm.keeper_pid(), signal.SIGTERM)
    wait_until(farm.is_gone, "the farm is gone")


def test_a_reading_command_gets_postgres_alone_and_a_farm_can_grow_from_it(stopped: Any) -> None:
    farm = stopped
    farm.join("--store-only")
    assert set(farm.pids()) == {"postgres"}
    postgres = farm.pids()["postgres"]
    assert farm.up(boxes=3)["boxes"] == ["box-a", "box-b", "box-c"]
    assert farm.pids()["postgres"] == postgres
    assert farm.up(boxes=1)["boxes"] == ["box-a", "box-b", "box-c"]


def test_a_box_is_told_its_own_login_and_ports_and_nothing_else(farm: Any) -> None:
    address = farm.up(boxes=2)
    files = [farm.home / "boxes" / name / "box.toml" for name in address["boxes"][:2]]
    boxes = [tomllib.loads(file.read_text()) for file in files]
    assert [file.stat().st_mode & 0o777 for file in files] == [0o600, 0o600]
    ports = [port for box in boxes for port in box["ports"].values()]
    assert len(set(ports)) == 8
    with psycopg.connect(_plain(boxes[0]["database_url"])) as connection:
        assert connection.execute("select session_user").fetchone() == ("box_box_a",)
        try:
            connection.execute("select from public.sweeps")
        except psycopg.errors.InsufficientPrivilege:
            pass
        else:
            raise AssertionError("a box can read the sweeps")
    environment = farm.marked_environment("box-a")
    assert "BV3_DATABASE_URL" not in environment
    assert "BV3_BROKER_URL" not in environment


def _plain(url: str) -> str:
    return url.replace("+psycopg", "")
