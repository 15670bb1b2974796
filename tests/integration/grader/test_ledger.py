"""The scorecard of a holdout sweep that was planned is the how-manieth use of each of its groups."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from random import Random
from typing import Any

import pytest
import sqlalchemy as sa

from broker.freezes import SearchedSource, load_freezes
from broker.store.engine import begin
from broker.store.freezes import save_freeze
from broker.store.sweeps import create_sweep, find_sweep
from broker.suites import load_suite
from grader.reading import read_ledger
from scheduler.admission import admit_frozen
from scheduler.request import Request, prepare

Grade = Callable[..., Any]
SOURCE = SearchedSource(path="/src/openswarm", revision="21a08c23", files=1203, binaries=14)


def _plan(engine: sa.Engine, plan: str, number: int, source: SearchedSource | None) -> str:
    request = Request(plan=plan, n=1, sites=(), boxes=None)
    prepared = prepare(request, datetime(2026, 11, 30, tzinfo=UTC), Random(number), "anna")
    with begin(engine) as connection:
        create_sweep(connection, prepared.sweep)
        admit_frozen(connection, prepared.sweep, prepared.suite, source)
    return prepared.sweep.id


def test_a_holdouts_scorecard_prints_freeze_and_use_of_each_group(engine: sa.Engine, bv3_grade: Grade) -> None:
    first, second = _plan(engine, "c8", 1, None), _plan(engine, "c8", 2, SOURCE)
    for sweep, number, source in (
        (first, 1, "was not searched"),
        (second, 2, "source at 21a08c23, 1203 files read, 14 that are no text not searched"),
    ):
        done = bv3_grade("scorecard", sweep, COLUMNS="160")
        assert done.code == 0, done.stderr
        for group in (
            "group first      frozen 2026-08-02 at 1508e03c, taken over from the old harness",
            "group anonymous  frozen 2026-08-02 at ab898964, taken over from the old harness",
            "group editors    frozen 2026-08-04 at e445ca3e, taken over from the old harness",
        ):
            assert f"{group}; use {number}\n" in done.stdout
        assert source in done.stdout
        assert "retired since 2026-08-06, not in the suite's runs: txti" in done.stdout
    groups = json.loads(bv3_grade("scorecard", second, "--json").stdout)["freezes"]
    assert [(group["group"], group["use"], group["source"]["binaries"]) for group in groups] == [
        ("first", 2, 14),
        ("anonymous", 2, 14),
        ("editors", 2, 14),
    ]


@pytest.mark.parametrize("is_committed", [True, False])
def test_a_suite_whose_file_does_not_say_that_it_is_frozen_has_a_ledger_as_long_as_any_freeze_is_its(
    engine: sa.Engine, monkeypatch: pytest.MonkeyPatch, *, is_committed: bool
) -> None:
    thawed = replace(load_suite("holdout"), is_frozen=False)
    monkeypatch.setattr("grader.reading.load_suite", lambda _: thawed)
    if not is_committed:
        monkeypatch.setattr("grader.reading.load_freezes", tuple)
    request = Request(plan="c8", n=1, sites=(), boxes=None)
    prepared = prepare(request, datetime(2026, 11, 30, tzinfo=UTC), Random(1), "anna")
    with begin(engine) as connection:
        # past the door
        create_sweep(connection, prepared.sweep)
        sweep = find_sweep(connection, prepared.sweep.id)
        assert read_ledger(connection, sweep) == (() if is_committed else None)
        save_freeze(connection, load_freezes()[0])
        assert read_ledger(connection, sweep) == ()


def test_a_sweep_of_another_suite_has_no_ledger(engine: sa.Engine, bv3_grade: Grade) -> None:
    known = _plan(engine, "known", 1, None)
    assert json.loads(bv3_grade("scorecard", known, "--json").stdout)["freezes"] is None
