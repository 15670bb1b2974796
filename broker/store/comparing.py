"""Sweeps that another one may be set against, found by what their attempts ran under."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import sqlalchemy as sa

from broker.store.sweeps import SweepRow, find_sweep


def finished_sweeps(
    connection: sa.Connection, *, plan: str, product_revision: str, renderer: str, lane: str, by: datetime | None
) -> Iterator[SweepRow]:
    """The finished sweeps of the plan with a counted verdict under these conditions, the last finished first.

    Those that were over `by` then come before any other, and of the others the first finished is first: what is
    found for a moment stays the same whatever is finished later. Read one by one, as far as they are asked for.
    """
    conditions = {"product_revision": product_revision, "renderer": renderer, "lane": lane}
    for sweep_id in connection.scalars(sa.text(_FINISHED), {"plan": plan, "by": by, **conditions}).all():
        sweep = find_sweep(connection, sweep_id)
        if sweep.state == "finished":
            yield sweep


_FINISHED = """
    select s.id from sweeps s where s.plan = :plan and s.finished_at is not null and exists (
        select from site_runs r join attempts a on a.run_id = r.id join verdicts v on v.attempt_id = a.id
        where r.sweep_id = s.id and v.counts and v.facts ->> 'product_revision' = :product_revision
            and v.facts ->> 'renderer' = :renderer and v.facts ->> 'lane' = :lane)
    order by case when s.finished_at > cast(:by as timestamptz) then s.finished_at end nulls first,
        s.finished_at desc, s.id desc
"""
