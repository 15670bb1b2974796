"""A request for a sweep, judged in full before any service is started or anything is written."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from random import Random

from broker.store.sweeps import NewSweep
from broker.suites import Suite, load_suite
from scheduler.plan import SERIES, choose_tasks, find_plan, name_sweep, plan_runs

# The product build under test, where a plan compares none with another.
_ARM = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What was asked for on the command line; None and empty mean the plan's own."""

    plan: str
    n: int | None
    sites: tuple[str, ...]
    boxes: int | None
    # boxes at whose revision markers are dead or unchecked may take its runs, too
    unverified: bool = False
    # a checkout of the product, to be searched for the hosts of a frozen suite
    source: Path | None = None
    # runs of a sweep with a higher one are handed out first
    priority: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A request that can be carried out: the suite as read, and the sweep as it would be written."""

    suite: Suite
    sweep: NewSweep


def split(request: Request) -> tuple[Request, ...]:
    """The request for each sweep that it means: a series is several, the first before the others, `n` being its own.

    The first has the priority of any sweep, so that one planned meanwhile waits for it alone.
    """
    parts = SERIES.get(request.plan)
    if parts is None:
        return (request,)
    return tuple(
        replace(
            request,
            plan=part.plan,
            n=request.n if request.n is not None and not number else part.trials,
            priority=-number,
        )
        for number, part in enumerate(parts)
    )


def prepare(request: Request, now: datetime, random: Random, requested_by: str) -> Prepared:
    """The sweep that the request means. Raises UsageError, or SuiteError with file and line; writes nothing."""
    plan = find_plan(request.plan)
    suite = load_suite(plan.suite)
    trials = plan.trials if request.n is None else request.n
    sweep = NewSweep(
        id=name_sweep(plan, now, random),
        plan=plan.name,
        suite=suite.name,
        suite_sha256=suite.sha256,
        mode=plan.mode,
        trials=trials,
        priority=request.priority,
        retries=plan.retries,
        requested_by=requested_by,
        params={
            "sites": [task.site for task in choose_tasks(suite, request.sites)],
            "boxes": request.boxes,
            "suite_version": suite.version,
            "unverified": request.unverified,
        },
        runs=plan_runs(plan, suite, request.sites, trials, _ARM),
    )
    return Prepared(suite=suite, sweep=sweep)
