"""A box that spoils its runs, is drained or runs what nobody has verified: what the dispatcher and the commands do."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from broker.app import make_app
from broker.markers import name_catalogue
from broker.publish import Publisher
from broker.store import dispatching
from broker.store.engine import begin
from broker.store.holds import read_holds
from broker.store.standing import read_recent
from broker.types import Bucket
from scheduler.dispatcher import Dispatcher

Do = Callable[..., Any]


@pytest.fixture
def tick(engine: sa.Engine, valkey: str) -> Iterator[Callable[[], None]]:
    """One look of the dispatcher."""
    with engine.connect() as connection:
        dispatcher = Dispatcher(connection=connection, publisher=Publisher(app=make_app(valkey)))

        def look() -> None:
            dispatcher.tick(0.0)

        yield look


def waiting(farm: Any) -> int:
    return int(farm.scalar("select count(*) from dispatches where state = 'open'"))


def fail(farm: Any, bucket: Bucket = Bucket.INFRA_BROWSER) -> None:
    farm.end_run(farm.begin_run(), bucket)


def test_three_infra_attempts_in_a_row_hold_the_box_until_its_check_has_passed(
    do: Do, farm: Any, tick: Callable[[], None]
) -> None:
    sweep = do("c7", "--n", "3", "--site", "x", "--site", "reddit", "--detach").out.strip()
    fail(farm, Bucket.OK)
    for _ in range(2):
        fail(farm)
    tick()
    assert waiting(farm) == 2, "two are no reason"
    # what it handed out is taken back: here runs are begun by hand
    with begin(farm.engine) as connection:
        for dispatch in connection.scalars(sa.text("select id from dispatches where state = 'open'")).all():
            dispatching.take_back(connection, dispatch, "test")
    fail(farm, Bucket.INFRA_BACKEND)
    tick()
    assert waiting(farm) == 0
    with begin(farm.engine) as connection:
        (hold,) = read_holds(connection)["box-a"]
    assert (hold.kind, hold.held_by) == ("quarantined", "dispatcher")
    assert hold.reason.startswith("three infra attempts in a row: ")
    assert hold.reason.count("infra_browser") == 2
    assert hold.reason.endswith("infra_backend")
    shown = do("status", sweep)
    assert " box-a    held      quarantined" in shown.out
    assert "ends by a health check that passes on the box" in shown.out
    tick()
    assert farm.scalar("select count(*) from box_holds") == 1
    farm.box.client.beat(farm.box.token, "ready", {"health": {"hold": hold.id, "passed": True, "detail": "3.2 s"}})
    tick()
    assert waiting(farm) == 2
    assert farm.scalar("select count(*) from box_holds where lifted_at is null") == 0, "it counts anew from here on"


def test_late_records_and_second_looks_at_a_verdict_hold_no_box(do: Do, farm: Any) -> None:
    do("c7", "--n", "3", "--site", "x", "--detach")
    for bucket in (Bucket.OK, Bucket.INFRA_BROWSER, Bucket.INFRA_BROWSER):
        fail(farm, bucket)
    with begin(farm.engine) as connection:
        connection.execute(
            sa.text(
                "insert into verdicts (attempt_id, grader_version, bucket, rule, detail, counts)"
                " select a.id, v.version, 'infra_router', 'r', '', v.counts from attempts a,"
                " (values (998, true), (999, false)) v (version, counts) where a.box = 'box-a'"
            )
        )
        recent = read_recent(connection)["box-a"]
    assert [attempt.bucket for attempt in recent] == ["ok", "infra_browser", "infra_browser"]
    assert [attempt.name for attempt in recent] == ["x#1", "x#2", "x#2 attempt 2"]


def test_a_drained_box_gives_back_what_waits_and_finishes_what_runs(
    do: Do, farm: Any, tick: Callable[[], None]
) -> None:
    sweep = do("c7", "--n", "3", "--site", "x", "--detach").out.strip()
    attempt = farm.begin_run()
    tick()
    assert waiting(farm) == 1
    answer = farm.box.client.beat(farm.box.token, "running", {"open": [attempt], "holds": {"drained": "new disk"}})
    assert answer.answer == "drain"
    tick()
    assert waiting(farm) == 0
    assert farm.scalar("select reason from dispatches where state = 'taken_back'") == (
        "the box is held, drained: new disk"
    )
    document = json.loads(do("status", sweep, "--json").out)
    (box,) = document["boxes"]
    (hold,) = box["holds"]
    assert (hold["kind"], hold["reason"], hold["ends_by"]) == ("drained", "new disk", "bv3-box resume, on the box")
    assert (box["hold_reason"], box["check"], box["revision"]) == ("new disk", "verified", "21a08c23")
    assert farm.box.client.step(attempt, farm.box.token, "finished") == "ok"
    farm.box.client.beat(farm.box.token, "ready", {"holds": {}})
    tick()
    assert waiting(farm) == 2


@pytest.mark.parametrize("phase", ["up", "starting", "contended", "draining", "gone"])
def test_a_box_that_does_not_work_its_queue_is_given_nothing(
    do: Do, farm: Any, tick: Callable[[], None], phase: str
) -> None:
    do("c7", "--n", "3", "--site", "x", "--detach")
    farm.box.client.beat(farm.box.token, phase, {"detail": "foreign_port"})
    tick()
    assert waiting(farm) == 0
    farm.box.client.beat(farm.box.token, "ready", {})
    tick()
    assert waiting(farm) == 2
    farm.box.client.beat(farm.box.token, phase, {})
    tick()
    assert waiting(farm) == 0


def check_markers(farm: Any, dead: dict[str, str]) -> None:
    check = {"product_revision": "21a08c23", "catalogue_sha256": name_catalogue(), "checked_by": "test"}
    facts = {"verify": {**check, "total": 9, "alive": 9 - len(dead), "facts": {"dead": dead}}}
    assert farm.box.client.beat(farm.box.token, "ready", facts).verified is not bool(dead)


def test_a_revision_with_dead_markers_is_refused_by_name_unless_it_is_asked_for(
    do: Do, farm: Any, tick: Callable[[], None]
) -> None:
    planned = do("c7", "--n", "1", "--site", "x", "--detach").out.strip()
    check_markers(farm, {"fill_committed": "is printed nowhere"})
    refused = do("c7", "--n", "1", "--site", "x", "--detach")
    assert refused.code == 2
    assert "box-a runs 21a08c23, where 1 marker is dead: fill_committed" in refused.err
    assert "--unverified" in refused.err
    assert farm.scalar("select count(*) from sweeps") == 1, "nothing was written"
    tick()
    assert waiting(farm) == 0
    assert "no box may take its runs: box-a runs 21a08c23" in " ".join(do("status", planned).out.split())
    anyhow = do("c7", "--n", "1", "--site", "x", "--unverified", "--detach").out.strip()
    assert json.loads(do("status", anyhow, "--json").out)["unverified"] is True
    assert "no box may take" not in do("status", anyhow).out
    tick()
    assert farm.scalar("select sweep_id from site_runs where state = 'dispatched'") == anyhow
    check_markers(farm, {})
    tick()
    assert waiting(farm) == 2


def test_a_sweep_that_waits_for_a_check_does_not_stand_before_one_that_needs_none(
    do: Do, farm: Any, tick: Callable[[], None]
) -> None:
    do("c7", "--n", "99", "--site", "x", "--detach")
    do("c7", "--n", "1", "--site", "x", "--unverified", "--detach")
    check_markers(farm, {"ready": "is printed nowhere"})
    tick()
    assert waiting(farm) == 1
