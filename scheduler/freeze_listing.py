"""Freezes and their uses as people and programs read them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from broker.freezes import Freeze, FreezeUse, SearchedSource, count_files, describe
from broker.store.freezes import FreezeRow
from scheduler.freezing import Frozen, Standing
from scheduler.listing import fold
from scheduler.wording import clean

# Raised when a key changes its meaning or goes; new keys may come without.
SCHEMA = 1


def _describe(freeze: Freeze) -> str:
    return clean(describe(freeze))


def say_source(source: SearchedSource | None, suite: str) -> str:
    """Whether the product's source was searched for the suite's hosts, and what came of it."""
    if source is None:
        return "the product's source was not searched for its hosts (--source CHECKOUT does)"
    return clean(f"the product's source at {source.revision}: {count_files(source)}; none names a host of the {suite}")


def standing_lines(standings: Sequence[Standing], source: SearchedSource | None) -> list[str]:
    """What a plan that may be carried out prints of its groups; nothing of a suite that is not frozen."""
    if not standings:
        return []
    suite = standings[0].lineage.tip.suite
    width = max(len(standing.lineage.tip.group) for standing in standings)
    lines = [
        f"group {standing.lineage.tip.group:<{width}}  {_describe(standing.lineage.tip)};"
        f" {f'use {standing.lineage.uses + 1}' if standing.is_used else 'not used by this plan'}"
        for standing in standings
    ]
    return [piece for line in [*lines, say_source(source, suite)] for piece in fold(line)]


def standing_document(standings: Sequence[Standing], source: SearchedSource | None) -> dict[str, Any] | None:
    """The same as JSON; None of a suite that is not frozen."""
    if not standings:
        return None
    groups = [
        {
            **freeze_document(standing.lineage.tip),
            "use": standing.lineage.uses + 1 if standing.is_used else None,
        }
        for standing in standings
    ]
    return {"groups": groups, "source": source_document(source)}


def source_document(source: SearchedSource | None) -> dict[str, Any] | None:
    """The checkout that was searched; None: none was."""
    return None if source is None else asdict(source)


def freeze_document(freeze: Freeze) -> dict[str, Any]:
    """A freeze without its tasks."""
    return {
        "suite": freeze.suite,
        "group": freeze.group,
        "sha256": freeze.sha256,
        "frozen_at": _iso(freeze.frozen_at),
        "product_revision": freeze.product_revision,
        "frozen_by": freeze.frozen_by,
        "taken_over": freeze.taken_over,
        "follows": freeze.follows,
        "reason": freeze.reason,
        "sites": [task["site"] for task in freeze.tasks],
    }


def frozen_lines(done: Sequence[Frozen]) -> list[str]:
    """What `freeze` prints of each group."""
    return [piece for one in done for piece in fold(_frozen_line(one))]


def _frozen_line(one: Frozen) -> str:
    freeze = one.freeze
    sites = f"{len(freeze.tasks)} site{'' if len(freeze.tasks) == 1 else 's'}"
    if one.is_new:
        return f"{freeze.suite} {freeze.group}: {_describe(freeze)}; {sites}, sha256 {freeze.sha256}"
    entered = ", now on this farm's record" if one.writes else ""
    return f"{freeze.suite} {freeze.group}: is {_describe(freeze)}, and as it was then{entered}; {sites}"


def frozen_document(done: Sequence[Frozen], source: SearchedSource | None, block: str) -> dict[str, Any]:
    """What `freeze --json` prints."""
    return {
        "schema": SCHEMA,
        "groups": [
            {**freeze_document(one.freeze), "is_new": one.is_new, "written": [freeze.group for freeze in one.writes]}
            for one in done
        ],
        "source": source_document(source),
        "toml": block or None,
    }


def freezes_lines(rows: Sequence[FreezeRow], unrecorded: Sequence[Freeze], uses: Sequence[FreezeUse]) -> list[str]:
    """What `freezes` prints: each freeze, and under it its uses."""
    lines: list[str] = []
    for freeze in [*(row.freeze for row in rows), *unrecorded]:
        mine = [use for use in uses if (use.freeze.suite, use.freeze.group) == (freeze.suite, freeze.group)]
        times = f"{len(mine)} use{'' if len(mine) == 1 else 's'}"
        lines.append(f"{freeze.suite} {freeze.group}: {_describe(freeze)}; {times}")
        lines.append(f"  sha256 {freeze.sha256}, sites {' '.join(task['site'] for task in freeze.tasks) or 'none'}")
        lines += [_use_line(use) for use in mine]
    return [piece for line in lines for piece in fold(line)] or ["nothing is frozen"]


def _use_line(use: FreezeUse) -> str:
    source = f"source {use.source.revision} searched" if use.source else "source not searched"
    when = f"{use.used_at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
    return clean(f"  use {use.number}  {when}  {use.sweep}  by {use.requested_by}, {source}")


def freezes_document(
    rows: Sequence[FreezeRow], unrecorded: Sequence[Freeze], uses: Sequence[FreezeUse]
) -> dict[str, Any]:
    """What `freezes --json` prints."""
    recorded = {(row.freeze.suite, row.freeze.group): row.recorded_at for row in rows}
    return {
        "schema": SCHEMA,
        "freezes": [
            {
                **freeze_document(freeze),
                "tasks": [dict(task) for task in freeze.tasks],
                "recorded_at": _iso(recorded.get((freeze.suite, freeze.group))),
                "uses": [
                    _use_document(use)
                    for use in uses
                    if (use.freeze.suite, use.freeze.group) == (freeze.suite, freeze.group)
                ],
            }
            for freeze in [*(row.freeze for row in rows), *unrecorded]
        ],
    }


def _use_document(use: FreezeUse) -> dict[str, Any]:
    return {
        "number": use.number,
        "sweep": use.sweep,
        "used_at": _iso(use.used_at),
        "requested_by": use.requested_by,
        "source": source_document(use.source),
    }


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
