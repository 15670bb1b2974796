"""When each card is read, how often, and what a read that fails costs the others."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from broker.types import PageRead, Seen
from workers import audit
from workers.audit import AUDIT_WINDOW_S, AuditTarget, read_cards
from workers.client.errors import BackendAwayError, CommandFailedError
from workers.client.product import ProductClient

PAYLOAD = "probe x 1"
FILLED = {
    "editables": [{"text": PAYLOAD, "length": 9, "kind": "textarea"}],
    "url": "https://x.com/home",
    "frames": 1,
    "unread": 0,
    "password_form": False,
    "challenge": False,
}
EMPTY = FILLED | {"editables": []}
CLOSED = EMPTY | {"unread": 100}
LISTED = f'[1]<textbox "Comment" value="{PAYLOAD}">'
AWAY = "Execution context was destroyed"


class Clock:
    """Time that goes by only where it is waited for."""

    def __init__(self) -> None:
        self.now_s = 1_000.0

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        assert seconds >= 0
        self.now_s += seconds


class Product:
    """Answers reads of each card in turn: a page, an error at once, or nothing (None) until the caller gives up."""

    def __init__(self, clock: Clock, answers: dict[str, list[Any]]) -> None:
        self.clock = clock
        self.answers = answers

    def evaluate(self, card: str, _expression: str, *, timeout_s: float) -> str:
        assert timeout_s > 0
        answer = self.answers[card].pop(0)
        if answer is None:
            self.clock.sleep(timeout_s)
            raise BackendAwayError("no answer in time", may_have_arrived=True)
        self.clock.sleep(0.02)
        if isinstance(answer, str):
            raise CommandFailedError(answer)
        return json.dumps(answer)

    def command(self, action: str, card: str, _params: dict[str, Any], *, timeout_s: float) -> dict[str, Any]:
        assert action == "list_interactives"
        answer = self.answers[card].pop(0)
        if answer is None:
            self.clock.sleep(timeout_s)
            raise BackendAwayError("no answer in time", may_have_arrived=True)
        return {"text": answer}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The audit's clock."""
    made = Clock()
    monkeypatch.setattr(audit, "time", made)
    return made


def read(clock: Clock, answers: dict[str, list[Any]], *, late_s: float = 0.0) -> list[PageRead]:
    """The reads of these cards; every answer that was prepared must have been asked for."""
    target = AuditTarget(payload=PAYLOAD, cards=tuple(answers), after_dispatch=1, ended_s=clock.monotonic() - late_s)
    reads = read_cards(cast("ProductClient", Product(clock, answers)), target)
    assert {card: left for card, left in answers.items() if left} == {}
    assert clock.now_s <= target.deadline_s + 0.05
    return list(reads)


def test_a_page_with_an_editable_is_read_twice_and_one_without_once(clock: Clock) -> None:
    reads = read(clock, {"a": [FILLED, FILLED], "b": [EMPTY]})
    assert [(one.card, one.offset_ms) for one in reads] == [("a", 0), ("b", 20), ("a", 700)]


def test_a_page_that_was_on_its_way_elsewhere_is_read_once_it_is_there(clock: Clock) -> None:
    first, second = read(clock, {"a": [AWAY, FILLED]})
    assert (first.payload, first.error) == (Seen.COULD_NOT_LOOK, AWAY)
    assert (second.payload, second.error, second.offset_ms) == (Seen.SEEN, "", 700)


def test_a_page_that_can_not_be_read_is_tried_until_the_window_is_over_and_no_longer(clock: Clock) -> None:
    reads = read(clock, {"a": [AWAY] * 4})
    assert [one.error for one in reads] == [AWAY] * 4
    assert reads[-1].offset_ms < AUDIT_WINDOW_S * 1000


def test_a_settled_page_that_can_not_be_read_the_second_time_is_tried_again(clock: Clock) -> None:
    reads = read(clock, {"a": [FILLED, AWAY, FILLED]})
    assert [one.payload for one in reads] == [Seen.SEEN, Seen.COULD_NOT_LOOK, Seen.SEEN]


def test_a_card_that_hangs_leaves_the_next_one_its_time_and_is_not_asked_again(clock: Clock) -> None:
    reads = read(clock, {"a": [None], "b": [FILLED, FILLED]})
    assert [(one.card, one.payload) for one in reads] == [
        ("a", Seen.COULD_NOT_LOOK),
        ("b", Seen.SEEN),
        ("b", Seen.SEEN),
    ]
    assert reads[0].duration_ms == AUDIT_WINDOW_S * 1000 / 2


def test_a_card_that_hangs_alone_has_the_whole_window(clock: Clock) -> None:
    [only] = read(clock, {"a": [None]})
    assert only.duration_ms == AUDIT_WINDOW_S * 1000


def test_after_the_window_nothing_is_asked_and_each_card_says_so(clock: Clock) -> None:
    reads = read(clock, {"a": [], "b": []}, late_s=AUDIT_WINDOW_S)
    assert [(one.card, one.error) for one in reads] == [
        ("a", "the time to read the page was over"),
        ("b", "the time to read the page was over"),
    ]


def test_frames_that_can_not_be_entered_are_asked_about_once_the_page_has_settled(clock: Clock) -> None:
    first, second = read(clock, {"a": [CLOSED, CLOSED, LISTED]})
    assert (first.payload, first.frames_unread) == (Seen.COULD_NOT_LOOK, 100)
    assert (second.payload, second.payload_count, second.offset_ms) == (Seen.SEEN, 1, 700)


def test_a_listing_that_takes_all_the_time_costs_neither_read_of_the_page(clock: Clock) -> None:
    reads = read(clock, {"a": [FILLED | {"unread": 100}, FILLED | {"unread": 100}, None]})
    assert [(one.payload, one.payload_count, one.frames_unread) for one in reads] == [(Seen.SEEN, 1, 100)] * 2
    assert reads[1].offset_ms == 700


@pytest.mark.parametrize(
    "bent",
    [
        [],
        {},
        {"editables": "[]"},
        {"editables": ["x"]},
        {"editables": [{}]},
        {"editables": [{"text": None}]},
        {"editables": [{"text": PAYLOAD, "length": "9"}]},
        {"editables": [{"text": PAYLOAD, "frame": 1.5}]},
        EMPTY | {"echoes": {"0": PAYLOAD}},
        EMPTY | {"echoes": [None]},
        EMPTY | {"unread": "none"},
        EMPTY | {"frames": None},
        EMPTY | {"skipped": [1]},
        EMPTY | {"title": {}},
    ],
)
def test_a_page_that_bends_its_answer_costs_its_own_read_and_no_other(clock: Clock, bent: Any) -> None:
    reads = read(clock, {"a": [FILLED, bent, FILLED], "b": [FILLED, FILLED]})
    assert [one.payload for one in reads if one.card == "b"] == [Seen.SEEN, Seen.SEEN]
    first, second, third = (one for one in reads if one.card == "a")
    assert [one.payload for one in (first, second, third)] == [Seen.SEEN, Seen.COULD_NOT_LOOK, Seen.SEEN]
    assert second.error.startswith("the page's answer has no such form")


def test_an_answer_nested_beyond_reason_is_no_answer(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Product, "evaluate", lambda *_, **__: "[" * 200_000)
    reads = read(clock, {"a": []})
    assert {one.payload for one in reads} == {Seen.COULD_NOT_LOOK}
