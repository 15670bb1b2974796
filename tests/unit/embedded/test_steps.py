"""A person at a starting farm is told each step once, and what a silence is for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from infra.embedded.commands import StepReader


@pytest.fixture
def pass_time(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """A clock that stands still but for this."""
    now_s = [100.0]
    monkeypatch.setattr("infra.embedded.commands.time.monotonic", lambda: now_s[0])

    def pass_s(seconds: float) -> None:
        now_s[0] += seconds

    return pass_s


def _state(*steps: str, first: int = 0, **parts: str) -> dict[str, Any]:
    return {
        "steps": list(steps),
        "first_step": first,
        "parts": {name: {"state": state} for name, state in parts.items()},
    }


def test_each_step_is_told_once_even_when_the_keeper_forgets_the_oldest() -> None:
    said: list[str] = []
    reader = StepReader(say=said.append, skip=False)
    reader.read(_state("a", "b"))
    reader.read(_state("a", "b", "c"))
    reader.read(_state("c", "d", first=2))
    assert said == ["a", "b", "c", "d"]


def test_steps_of_before_are_not_told() -> None:
    said: list[str] = []
    reader = StepReader(say=said.append, skip=True)
    reader.read(_state("postgres ready 0.3 s", "grader ready 35.0 s"))
    reader.read(_state("postgres ready 0.3 s", "grader ready 35.0 s", "box-b started 1.0 s"))
    assert said == ["box-b started 1.0 s"]


def test_a_silence_is_explained_once_until_the_next_step(pass_time: Callable[[float], None]) -> None:
    said: list[str] = []
    reader = StepReader(say=said.append, skip=False)
    state = _state("valkey ready 0.1 s", valkey="ready", grader="starting")
    reader.read(state)
    reader.break_silence(state)
    assert said == ["valkey ready 0.1 s"], "it is not silent yet"
    for _ in range(3):
        pass_time(1.5)
        reader.break_silence(state)
    assert said[1:] == ["waiting for grader …"]


def test_what_announces_itself_needs_no_explanation(pass_time: Callable[[float], None]) -> None:
    said: list[str] = []
    reader = StepReader(say=said.append, skip=False)
    state = _state("making the database …", postgres="waiting")
    reader.read(state)
    pass_time(9)
    reader.break_silence(state)
    assert said == ["making the database …"]
