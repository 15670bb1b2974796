from __future__ import annotations

from workers.journal import KeptRecord
from workers.outbox import UNSTORED_BYTES, Outbox


def record(name: str, *, told: bool = True, size: int = 10, evidence: tuple[str, ...] = ()) -> KeptRecord:
    return KeptRecord(attempt=1, told=told, sha256=name, record=b"x" * size, evidence=evidence)


def test_record_goes_out_at_once_and_not_again_before_two_beats_and_five_seconds() -> None:
    outbox, mine = Outbox(), record("a")
    assert outbox.choose_due([mine], 0.0) == (mine,)
    outbox.mark_sent(mine, 0.0)
    outbox.count_beat(["a"])
    assert outbox.choose_due([mine], 60.0) == ()
    outbox.count_beat(["a"])
    assert outbox.choose_due([mine], 4.9) == ()
    assert outbox.choose_due([mine], 5.0) == (mine,)


def test_each_try_waits_longer_up_to_five_minutes() -> None:
    outbox, mine, now_s, waits = Outbox(), record("a"), 0.0, []
    for _ in range(9):
        outbox.mark_sent(mine, now_s)
        outbox.count_beat(["a"])
        outbox.count_beat(["a"])
        waited = next(wait for wait in range(1000) if outbox.choose_due([mine], now_s + wait))
        waits.append(waited)
        now_s += waited
    assert waits == [5, 10, 20, 40, 80, 160, 300, 300, 300]


def test_record_of_an_attempt_that_the_farm_does_not_know_as_finished_waits() -> None:
    assert Outbox().choose_due([record("a", told=False)], 0.0) == ()


def test_at_most_two_megabytes_wait_unstored() -> None:
    outbox = Outbox()
    many = [record(f"{index}", size=UNSTORED_BYTES // 3) for index in range(5)]
    due = outbox.choose_due(many, 0.0)
    assert [item.sha256 for item in due] == ["0", "1", "2"]
    for item in due:
        outbox.mark_sent(item, 0.0)
    assert outbox.choose_due(many, 1.0) == ()
    outbox.count_beat(["1", "2", "3", "4"])
    assert [item.sha256 for item in outbox.choose_due(many[1:], 1.0)] == ["3"]


def test_a_record_larger_than_the_limit_goes_alone() -> None:
    huge = record("h", size=UNSTORED_BYTES + 1)
    assert Outbox().choose_due([huge, record("a")], 0.0) == (huge,)


def test_after_an_outage_everything_goes_out_again() -> None:
    outbox, mine = Outbox(), record("a")
    outbox.mark_sent(mine, 0.0)
    outbox.start_anew()
    assert outbox.choose_due([mine], 0.1) == (mine,)


def test_only_missing_evidence_is_sent_again_and_not_with_every_beat() -> None:
    outbox, mine = Outbox(), record("a", evidence=("p", "q"))
    outbox.note_missing({"q", "of another box"})
    assert outbox.choose_missing([mine], 0.0) == ((mine, ("q",)),)
    outbox.note_missing({"q"})
    assert outbox.choose_missing([mine], 1.0) == ()
    assert outbox.choose_missing([mine], 5.0) == ((mine, ("q",)),)
    outbox.note_missing(())
    assert outbox.choose_missing([mine], 20.0) == ()
