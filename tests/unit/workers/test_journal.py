from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workers.journal import Entry, Journal, JournalError, RunState


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    made = Journal(tmp_path / "journal.sqlite")
    yield made
    made.close()


def intend(journal: Journal, run: int = 1, dispatch: int = 1, nonce: str = "n" * 16) -> Entry:
    return journal.intend(run, dispatch, nonce=nonce, sweep="c7-1", name="x#1", since_s=10.0, wall_limit_s=300.0)


def test_a_run_moves_from_intent_to_acknowledged(journal: Journal) -> None:
    assert intend(journal).state is RunState.INTENT
    journal.mark_started(1, 1, attempt=7, attempt_no=1)
    journal.mark_launching(1, 1)
    assert journal.list_open() == (7,)
    sha256 = journal.mark_recorded(1, 1, record=b"{}", evidence=("aa", "bb"))
    assert journal.read_running() is None
    assert journal.list_untold() == journal.list_open() == (7,)
    journal.mark_told(7)
    assert journal.list_untold() == ()
    assert journal.list_open() == (7,)
    [kept] = journal.list_kept()
    assert (kept.record, kept.evidence, kept.told) == (b"{}", ("aa", "bb"), True)
    assert journal.list_unacknowledged() == (sha256,)
    assert journal.acknowledge(sha256) == 7
    assert journal.list_unacknowledged() == ()
    assert journal.list_open() == ()
    assert journal.acknowledge(sha256) is None


def test_the_same_order_meets_its_old_nonce(journal: Journal) -> None:
    intend(journal, nonce="a" * 16)
    assert intend(journal, nonce="b" * 16).nonce == "a" * 16


def test_an_order_that_was_done_stays_done(journal: Journal) -> None:
    intend(journal)
    journal.release(1, 1, "router: away")
    assert intend(journal).state is RunState.RELEASED


def test_another_dispatch_of_the_same_run_is_another_row(journal: Journal) -> None:
    intend(journal, dispatch=1, nonce="a" * 16)
    journal.release(1, 1, "away")
    assert intend(journal, dispatch=2, nonce="b" * 16).state is RunState.INTENT


def test_settling_ends_what_was_open_and_keeps_what_was_recorded(journal: Journal) -> None:
    for run in (1, 2, 3, 4):
        intend(journal, run=run, nonce=f"{run}" * 16)
    for run in (2, 3, 4):
        journal.mark_started(run, 1, attempt=run, attempt_no=1)
    journal.mark_launching(3, 1)
    journal.mark_recorded(4, 1, record=b"{}", evidence=())
    assert [entry.attempt for entry in journal.settle()] == [2, 3]
    assert intend(journal, run=1).state is RunState.INTENT
    assert intend(journal, run=2).state is RunState.DIED
    assert [kept.attempt for kept in journal.list_kept()] == [4]
    assert journal.settle() == ()


def test_a_parked_record_is_kept_and_no_longer_sent(journal: Journal) -> None:
    intend(journal)
    journal.mark_started(1, 1, attempt=7, attempt_no=1)
    sha256 = journal.mark_recorded(1, 1, record=b"{}", evidence=())
    journal.park(sha256)
    assert journal.list_kept() == ()
    assert journal.list_unacknowledged() == (sha256,)


def test_what_was_written_survives_a_killed_process(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    program = (
        "import os, signal, sys; from pathlib import Path; from workers.journal import Journal;"
        f"j = Journal(Path({str(path)!r}));"
        "j.intend(1, 1, nonce='n' * 16, sweep='s', name='x#1', since_s=1.0, wall_limit_s=300.0);"
        "j.mark_started(1, 1, attempt=7, attempt_no=1); j.mark_launching(1, 1);"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == -9
    journal = Journal(path)
    running = journal.read_running()
    assert running is not None
    assert running.state is RunState.LAUNCHING
    journal.close()


MOVES: dict[str, Callable[[Journal], object]] = {
    "start": lambda journal: journal.mark_started(1, 1, attempt=7, attempt_no=1),
    "launch": lambda journal: journal.mark_launching(1, 1),
    "record": lambda journal: journal.mark_recorded(1, 1, record=b"{}", evidence=()),
    "release": lambda journal: journal.release(1, 1, "why"),
    "settle": lambda journal: journal.settle(),
}
ALLOWED = {
    (RunState.INTENT, "start"): RunState.STARTED,
    (RunState.INTENT, "release"): RunState.RELEASED,
    (RunState.STARTED, "launch"): RunState.LAUNCHING,
    (RunState.STARTED, "record"): RunState.RECORDED,
    (RunState.LAUNCHING, "record"): RunState.RECORDED,
    (RunState.STARTED, "settle"): RunState.DIED,
    (RunState.LAUNCHING, "settle"): RunState.DIED,
}


@settings(max_examples=30, deadline=None)
@given(moves=st.lists(st.sampled_from(sorted(MOVES)), max_size=6))
def test_no_order_of_calls_leaves_the_lines(tmp_path_factory: pytest.TempPathFactory, moves: list[str]) -> None:
    journal = Journal(tmp_path_factory.mktemp("journal") / "journal.sqlite")
    state = intend(journal).state
    for move in moves:
        expected = ALLOWED.get((state, move), state)
        if (state, move) in ALLOWED or move == "settle":
            MOVES[move](journal)
        else:
            with pytest.raises(JournalError):
                MOVES[move](journal)
        state = intend(journal).state
        assert state is expected
    journal.close()
