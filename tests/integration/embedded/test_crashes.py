"""What is left when something of the farm is killed, and that the next command puts it right."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest

from infra.embedded.processes import identify

Wait = Callable[..., None]
Kill = Callable[[int], None]


def test_a_killed_keeper_leaves_the_parts_running_and_the_next_one_goes_on_with_them(
    farm: Any, kill_process: Kill
) -> None:
    farm.up(boxes=2)
    parts = farm.pids()
    keeper = farm.keeper_pid()
    kill_process(keeper)
    assert farm.status()["phase"] == "unattended"
    assert {name: part["pid"] for name, part in farm.status()["parts"].items() if part["pid"]} == parts
    assert farm.up(boxes=1)["boxes"] == ["box-a", "box-b"]
    assert farm.pids() == parts
    assert farm.keeper_pid() != keeper


def test_down_stops_what_a_killed_keeper_left(farm: Any, kill_process: Kill) -> None:
    farm.up()
    kill_process(farm.keeper_pid())
    farm.down()
    assert farm.is_gone()


def test_after_everything_was_killed_down_cleans_up(farm: Any, kill_process: Kill) -> None:
    farm.up(boxes=2)
    for pid in [farm.keeper_pid(), *farm.pids().values()]:
        kill_process(pid)
    assert not farm.status()["running"]
    farm.down()
    assert farm.is_gone()


def test_after_everything_was_killed_up_works_at_once(farm: Any, kill_process: Kill) -> None:
    before = farm.up(boxes=2)
    with psycopg.connect(before["database_url"].replace("+psycopg", ""), autocommit=True) as connection:
        connection.execute("create table if not exists committed_before_the_crash (n int)")
    for pid in [farm.keeper_pid(), *farm.pids().values()]:
        kill_process(pid)
    after = farm.up()
    assert after["boxes"] == ["box-a"], "what was ordered of a farm that is gone is void"
    with psycopg.connect(after["database_url"].replace("+psycopg", "")) as connection:
        connection.execute("select from committed_before_the_crash")


def test_processes_that_nobody_recorded_are_ended_before_a_new_start(farm: Any, kill_process: Kill) -> None:
    farm.up()
    kill_process(farm.keeper_pid())
    strays = [process.pid for process in farm.marked()]
    assert set(farm.pids().values()) <= set(strays), "each part carries the mark"
    (farm.home / "farm" / "processes.json").unlink()
    farm.up_store()
    assert [pid for pid in strays if identify(pid)] == []


def test_a_recorded_pid_that_now_belongs_to_another_program_is_left_alone(farm: Any, kill_process: Kill) -> None:
    farm.up_store()
    for pid in [farm.keeper_pid(), *farm.pids().values()]:
        kill_process(pid)
    table = farm.home / "farm" / "processes.json"
    rows = json.loads(table.read_text())
    with psutil.Popen(["sleep", "60"]) as bystander:
        rows["postgres"]["pid"] = bystander.pid
        table.write_text(json.dumps(rows))
        farm.down()
        assert bystander.poll() is None
        bystander.kill()


def test_a_lock_file_whose_pid_now_belongs_to_another_program_does_not_hinder_postgres(
    farm: Any, kill_process: Kill
) -> None:
    farm.up_store()
    lock = Path(psutil.Process(farm.pids()["postgres"]).cwd()) / "postmaster.pid"
    owner = lock.stat()
    for pid in [farm.keeper_pid(), *farm.pids().values()]:
        kill_process(pid)
    _, *rest = lock.read_text().splitlines()
    with psutil.Popen(["sleep", "60"], user=owner.st_uid, cwd="/") as bystander:
        lock.write_text("\n".join([str(bystander.pid), *rest, ""]))
        farm.up_store()
        assert bystander.poll() is None
        bystander.kill()


@pytest.mark.parametrize("part", ["valkey", "postgres", "box-a"])
def test_a_killed_part_comes_back_on_its_port_and_the_others_stay(
    farm: Any, kill_process: Kill, wait_until: Wait, part: str
) -> None:
    before = farm.up()
    pids = farm.pids()
    restarts = farm.status()["parts"][part]["restarts"]
    kill_process(pids[part])
    wait_until(lambda: farm.pids().get(part, pids[part]) != pids[part] and farm.is_ready(), "the part is back")
    assert farm.status()["parts"][part]["restarts"] == restarts + 1
    assert {**farm.pids(), part: 0} == {**pids, part: 0}
    assert farm.up() == before


def test_an_interrupted_first_start_is_repaired(other_farm: Any) -> None:
    fresh = other_farm
    user = fresh.begin_joining("--store-only")
    fresh.wait_for_half_a_cluster()
    assert "making the database …" in json.loads((fresh.home / "farm" / "state.json").read_text())["steps"]
    keeper = fresh.keeper_pid()
    psutil.Process(keeper).kill()
    user.kill()
    user.communicate()
    fresh.up_store()
    assert fresh.status()["phase"] == "ready"
    cluster = Path(psutil.Process(fresh.pids()["postgres"]).cwd())
    assert [folder.name for folder in cluster.parent.glob("data*")] == ["data"], "no half of a cluster is left"


def test_a_broken_append_only_file_is_put_aside(farm: Any, kill_process: Kill, wait_until: Wait) -> None:
    farm.up()
    valkey = farm.pids()["valkey"]
    (broken,) = (farm.home / "farm" / "valkey" / "appendonlydir").glob("*.incr.aof")
    broken.write_bytes(b"*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\nno command of any kind\r\n")
    kill_process(valkey)
    wait_until(lambda: farm.pids().get("valkey", valkey) != valkey and farm.is_ready(), "Valkey serves again")
    assert (farm.home / "farm" / "valkey" / "appendonlydir.broken" / broken.name).exists()


def test_a_farm_whose_home_is_deleted_ends_itself(other_farm: Any, wait_until: Wait) -> None:
    farm = other_farm
    farm.up_store()
    pids = [farm.keeper_pid(), *(process.pid for process in farm.marked())]
    outside = farm.folder_outside()
    shutil.rmtree(farm.home)
    wait_until(lambda: not [pid for pid in pids if identify(pid)], "nothing of it is left")
    shutil.rmtree(outside, ignore_errors=True)
