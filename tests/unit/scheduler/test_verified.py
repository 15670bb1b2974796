"""Which boxes may take a sweep of verified markers, and how it is said that none may."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from broker.errors import UsageError
from broker.store.progress import BoxLine, Progress
from broker.store.standing import CheckState
from scheduler.verified import refuse_unverified, say_waiting

BOX = BoxLine(
    name="box-a",
    phase="ready",
    hold_reason=None,
    run_name=None,
    run_phase=None,
    phase_s=None,
    done=0,
    infra=0,
    last_beat_s=1.0,
    mode="dry",
    revision="21a08c23",
    check=CheckState.VERIFIED,
)
DEAD = replace(BOX, name="box-b", check=CheckState.DEAD, dead_markers=("fill_committed",))
OTHER = replace(BOX, name="box-c", check=CheckState.OTHER_CATALOGUE)
AWAITED = replace(BOX, name="box-d", check=CheckState.AWAITED)
BOOTING = replace(AWAITED, name="box-e", revision=None)


def progress(*boxes: BoxLine, **changes: Any) -> Progress:
    fields: dict[str, Any] = {
        "state": "active",
        "total": 9,
        "over": 0,
        "families": {},
        "reach": (0, 0),
        "active_attempts": 0,
        "ungraded": 0,
        "boxes": boxes,
        "fresh": (),
        "needs_verified": True,
    }
    return Progress(**(fields | changes))


def test_a_sweep_with_a_verified_box_waits_for_nothing() -> None:
    assert say_waiting(progress(BOX, DEAD)) is None
    refuse_unverified((BOX, DEAD), "dry")


def test_a_sweep_that_only_boxes_with_dead_markers_could_take_is_refused_by_name() -> None:
    with pytest.raises(UsageError) as refused:
        refuse_unverified((DEAD, OTHER), "dry")
    assert refused.value.exit_code == 2
    assert refused.value.message == (
        "the markers are verified at no box: box-b runs 21a08c23, where 1 marker is dead: fill_committed;"
        " box-c has another catalogue of markers than this farm: another bv3"
    )
    assert "--unverified" in (refused.value.hint or "")
    assert (say_waiting(progress(DEAD)) or "").startswith(
        "no box may take its runs: box-b runs 21a08c23, where 1 marker is dead: fill_committed."
    )


def test_a_box_that_has_not_checked_yet_is_waited_for() -> None:
    refuse_unverified((DEAD, AWAITED), "dry")
    assert say_waiting(progress(DEAD, AWAITED, BOOTING)) == (
        "waiting for a check of the markers: box-b runs 21a08c23, where 1 marker is dead: fill_committed;"
        " box-d has not checked the markers of 21a08c23 yet; box-e boots, and then checks the markers"
    )


@pytest.mark.parametrize(
    "unfit", [{"phase": "gone"}, {"last_beat_s": 500.0}, {"last_beat_s": None}, {"mode": "live"}], ids=str
)
def test_a_box_that_is_away_or_of_another_mode_neither_helps_nor_hinders(unfit: dict[str, Any]) -> None:
    refuse_unverified((replace(DEAD, **unfit),), "dry")
    with pytest.raises(UsageError):
        refuse_unverified((DEAD, replace(BOX, **unfit)), "dry")


def test_a_farm_without_boxes_may_be_planned_on() -> None:
    refuse_unverified((), "dry")
    assert say_waiting(progress()) is None


@pytest.mark.parametrize("changes", [{"needs_verified": False}, {"state": "paused"}, {"over": 9}], ids=str)
def test_a_sweep_that_hands_out_nothing_or_anything_waits_for_no_check(changes: dict[str, Any]) -> None:
    assert say_waiting(progress(DEAD, **changes)) is None


def test_many_dead_markers_are_counted_and_hostile_names_are_plain() -> None:
    many = replace(DEAD, revision="21a\x1b[2J\n" + "c" * 500, dead_markers=tuple(f"marker_{n}" for n in range(40)))
    with pytest.raises(UsageError, match=r"40 markers are dead: marker_0, marker_1, .* and 35 more$") as refused:
        refuse_unverified((many,), "dry")
    assert refused.value.message.isprintable()
    assert len(refused.value.message) < 300
