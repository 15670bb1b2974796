"""What a box's folder keeps: events, the last end, logs; and what they are when they are broken."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from broker.errors import StackError, UsageError
from workers.boxlogs import choose_logs, follow_logs, read_ends
from workers.events import EventLog, read_events
from workers.outcome import note_outcome, read_outcome


def test_events_are_kept_in_order_forwarded_and_read_past_a_torn_line(tmp_path: Path) -> None:
    told: list[tuple[str, dict[str, str]]] = []
    events = EventLog(tmp_path, clock=lambda: datetime(2026, 11, 30, 1, 2, 3, tzinfo=UTC))
    events.add("booted", mode="dry")
    events.forward = lambda kind, **facts: told.append((kind, facts))
    events.add("part_restarted", part="backend")
    with (tmp_path / "events.jsonl").open("a") as file:
        file.write('{"kind": "to')
    assert read_events(tmp_path) == (
        {"kind": "booted", "at": "2026-11-30T01:02:03.000+00:00", "mode": "dry"},
        {"kind": "part_restarted", "at": "2026-11-30T01:02:03.000+00:00", "part": "backend"},
    )
    assert told == [("part_restarted", {"part": "backend"})]


def test_events_take_two_files_of_a_bounded_size_at_most(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.events._MOST_BYTES", 500)
    events = EventLog(tmp_path)
    for number in range(100):
        events.add("booted", number=str(number))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["events.jsonl", "events.jsonl.1"]
    assert all(path.stat().st_size < 700 for path in tmp_path.iterdir())
    kept = [int(event["number"]) for event in read_events(tmp_path)]
    assert kept == list(range(kept[0], 100))
    assert len(kept) > 5


def test_a_folder_that_can_t_be_written_ends_nothing(tmp_path: Path) -> None:
    missing = tmp_path / "is not there"
    EventLog(missing).add("booted")
    has_run = False
    with note_outcome(missing):
        has_run = True
    assert has_run
    assert not missing.exists()
    assert read_outcome(missing) is None
    assert list(read_events(missing)) == []


def test_an_end_is_kept_with_its_cause(tmp_path: Path) -> None:
    assert read_outcome(tmp_path) is None
    with pytest.raises(StackError), note_outcome(tmp_path):
        raise StackError("the router does not come up", hint="see router.log")
    outcome = read_outcome(tmp_path)
    assert outcome is not None
    assert (outcome.cause, outcome.hint) == ("the router does not come up", "see router.log")
    assert read_outcome(tmp_path, pid=outcome.pid) == outcome
    assert read_outcome(tmp_path, pid=outcome.pid + 1) is None
    with note_outcome(tmp_path):
        pass
    outcome = read_outcome(tmp_path)
    assert outcome is not None
    assert outcome.cause == ""


@pytest.mark.parametrize("broken", ["", "{}", "[]", '{"pid": 1}', "no json"])
def test_a_broken_end_is_none(tmp_path: Path, broken: str) -> None:
    (tmp_path / "ended.json").write_text(broken)
    assert read_outcome(tmp_path) is None


class Box:
    """As much of a box file as the logs need."""

    name = "box-a"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "stack").mkdir()


@pytest.fixture
def box(tmp_path: Path) -> Any:
    made = Box(tmp_path)
    (tmp_path / "box.log").write_text("b1\nb2\n")
    (tmp_path / "stack" / "backend.log").write_text("".join(f"line {number}\n" for number in range(100)))
    return made


def test_the_last_lines_of_a_log_or_of_each(box: Any) -> None:
    assert list(read_ends(choose_logs(box, "backend"), 2)) == ["line 98", "line 99"]
    assert list(read_ends(choose_logs(box, None), 1)) == ["==> backend <==", "line 99", "==> box <==", "b2"]
    assert list(read_ends(choose_logs(box, "box"), 0)) == []


def test_a_log_that_there_is_not_is_refused_with_those_that_there_are(box: Any) -> None:
    with pytest.raises(UsageError) as refused:
        choose_logs(box, "frontend")
    assert refused.value.hint == "logs: backend, box"


def test_following_prints_whole_lines_and_goes_on_in_a_log_that_was_begun_anew(box: Any) -> None:
    path = box.folder / "stack" / "backend.log"

    def append(text: str) -> None:
        with path.open("a") as file:
            file.write(text)

    def begin_anew() -> None:
        path.replace(path.with_suffix(".log.1"))
        path.write_text("anew\n")

    steps: list[Callable[[], None]] = [lambda: append("half"), lambda: append(" a line\nmore\n"), begin_anew]

    def is_over() -> bool:
        if not steps:
            return True
        steps.pop(0)()
        return False

    found = list(follow_logs(choose_logs(box, "backend"), is_over=is_over, poll_s=0.0))
    assert found == ["half a line", "more", "anew"]


def test_a_follower_of_all_logs_names_each(box: Any) -> None:
    said = iter([False, True])

    def is_over() -> bool:
        with (box.folder / "box.log").open("a") as file:
            file.write(json.dumps({"event": "x"}) + "\n")
        return next(said)

    assert list(follow_logs(choose_logs(box, None), is_over=is_over, poll_s=0.0)) == ['box: {"event": "x"}']
