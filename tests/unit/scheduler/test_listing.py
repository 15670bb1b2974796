"""The JSON that is printed is the JSON that is documented; the lines fit a terminal."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from random import Random
from typing import Any

import pytest

from broker.store.coverage import Measurable, RunTime
from broker.store.progress import BoxLine, Progress
from broker.store.sweeps import RunCounts, SweepRow
from broker.suites import load_suite, suite_names
from broker.types import Family
from scheduler.coverage import cover_shapes
from scheduler.listing import (
    ending_document,
    list_lines,
    plan_document,
    plan_lines,
    status_document,
    status_lines,
    sweep_document,
)
from scheduler.proof import Estimate, Ground, prove, read_claims
from scheduler.proof_listing import estimate_document, estimate_lines
from scheduler.request import Request, prepare
from scheduler.suite_listing import suite_document, suite_lines, suites_document

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


def estimate_of(claims: tuple[str, ...] = (), n: int | None = None) -> Estimate:
    ground = Ground(
        boxes=3,
        boxes_from="the boxes that are here now",
        time=RunTime(seconds=24.0, runs=300),
        measurable=Measurable(sweep=SWEEP.id, measurable=72, judged=108),
    )
    proofs = (prove(claim, sites=9, share=ground.share, power=0.8, given=n) for claim in read_claims(claims, None))
    trials = 12 if n is None else n
    return Estimate(plan="c7", suite="known", mode="dry", sites=9, trials=trials, ground=ground, proofs=tuple(proofs))


def test_every_key_of_an_estimate_is_documented_and_no_other() -> None:
    document = estimate_document([estimate_of(("flake=1%", "reach=90%"), n=12)], is_series=False)
    proof = document["proofs"][0]
    shown = set(document) | set(proof)
    assert shown == documented("`plan NAME --json`")
    section = REFERENCE.read_text("utf-8").split("## `plan NAME --json`")[1]
    inner = set(proof["need"]) | set(document["time"]) | set(document["measurable"])
    assert {key for key in inner if f"`{key}`" not in section} == set()
    series = estimate_document([estimate_of(), estimate_of()], is_series=True)
    assert (series["runs"], series["hours"]) == (216, pytest.approx(216 * 24 / 3 / 3600))


def test_every_key_of_the_suites_is_documented_and_no_other() -> None:
    suites = [load_suite(name) for name in suite_names()]
    coverage = cover_shapes(suites, {})
    holdout = load_suite("holdout")
    assert set(suites_document(suites, coverage)) == {"schema", "suites", "shapes"}
    one = suite_document(holdout, coverage)
    assert set(one) - {"schema"} == documented("`suites --json` and `suites NAME --json`") & set(one)
    section = REFERENCE.read_text("utf-8").split("## `suites --json`")[1]
    assert {key for key in {*one["tasks"][0], *one["shapes"][0]} if f"`{key}`" not in section} == set()
    assert set(suites_document(suites, coverage)["suites"][0]) <= set(one)


def test_an_estimate_says_runs_chance_and_hours_and_what_they_rest_on() -> None:
    lines = estimate_lines([estimate_of(("flake=1%", "reach=90%"), n=34)])
    assert max(map(len, lines)) <= 80
    text = " ".join(" ".join(lines).split())
    assert "as planned: 306 runs (34 trials a site), about 41 min on 3 boxes" in text
    assert "--n 70: 630 runs; 2 may be spoilt; chance 86.64%; about 84 min on 3 boxes" in text
    assert "at most so many spoilt prove it: 0 of 299, 1 of 473, 2 of 628" in text
    assert "--n 34: 306 runs; none may be spoilt; chance 54.19%" in text
    assert "--n 34: 306 runs, 204 of them measurable; 12 may miss" in text
    assert "24.0 s from start to start, the median of the last 300 runs here" in text
    assert f"72 of 108 were measurable in {SWEEP.id}" in text
    assert lines[-1] == "nothing was written"


def test_unverified_exclusions_are_in_the_reckoning_of_a_proof_and_on_the_screen() -> None:
    ground = estimate_of().ground
    claim = read_claims(("reach=90%",), None)[0]

    def said(measurable: int, unverified: int) -> str:
        known = Measurable(sweep=SWEEP.id, measurable=measurable, judged=108, unverified=unverified)
        grounded = replace(ground, measurable=known)
        proof = prove(claim, sites=9, share=grounded.share, unverified=grounded.unverified, power=0.8, given=34)
        lines = estimate_lines([replace(estimate_of(), ground=grounded, proofs=(proof,))])
        assert max(map(len, lines)) <= 80
        return " ".join(" ".join(lines).split())

    assert "72 of 108 were measurable in" in said(72, 0)
    assert "UNVERIFIED" not in said(72, 0)
    few = said(72, 1)
    assert "204 of them measurable and 3 UNVERIFIED, which count as misses" in few
    assert f"72 of 108 were measurable and 1 UNVERIFIED in {SWEEP.id}" in few
    assert "no number of runs proves it while 20 of 108 are UNVERIFIED" in said(72, 20)


def test_what_was_never_timed_costs_a_dash() -> None:
    ground = Ground(boxes=1, boxes_from="no box is here now, one is assumed")
    plain = replace(estimate_of(), ground=ground)
    assert "- on 1 box" in estimate_lines([plain])[1]
    assert estimate_document([plain], is_series=False)["hours"] is None
    assert "together: 216 runs, -" in estimate_lines([plain, plain])
    too_few = replace(plain, proofs=(prove(read_claims(("flake=1%",), None)[0], sites=9, share=1, power=0.8, given=2),))
    assert "too few to prove it, whatever comes of them" in " ".join(" ".join(estimate_lines([too_few])).split())


@pytest.mark.parametrize("name", suite_names())
def test_a_suites_tasks_and_coverage_fit_a_terminal(name: str) -> None:
    suite = load_suite(name)
    coverage = cover_shapes([suite], None)
    lines = suite_lines(suite, coverage)
    assert max(map(len, lines)) <= 80
    text = "\n".join(lines)
    assert {task.host for task in suite.tasks if task.retired is None and task.host not in text} == set()
    assert [line.split()[3] for line in lines if line.startswith("retired since")] == [
        task.site for task in suite.tasks if task.retired
    ]


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
