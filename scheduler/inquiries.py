"""Questions that change nothing: what a plan costs and proves, what the suites cover."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import click
import sqlalchemy as sa

from broker.errors import ServiceError, UsageError
from broker.settings import load_settings
from broker.store.coverage import read_measurable, read_measured, read_run_time
from broker.store.progress import read_boxes
from broker.suites import load_suite, suite_names
from scheduler.course import print_answer
from scheduler.coverage import cover_shapes
from scheduler.farm import has_store, join_store
from scheduler.plan import MOST_TRIALS, SERIES, choose_tasks, find_plan
from scheduler.proof import Claim, Estimate, Ground, prove, read_claims, read_share
from scheduler.proof_listing import estimate_document, estimate_lines
from scheduler.request import Request, split
from scheduler.suite_listing import suite_document, suite_lines, suites_document, suites_lines
from scheduler.verified import is_away

_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What `plan` was asked, as it was typed."""

    plan: str
    n: int | None
    prove: tuple[str, ...]
    power: str
    assume: str | None
    boxes: int | None


def show_plan(question: Question, *, as_json: bool) -> int:
    """What the plan costs and what it takes to prove something by it; nothing is written. Raises UsageError."""
    claims, power = read_claims(question.prove, question.assume), read_share(question.power, option="--power")
    is_series = question.plan in SERIES
    if is_series and claims:
        parts = ", ".join(part.plan for part in SERIES[question.plan])
        raise UsageError(f"{question.plan} is several plans: {parts}", hint="ask for the proof of one of them")
    if question.boxes is not None and question.boxes < 1:
        raise UsageError("--boxes must be at least 1: no box does no runs")
    if question.n is not None and not 1 <= question.n <= MOST_TRIALS:
        raise UsageError(f"--n must be between 1 and {MOST_TRIALS} (trials per site)")
    request = Request(plan=question.plan, n=question.n, sites=(), boxes=None)
    estimates = [_estimate(part, claims, power, question) for part in split(request)]
    return print_answer(estimate_lines(estimates), estimate_document(estimates, is_series=is_series), as_json=as_json)


def _estimate(request: Request, claims: tuple[Claim, ...], power: float, question: Question) -> Estimate:
    plan = find_plan(request.plan)
    sites = [task.site for task in choose_tasks(load_suite(plan.suite), ())]
    ground = _ask(lambda connection: _read_ground(connection, plan.suite, sites, question.boxes))
    if ground is None:
        ground = _count_boxes(0, question.boxes)
    return Estimate(
        plan=plan.name,
        suite=plan.suite,
        mode=plan.mode,
        sites=len(sites),
        trials=plan.trials if request.n is None else request.n,
        ground=ground,
        proofs=tuple(
            prove(
                claim,
                sites=len(sites),
                share=ground.share,
                unverified=ground.unverified,
                power=power,
                given=question.n,
            )
            for claim in claims
        ),
    )


def _read_ground(connection: sa.Connection, suite: str, sites: list[str], wanted: int | None) -> Ground:
    present = sum(not is_away(box) for box in read_boxes(connection))
    counted = _count_boxes(present, wanted)
    return Ground(
        boxes=counted.boxes,
        boxes_from=counted.boxes_from,
        time=read_run_time(connection, suite),
        measurable=read_measurable(connection, suite, sites),
    )


def _count_boxes(present: int, wanted: int | None) -> Ground:
    if wanted is not None:
        return Ground(boxes=wanted, boxes_from="as many boxes as --boxes says")
    if present:
        return Ground(boxes=present, boxes_from="the boxes that are here now")
    return Ground(boxes=1, boxes_from="no box is here now, one is assumed")


def show_suites(name: str | None, *, as_json: bool) -> int:
    """The suites, or one of them with its tasks, and what they cover; nothing is written. Raises UsageError."""
    suites = [load_suite(each) for each in (suite_names() if name is None else [name])]
    coverage = cover_shapes(suites, _ask(read_measured))
    if name is None:
        return print_answer(suites_lines(suites, coverage), suites_document(suites, coverage), as_json=as_json)
    return print_answer(suite_lines(suites[0], coverage), suite_document(suites[0], coverage), as_json=as_json)


def _ask(read: Callable[[sa.Connection], _Answer]) -> _Answer | None:
    """What the farm's database says; None when there is none, or it is away, which is told."""
    settings = load_settings()
    if not has_store(settings):
        return None
    try:
        with join_store(settings) as farm, farm.begin() as connection:
            return read(connection)
    except ServiceError as error:
        click.echo(f"without the farm's record: {error.message}", err=True)
        return None
