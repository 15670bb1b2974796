"""From the store's rows to the scorecard's values."""

from __future__ import annotations

from collections.abc import Iterator

import sqlalchemy as sa

from broker.codec import from_json
from broker.errors import Bv3Error
from broker.freezes import has_freeze, load_freezes
from broker.store import grading
from broker.store.freezes import read_freezes, read_uses
from broker.store.sweeps import SweepRow
from broker.suites import Suite, load_suite
from broker.types import Mode, SiteTask
from grader.criteria import RetiredSite, Sample, SweepFacts
from grader.facts import AttemptRow, VerdictFacts
from grader.ledger import GroupUse, to_group


def read_attempts(connection: sa.Connection, sweep: SweepRow) -> tuple[tuple[AttemptRow, ...], int]:
    """The sweep's graded attempts in a stable order, and how many attempts have no verdict yet."""
    shapes = grading.planned_shapes(connection, sweep.id)
    rows = grading.verdict_rows(connection, sweep.id)
    graded = tuple(_to_attempt(row, shapes.get(row.site, "")) for row in rows if row.bucket is not None)
    return graded, len(rows) - len(graded)


def _to_attempt(row: grading.VerdictRow, shape: str) -> AttemptRow:
    assert row.bucket is not None  # noqa: S101 - the caller chose them so
    return AttemptRow(
        run_id=row.run_id,
        attempt_id=row.attempt_id,
        attempt_no=row.attempt_no,
        arm=row.arm,
        site=row.site,
        trial=row.trial,
        # an imported attempt ran on no box of ours
        box=row.box or "",
        editor_shape=shape,
        bucket=row.bucket,
        rule=row.rule or "",
        detail=row.detail or "",
        grader_version=row.grader_version or 0,
        started_at=row.started_at,
        finished_at=row.finished_at,
        record_id=row.record_id,
        facts=from_json(VerdictFacts, dict(row.facts)),
    )


def read_sample(connection: sa.Connection, sweep: SweepRow) -> Sample:
    """The sweep with its graded attempts."""
    rows, ungraded = read_attempts(connection, sweep)
    return Sample(sweep=read_sweep(connection, sweep, ungraded), rows=rows)


def read_sweep(connection: sa.Connection, sweep: SweepRow, ungraded: int) -> SweepFacts:
    """What the scorecard must know of the sweep beside its attempts."""
    losses = grading.box_losses(connection, sweep.id)
    planned = tuple(sorted(grading.planned_shapes(connection, sweep.id)))
    suite = _shipped_suite(sweep.suite)
    tasks = suite.tasks if suite else ()
    return SweepFacts(
        sweep=sweep.id,
        plan=sweep.plan,
        suite=sweep.suite,
        mode=Mode(sweep.mode),
        trials=sweep.trials,
        runs=sweep.counts.total,
        runs_closed=sweep.counts.closed,
        sites=planned,
        suite_sites=tuple(sorted(task.site for task in tasks if task.retired is None)) or planned,
        state=sweep.state,
        started_at=sweep.created_at,
        finished_at=sweep.finished_at,
        ungraded=ungraded,
        refusals=losses.refusals,
        box_minutes_lost=losses.minutes,
        refusal_reasons=losses.by_reason,
        late_breaches=grading.count_late_breaches(connection, sweep.id),
        retired=tuple(_retired(tasks)),
        suite_shapes={task.site: task.editor_shape for task in tasks if task.retired is None},
        suite_sha256=sweep.suite_sha256,
        shipped_sha256=suite.sha256 if suite else "",
    )


def _retired(tasks: tuple[SiteTask, ...]) -> Iterator[RetiredSite]:
    for task in tasks:
        if task.retired is not None:
            yield RetiredSite(site=task.site, date=task.retired.date, evidence=task.retired.evidence)


def _shipped_suite(name: str) -> Suite | None:
    try:
        return load_suite(name)
    except Bv3Error:
        # a suite that is not shipped any more: the sweep's own plan says what it had
        return None


def read_ledger(connection: sa.Connection, sweep: SweepRow) -> tuple[GroupUse, ...] | None:
    """The groups that the sweep has used; None of a suite that neither its file nor any freeze calls frozen."""
    uses = read_uses(connection, sweep_id=sweep.id)
    if not uses and not _is_frozen(connection, sweep.suite):
        return None
    return tuple(to_group(use) for use in uses)


def _is_frozen(connection: sa.Connection, suite: str) -> bool:
    """By its file, or by any freeze, which its file can't undo."""
    if has_freeze(suite, load_freezes()) or read_freezes(connection, suite):
        return True
    shipped = _shipped_suite(suite)
    return shipped is not None and shipped.is_frozen
