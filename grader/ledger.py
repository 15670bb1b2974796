"""The ledger of a frozen suite on its scorecard: what each group was frozen with, and its how-manieth use. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from broker.freezes import FreezeUse, SearchedSource, count_files, describe
from grader.lines import Line


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupUse:
    """A group of the sweep's suite as it was frozen; the sweep is use number `use` of this freeze."""

    group: str
    use: int
    sha256: str
    frozen_at: datetime
    product_revision: str
    frozen_by: str
    taken_over: bool
    follows: str | None
    reason: str | None
    # in one sentence
    frozen: str
    # the product's checkout that was searched for the suite's hosts; None: none was
    source: SearchedSource | None


def to_group(use: FreezeUse) -> GroupUse:
    """The use as a scorecard shows it."""
    freeze = use.freeze
    return GroupUse(
        group=freeze.group,
        use=use.number,
        sha256=freeze.sha256,
        frozen_at=freeze.frozen_at,
        product_revision=freeze.product_revision,
        frozen_by=freeze.frozen_by,
        taken_over=freeze.taken_over,
        follows=freeze.follows,
        reason=freeze.reason,
        frozen=describe(freeze),
        source=use.source,
    )


def ledger_lines(ledger: Sequence[GroupUse] | None, revisions: Collection[str]) -> Iterator[Line]:
    """A line per group, and whether the product's source was searched; `revisions` are what ran."""
    if ledger is None:
        return
    if not ledger:
        yield Line(text="no freeze is on record for this sweep: it was not planned by bv3", style="yellow")
        return
    width = max(len(group.group) for group in ledger)
    for group in ledger:
        yield Line(text=f"group {group.group:<{width}}  {group.frozen}; use {group.use}")
    source = ledger[0].source
    if source is None:
        yield Line(text="the product's source was not searched for the suite's hosts", style="yellow")
        return
    searched = f"none of the suite's hosts in the product's source at {source.revision}, {count_files(source)}"
    others = sorted(set(revisions) - {source.revision})
    if others:
        yield Line(text=f"{searched}; what ran is {', '.join(others)}", style="yellow")
    else:
        yield Line(text=searched)
