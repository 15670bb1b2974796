"""Plans: what a criterion needs, turned into runs in the order they are to be done. Pure arithmetic."""

from __future__ import annotations

import string
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from random import Random

from broker.errors import UsageError
from broker.store.sweeps import NewRun
from broker.suites import Suite
from broker.types import Mode, SiteTask

# A trial's runs come before the next trial's, whatever the number of sites.
TRIAL_STRIDE = 10_000
# order_key is a 32-bit column
MOST_TRIALS = 100_000
_SUFFIX_LENGTH = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a criterion needs: which suite, how often, and whether anything may be sent."""

    name: str
    suite: str
    # trials per site unless the request says otherwise
    trials: int
    mode: Mode
    # further attempts that an infra verdict may cost a run
    retries: int
    # what it shows holds only of a suite that was frozen before its first run
    needs_frozen: bool = False


def _dry(name: str, suite: str, trials: int, *, needs_frozen: bool = False) -> Plan:
    return Plan(name=name, suite=suite, trials=trials, mode=Mode.DRY, retries=2, needs_frozen=needs_frozen)


PLANS = {
    plan.name: plan
    for plan in (
        _dry("c7", "known", 12),
        _dry("c8", "holdout", 2, needs_frozen=True),
        _dry("anon", "anon", 3),
        _dry("shapes", "shapes", 3),
        # a quick look: too few trials for a mark
        _dry("known", "known", 3),
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One plan of a series; `trials` in place of its own, None: its own."""

    plan: str
    trials: int | None = None


# Plans of one request, the first the most urgent. 70 trials are 630 runs: two of them may be spoilt by the
# infrastructure, and flake of at most 1% is proven all the same.
SERIES = {"overnight": (Part(plan="c7", trials=70), Part(plan="c8"), Part(plan="anon"), Part(plan="shapes"))}


def find_plan(name: str) -> Plan:
    """The plan of that name. Raises UsageError naming those that exist."""
    if name not in PLANS:
        raise UsageError(f"there is no plan {name!r}", hint=name_choices(name, [*PLANS, *SERIES], kind="plans"))
    return PLANS[name]


def choose_tasks(suite: Suite, sites: Sequence[str]) -> tuple[SiteTask, ...]:
    """The tasks of these sites in the suite's order, each once; of all that are not retired when none is named.

    Raises UsageError for a site that is not in the suite or is retired.
    """
    for site in sites:
        task = suite.task(site)
        if task is None:
            names = [task.site for task in suite.tasks if task.retired is None]
            raise UsageError(
                f"there is no site {site!r} in the suite {suite.name!r}", hint=name_choices(site, names, kind="sites")
            )
        if task.retired is not None:
            raise UsageError(f"site {site!r} is retired since {task.retired.date}: {task.retired.evidence}")
    return tuple(task for task in suite.tasks if (task.site in sites if sites else task.retired is None))


def plan_runs(plan: Plan, suite: Suite, sites: Sequence[str], n: int, arm: str) -> tuple[NewRun, ...]:
    """`n` trials of each chosen site, in order: trial by trial, each beginning with another site.

    The rotation spreads sites over boxes: with as many boxes as sites, no box would otherwise ever
    see more than one site, and a box's fault would look like a site's. Raises UsageError.
    """
    if n < 1:
        raise UsageError("--n must be at least 1 (trials per site)")
    if n > MOST_TRIALS:
        raise UsageError(f"--n must be at most {MOST_TRIALS} (trials per site)")
    if suite.name != plan.suite:
        raise UsageError(f"plan {plan.name} runs the suite {plan.suite!r}, not {suite.name!r}")
    if plan.needs_frozen and not suite.is_frozen:
        raise UsageError(
            f"plan {plan.name} needs a frozen suite, and the file of {suite.name!r} does not say that it is one",
            hint=f"restore broker/suites/{suite.name}.toml: frozen = true, and the group of each task",
        )
    tasks = choose_tasks(suite, sites)
    runs = (
        NewRun(
            arm=arm,
            site=task.site,
            trial=trial,
            order_key=trial * TRIAL_STRIDE + (index + trial - 1) % len(tasks),
            task=task,
        )
        for trial in range(1, n + 1)
        for index, task in enumerate(tasks)
    )
    return tuple(sorted(runs, key=lambda run: run.order_key))


def name_sweep(plan: Plan, now: datetime, random: Random) -> str:
    """A sweep's id: `c7-20261129T220003Z-k3f9`, sortable by time and unique without asking anyone."""
    suffix = "".join(random.choices(string.ascii_lowercase + string.digits, k=_SUFFIX_LENGTH))
    return f"{plan.name}-{now.astimezone(UTC):%Y%m%dT%H%M%SZ}-{suffix}"


def name_choices(wrong: str, names: Iterable[str], *, kind: str) -> str:
    """A hint that names the close match, if there is one, and lists what exists."""
    listed = list(names)
    close = get_close_matches(wrong.lower(), listed, n=1)
    guess = f"did you mean {close[0]!r}? " if close else ""
    return f"{guess}{kind}: {', '.join(listed)}"
