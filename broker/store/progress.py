"""How far a sweep is: its runs, its verdicts, and what each box does, is held by and may take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from broker.holds import CONTENDED, say_what_ends
from broker.store.holds import HoldRow, read_holds
from broker.store.quoting import QUOTED_FIRST
from broker.store.standing import CheckState, read_checks
from broker.store.sweeps import SweepState, find_sweep
from broker.types import Bucket, Family


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldLine:
    """What keeps a box from its work, and what ends it."""

    # breach, quarantined, drained, or contended: its preflight refuses
    kind: str
    reason: str
    ends_by: str
    held_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxLine:
    """One box within a sweep's progress: what it does, since when, and what it has done in this sweep."""

    name: str
    phase: str
    # of the oldest hold
    hold_reason: str | None
    run_name: str | None
    run_phase: str | None
    phase_s: float | None
    done: int
    infra: int
    last_beat_s: float | None
    mode: str | None = None
    holds: tuple[HoldLine, ...] = ()
    # what is known of the markers at the revision that it runs
    revision: str | None = None
    check: str = CheckState.AWAITED
    dead_markers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedRun:
    """One verdict, for a progress line."""

    verdict_id: int
    run_name: str
    attempt_no: int
    bucket: str
    wall_s: float | None
    box: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a sweep is. `families` counts attempts; runs are closed or cancelled when they are over."""

    state: SweepState
    total: int
    over: int
    families: Mapping[Family, int]
    reach: tuple[int, int]
    active_attempts: int
    # finished by a box, not yet stored and graded
    ungraded: int
    boxes: tuple[BoxLine, ...]
    fresh: tuple[FinishedRun, ...]
    # runs that have begun and are not closed
    begun: int = 0
    # only boxes at whose revision no marker is dead get its runs
    needs_verified: bool = False
    mode: str = "dry"


def read_progress(connection: sa.Connection, sweep_id: str, after_verdict: int) -> Progress:
    """How far the sweep is, and the verdicts given since the one named."""
    sweep = find_sweep(connection, sweep_id)
    verdicts = connection.execute(sa.text(_CURRENT_VERDICTS), {"id": sweep_id}).all()
    families = dict.fromkeys(Family, 0)
    for row in verdicts:
        families[Bucket(row.bucket).family] += 1
    first = [row for row in verdicts if row.attempt_no == 1]
    judged = [row for row in first if Bucket(row.bucket).family in {Family.OK, Family.PRODUCT}]
    open_attempts = connection.execute(
        sa.text(
            "select count(*) filter (where a.state = 'started') as running,"
            " count(*) filter (where a.state in ('finished', 'reported')"
            "   or (a.state = 'lost' and not exists (select from verdicts v where v.attempt_id = a.id))) as ungraded"
            " from attempts a join site_runs r on r.id = a.run_id where r.sweep_id = :id"
        ),
        {"id": sweep_id},
    ).one()
    return Progress(
        state=sweep.state,
        total=sweep.counts.total,
        over=sweep.counts.closed + sweep.counts.cancelled,
        families=families,
        reach=(sum(row.bucket == Bucket.OK for row in judged), len(judged)),
        active_attempts=open_attempts.running,
        ungraded=open_attempts.ungraded,
        begun=sweep.counts.started,
        needs_verified=sweep.params.get("unverified") is not True,
        mode=sweep.mode,
        boxes=read_boxes(connection, sweep_id, verdicts),
        fresh=tuple(_to_finished(row) for row in verdicts if row.verdict_id > after_verdict),
    )


# One verdict per attempt: the one that is quoted.
_CURRENT_VERDICTS = f"""
    select distinct on (v.attempt_id) v.id as verdict_id, v.bucket, a.number as attempt_no, coalesce(a.box, '') as box,
        r.site, r.trial, extract(epoch from a.finished_at - a.started_at)::float as wall_s
    from verdicts v join attempts a on a.id = v.attempt_id join site_runs r on r.id = a.run_id
    where r.sweep_id = :id and v.counts
    order by v.attempt_id, {QUOTED_FIRST}
"""


def _to_finished(row: sa.Row[Any]) -> FinishedRun:
    return FinishedRun(
        verdict_id=row.verdict_id,
        run_name=f"{row.site}#{row.trial}",
        attempt_no=row.attempt_no,
        bucket=row.bucket,
        wall_s=row.wall_s,
        box=row.box,
    )


def read_boxes(
    connection: sa.Connection, sweep_id: str = "", verdicts: Sequence[sa.Row[Any]] = ()
) -> tuple[BoxLine, ...]:
    """Every box that is registered; with its share in the sweep, when one is named."""
    rows = connection.execute(sa.text(_BOXES), {"id": sweep_id}).all()
    holds, checks = read_holds(connection), read_checks(connection)
    return tuple(
        BoxLine(
            name=row.name,
            phase=row.phase,
            hold_reason=held[0].reason if held else None,
            run_name=f"{row.site}#{row.trial}" if row.site else None,
            run_phase=row.run_phase,
            phase_s=row.phase_s,
            done=sum(verdict.box == row.name for verdict in verdicts),
            infra=sum(
                verdict.box == row.name and Bucket(verdict.bucket).family is Family.INFRA for verdict in verdicts
            ),
            last_beat_s=row.last_beat_s,
            mode=row.mode,
            holds=held,
            revision=checks[row.name].revision,
            check=checks[row.name].state,
            dead_markers=checks[row.name].dead,
        )
        for row in rows
        for held in (_hold_lines(row, holds.get(row.name, ())),)
    )


_BOXES = """
    select b.name, b.phase, r.site, r.trial, a.phase as run_phase, b.facts ->> 'mode' as mode,
        b.facts ->> 'detail' as detail,
        extract(epoch from clock_timestamp() - coalesce(a.phase_at, a.started_at))::float as phase_s,
        extract(epoch from clock_timestamp() - b.last_beat_at)::float as last_beat_s, clock_timestamp() as now
    from boxes b left join attempts a on a.box = b.name and a.state = 'started'
        left join site_runs r on r.id = a.run_id and r.sweep_id = :id
    where b.token is not null order by b.name
"""


def _hold_lines(box: sa.Row[Any], holds: Iterable[HoldRow]) -> tuple[HoldLine, ...]:
    lines = [
        HoldLine(
            kind=hold.kind,
            reason=hold.reason,
            ends_by=say_what_ends(hold.kind),
            held_s=(box.now - hold.held_at).total_seconds(),
        )
        for hold in holds
    ]
    if box.phase == CONTENDED:
        lines.append(
            HoldLine(
                kind=CONTENDED, reason=box.detail or "not fit for a run", ends_by=say_what_ends(CONTENDED), held_s=None
            )
        )
    return tuple(lines)
