"""The farm's arithmetic: names, rests, orders, and when it may stop."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.errors import UsageError
from infra.embedded.boxes import index_of_box, name_box
from infra.embedded.commands import read_conditions
from infra.embedded.lifetime import BLIND_FOR_S, Use, may_stop, rest_s
from infra.embedded.orders import Conditions, Orders, read_orders, write_orders
from infra.embedded.programs import stopping_order


@pytest.mark.parametrize(
    ("index", "name"),
    [(0, "box-a"), (25, "box-z"), (26, "box-aa"), (51, "box-az"), (52, "box-ba"), (701, "box-zz"), (702, "box-aaa")],
)
def test_boxes_are_named_as_columns_of_a_sheet(index: int, name: str) -> None:
    assert name_box(index) == name
    assert index_of_box(name) == index


def test_rests_grow_from_a_quarter_of_a_second_to_half_a_minute() -> None:
    rests = [rest_s(deaths) for deaths in range(1, 12)]
    assert rests == sorted(rests)
    assert rests[0] == 0.25
    assert rests[-1] == 30.0


@pytest.mark.parametrize(
    ("stays", "has_users", "has_active_sweep", "blind_for_s", "may"),
    [
        (False, False, False, 0.0, True),
        (True, False, False, 0.0, False),
        (False, True, False, 0.0, False),
        (False, False, True, 0.0, False),
        (False, False, None, 0.0, False),
        (False, False, None, BLIND_FOR_S, True),
        (True, False, None, BLIND_FOR_S, False),
    ],
)
def test_a_farm_stops_only_when_nobody_is_known_to_need_it(
    stays: bool, has_users: bool, has_active_sweep: bool | None, blind_for_s: float, may: bool
) -> None:
    use = Use(stays=stays, has_users=has_users, has_active_sweep=has_active_sweep, blind_for_s=blind_for_s)
    assert may_stop(use) is may


def test_joined_orders_satisfy_both_and_are_newer() -> None:
    before = Orders(boxes=3, full=True, number=7)
    assert before.joined(Orders(boxes=1, stays=True)) == Orders(boxes=3, full=True, stays=True, number=8)


def test_the_dispatcher_stops_first_and_the_servers_last() -> None:
    parts = ["postgres", "valkey", "dispatcher", "grader", "flower", "box-a", "box-b"]
    order = [["dispatcher"], ["box-a", "box-b"], ["grader"], ["flower"], ["postgres"], ["valkey"]]
    assert stopping_order(parts) == order


def test_a_farm_whose_boxes_meet_other_faults_is_refused_with_the_way_out() -> None:
    faulty = Conditions(faults="all", seed=1, leash_scale=0.1)
    running = Orders().joined(Orders(boxes=2, full=True, conditions=faulty))
    assert running.conditions == faulty
    assert running.joined(Orders(full=True)).conditions == faulty, "who asks for no box asks for no conditions"
    assert running.joined(Orders(boxes=3, full=True, conditions=faulty)).boxes == 3
    with pytest.raises(
        UsageError, match=r"work with faults all \(seed 1\), leashes x 0.1, .* asks for no faults"
    ) as caught:
        running.joined(Orders(boxes=1, full=True, conditions=Conditions()))
    assert "bv3-farm down" in str(caught.value.hint)


def test_orders_come_back_from_their_file_with_their_conditions(tmp_path: Path) -> None:
    orders = Orders(boxes=2, full=True, number=3, conditions=Conditions(faults="no_router", seed=9, leash_scale=0.5))
    write_orders(tmp_path / "orders.json", orders)
    assert read_orders(tmp_path / "orders.json") == orders
    write_orders(tmp_path / "orders.json", Orders())
    assert read_orders(tmp_path / "orders.json").conditions is None


def test_conditions_are_read_from_the_environment_and_a_bad_fault_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BV3_REFERENCE_FAULTS", "all")
    monkeypatch.setenv("BV3_REFERENCE_SEED", "7")
    monkeypatch.setenv("BV3_LEASH_SCALE", "0.1")
    assert read_conditions() == Conditions(faults="all", seed=7, leash_scale=0.1)
    monkeypatch.setenv("BV3_REFERENCE_FAULTS", "command_hung")
    with pytest.raises(UsageError, match="BV3_REFERENCE_FAULTS: no fault is called 'command_hung'") as caught:
        read_conditions()
    assert "did you mean command_hang?" in str(caught.value.hint)


def test_natures_are_conditions_of_the_boxes_too_and_a_bad_one_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BV3_REFERENCE_NATURES", " all:0.5 ")
    assert read_conditions() == Conditions(natures="all:0.5")
    running = Orders().joined(Orders(boxes=2, full=True, conditions=read_conditions()))
    with pytest.raises(UsageError, match=r"work with natures all:0.5 \(seed 0\), leashes x 1, .* asks for no faults"):
        running.joined(Orders(boxes=1, full=True, conditions=Conditions()))
    monkeypatch.setenv("BV3_REFERENCE_NATURES", "cookie_baner")
    with pytest.raises(UsageError, match="BV3_REFERENCE_NATURES: no nature is called 'cookie_baner'") as caught:
        read_conditions()
    assert "did you mean cookie_banner?" in str(caught.value.hint)
