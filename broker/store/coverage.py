"""What this farm has measured of a suite, and how long a run of it takes here. Reads; writes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from broker.store.quoting import QUOTED_FIRST
from broker.store.sweeps import IMPORT_PLAN
from broker.types import Bucket, Evidence, Family

# What an earlier farm or another day took says little of tonight.
_LAST_STARTS = 300
_MEASURABLE = [bucket.value for bucket in Bucket if bucket.family in {Family.OK, Family.PRODUCT}]
# A verdict `v` on a stack that was told to misbehave, or whose waits were scaled, as the scorecard takes it.
_REHEARSED = """
    (coalesce(v.facts ->> 'faults', '') <> '' or coalesce((v.facts ->> 'leash_scale')::float, 1) <> 1)
"""
# Of a sweep `s`: none of its attempts was one.
_IN_EARNEST = f"""
    not exists (select from site_runs rr join attempts ra on ra.run_id = rr.id join verdicts v on v.attempt_id = ra.id
        where rr.sweep_id = s.id and {_REHEARSED})
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTime:
    """The median of the last runs' times, each from its start to the next one's on its box, or to its own end."""

    seconds: float
    runs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurable:
    """How many attempts of a sweep's could be measured, of those that the infrastructure did not spoil.

    `unverified`: those of them that were excluded on the product's word alone.
    """

    sweep: str
    measurable: int
    judged: int
    unverified: int = 0


def read_measured(connection: sa.Connection) -> Mapping[tuple[str, str, str], int]:
    """By suite, site and editor's shape: how many runs have a measurable attempt by the quoted verdicts.

    The shape is the one that the run's own task had. Imported runs and rehearsals are none.
    """
    # here every sweep has its own adoptions
    quoted = QUOTED_FIRST.replace(":id", "s.id")
    rows = connection.execute(
        sa.text(
            "select s.suite, r.site, coalesce(r.task ->> 'editor_shape', '') as shape, count(distinct r.id) as runs"
            " from sweeps s join site_runs r on r.sweep_id = s.id"
            " join attempts a on a.run_id = r.id join lateral (select v.bucket, v.facts from verdicts v"
            f"   where v.attempt_id = a.id and v.counts order by {quoted} limit 1) v on true"
            f" where s.plan <> :imported and v.bucket = any(:measurable) and not {_REHEARSED}"
            " group by s.suite, r.site, shape"
        ),
        {"imported": IMPORT_PLAN, "measurable": _MEASURABLE},
    )
    return {(row.suite, row.site, row.shape): row.runs for row in rows}


def read_run_time(connection: sa.Connection, suite: str) -> RunTime | None:
    """What the last runs of the suite took on this farm's boxes, in earnest; None: no box has finished one."""
    row = connection.execute(
        sa.text(
            "with last as (select a.box, r.sweep_id, a.started_at, a.finished_at from attempts a"
            "   join site_runs r on r.id = a.run_id join sweeps s on s.id = r.sweep_id"
            f"   where s.suite = :suite and s.plan <> :imported and a.finished_at is not null and {_IN_EARNEST}"
            "   order by a.id desc limit :last),"
            " timed as (select coalesce(lead(started_at) over (partition by box, sweep_id order by started_at),"
            "   finished_at) - started_at as took from last)"
            " select percentile_cont(0.5) within group (order by extract(epoch from took))::float as seconds,"
            " count(*) as runs from timed"
        ),
        {"suite": suite, "imported": IMPORT_PLAN, "last": _LAST_STARTS},
    ).one()
    return RunTime(seconds=row.seconds, runs=row.runs) if row.runs else None


def read_measurable(connection: sa.Connection, suite: str, sites: Sequence[str]) -> Measurable | None:
    """What could be measured in the last finished sweep with all of these sites, no rehearsal; None: there is none."""
    sweep_id = connection.scalar(
        sa.text(
            "select s.id from sweeps s where s.suite = :suite and s.plan <> :imported and s.finished_at is not null"
            " and (select count(distinct r.site) from site_runs r where r.sweep_id = s.id and r.state = 'closed'"
            f"   and r.site = any(:sites)) = :count and {_IN_EARNEST}"
            " order by s.finished_at desc, s.id desc limit 1"
        ),
        {"suite": suite, "imported": IMPORT_PLAN, "sites": list(sites), "count": len(sites)},
    )
    if sweep_id is None:
        return None
    row = connection.execute(
        sa.text(
            "select count(*) filter (where v.bucket = any(:measurable)) as measurable,"
            " count(*) filter (where v.bucket = :excluded) as excluded,"
            " count(*) filter (where v.bucket = :excluded and v.facts ->> 'evidence' = :unverified) as unverified"
            " from site_runs r join attempts a on a.run_id = r.id"
            " join lateral (select v.bucket, v.facts from verdicts v"
            f"   where v.attempt_id = a.id and v.counts order by {QUOTED_FIRST} limit 1) v on true"
            " where r.sweep_id = :id"
        ),
        {
            "id": sweep_id,
            "measurable": _MEASURABLE,
            "excluded": Bucket.NOT_MEASURABLE,
            "unverified": Evidence.UNVERIFIED,
        },
    ).one()
    judged = row.measurable + row.excluded
    if not judged:
        return None
    return Measurable(sweep=sweep_id, measurable=row.measurable, judged=judged, unverified=row.unverified)
