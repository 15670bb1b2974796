"""How a box stands beside what it does now: its last attempts, and the check of the markers at its revision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import sqlalchemy as sa

from broker.markers import name_catalogue

# Of so many attempts in a row the dispatcher judges a box (scheduler.dispatch).
_LAST = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentAttempt:
    """An attempt with the verdict that it got first."""

    # `x#1`, with the attempt's number where it is not the first
    name: str
    bucket: str


class CheckState(StrEnum):
    """What is known of the markers at the revision that a box runs."""

    VERIFIED = "verified"
    DEAD = "dead"
    # the box makes a check right after it has booted
    AWAITED = "awaited"
    # the box's bv3 has another catalogue than this one, so its check says nothing here
    OTHER_CATALOGUE = "other_catalogue"


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxCheck:
    """The check that counts for a box now. `dead`: the markers that are."""

    state: CheckState
    # None: it has not booted a stack
    revision: str | None
    dead: tuple[str, ...] = ()


def read_recent(connection: sa.Connection) -> Mapping[str, tuple[RecentAttempt, ...]]:
    """Per registered box its last judged attempts of any sweep, oldest first, since its last quarantine ended."""
    found: dict[str, tuple[RecentAttempt, ...]] = {}
    for row in connection.execute(sa.text(RECENT_QUERY), {"last": _LAST}):
        again = f" attempt {row.number}" if row.number > 1 else ""
        attempt = RecentAttempt(name=f"{row.site}#{row.trial}{again}", bucket=row.bucket)
        found[row.box] = (*found.get(row.box, ()), attempt)
    return found


# The first verdict, whatever version is quoted later; a late record's counts nowhere.
RECENT_QUERY = """
    select b.name as box, last.site, last.trial, last.number, last.bucket
    from boxes b cross join lateral (
        select a.id, a.number, r.site, r.trial, v.bucket
        from attempts a join site_runs r on r.id = a.run_id
            cross join lateral (select bucket from verdicts v where v.attempt_id = a.id and v.counts
                order by v.id limit 1) v
        where a.box = b.name and a.started_at > coalesce((select max(h.lifted_at) from box_holds h
            where h.box = b.name and h.kind = 'quarantined'), '-infinity')
        order by a.id desc limit :last) last
    where b.token is not null order by b.name, last.id
"""


def read_checks(connection: sa.Connection) -> Mapping[str, BoxCheck]:
    """What is known of the markers at each registered box, by the catalogue of this process."""
    catalogue = name_catalogue()
    rows = connection.execute(sa.text(_CHECKS), {"catalogue": catalogue})
    return {row.name: _to_check(row, catalogue) for row in rows}


_CHECKS = """
    select b.name, b.facts ->> 'revision' as revision, b.facts ->> 'catalogue_sha256' as catalogue,
        c.id as check_id, coalesce(c.facts -> 'dead', '{}') as dead
    from boxes b cross join lateral box.find_check(b, :catalogue) c
    where b.token is not null order by b.name
"""


def _to_check(row: sa.Row[Any], catalogue: str) -> BoxCheck:
    if row.check_id is not None:
        state = CheckState.DEAD if row.dead else CheckState.VERIFIED
        return BoxCheck(state=state, revision=row.revision, dead=tuple(sorted(row.dead)))
    is_other = row.catalogue is not None and row.catalogue != catalogue
    return BoxCheck(state=CheckState.OTHER_CATALOGUE if is_other else CheckState.AWAITED, revision=row.revision)
