"""What keeps a box from its work, and what ends it: by its own word, by a check of its health, by a person."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa

from broker.holds import HoldKind
from broker.store import dispatching
from broker.store.engine import begin, with_driver
from broker.store.holds import lift_hold, place_hold, read_holds

NONCE = "n" * 32
CATALOGUE = "a" * 64
CHECK = {
    "product_revision": "21a08c23",
    "catalogue_sha256": CATALOGUE,
    "total": 97,
    "alive": 96,
    "facts": {"dead": {}, "unproven": {"reply_listed_value": "too short"}, "absent": []},
    "checked_by": "me@here",
}
RUNS = {"revision": "21a08c23", "catalogue_sha256": CATALOGUE, "tree_clean": True}


def events(engine: sa.Engine, kind: str) -> list[dict[str, Any]]:
    with begin(engine) as connection:
        return list(
            connection.scalars(sa.text("select facts from box_events where kind = :kind order by id"), {"kind": kind})
        )


def kinds(answer: Any) -> list[tuple[str, str]]:
    return [(hold.kind, hold.reason) for hold in answer.holds]


def test_a_beat_hears_the_farms_clock_and_that_nothing_holds_the_box(make_box: Callable[[str], Any]) -> None:
    box = make_box("box-a")
    answer = box.client.beat(box.token, "ready", {})
    assert answer.answer == "ok"
    assert answer.holds == ()
    assert not answer.verified
    assert answer.now is not None
    assert abs((datetime.now(UTC) - answer.now).total_seconds()) < 60


def test_a_box_drains_itself_by_its_own_word_and_ends_it_by_leaving_the_word_out(
    engine: sa.Engine, make_box: Callable[[str], Any]
) -> None:
    box, other = make_box("box-a"), make_box("box-b")
    answer = box.client.beat(box.token, "ready", {"holds": {"drained": "new disk"}})
    assert (answer.answer, kinds(answer)) == ("drain", [("drained", "new disk")])
    assert other.client.beat(other.token, "ready", {"holds": {}}).answer == "ok"
    assert kinds(box.client.beat(box.token, "ready", {})) == [("drained", "new disk")], "it did not say a word"
    box.client.beat(box.token, "ready", {"holds": {"drained": "a newer disk"}})
    assert kinds(box.client.beat(box.token, "ready", {})) == [("drained", "a newer disk")]
    assert box.client.beat(box.token, "ready", {"holds": {}}).answer == "ok"
    assert [event["reason"] for event in events(engine, "hold_placed")] == ["new disk"]
    assert len(events(engine, "hold_lifted")) == 1


def test_a_box_lifts_nothing_that_others_hold_it_for(engine: sa.Engine, make_box: Callable[[str], Any]) -> None:
    box = make_box("box-a")
    with begin(engine) as connection:
        for kind in HoldKind:
            assert place_hold(connection, "box-a", kind, f"{kind} by hand", "anna") is not None
            assert place_hold(connection, "box-a", kind, "again", "anna") is None, "one of a kind at a time"
    answer = box.client.beat(box.token, "ready", {"holds": {}})
    assert answer.answer == "hold"
    assert {kind for kind, _ in kinds(answer)} == {"breach", "quarantined", "drained"}
    assert kinds(box.client.beat(box.token, "ready", {"holds": {"drained": "mine"}}))[-1] == (
        "drained",
        "drained by hand",
    )
    box.client.beat(box.token, "ready", {"holds": {}})
    with begin(engine) as connection:
        assert len(read_holds(connection)["box-a"]) == 3
        assert lift_hold(connection, "box-a", HoldKind.DRAINED, "anna")
        assert not lift_hold(connection, "box-a", HoldKind.DRAINED, "anna")


@pytest.mark.parametrize("kind", list(HoldKind))
def test_no_run_starts_on_a_held_box_and_it_starts_when_the_hold_is_lifted(
    engine: sa.Engine, sweep: str, make_box: Callable[[str], Any], kind: HoldKind
) -> None:
    box = make_box("box-a")
    with begin(engine) as connection:
        run = dispatching.read_board(connection, planned_limit=1).planned[0]
        handed = dispatching.hand_out(connection, run_id=run.id, box="box-a", slot=1)
        assert handed is not None
        place_hold(connection, "box-a", kind, "look at it", "anna")
        assert not dispatching.read_board(connection, planned_limit=1).boxes[0].may_work
    refused = box.client.start(handed.order.run, handed.order.dispatch, box.token, NONCE)
    assert (refused.won, refused.reason) == (False, f"the box is held, {kind}: look at it")
    with begin(engine) as connection:
        lift_hold(connection, "box-a", kind, "anna")
    assert box.client.start(handed.order.run, handed.order.dispatch, box.token, NONCE).won


def test_a_hold_waits_for_a_start_under_way_and_a_start_for_the_hold(
    engine: sa.Engine, sweep: str, make_box: Callable[[str], Any]
) -> None:
    box = make_box("box-a")
    with begin(engine) as connection:
        run = dispatching.read_board(connection, planned_limit=1).planned[0]
        handed = dispatching.hand_out(connection, run_id=run.id, box="box-a", slot=1)
    assert handed is not None
    url = with_driver(box.url)
    with psycopg.connect(
        host=url.host, port=url.port, user=url.username, password=url.password, dbname=url.database
    ) as slow:
        slow.execute("select box.start(%s, %s, %s, %s)", (handed.order.run, handed.order.dispatch, box.token, NONCE))
        with pytest.raises(sa.exc.OperationalError, match="lock timeout"), begin(engine) as connection:
            connection.execute(sa.text("set local lock_timeout = '200ms'"))
            place_hold(connection, "box-a", HoldKind.DRAINED, "too late", "anna")


def test_a_passed_health_check_ends_exactly_the_quarantine_it_was_made_for(
    engine: sa.Engine, make_box: Callable[[str], Any]
) -> None:
    box, other = make_box("box-a"), make_box("box-b")
    with begin(engine) as connection:
        mine = place_hold(connection, "box-a", HoldKind.QUARANTINED, "three in a row", "dispatcher")
        drained = place_hold(connection, "box-a", HoldKind.DRAINED, "by hand", "anna")
        foreign = place_hold(connection, "box-b", HoldKind.QUARANTINED, "three in a row", "dispatcher")
    for hold, passed in ((mine, False), (drained, True), (foreign, True), (10**17, True)):
        box.client.beat(box.token, "ready", {"health": {"hold": hold, "passed": passed, "detail": "no renderer"}})
    assert len(box.client.beat(box.token, "ready", {}).holds) == 2
    assert other.client.beat(other.token, "ready", {}).answer == "hold"
    box.client.beat(box.token, "ready", {"health": {"hold": mine, "passed": True, "detail": "3.2 s"}})
    assert kinds(box.client.beat(box.token, "ready", {})) == [("drained", "by hand")]
    assert [event["passed"] for event in events(engine, "health_check")] == [False, True, True, True, True]
    assert [event["lifted"] for event in events(engine, "health_check")] == [False, False, False, False, True]
    with begin(engine) as connection:
        lifted = connection.execute(sa.text("select lifted_by, note from box_holds where id = :id"), {"id": mine}).one()
    assert tuple(lifted) == ("health check", "3.2 s")


def test_a_revision_is_verified_by_a_check_of_the_same_catalogue_without_dead_markers(
    engine: sa.Engine, make_box: Callable[[str], Any]
) -> None:
    box = make_box("box-a")
    assert not box.client.beat(box.token, "ready", RUNS).verified
    assert box.client.beat(box.token, "ready", {**RUNS, "verify": CHECK}).verified
    assert box.client.beat(box.token, "ready", {}).verified, "and from then on"
    assert not box.client.beat(box.token, "ready", {"catalogue_sha256": "b" * 64}).verified
    assert not box.client.beat(box.token, "ready", {**RUNS, "revision": "0f0f0f0f"}).verified
    assert box.client.beat(box.token, "ready", RUNS).verified
    dead = {**CHECK, "alive": 95, "facts": {"dead": {"fill_committed": "is printed nowhere"}}}
    assert not box.client.beat(box.token, "ready", {"verify": dead}).verified, "the latest check stands"
    assert [event["dead"] for event in events(engine, "markers_checked")] == [[], ["fill_committed"]]
    with begin(engine) as connection:
        rows = connection.execute(sa.text("select box, token, checked_by from marker_checks")).all()
    assert {tuple(row) for row in rows} == {("box-a", box.token, "me@here")}


def test_markers_that_the_reference_stack_does_not_print_are_not_dead(make_box: Callable[[str], Any]) -> None:
    box = make_box("box-a")
    check = {**CHECK, "alive": 60, "facts": {"dead": {}, "absent": ["router_healthy"], "unproven": {}}}
    assert box.client.beat(box.token, "ready", {**RUNS, "verify": check}).verified


def test_a_tree_with_changes_is_verified_by_a_check_of_this_registration_alone(make_box: Callable[[str], Any]) -> None:
    box = make_box("box-a")
    changed = {**RUNS, "tree_clean": False}
    assert box.client.beat(box.token, "ready", {**changed, "verify": CHECK}).verified
    again = make_box("box-a")
    assert not again.client.beat(again.token, "ready", changed).verified, "its files may be others by now"
    assert again.client.beat(again.token, "ready", RUNS).verified
    assert again.client.beat(again.token, "ready", {**changed, "verify": CHECK}).verified


HUGE = "x" * 5_000_000


@pytest.mark.parametrize(
    ("part", "facts"),
    [
        ("facts", []),
        ("facts", "drained"),
        ("facts", None),
        ("facts", {"load": HUGE}),
        ("open", {"open": 7}),
        ("open", {"open": ["seven", None, -1, 1e300]}),
        ("unacknowledged", {"unacknowledged": {"a": 1}}),
        ("events", {"events": "a lot"}),
        ("events", {"events": [1, None, "x"]}),
        ("events", {"events": [{"kind": "big", "text": HUGE}]}),
        ("events", {"events": [{"kind": "one"}] * 101}),
        ("holds", {"holds": ["drained"]}),
        ("holds", {"holds": {"drained": 7}}),
        ("holds", {"holds": {"drained": HUGE}}),
        ("health", {"health": True}),
        ("health", {"health": {"hold": "1", "passed": True}}),
        ("health", {"health": {"hold": 1e300, "passed": True}}),
        ("health", {"health": {"hold": 1.5, "passed": True}}),
        ("health", {"health": {"hold": 1, "passed": "yes"}}),
        ("health", {"health": {}}),
        ("verify", {"verify": "all alive"}),
        ("verify", {"verify": {}}),
        ("verify", {"verify": {**CHECK, "total": 1e300}}),
        ("verify", {"verify": {**CHECK, "total": 0, "alive": 0}}),
        ("verify", {"verify": {**CHECK, "alive": 98}}),
        ("verify", {"verify": {**CHECK, "alive": "96"}}),
        ("verify", {"verify": {**CHECK, "facts": [HUGE]}}),
        ("verify", {"verify": {**CHECK, "facts": {}}}),
        ("verify", {"verify": {**CHECK, "facts": {"dead": []}}}),
        ("verify", {"verify": {**CHECK, "facts": {"dead": {}, "unproven": 7}}}),
        ("verify", {"verify": {**CHECK, "product_revision": "another"}}),
        ("verify", {"verify": {**CHECK, "catalogue_sha256": "short"}}),
        ("verify", {"verify": {**CHECK, "checked_by": None}}),
    ],
)
def test_a_part_of_a_beat_that_is_wrong_is_left_out_and_told_and_the_beat_counts(
    engine: sa.Engine, make_box: Callable[[str], Any], part: str, facts: Any
) -> None:
    box = make_box("box-a")
    box.client.beat(box.token, "ready", RUNS)
    with begin(engine) as connection:
        place_hold(connection, "box-a", HoldKind.QUARANTINED, "three in a row", "dispatcher")
    url = with_driver(box.url)
    with psycopg.connect(
        host=url.host, port=url.port, user=url.username, password=url.password, dbname=url.database, autocommit=True
    ) as plain:
        for _ in range(2):
            row = plain.execute("select box.beat(%s, 'ready', %s::jsonb)", (box.token, json.dumps(facts))).fetchone()
            assert row is not None
            assert (row[0]["answer"], row[0]["verified"]) == ("hold", False)
    assert events(engine, "beat_part_ignored") == [{"parts": [part]}], "told once in a minute"
    with begin(engine) as connection:
        assert connection.scalar(sa.text("select beats from boxes")) == 4
        assert connection.scalar(sa.text("select count(*) from marker_checks")) == 0
        assert [hold.kind for hold in read_holds(connection)["box-a"]] == [HoldKind.QUARANTINED]


def test_a_phase_of_no_sense_is_cut_and_parts_that_are_null_are_not_there(
    engine: sa.Engine, make_box: Callable[[str], Any]
) -> None:
    box = make_box("box-a")
    parts = ("events", "open", "unacknowledged", "holds", "verify", "health")
    assert box.client.beat(box.token, "x" * 1000, dict.fromkeys(parts)).answer == "ok"
    assert events(engine, "beat_part_ignored") == []
    with begin(engine) as connection:
        assert connection.scalar(sa.text("select phase from boxes")) == "x" * 32


def test_text_that_no_database_takes_reaches_the_farm_without_what_it_refuses(
    engine: sa.Engine, make_box: Callable[[str], Any]
) -> None:
    box = make_box("box-a")
    event = {"kind": "odd", "title": "a\0b\ud800c", "load": float("nan"), "many": (1, [float("inf")])}
    assert box.client.beat(box.token, "ready", {"events": [event]}).answer == "ok"
    assert events(engine, "odd") == [{"title": "a\ufffdb\ufffdc", "load": None, "many": [1, [None]]}]


def test_the_parts_of_a_beat_can_not_be_called_by_a_box(make_box: Callable[[str], Any]) -> None:
    url = with_driver(make_box("box-a").url)
    calls = (
        "box.take_holds('box-b', '{}')",
        """box.take_health('box-b', '{"hold": 1, "passed": true}')""",
        "box.list_holds('box-b')",
        "box.take_verify(null, '{}')",
        "box.find_check(null, '')",
        "box.is_verified(null, '')",
    )
    with psycopg.connect(
        host=url.host, port=url.port, user=url.username, password=url.password, dbname=url.database, autocommit=True
    ) as plain:
        for call in calls:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                plain.execute(f"select {call}")
