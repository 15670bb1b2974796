"""The JSON that is printed is the JSON that is documented; the lines fit a terminal."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from random import Random
from typing import Any

import pytest

from broker.store.progress import BoxLine, Progress
from broker.store.sweeps import RunCounts, SweepRow
from broker.types import Family
from scheduler.listing import (
    ending_document,
    list_lines,
    plan_document,
    plan_lines,
    status_document,
    status_lines,
    sweep_document,
)
from scheduler.request import Request, prepare

REFERENCE = Path(__file__).parents[3] / "docs" / "reference" / "schedule-json.md"
SWEEP = SweepRow(
    id="c7-20261129T220003Z-k3f9",
    plan="c7",
    suite="known",
    mode="dry",
    trials=12,
    retries=2,
    state="active",
    created_at=datetime(2026, 11, 29, 22, 0, 3, 120_000, tzinfo=UTC),
    finished_at=None,
    order_reason=None,
    requested_by="anna@mini-3",
    params={"sites": ["x", "reddit"], "boxes": 2},
    counts=RunCounts(planned=46, dispatched=1, started=1, closed=60, cancelled=0, total=108, attempts=61),
)
BOX = BoxLine(
    name="box-a",
    phase="running",
    hold_reason=None,
    run_name="x#7",
    run_phase="wait",
    phase_s=0.8,
    done=60,
    infra=0,
    last_beat_s=2.0,
)
PROGRESS = Progress(
    state="active",
    total=108,
    over=60,
    families={Family.OK: 40, Family.PRODUCT: 1, Family.INFRA: 0, Family.NOT_MEASURABLE: 19},
    reach=(40, 41),
    active_attempts=1,
    ungraded=1,
    boxes=(BOX,),
    fresh=(),
)


def test_a_dry_run_of_a_long_suite_fits_a_terminal_and_names_the_retired() -> None:
    request = Request(plan="c8", n=None, sites=(), boxes=None)
    lines = plan_lines(prepare(request, datetime(2026, 11, 29, tzinfo=UTC), Random(1), "anna@mini-3"))
    assert max(map(len, lines)) <= 80
    assert [line.split()[3] for line in lines if line.startswith("retired since")] == ["dpaste", "txti"]


def prepared() -> Any:
    request = Request(plan="c7", n=2, sites=("x", "gmail"), boxes=None)
    return prepare(request, datetime(2026, 11, 29, tzinfo=UTC), Random(1), "anna@mini-3")


def documented(heading: str) -> set[str]:
    """The keys in the first column of the tables under a heading of the reference."""
    section = REFERENCE.read_text("utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]
    cells = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    return {key for cell in cells for key in re.findall(r"`([a-z_0-9]+)`", cell)}


LIST, STATUS, ENDING, DRY_RUN = (
    "`list --json`",
    "`status SWEEP --json`",
    "A plan, `follow`, `resume`, `cancel` with `--json`",
    "A plan with `--dry-run --json`",
)


def test_every_key_of_a_sweep_is_documented_and_no_other() -> None:
    assert set(sweep_document(SWEEP)) == documented(LIST)


def test_every_key_of_a_status_is_documented_and_no_other() -> None:
    document = status_document(SWEEP, PROGRESS)
    assert set(document) | set(document["boxes"][0]) == documented(LIST) | documented(STATUS)


def test_every_key_of_an_ending_is_documented_and_no_other() -> None:
    document = ending_document(SWEEP, PROGRESS, rows="results/x.jsonl", scorecard={"criteria": []})
    assert set(document) - set(status_document(SWEEP, PROGRESS)) == documented(ENDING)


def test_every_key_of_a_dry_run_is_documented_and_no_other() -> None:
    assert set(plan_document(prepared())) == documented(DRY_RUN)


@pytest.mark.parametrize("state", ["active", "paused", "cancelled", "halted", "finished"])
def test_every_state_is_documented(state: str) -> None:
    assert f"`{state}`" in REFERENCE.read_text("utf-8")


def test_times_are_utc_whatever_the_session_speaks() -> None:
    eastern = SWEEP.created_at.astimezone(timezone(timedelta(hours=-5)))
    document = sweep_document(replace(SWEEP, created_at=eastern, finished_at=eastern + timedelta(minutes=4)))
    assert document["created_at"] == "2026-11-29T22:00:03.120Z"
    assert document["finished_at"] == "2026-11-29T22:04:03.120Z"


def test_a_list_names_each_sweep_with_its_state_and_runs() -> None:
    older = replace(SWEEP, id="c7-20261128T220003Z-aaaa", state="finished")
    head, first, second = list_lines([SWEEP, older])
    assert head.split() == ["sweep", "state", "runs", "attempts", "planned"]
    assert first.split() == [SWEEP.id, "active", "60/108", "61", "2026-11-29", "22:00"]
    assert second.split()[:2] == [older.id, "finished"]
    assert max(map(len, [head, first, second])) <= 80


def test_an_empty_list_says_how_to_plan_the_first_sweep() -> None:
    assert list_lines([]) == ["no sweeps yet: bv3-schedule c7"]


def test_a_status_tells_the_whole_state_in_lines_of_80_columns() -> None:
    paused = replace(SWEEP, state="paused", order_reason="interrupted")
    lines = status_lines(paused, replace(PROGRESS, state="paused"))
    assert lines == [
        "c7-20261129T220003Z-k3f9   paused (interrupted)",
        "known suite x 12, dry, planned at 2026-11-29 22:00:03 UTC by anna@mini-3",
        "60 of 108 runs over, 61 attempts   ok 40  product 1  infra 0  not measurable 19",
        "1 attempt not graded yet",
        " box-a    running   x#7            wait        0.8 s      60 done    0 infra",
    ]
    assert max(map(len, lines)) <= 80


def test_the_status_of_a_finished_sweep_tells_what_boxes_did_not_what_they_do_now() -> None:
    idle = replace(BOX, name="box-b", done=0)
    lines = status_lines(replace(SWEEP, state="finished"), replace(PROGRESS, active_attempts=0, boxes=(BOX, idle)))
    assert lines[-1] == " box-a       60 done    0 infra"
    assert not any("running" in line or "box-b" in line for line in lines)


def test_a_dry_run_tells_suite_counts_and_order() -> None:
    lines = plan_lines(prepared())
    assert lines[0] == "would plan c7: known suite x 2, dry, 4 site-runs"
    assert lines[2:] == ["first trial: x gmail"]
