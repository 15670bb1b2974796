"""Suites as people and programs read them: their tasks, and what of every editor shape they cover. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from broker.suites import Suite
from broker.types import SiteTask
from scheduler.coverage import ShapeCoverage, siteless, unmeasured
from scheduler.listing import SCHEMA, fold
from scheduler.wording import clean

DASH = "-"
_WIDTH = 80
_GAP = 2
_SHORT_HASH = 12


def suites_lines(suites: Sequence[Suite], coverage: Sequence[ShapeCoverage]) -> list[str]:
    """What `suites` prints: a line per suite, and the shapes over all of them."""
    rows = [("suite", "version", "sites", "retired", "sha256", "frozen groups")]
    rows += [
        (
            suite.name,
            str(suite.version),
            str(len(_living(suite))),
            str(len(suite.tasks) - len(_living(suite)) or DASH),
            suite.sha256[:_SHORT_HASH],
            ", ".join(_groups(suite)) or DASH,
        )
        for suite in suites
    ]
    return [*_table(rows), "", *_coverage_lines(coverage, "the suites")]


def suite_lines(suite: Suite, coverage: Sequence[ShapeCoverage]) -> list[str]:
    """What `suites NAME` prints: its tasks, those that are retired with their evidence, and the shapes."""
    rows = [("site", "host", "editor shape", "flow", "visibility")]
    rows += [(task.site, task.host, task.editor_shape, task.flow, task.visibility) for task in _living(suite)]
    groups = f", frozen by group: {', '.join(_groups(suite))}" if suite.is_frozen else ""
    head = f"{suite.name} version {suite.version}, sha256 {suite.sha256[:_SHORT_HASH]}{groups}"
    return [
        *fold(head),
        "",
        *(_table(rows) if _width(rows) <= _WIDTH else _tall_table(rows)),
        *_retired_lines(suite),
        "",
        *_coverage_lines(coverage, f"the suite {suite.name}"),
    ]


def _living(suite: Suite) -> list[SiteTask]:
    return [task for task in suite.tasks if task.retired is None]


def _groups(suite: Suite) -> list[str]:
    return list(dict.fromkeys(task.group for task in suite.tasks if task.group))


def _retired_lines(suite: Suite) -> Iterator[str]:
    retired = [(task.site, task.retired) for task in suite.tasks if task.retired is not None]
    if retired:
        yield ""
    for site, why in retired:
        yield from fold(f"retired since {why.date}: {site} ({clean(why.evidence)})")


def _coverage_lines(coverage: Sequence[ShapeCoverage], whose: str) -> Iterator[str]:
    rows = [("editor shape", "sites", "measurable runs here")]
    rows += [(one.shape, str(len(one.sites)), DASH if one.runs is None else str(one.runs)) for one in coverage]
    yield from _table(rows)
    for words, shapes in (
        (f"in {whose} no site has:", siteless(coverage)),
        ("without a measurable run here:", unmeasured(coverage)),
    ):
        if shapes:
            yield from fold(f"{words} {', '.join(shapes)}")


def _table(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = _widths(rows)
    return [
        "".join(f"{cell:<{width + _GAP}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


def _tall_table(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Where a row is wider than a terminal its second cell, the host, has a line of its own."""
    first = [(row[0], *row[2:]) for row in rows]
    lines = []
    for line, row in zip(_table(first), rows, strict=True):
        lines += [line, f"  {row[1]}"]
    return lines


def _widths(rows: Sequence[tuple[str, ...]]) -> list[int]:
    return [max(map(len, column)) for column in zip(*rows, strict=True)]


def _width(rows: Sequence[tuple[str, ...]]) -> int:
    widths = _widths(rows)
    return sum(widths) + _GAP * (len(widths) - 1)


def suites_document(suites: Sequence[Suite], coverage: Sequence[ShapeCoverage]) -> dict[str, Any]:
    """What `suites --json` prints."""
    return {"schema": SCHEMA, "suites": [_suite_document(suite) for suite in suites], "shapes": _shapes(coverage)}


def suite_document(suite: Suite, coverage: Sequence[ShapeCoverage]) -> dict[str, Any]:
    """What `suites NAME --json` prints: the same of one, with its tasks."""
    tasks = [
        {
            "site": task.site,
            "host": task.host,
            "editor_shape": task.editor_shape,
            "flow": task.flow,
            "visibility": task.visibility,
            "group": task.group or None,
            "retired": None if task.retired is None else {"date": task.retired.date, "evidence": task.retired.evidence},
        }
        for task in suite.tasks
    ]
    return {"schema": SCHEMA, **_suite_document(suite), "tasks": tasks, "shapes": _shapes(coverage)}


def _suite_document(suite: Suite) -> dict[str, Any]:
    return {
        "name": suite.name,
        "version": suite.version,
        "sha256": suite.sha256,
        "is_frozen": suite.is_frozen,
        "groups": _groups(suite),
        "sites": [task.site for task in _living(suite)],
        "retired_sites": [task.site for task in suite.tasks if task.retired is not None],
    }


def _shapes(coverage: Sequence[ShapeCoverage]) -> list[dict[str, Any]]:
    return [{"shape": one.shape, "sites": list(one.sites), "measurable_runs": one.runs} for one in coverage]
