"""What this farm has measured of a suite, and how long a run of it takes here. Reads; writes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from broker.store.progress import read_progress
from broker.store.quoting import QUOTED_FIRST
from broker.store.sweeps import IMPORT_PLAN
from broker.types import Bucket, Family

# What an earlier farm or another day took says little of tonight.
_LAST_STARTS = 300
_MEASURABLE = [bucket.value for bucket in Bucket if bucket.family in {Family.OK, Family.PRODUCT}]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTime:
    """The median of the last runs' times, each from its start to the next one's on its box, or to its own end."""

    seconds: float
    runs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurable:
    """How many attempts of a sweep's could be measured, of those that the infrastructure did not spoil."""

    sweep: str
    measurable: int
    judged: int


def read_measured(connection: sa.Connection) -> Mapping[tuple[str, str], int]:
    """How many runs of each suite's site have a measurable attempt by the quoted verdicts; imported ones are none."""
    # here every sweep has its own adoptions
    quoted = QUOTED_FIRST.replace(":id", "s.id")
    rows = connection.execute(
        sa.text(
            "select s.suite, r.site, count(distinct r.id) as runs from sweeps s join site_runs r on r.sweep_id = s.id"
            " join attempts a on a.run_id = r.id join lateral (select v.bucket from verdicts v"
            f"   where v.attempt_id = a.id and v.counts order by {quoted} limit 1) v on true"
            " where s.plan <> :imported and v.bucket = any(:measurable) group by s.suite, r.site"
        ),
        {"imported": IMPORT_PLAN, "measurable": _MEASURABLE},
    )
    return {(row.suite, row.site): row.runs for row in rows}


def read_run_time(connection: sa.Connection, suite: str) -> RunTime | None:
    """What the last runs of the suite took on this farm's boxes; None: no box has finished one."""
    row = connection.execute(
        sa.text(
            "with last as (select a.box, r.sweep_id, a.started_at, a.finished_at from attempts a"
            "   join site_runs r on r.id = a.run_id join sweeps s on s.id = r.sweep_id"
            "   where s.suite = :suite and s.plan <> :imported and a.finished_at is not null"
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
    """What could be measured in the last finished sweep with all of these sites; None: there is none."""
    sweep_id = connection.scalar(
        sa.text(
            "select s.id from sweeps s where s.suite = :suite and s.plan <> :imported and s.finished_at is not null"
            " and (select count(distinct r.site) from site_runs r where r.sweep_id = s.id and r.state = 'closed'"
            "   and r.site = any(:sites)) = :count"
            " order by s.finished_at desc, s.id desc limit 1"
        ),
        {"suite": suite, "imported": IMPORT_PLAN, "sites": list(sites), "count": len(sites)},
    )
    if sweep_id is None:
        return None
    families = read_progress(connection, sweep_id, 0).families
    measurable = families[Family.OK] + families[Family.PRODUCT]
    judged = measurable + families[Family.NOT_MEASURABLE]
    return Measurable(sweep=sweep_id, measurable=measurable, judged=judged) if judged else None
