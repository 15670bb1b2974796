"""The farm's arithmetic: names, rests, orders, and when it may stop."""

from __future__ import annotations

import pytest

from infra.embedded.boxes import index_of_box, name_box
from infra.embedded.lifetime import BLIND_FOR_S, Use, may_stop, rest_s
from infra.embedded.orders import Orders
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
