"""Criterion 7: attempts that the infrastructure spoilt."""

from __future__ import annotations

from dataclasses import replace

from broker.types import Family
from grader import intervals
from grader.criteria.cells import Cell, Sample, settle

_TARGET = 0.01
_RUNS = 100


def judge_flake(sample: Sample) -> Cell:
    """7: infra over all attempts, retries among them, with the exact one-sided bound.

    Below a hundred attempts nothing passes, and only what is proven fails.
    """
    total = len(sample.rows)
    infra = sum(times for group, times in sample.groups.items() if group.bucket.family is Family.INFRA)
    cell = Cell(
        number=7,
        name="infrastructure flake",
        target="<=1%",
        baseline="60%",
        value=infra / total if total else None,
        numerator=infra,
        denominator=total,
        interval=intervals.upper_bound(infra, total),
        notes=(_losses(sample),),
    )
    if sample.unfinished:
        return replace(cell, hint=sample.unfinished)
    small = f"{_RUNS} runs at least: {_RUNS - total} more" if total < _RUNS else ""
    if infra > _TARGET * total:
        lower = intervals.lower_bound(infra, total)
        return settle(cell, is_met=False, is_proven=lower is not None and lower.low > _TARGET, small=small)
    missing = intervals.clean_runs_missing(infra, total, _TARGET)
    return settle(cell, is_met=True, is_proven=missing == 0, small=small, hint=f"{missing} more clean runs for 95%")


def _losses(sample: Sample) -> str:
    sweep = sample.sweep
    times = f"{sweep.refusals} time{'' if sweep.refusals == 1 else 's'}"
    reasons = ", ".join(f"{reason} {number}" for reason, number in sweep.refusal_reasons.items())
    why = f" ({reasons})" if reasons else ""
    return f"preflight refused {times}{why}, {sweep.box_minutes_lost:.1f} box-minutes lost"
