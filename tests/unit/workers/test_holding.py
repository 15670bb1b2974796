"""The box's own word, and what the farm says beside it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from broker.errors import UsageError
from broker.holds import HoldKind, say_what_ends
from broker.store.box_client import BeatAnswer, Hold
from workers.holding import LONGEST_REASON, Holding, drain, read_drained, read_told, resume

OK = BeatAnswer(answer="ok")
QUARANTINED = BeatAnswer(answer="hold", holds=(Hold(id=7, kind="quarantined", reason="x#1 infra_browser"),))


class Clock:
    """A clock that the test moves."""

    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def test_a_drained_box_says_so_until_it_is_resumed_whether_or_not_a_supervisor_lives(tmp_path: Path) -> None:
    folder = tmp_path / "box"
    assert read_drained(folder) is None
    drain(folder, "  new disk\n on Monday ")
    assert read_drained(folder) == "new disk on Monday"
    assert Holding(folder).describe() == {"holds": {"drained": "new disk on Monday"}}
    assert [(hold.kind, hold.reason) for hold in Holding(folder).holds] == [("drained", "new disk on Monday")]
    drain(folder, "a newer one")
    assert read_drained(folder) == "a newer one"
    assert resume(folder)
    assert not resume(folder)
    assert Holding(folder).describe() == {"holds": {}}
    assert Holding(folder).holds == ()


@pytest.mark.parametrize("reason", ["", " \n", "a\x1b[2Jb", "x" * (LONGEST_REASON + 1)])
def test_a_reason_that_nobody_could_read_is_refused_and_drains_nothing(tmp_path: Path, reason: str) -> None:
    with pytest.raises(UsageError, match="reason"):
        drain(tmp_path, reason)
    assert read_drained(tmp_path) is None


@pytest.mark.parametrize("written", ["", "{", "[]", '"now"', '{"reason": 7}', '{"reason": " "}', "\x00"])
def test_a_word_that_was_written_by_hand_still_drains(tmp_path: Path, written: str) -> None:
    (tmp_path / "drained.json").write_text(written, encoding="utf-8")
    assert read_drained(tmp_path) == "its reason can't be read"
    assert resume(tmp_path)


def test_a_hold_that_is_not_the_boxs_own_is_refused_with_what_ends_it(tmp_path: Path) -> None:
    holding = Holding(tmp_path)
    holding.take(QUARANTINED)
    with pytest.raises(UsageError, match=r"^it stays held, quarantined: x#1 infra_browser$") as refused:
        resume(tmp_path)
    assert refused.value.hint == f"quarantined is ended by {say_what_ends('quarantined')}"
    drain(tmp_path, "new disk")
    with pytest.raises(UsageError, match=r"^the box is drained no longer, but it stays held"):
        resume(tmp_path)
    assert read_drained(tmp_path) is None, "its own word it can take back"
    holding.take(OK)
    assert not resume(tmp_path)


def test_the_farms_word_outlives_the_supervisor_and_a_stale_lease_changes_nothing(tmp_path: Path) -> None:
    Holding(tmp_path).take(QUARANTINED)
    again = Holding(tmp_path)
    assert [(hold.id, hold.kind) for hold in again.holds] == [(7, "quarantined")]
    again.take(BeatAnswer(answer="stale"))
    assert again.wanted_check == 7
    assert len(read_told(tmp_path)) == 1
    (tmp_path / "holds.json").write_text('[{"id": "x"}]', encoding="utf-8")
    assert read_told(tmp_path) == ()


def test_a_box_that_the_farm_holds_as_drained_by_its_own_word_is_held_once(tmp_path: Path) -> None:
    holding = Holding(tmp_path)
    drain(tmp_path, "new disk")
    holding.take(BeatAnswer(answer="drain", holds=(Hold(id=3, kind="drained", reason="new disk"),)))
    assert [hold.reason for hold in holding.holds] == ["new disk"]
    holding.take(BeatAnswer(answer="drain", holds=(Hold(id=3, kind="drained", reason="by hand"),)))
    assert [hold.reason for hold in holding.holds] == ["new disk", "by hand"]


def test_a_check_is_told_by_each_beat_until_one_is_answered(tmp_path: Path) -> None:
    holding = Holding(tmp_path, clock=Clock())
    assert holding.wanted_check is None
    holding.take(QUARANTINED)
    assert holding.wanted_check == 7
    holding.note_check(7, passed=True, detail="3.2 s\0")
    assert holding.wanted_check is None, "its result is on the way"
    told = {"hold": 7, "passed": True, "detail": "3.2 s\ufffd"}
    assert holding.describe()["health"] == told
    assert holding.describe()["health"] == told, "no answer came"
    holding.take(OK)
    assert holding.describe() == {"holds": {}}
    assert holding.wanted_check is None


def test_a_check_that_is_noted_between_a_beat_and_its_answer_is_told_by_the_next_beat(tmp_path: Path) -> None:
    holding = Holding(tmp_path, clock=Clock())
    holding.take(QUARANTINED)
    holding.describe()
    holding.note_check(7, passed=True, detail="fine")
    holding.take(QUARANTINED)
    assert holding.describe()["health"]["passed"] is True


def test_a_failed_check_is_made_again_each_time_later_and_another_quarantine_at_once(tmp_path: Path) -> None:
    clock = Clock()
    holding = Holding(tmp_path, clock=clock)
    waits_s = []
    for _ in range(7):
        holding.take(QUARANTINED)
        assert holding.wanted_check == 7
        holding.note_check(7, passed=False, detail="no renderer")
        holding.describe()
        holding.take(QUARANTINED)
        waited_s = 0
        while holding.wanted_check is None:
            waited_s += 10
            clock.now_s += 10
        waits_s.append(waited_s)
    assert waits_s == [30, 60, 120, 240, 300, 300, 300]
    holding.note_check(7, passed=False, detail="no renderer")
    holding.describe()
    holding.take(replace(QUARANTINED, holds=(Hold(id=8, kind="quarantined", reason="again"),)))
    assert holding.wanted_check == 8


@pytest.mark.parametrize("kind", ["breach", "drained"])
def test_no_other_hold_wants_a_check_of_the_boxs_health(tmp_path: Path, kind: str) -> None:
    holding = Holding(tmp_path)
    holding.take(BeatAnswer(answer="hold", holds=(Hold(id=7, kind=kind, reason="x"),)))
    assert holding.wanted_check is None


def test_every_kind_says_what_ends_it_and_one_of_a_newer_farm_does_not_hide_it() -> None:
    assert len({say_what_ends(kind) for kind in HoldKind}) == len(HoldKind)
    assert say_what_ends("moved") == "what its reason says"
