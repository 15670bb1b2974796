"""What becomes of a run whose end could not be written, and of a farm that answers nothing."""

from __future__ import annotations

import time
from pathlib import Path
from threading import Event
from typing import Any, cast
from uuid import uuid4

import pytest

from broker.errors import DatabaseError
from broker.store.box_client import BoxClient
from broker.suites import load_suite
from broker.types import Mode, RunOrder
from workers import farm, tasks
from workers.farm import FarmDoor
from workers.journal import Journal, RunState
from workers.workplace import Workplace


def make_order() -> RunOrder:
    task = load_suite("known").tasks[0]
    return RunOrder(sweep="c7-1", run=3, dispatch=2, arm="default", trial=4, mode=Mode.DRY, task=task)


def test_run_that_could_not_be_recorded_is_settled_before_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal, said = Journal(tmp_path / "journal.sqlite"), cast("list[str]", [])
    journal.intend(1, 1, nonce="n" * 16, sweep="c7-1", name="x#1", since_s=1.0, wall_limit_s=300.0)
    journal.mark_started(1, 1, attempt=7, attempt_no=1)
    journal.mark_launching(1, 1)
    monkeypatch.setattr(tasks, "tell_supervisor", said.append)
    workplace = Workplace(
        box=cast("Any", None), journal=journal, runner_for=cast("Any", None), tell_supervisor=said.append,
        flower=cast("Any", None),
    )  # fmt: skip
    tasks._give_up_run(workplace)
    assert journal.read_running() is None
    entry = journal.intend(1, 1, nonce="m" * 16, sweep="c7-1", name="x#1", since_s=2.0, wall_limit_s=300.0)
    assert entry.state is RunState.DIED
    assert said == ["died 7", "idle"]
    journal.close()


def test_farm_that_answers_nothing_is_waited_for_no_longer_than_the_patience(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    thawed = Event()

    class Frozen:
        def start(self, *_: object) -> None:
            thawed.wait()

        def close(self) -> None:
            """Nothing is open."""

    monkeypatch.setattr(farm, "START_PATIENCE_S", 0.6)
    door = FarmDoor(cast("BoxClient", Frozen()), uuid4())
    begun = time.monotonic()
    with pytest.raises(DatabaseError, match="did not answer"):
        door.start(make_order(), "n" * 32)
    assert 0.5 < time.monotonic() - begun < 3
    thawed.set()
    door.close()
