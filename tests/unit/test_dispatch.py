"""The dispatcher's decisions are arithmetic on a board."""

from __future__ import annotations

import pytest

from broker.store.dispatching import Board, BoxState, OpenDispatch, PlannedRun
from broker.store.standing import RecentAttempt
from scheduler.dispatch import LOST_AFTER_S, BeatWatch, RecordWatch, choose_lost, decide


def box(name: str, *dispatches: OpenDispatch, **changes: object) -> BoxState:
    fields: dict[str, object] = {
        "name": name,
        "token": f"token-{name}",
        "beats": 10,
        "phase": "ready",
        "held": None,
        "may_work": True,
        "mode": "dry",
        "released_ago_s": None,
        "has_unnamed": False,
        "dispatches": dispatches,
        "verified": True,
        "is_quarantined": False,
        "recent": (),
    }
    return BoxState(**(fields | changes))  # type: ignore[arg-type]


def dispatch(number: int, **changes: object) -> OpenDispatch:
    fields: dict[str, object] = {
        "id": number,
        "run_id": number,
        "number": 1,
        "slot": 1,
        "started": False,
        "sent_at_beat": 10,
        "sent_ago_s": 0.1,
        "sweep_stopped": False,
        "needs_verified": True,
    }
    return OpenDispatch(**(fields | changes))  # type: ignore[arg-type]


def runs(count: int, mode: str = "dry", *, needs_verified: bool = True) -> tuple[PlannedRun, ...]:
    return tuple(PlannedRun(id=100 + index, mode=mode, needs_verified=needs_verified) for index in range(count))


def test_a_box_gets_at_most_two_runs_in_order() -> None:
    handed = decide(Board(boxes=(box("a"),), planned=runs(5))).hand_out
    assert [(item.run_id, item.slot) for item in handed] == [(100, 1), (101, 2)]


def test_every_box_has_one_run_before_any_has_two() -> None:
    handed = decide(Board(boxes=(box("a"), box("b"), box("c")), planned=runs(4))).hand_out
    assert [item.box for item in handed] == ["a", "b", "c", "a"]


@pytest.mark.parametrize(
    "unfit",
    [{"may_work": False}, {"mode": "live"}, {"mode": None}, {"released_ago_s": 0.5}, {"verified": False}],
    ids=str,
)
def test_a_box_that_may_not_work_gets_nothing(unfit: dict[str, object]) -> None:
    assert decide(Board(boxes=(box("a", **unfit),), planned=runs(2))).hand_out == ()


def test_a_waiting_run_of_a_stopped_sweep_is_taken_back_and_a_started_one_is_not() -> None:
    board = Board(
        boxes=(box("a", dispatch(1, started=True, sweep_stopped=True), dispatch(2, slot=2, sweep_stopped=True)),),
        planned=(),
    )
    assert [item.dispatch_id for item in decide(board).take_back] == [2]


def test_a_waiting_run_is_taken_back_from_a_box_that_stopped_working() -> None:
    board = Board(boxes=(box("a", dispatch(1), phase="contended", may_work=False),), planned=())
    assert [item.reason for item in decide(board).take_back] == ["the box is contended"]


def recent(*buckets: str) -> tuple[RecentAttempt, ...]:
    return tuple(RecentAttempt(name=f"x#{number}", bucket=bucket) for number, bucket in enumerate(buckets, 1))


def test_three_infra_attempts_in_a_row_hold_a_box_and_take_back_what_waits_there() -> None:
    sick = box(
        "a",
        dispatch(1, started=True),
        dispatch(2, slot=2),
        recent=recent("ok", "infra_browser", "infra_box_lost", "infra_backend"),
    )
    decisions = decide(Board(boxes=(sick, box("b")), planned=runs(4)))
    said = "three infra attempts in a row: x#2 infra_browser, x#3 infra_box_lost, x#4 infra_backend"
    assert [(item.box, item.reason) for item in decisions.quarantine] == [("a", said)]
    assert [(item.dispatch_id, item.reason) for item in decisions.take_back] == [
        (2, f"the box is held, quarantined: {said}")
    ]
    assert {item.box for item in decisions.hand_out} == {"b"}, "it gets none in the same tick"
    assert decisions.send_again == ()


@pytest.mark.parametrize(
    "buckets",
    [
        ("infra_browser", "infra_browser"),
        ("infra_browser", "infra_browser", "ok"),
        ("infra_browser", "product_timeout", "infra_browser"),
        ("not_measurable", "infra_browser", "infra_browser"),
    ],
    ids=str,
)
def test_a_box_that_got_one_of_three_done_is_not_held(buckets: tuple[str, ...]) -> None:
    assert decide(Board(boxes=(box("a", recent=recent(*buckets)),), planned=())).quarantine == ()


def test_a_box_is_quarantined_once() -> None:
    held = box("a", recent=recent(*["infra_browser"] * 3), is_quarantined=True, held="quarantined: x", may_work=False)
    assert decide(Board(boxes=(held,), planned=runs(1))).quarantine == ()


def test_a_waiting_run_is_taken_back_from_a_held_box_with_the_reason() -> None:
    board = Board(boxes=(box("a", dispatch(1), held="drained: new disk", may_work=False),), planned=())
    assert [item.reason for item in decide(board).take_back] == ["the box is held, drained: new disk"]


def test_a_sweep_that_needs_no_check_goes_to_any_box_and_one_that_does_to_those_with_one() -> None:
    unverified, verified = box("a", verified=False), box("b")
    mixed = (*runs(1), *runs(1, needs_verified=False))
    handed = decide(Board(boxes=(unverified,), planned=mixed)).hand_out
    assert [(item.run_id, item.box) for item in handed] == [(mixed[1].id, "a")]
    handed = decide(Board(boxes=(unverified, verified), planned=runs(4))).hand_out
    assert [item.box for item in handed] == ["b", "b"]


def test_a_waiting_run_is_taken_back_when_its_box_is_verified_no_longer() -> None:
    waiting = dispatch(1), dispatch(2, slot=2, needs_verified=False)
    board = Board(boxes=(box("a", *waiting, verified=False),), planned=())
    assert [(item.dispatch_id, item.reason) for item in decide(board).take_back] == [
        (1, "the markers at its revision are not verified")
    ]


def test_an_idle_box_without_a_check_takes_no_run_from_a_box_with_one() -> None:
    busy = box("a", dispatch(1, started=True), dispatch(2, slot=2, sent_ago_s=2.0), phase="running")
    assert decide(Board(boxes=(busy, box("b", verified=False)), planned=())).take_back == ()
    free = box("a", dispatch(1, started=True), dispatch(2, slot=2, sent_ago_s=2.0, needs_verified=False))
    assert len(decide(Board(boxes=(free, box("b", verified=False)), planned=())).take_back) == 1


def test_an_idle_box_gets_the_run_that_waits_behind_another_at_the_end_of_a_sweep() -> None:
    busy = box("a", dispatch(1, started=True), dispatch(2, slot=2, sent_ago_s=2.0), phase="running")
    assert [item.dispatch_id for item in decide(Board(boxes=(busy, box("b")), planned=())).take_back] == [2]
    assert decide(Board(boxes=(busy, box("b")), planned=runs(1))).take_back == ()
    assert decide(Board(boxes=(busy, box("b", dispatch(3))), planned=())).take_back == ()


def test_a_message_is_sent_again_only_after_two_idle_beats_and_half_a_minute() -> None:
    def again(**changes: object) -> tuple[int, ...]:
        beats = changes.pop("beats", 12)
        phase = changes.pop("phase", "ready")
        state = box("a", dispatch(1, **changes), beats=beats, phase=phase)
        return decide(Board(boxes=(state,), planned=())).send_again

    assert again(sent_ago_s=31.0) == (1,)
    assert again(sent_ago_s=29.0) == ()
    assert again(sent_ago_s=31.0, beats=11) == ()
    assert again(sent_ago_s=31.0, phase="running") == ()
    assert again(sent_ago_s=31.0, started=True) == ()
    # never sent: Redis was away when the row was written
    assert again(sent_ago_s=1.5, sent_at_beat=None) == (1,)


def test_silence_is_counted_only_while_we_ourselves_were_watching() -> None:
    watch = BeatWatch()
    states = (box("a"),)
    assert [watch.observe(float(second), states)["a"] for second in range(31)][-1] == 30.0
    assert watch.observe(60.0, states) == {"a": 0.0}, "a pause of the watcher starts the watch anew"
    assert watch.observe(61.0, states) == {"a": 1.0}
    assert watch.observe(62.0, (box("a", beats=11),)) == {"a": 0.0}
    assert watch.observe(63.0, (box("a", beats=11, token="new"),)) == {"a": 0.0}
    watch.forget()
    assert watch.observe(63.5, (box("a", beats=11, token="new"),)) == {"a": 0.0}


def test_a_silent_box_is_lost_and_three_of_four_are_an_outage_until_ten_minutes() -> None:
    assert choose_lost({"a": LOST_AFTER_S, "b": 1.0}) == ("a",)
    assert choose_lost({"a": 50.0, "b": 50.0}) == ("a", "b")
    assert choose_lost({"a": 50.0, "b": 50.0, "c": 50.0, "d": 1.0}) == ()
    assert choose_lost({"a": 601.0, "b": 601.0, "c": 601.0, "d": 1.0}) == ("a", "b", "c")
    assert choose_lost({"a": 50.0, "b": 50.0, "c": 50.0, "d": 1.0, "e": 1.0, "f": 1.0}) == ("a", "b", "c")


def test_a_record_is_missing_after_ten_minutes_of_looking_with_nothing_waiting_for_the_grader() -> None:
    watch = RecordWatch()
    looks = [(now_s, watch.observe(float(now_s), frozenset({7}), is_empty=True)) for now_s in range(0, 605, 5)]
    assert [now_s for now_s, lost in looks if lost] == [600]


@pytest.mark.parametrize("broken_by", ["a message that waits", "our own pause", "the record"])
def test_what_breaks_the_wait_for_a_record_starts_it_anew(broken_by: str) -> None:
    watch = RecordWatch()
    for now_s in range(0, 600, 5):
        assert watch.observe(float(now_s), frozenset({7}), is_empty=True) == ()
    begun_s = 5000 if broken_by == "our own pause" else 600
    named = frozenset[int]() if broken_by == "the record" else frozenset({7})
    assert watch.observe(begun_s, named, is_empty=broken_by != "a message that waits") == ()
    assert watch.observe(begun_s + 5, frozenset({7}), is_empty=True) == ()
