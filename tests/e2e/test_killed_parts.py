"""Any part may die at any moment: every planned run is closed, every attempt has one verdict that counts."""

from __future__ import annotations

import json
import os
import re
import signal
from collections import Counter
from typing import Any

import pytest
import redis

pytestmark = [pytest.mark.xdist_group("farm"), pytest.mark.timeout(300)]

# In this order, one after each fourth finished run. The last two lose what only Redis knew.
VICTIMS = ("postgres", "box-a", "grader", "dispatcher", "valkey")


def kill(farm: Any, part: str) -> None:
    parts = json.loads((farm.home / "farm" / "processes.json").read_text("utf-8"))
    os.kill(parts[part]["pid"], signal.SIGKILL)


def test_a_sweep_survives_the_death_of_each_part_and_the_loss_of_all_that_redis_held(standing_farm: Any) -> None:
    farm = standing_farm
    victims = list(VICTIMS)
    sweep = farm.start("scheduler.cli", "c7", "--n", "4")
    assert sweep.stdout is not None
    output = []
    for line in sweep.stdout:
        output.append(line)
        done = re.match(r"(\d+)/36 ", line)
        if done and victims and int(done.group(1)) >= 4 * (len(VICTIMS) - len(victims) + 1):
            part = victims.pop(0)
            if part == "valkey":
                with redis.Redis.from_url(farm.address["broker_url"]) as client:
                    client.flushall()
            kill(farm, part)
    told = "".join(output)
    assert sweep.wait(timeout=30) == 0, told
    assert victims == [], told

    name = re.search(r"c7-\d{8}T\d{6}Z-\w{4}", told)
    assert name, told
    of_sweep = f"where r.sweep_id = '{name.group()}'"
    runs = farm.query(f"select r.state, count(*) from site_runs r {of_sweep} group by 1")
    assert runs == [("closed", 36)]
    verdicts = farm.query(
        "select count(v.id) from site_runs r join attempts a on a.run_id = r.id"
        f" left join verdicts v on v.attempt_id = a.id and v.counts {of_sweep} group by a.id"
    )
    assert Counter(verdicts) == {(1,): len(verdicts)}
    buckets = Counter(row["bucket"] for row in farm.exported(name.group()))
    assert (buckets["ok"], buckets["not_measurable"]) == (24, 12), buckets
    assert all(bucket.startswith("infra_") for bucket in set(buckets) - {"ok", "not_measurable"}), buckets
    assert buckets.total() == len(verdicts) >= 36
