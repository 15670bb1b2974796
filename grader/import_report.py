"""An import as people and programs read it. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from grader.import_findings import Findings, SameTimings, Summary
from grader.importer import RULE_IMPORTED, BadLine, OldRow, Part

# Raised when a key changes its meaning or goes; new keys may come without.
SCHEMA = 1
MOST_BAD_LINES = 20
_MAX_LISTED = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """A file that was taken: as which sweep, and what is to be said of it."""

    sweep: str
    suite: str
    # of the file's bytes
    sha256: str
    summary: Summary
    parts: tuple[Part, ...]
    findings: Findings


def bad_lines(file: str, bad: Sequence[BadLine]) -> Iterator[str]:
    """What is printed of a file that was not taken."""
    shown = bad[:MOST_BAD_LINES]
    yield from (f"{file}:{one.line}: {one.problem}" for one in shown)
    if len(bad) > len(shown):
        yield f"and {len(bad) - len(shown)} more bad lines"


def bad_json(bad: Sequence[BadLine]) -> dict[str, Any]:
    """The document of a file that was not taken."""
    return {
        "schema": SCHEMA,
        "imported": False,
        "bad": len(bad),
        "bad_lines": [asdict(one) for one in bad[:MOST_BAD_LINES]],
    }


def import_lines(done: Imported, *, width: int) -> Iterator[str]:
    """What the command prints of a file that was taken."""
    summary = done.summary
    reach, infra = _rate(summary.ok, summary.measured), _rate(summary.infra, summary.rows)
    yield f"{done.sweep}: verdicts of rule {RULE_IMPORTED}; the evidence is gone, they are the old harness's word"
    rows = f"{done.suite} {_count(summary.rows, 'row')}"
    yield f"{rows}: reach {reach}, not measurable {summary.not_measurable}, infra {infra}"
    if summary.unverified:
        counted = _rate(summary.ok, summary.measured + summary.unverified)
        yield f"with the {summary.unverified} UNVERIFIED exclusions as misses: reach {counted}"
    times = (f"{name} {_value(summary.medians[f'{name}_ms'], 'ms')}" for name in ("total", "llm", "tools", "other"))
    yield "medians over ok rows: " + ", ".join((f"wall {_value(summary.medians['wall_s'], 's', digits=1)}", *times))
    yield "parts: " + ", ".join(
        f"{part.name} {_count(len(part.rows), 'row')} (lines {part.rows[0].line}-{part.rows[-1].line})"
        for part in done.parts
    )
    yield "what is wrong with the rows:"
    yield from (
        wrapped
        for line in _finding_lines(done.findings)
        for wrapped in textwrap.wrap(
            line, max(width, 80), initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False
        )
    )
    yield f"its scorecard: bv3-grade scorecard {done.sweep}"


def _finding_lines(findings: Findings) -> Iterator[str]:
    if findings.neighbours:
        yield f"{_count(len(findings.neighbours), 'pair')} of neighbours with the same timings: " + _pairs(
            findings.neighbours
        )
    if findings.apart:
        yield f"{_count(len(findings.apart), 'pair')} with a row between and the same timings: " + _pairs(
            findings.apart
        )
    if findings.overwritten:
        names = [f"{one.artifact} (lines {_lines(one.rows)})" for one in findings.overwritten]
        yield f"{_count(len(names), 'artifact')} named more than once, so overwritten: " + _listed(names, ", ")
    if findings.impossible:
        named = [f"line {one.row.line} ({one.row.run}): {one.problem}" for one in findings.impossible]
        yield f"{_count(len(named), 'impossible value')}: " + _listed(named, "; ")
    if findings.unexplained:
        names = [f"{row.run} (line {row.line})" for row in findings.unexplained]
        said = "that does not say on whose word, counted as UNVERIFIED: "
        yield f"{_count(len(names), 'exclusion')} {said}" + _listed(names, ", ")
    if findings.unread:
        yield "fields that are not read: " + _listed(
            [f"{name} ({_count(times, 'row')})" for name, times in findings.unread.items()], ", "
        )
    if findings == Findings(neighbours=(), apart=(), overwritten=(), impossible=(), unexplained=(), unread={}):
        yield "nothing that shows"


def _pairs(pairs: Sequence[SameTimings]) -> str:
    return _listed(
        [f"{pair.first.run} / {pair.second.run} (lines {pair.first.line}, {pair.second.line})" for pair in pairs], ", "
    )


def _lines(rows: Sequence[OldRow]) -> str:
    return ", ".join(str(row.line) for row in rows[:10]) + (", …" if len(rows) > 10 else "")  # noqa: PLR2004 - a line's worth


def _listed(names: Sequence[str], separator: str) -> str:
    rest = len(names) - _MAX_LISTED
    return separator.join(names[:_MAX_LISTED]) + (
        f"{separator}and {rest} more (--json has them all)" if rest > 0 else ""
    )


def _rate(part: int, whole: int) -> str:
    if not whole:
        return "-"
    # never 100% or 0% by rounding
    tenths = min(max(round(part / whole * 1000), int(part > 0)), 1000 if part == whole else 999)
    return f"{part}/{whole} = {tenths / 10:.1f}%"


def _value(value: float | None, unit: str, digits: int = 0) -> str:
    return "-" if value is None else f"{value:.{digits}f} {unit}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def import_json(done: Imported) -> dict[str, Any]:
    """The document of docs/reference/import-json.md."""
    findings = done.findings
    return {
        "schema": SCHEMA,
        "imported": True,
        "sweep": done.sweep,
        "suite": done.suite,
        "sha256": done.sha256,
        **asdict(done.summary),
        "parts": [
            {
                "name": part.name,
                "rows": len(part.rows),
                "first_line": part.rows[0].line,
                "last_line": part.rows[-1].line,
            }
            for part in done.parts
        ],
        "findings": {
            "same_timings": [_pair_json(pair) for pair in (*findings.neighbours, *findings.apart)],
            "overwritten": [
                {"artifact": one.artifact, "lines": [row.line for row in one.rows]} for one in findings.overwritten
            ],
            "impossible": [_row_json(one.row) | {"problem": one.problem} for one in findings.impossible],
            "unexplained": [_row_json(row) for row in findings.unexplained],
            "unread": dict(findings.unread),
        },
    }


def _pair_json(pair: SameTimings) -> dict[str, Any]:
    timing = pair.first.timing
    return {
        "first": _row_json(pair.first),
        "second": _row_json(pair.second),
        "rows_between": pair.rows_between,
        "total_ms": timing.total_ms,
        "llm_ms": timing.llm_ms,
        "tools_ms": timing.tools_ms,
        "other_ms": timing.other_ms,
        "turns": timing.turns,
    }


def _row_json(row: OldRow) -> dict[str, Any]:
    return {"line": row.line, "site": row.site, "trial": row.trial}
