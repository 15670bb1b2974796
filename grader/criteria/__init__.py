"""The nine criteria, each a small pure function from a sweep's rows to one cell.

PASS is the point estimate at the plan's size; `proven` asks the interval. OPEN says what is missing.
A rate over nothing is None, never 0 or 1. Why some cells never pass: docs/explanation/what-a-number-means.md.
"""

from __future__ import annotations

from grader.criteria.cells import Cell, Comparison, Mark, Reading, RetiredSite, Sample, SweepFacts
from grader.criteria.claims import judge_false_success, judge_fast_path, judge_verified_writes
from grader.criteria.conditions import unlike, withhold
from grader.criteria.durations import judge_other_ms, judge_prestage, judge_write_time
from grader.criteria.flake import judge_flake
from grader.criteria.reach import judge_holdout, judge_reach, reach_readings

__all__ = [
    "Cell",
    "Comparison",
    "Mark",
    "Reading",
    "RetiredSite",
    "Sample",
    "SweepFacts",
    "judge_criteria",
    "reach_readings",
    "unlike",
]


def judge_criteria(sample: Sample, *, baseline: Sample | None = None, known: Sample | None = None) -> tuple[Cell, ...]:
    """The nine cells, in order. `baseline` is what 6 is set against, `known` the known suite's sweep for 8's gap."""
    cells = (
        judge_reach(sample),
        judge_verified_writes(sample),
        judge_false_success(sample),
        judge_write_time(sample),
        judge_prestage(sample),
        judge_other_ms(sample, baseline),
        judge_flake(sample),
        judge_holdout(sample, known),
        judge_fast_path(sample),
    )
    return tuple(withhold(cell, sample) for cell in cells)
