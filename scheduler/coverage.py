"""Which editor shapes the suites have sites of, and which were ever measured. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from broker.suites import Suite
from broker.suites.vocabulary import EditorShape

# by suite, site and the shape that its editor had in the run: how many runs could be measured
Measured = Mapping[tuple[str, str, str], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeCoverage:
    """One shape: its sites that are not retired, and their measurable runs; `runs` None: there is no farm to ask."""

    shape: str
    sites: tuple[str, ...]
    runs: int | None


def cover_shapes(suites: Sequence[Suite], measured: Measured | None) -> tuple[ShapeCoverage, ...]:
    """Every shape there is a word for, in the vocabulary's order, over these suites."""
    living = [(suite.name, task) for suite in suites for task in suite.tasks if task.retired is None]
    sites = {(name, task.site) for name, task in living}
    covered = []
    for shape in EditorShape:
        mine = tuple(task.site for _, task in living if task.editor_shape == shape)
        runs = None if measured is None else _count_runs(measured, shape, sites)
        covered.append(ShapeCoverage(shape=shape.value, sites=mine, runs=runs))
    return tuple(covered)


def _count_runs(measured: Measured, shape: str, sites: Collection[tuple[str, str]]) -> int:
    # a site that has changed its editor since was then a site of the other shape
    return sum(runs for (suite, site, own), runs in measured.items() if own == shape and (suite, site) in sites)


def siteless(coverage: Sequence[ShapeCoverage]) -> tuple[str, ...]:
    """The shapes that no site has."""
    return tuple(one.shape for one in coverage if not one.sites)


def unmeasured(coverage: Sequence[ShapeCoverage]) -> tuple[str, ...]:
    """The shapes that have a site, and no measurable run on this farm."""
    return tuple(one.shape for one in coverage if one.sites and one.runs == 0)
