"""Sweeps as people and programs read them: lines, and the JSON of docs/reference/schedule-json.md. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from broker.store.progress import Progress
from broker.store.sweeps import SweepRow
from broker.suites import Suite
from broker.types import Family, Retirement
from scheduler.launcher import call
from scheduler.progress import box_lines, present_boxes, tally_line
from scheduler.request import Prepared
from scheduler.verified import say_waiting
from scheduler.wording import clean

# Raised when a key changes its meaning or goes; new keys may come without.
SCHEMA = 1
_WIDTH = 80


def count(number: int, noun: str, several: str = "") -> str:
    """`1 run`, `2 runs`."""
    return f"{number} {noun if number == 1 else several or noun + 's'}"


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def sweep_document(sweep: SweepRow) -> dict[str, Any]:
    """A sweep as `list --json` prints it."""
    return {
        "id": sweep.id,
        "plan": sweep.plan,
        "suite": sweep.suite,
        "mode": sweep.mode,
        "trials": sweep.trials,
        "sites": list(sweep.params.get("sites", [])),
        "unverified": bool(sweep.params.get("unverified", False)),
        "state": sweep.state,
        "reason": sweep.order_reason,
        "requested_by": sweep.requested_by,
        "created_at": _iso(sweep.created_at),
        "finished_at": _iso(sweep.finished_at),
        "counts": asdict(sweep.counts),
    }


def status_document(sweep: SweepRow, progress: Progress) -> dict[str, Any]:
    """A sweep as `status --json` prints it: with families, reach and boxes."""
    return {
        "schema": SCHEMA,
        **sweep_document(sweep),
        "families": {family.value: progress.families.get(family, 0) for family in Family},
        "reach": {"ok": progress.reach[0], "measured": progress.reach[1]},
        "running": progress.active_attempts,
        "ungraded": progress.ungraded,
        "boxes": [asdict(box) for box in progress.boxes],
    }


def ending_document(sweep: SweepRow, progress: Progress, *, rows: str | None, scorecard: Any) -> dict[str, Any]:
    """What a followed sweep prints at its end: its status, where its rows are, its scorecard."""
    return {**status_document(sweep, progress), "rows": rows, "scorecard": scorecard}


def series_document(documents: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What a series of sweeps prints: the document of each, in order."""
    return {"schema": SCHEMA, "sweeps": list(documents)}


def cancel_line(sweep: SweepRow) -> str:
    """What a cancel has done: `cancelled, 5 of 9 runs are dropped; 1 running one finishes`."""
    counts = sweep.counts
    running = running_ones(counts.started)
    if not counts.cancelled:
        return f"cancelled, nothing was waiting; {running}"
    dropped = f"cancelled, {counts.cancelled} of {count(counts.total, 'run')} are dropped"
    return f"{dropped}; {running}" if counts.started else dropped


def running_ones(number: int) -> str:
    """`1 running one finishes`, `2 running ones finish`."""
    return f"{number} running {'one finishes' if number == 1 else 'ones finish'}"


def plan_document(prepared: Prepared, frozen: dict[str, Any] | None = None) -> dict[str, Any]:
    """What `--dry-run --json` prints: what would be planned. `frozen`: what was found of a frozen suite's groups."""
    sweep = prepared.sweep
    return {
        "schema": SCHEMA,
        "dry_run": True,
        "plan": sweep.plan,
        "suite": {"name": sweep.suite, "version": prepared.suite.version, "sha256": sweep.suite_sha256},
        "mode": sweep.mode,
        "trials": sweep.trials,
        "sites": list(sweep.params["sites"]),
        "boxes": sweep.params["boxes"],
        "unverified": sweep.params["unverified"],
        "retired": [{"site": site, **asdict(retired)} for site, retired in _retired(prepared.suite)],
        "frozen": frozen,
        "runs": [{"site": run.site, "trial": run.trial, "order": run.order_key} for run in sweep.runs],
    }


def plan_lines(prepared: Prepared) -> list[str]:
    """What `--dry-run` prints of each sweep."""
    sweep, sites = prepared.sweep, prepared.sweep.params["sites"]
    runs = count(len(sweep.runs), "site-run")
    retired = _retired(prepared.suite)
    return [
        f"would plan {sweep.plan}: {sweep.suite} suite x {sweep.trials}, {sweep.mode}, {runs}",
        f"suite {sweep.suite} version {prepared.suite.version}, sha256 {sweep.suite_sha256[:12]}",
        *fold(f"first trial: {' '.join(run.site for run in sweep.runs[: len(sites)])}"),
        *(line for site, one in retired for line in fold(f"retired since {one.date}: {site} ({one.evidence})")),
    ]


def fold(text: str, *, indent: int = 0) -> list[str]:
    """The text in lines of a terminal's 80 columns less an indent, all but the first indented further."""
    return textwrap.wrap(text, _WIDTH - indent, subsequent_indent="  ", break_on_hyphens=False)


def _retired(suite: Suite) -> Iterator[tuple[str, Retirement]]:
    for task in suite.tasks:
        if task.retired is not None:
            yield task.site, task.retired


def list_lines(sweeps: Sequence[SweepRow]) -> list[str]:
    """What `list` prints: a line per sweep, newest first."""
    if not sweeps:
        return [f"no sweeps yet: {call('c7')}"]
    width = max(len(sweep.id) for sweep in sweeps)
    head = f"{'sweep':<{width}}  {'state':<9}  {'runs':>9}  {'attempts':>8}  planned"
    return [head, *(_list_line(sweep, width) for sweep in sweeps)]


def _list_line(sweep: SweepRow, width: int) -> str:
    counts = sweep.counts
    runs = f"{counts.closed}/{counts.total}"
    when = f"{sweep.created_at.astimezone(UTC):%Y-%m-%d %H:%M}"
    return f"{sweep.id:<{width}}  {sweep.state:<9}  {runs:>9}  {counts.attempts:>8}  {when}"


def status_lines(sweep: SweepRow, progress: Progress) -> list[str]:
    """What `status` prints."""
    counts = sweep.counts
    families = "  ".join(f"{family.replace('_', ' ')} {progress.families.get(family, 0)}" for family in Family)
    reason = f" ({clean(sweep.order_reason)})" if sweep.order_reason and sweep.state != "finished" else ""
    over = f"{counts.closed} of {count(counts.total, 'run')} over"
    over += f", {counts.cancelled} cancelled" if counts.cancelled else ""
    when = f"{sweep.created_at.astimezone(UTC):%Y-%m-%d %H:%M:%S}"
    lines = [
        f"{sweep.id}   {sweep.state}{reason}",
        f"{sweep.suite} suite x {sweep.trials}, {sweep.mode}, planned at {when} UTC by {clean(sweep.requested_by)}",
        f"{over}, {count(counts.attempts, 'attempt')}   {families}",
    ]
    if progress.ungraded:
        lines.append(f"{count(progress.ungraded, 'attempt')} not graded yet")
    if sweep.state in {"finished", "cancelled"} and not progress.active_attempts:
        return lines + [tally_line(box) for box in progress.boxes if box.done]
    if (waiting := say_waiting(progress)) is not None:
        lines.append(clean(waiting))
    return lines + [line for box in present_boxes(progress.boxes) for line in box_lines(box)]
