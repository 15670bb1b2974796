"""The page on a box's states says what the code does."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from broker.holds import CONTENDED, HoldKind, say_what_ends
from broker.store.dispatching import WORKING_PHASES
from broker.store.standing import CheckState
from scheduler.dispatch import QUARANTINE_AFTER, REST_AFTER_RELEASE_S
from workers import crew
from workers.supervisor import Supervisor

PAGE = (Path(__file__).parents[2] / "docs/explanation/box-states.md").read_text("utf-8")


def rows(heading: str) -> dict[str, list[str]]:
    """The table under a heading: the first column to the others."""
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line[:1] == "|"]
    return {row[0].strip("`"): row[1:] for row in cells[2:]}


def test_every_phase_that_a_beat_may_say_is_there_and_those_that_get_runs_are_named() -> None:
    # a stage of the supervisor's own, and what the worker's word is a detail of
    said = set(re.findall(r'"(\w+)"', inspect.getsource(Supervisor._name_phase))) - {"ending"}
    said |= set(re.findall(r'_do\("(\w+)"', inspect.getsource(crew)))
    assert {*said, CONTENDED} == set(rows("What beats say"))
    assert {phase for phase, cells in rows("What beats say").items() if cells[0] == "yes"} == WORKING_PHASES


def test_every_hold_is_there_with_what_the_commands_say_that_ends_it() -> None:
    table = rows("What holds a box")
    assert set(table) == {*HoldKind, CONTENDED}
    assert {kind: cells[1] for kind, cells in table.items()} == {kind: say_what_ends(kind) for kind in table}


def test_every_state_of_a_check_is_there_and_only_verified_gets_runs() -> None:
    table = rows("Verified")
    assert set(table) == set(CheckState)
    assert {state for state, cells in table.items() if cells[0] == "yes"} == {CheckState.VERIFIED}


def test_the_numbers_are_the_dispatchers() -> None:
    assert f"within the last {REST_AFTER_RELEASE_S:.0f} seconds" in PAGE
    assert QUARANTINE_AFTER == 3
    assert "last three judged attempts" in PAGE
