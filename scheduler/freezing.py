"""Whether a frozen suite is still what was frozen, and what a new freeze of it is. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import count

from broker.errors import UsageError
from broker.freezes import Freeze, FrozenTask, freeze_tasks, has_freeze, hash_tasks
from broker.store.freezes import Begun, FreezeRow
from broker.suites import Suite
from broker.types import Mode

_MOST_DIFFERENCES = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """All that is known of a suite's freezes: what is committed, what is on record, what was run, what time it is."""

    committed: tuple[Freeze, ...]
    rows: tuple[FreezeRow, ...] = ()
    # every suite that ships, this one among them
    shipped: tuple[Suite, ...]
    begun: tuple[Begun, ...] = ()
    now: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineage:
    """The freezes of one group of a suite file, oldest first: the last one stands for it."""

    freezes: tuple[Freeze, ...]
    # of each that is on record
    rows: Mapping[str, FreezeRow]

    @property
    def root(self) -> str:
        """The group's name in the suite file."""
        return self.freezes[0].group

    @property
    def tip(self) -> Freeze:
        """The freeze that stands."""
        return self.freezes[-1]

    @property
    def entering(self) -> tuple[Freeze, ...]:
        """Those that are committed and not on record yet."""
        return tuple(freeze for freeze in self.freezes if freeze.group not in self.rows)

    @property
    def uses(self) -> int:
        """How many sweeps were planned with the freeze that stands."""
        row = self.rows.get(self.tip.group)
        return row.uses if row else 0

    def oldest_freeze(self, site: str, host: str | None) -> Freeze | None:
        """The oldest freeze that holds the site on this host; on any, when it is not known."""
        holding = (
            freeze
            for freeze in self.freezes
            if any(task["site"] == site and host in {None, task["host"]} for task in freeze.tasks)
        )
        return min(holding, key=lambda freeze: freeze.frozen_at, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A group that may be evaluated; `is_used`: the plan has sites of it."""

    lineage: Lineage
    is_used: bool


def judge(suite: Suite, known: Known, *, sites: Iterable[str], mode: Mode | str) -> tuple[Standing, ...]:
    """The groups of a frozen suite, each found to be as it was frozen. Raises UsageError naming what is wrong.

    All groups are judged, whichever of them the `sites` belong to.
    """
    if mode == Mode.LIVE:
        raise UsageError(
            f"the {suite.name} is never run live: it measures reach alone, and a site that was written on is none that"
            " the product does not know",
            hint="live rounds are for sites of the known suite",
        )
    refuse_thawed(suite, known)
    refuse_shared_hosts(suite, known.shipped)
    lineages = trace_lineages(suite.name, known.committed, known.rows)
    groups = group_tasks(suite)
    for group, tasks in groups.items():
        lineage = lineages.get(group)
        if lineage is None:
            _refuse_taken_name(suite.name, group, lineages.values())
            raise UsageError(
                f"the {suite.name} group {group!r} is not frozen",
                hint=f"before its first run: bv3-schedule freeze {suite.name} --source CHECKOUT",
            )
        refuse_changed(lineage, tasks)
    for lineage in lineages.values():
        refuse_changed(lineage, groups.get(lineage.root, ()))
        refuse_older_runs(lineage, known)
    used = set(sites)
    return tuple(
        Standing(lineage=lineages[group], is_used=any(task["site"] in used for task in tasks))
        for group, tasks in groups.items()
    )


def is_guarded(suite: Suite, freezes: Iterable[Freeze]) -> bool:
    """Whether the suite is planned only as it was frozen: its file says so, or one of the freezes is of its name.

    The file alone can't tell: it is what the freeze guards.
    """
    return suite.is_frozen or has_freeze(suite.name, freezes)


def refuse_thawed(suite: Suite, known: Known) -> None:
    """Raises UsageError for a suite that was frozen, and whose file does not say so any more."""
    if suite.is_frozen:
        return
    is_committed = has_freeze(suite.name, known.committed)
    if is_committed or has_freeze(suite.name, (row.freeze for row in known.rows)):
        where = "in broker/freezes.toml" if is_committed else "on this farm's record"
        raise UsageError(
            f"the suite {suite.name!r} has freezes {where}, and its file does not say that it is frozen:"
            " what was frozen once is planned only as it was",
            hint=f"restore broker/suites/{suite.name}.toml: frozen = true, and the group of each task",
        )


def group_tasks(suite: Suite) -> dict[str, tuple[FrozenTask, ...]]:
    """What would be frozen of each group, in the suite's order. Raises UsageError for a suite that is not frozen."""
    if not suite.is_frozen:
        raise UsageError(
            f"the suite {suite.name!r} is not one that is frozen",
            hint="those that are say so in their files: frozen = true",
        )
    groups = dict.fromkeys(task.group for task in suite.tasks)
    return {group: freeze_tasks(task for task in suite.tasks if task.group == group) for group in groups}


def trace_lineages(suite: str, committed: Sequence[Freeze], rows: Sequence[FreezeRow]) -> dict[str, Lineage]:
    """The suite's freezes by the group that each began with. Raises UsageError where file and record disagree."""
    on_record = {row.freeze.group: row for row in rows if row.freeze.suite == suite}
    found = {group: row.freeze for group, row in on_record.items()}
    for entry in committed:
        if entry.suite != suite:
            continue
        if entry.group in found:
            _refuse_disagreeing(entry, found[entry.group])
        else:
            rival = next((one for one in found.values() if entry.follows and one.follows == entry.follows), None)
            if rival is not None:
                _refuse_disagreeing(entry, rival)
            found[entry.group] = entry
    after = {freeze.follows: freeze for freeze in found.values() if freeze.follows}
    lineages: dict[str, Lineage] = {}
    for root in (freeze for freeze in found.values() if freeze.follows is None):
        chain = [root]
        while (following := after.get(chain[-1].group)) is not None:
            chain.append(following)
        mine = {freeze.group: on_record[freeze.group] for freeze in chain if freeze.group in on_record}
        lineages[root.group] = Lineage(freezes=tuple(chain), rows=mine)
    return lineages


def _refuse_disagreeing(entry: Freeze, recorded: Freeze) -> None:
    names = ("group", "sha256", "frozen_at", "product_revision", "frozen_by", "taken_over", "follows", "reason")
    for name in names:
        committed, stands = getattr(entry, name), getattr(recorded, name)
        if committed != stands:
            raise UsageError(
                f"the {entry.suite} group {entry.group!r} is frozen otherwise on this farm's record than in"
                f" broker/freezes.toml: {name} is {stands} there, and {committed} in the file",
                hint="what is on record never changes: restore the file, or plan on the farm that it was frozen on",
            )


def refuse_changed(lineage: Lineage, tasks: Sequence[FrozenTask]) -> None:
    """Raises UsageError naming each task and field that is not as it was frozen, old and new."""
    tip = lineage.tip
    if hash_tasks(tasks) == tip.sha256:
        return
    lines = list(_differences(tip.tasks, tasks))
    more = [f"and {len(lines) - _MOST_DIFFERENCES} more"] if len(lines) > _MOST_DIFFERENCES else []
    shown = "".join(f"\n  {line}" for line in lines[:_MOST_DIFFERENCES] + more)
    raise UsageError(
        f"the {tip.suite} group {tip.group!r} changed after it was frozen on {tip.frozen_at:%Y-%m-%d}:{shown}",
        hint=f"restore it, or start a new group, whose uses are counted from 1: bv3-schedule freeze {tip.suite}"
        " --reason TEXT --source CHECKOUT",
    )


def _differences(old: Sequence[FrozenTask], new: Sequence[FrozenTask]) -> Iterator[str]:
    before, after = ({task["site"]: task for task in tasks} for tasks in (old, new))
    for site in sorted(before.keys() | after.keys()):
        if site not in after:
            yield f"task {site!r} is gone"
        elif site not in before:
            yield f"task {site!r} is new"
        else:
            for name in sorted(before[site].keys() | after[site].keys()):
                was, now = before[site].get(name, ""), after[site].get(name, "")
                if was != now:
                    yield f"task {site!r}, {name}: was {_quote(was)}, is {_quote(now)}"


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def refuse_older_runs(lineage: Lineage, known: Known) -> None:
    """Raises UsageError when a run of a site that the group holds is older than its freeze, or would be."""
    tip = lineage.tip
    if tip.frozen_at > known.now:
        raise UsageError(
            f"the {tip.suite} group {tip.group!r} is frozen from {tip.frozen_at:%Y-%m-%d %H:%M:%S} UTC on, and it is"
            f" {known.now:%Y-%m-%d %H:%M:%S} UTC: its first run would be older than its freeze",
            hint="plan it then; if a clock is wrong, set it right",
        )
    _refuse_known_sites(tip.tasks, lineage, known, group=lineage.root)


def _refuse_known_sites(tasks: Sequence[FrozenTask], lineage: Lineage | None, known: Known, *, group: str) -> None:
    """Raises UsageError for one of these sites that was run before a freeze of the lineage held it.

    An imported attempt was run nobody knows when: it was before, unless the site was taken over, as such rows are.
    """
    held = {(task["site"], task["host"]) for task in tasks}
    for begun in known.begun:
        if (begun.site, begun.host) not in held:
            continue
        # which host an imported row was of is not known either
        host = None if begun.is_imported else begun.host
        since = lineage.oldest_freeze(begun.site, host) if lineage is not None else None
        is_before = since is None or (not since.taken_over if begun.is_imported else begun.at < since.frozen_at)
        if is_before:
            _refuse_older(begun, since, group)


def _refuse_older(begun: Begun, since: Freeze | None, group: str) -> None:
    at = f"{begun.at:%Y-%m-%d %H:%M:%S} UTC in sweep {begun.sweep}"
    frozen = "not frozen before" if since is None else f"frozen at {since.frozen_at:%Y-%m-%d %H:%M:%S} UTC"
    if begun.is_imported:
        first = f"site {begun.site!r} was imported at {at}, and when it was run is not known, so it counts as before"
    else:
        first = f"site {begun.site!r} was run at {at}, on {begun.host} or below it"
    raise UsageError(
        f"{first}; its group {group!r} was {frozen}: a holdout is frozen before its first run",
        hint="its pages were known: take it out of the suite's file, and freeze the group anew with --reason TEXT",
    )


def refuse_shared_hosts(suite: Suite, shipped: Iterable[Suite]) -> None:
    """Raises UsageError when a host of the suite, one above it or one below it stands in another suite."""
    for other in shipped:
        if other.name == suite.name:
            continue
        for task in suite.tasks:
            for twin in other.tasks:
                if _is_related(task.host, twin.host):
                    raise UsageError(
                        f"the host {task.host} of {suite.name} site {task.site!r} stands in the suite {other.name!r}"
                        f" too (site {twin.site!r}, {twin.host})",
                        hint=f"a site of the {suite.name} is in no other suite",
                    )


def _is_related(one: str, other: str) -> bool:
    return one == other or one.endswith("." + other) or other.endswith("." + one)


def _refuse_taken_name(suite: str, group: str, lineages: Iterable[Lineage]) -> None:
    for lineage in lineages:
        if any(freeze.group == group for freeze in lineage.freezes):
            raise UsageError(
                f"the {suite} group {group!r} has the name of a later freeze of the group {lineage.root!r}",
                hint="give it another name in the suite's file",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Frozen:
    """What a freeze command finds or makes of one group."""

    freeze: Freeze
    # committed ones to be recorded, and the new one behind them
    writes: tuple[Freeze, ...]
    is_new: bool


def plan_freezes(
    suite: Suite, known: Known, *, reason: str | None, revision: str | None, by: str
) -> tuple[Frozen, ...]:
    """What freezing the suite comes to, group by group; a group that is frozen as it stands is left so.

    Raises UsageError for a changed group without a `reason`, and for a new freeze without a `revision`.
    """
    refuse_thawed(suite, known)
    groups = group_tasks(suite)
    refuse_shared_hosts(suite, known.shipped)
    lineages = trace_lineages(suite.name, known.committed, known.rows)
    names = {freeze.group for lineage in lineages.values() for freeze in lineage.freezes} | groups.keys()
    done: list[Frozen] = []
    for group in dict.fromkeys((*groups, *lineages)):
        lineage, tasks = lineages.get(group), groups.get(group, ())
        if lineage is not None and hash_tasks(tasks) == lineage.tip.sha256:
            done.append(Frozen(freeze=lineage.tip, writes=lineage.entering, is_new=False))
            continue
        if lineage is None:
            _refuse_taken_name(suite.name, group, lineages.values())
        elif reason is None:
            refuse_changed(lineage, tasks)
        new = Freeze(
            suite=suite.name,
            group=group if lineage is None else _next_name(group, names),
            sha256=hash_tasks(tasks),
            frozen_at=known.now,
            product_revision=_need(revision, suite.name),
            frozen_by=by,
            taken_over=False,
            tasks=tasks,
            reason=reason if lineage is not None else None,
            follows=lineage.tip.group if lineage is not None else None,
        )
        _refuse_known_sites(new.tasks, lineage, known, group=new.group)
        entering = lineage.entering if lineage is not None else ()
        done.append(Frozen(freeze=new, writes=(*entering, new), is_new=True))
    return tuple(done)


def _next_name(root: str, names: Iterable[str]) -> str:
    taken = set(names)
    return next(name for number in count(2) if (name := f"{root}-{number}") not in taken)


def _need(revision: str | None, suite: str) -> str:
    if revision is None:
        raise UsageError(
            "say which revision of the product it is frozen at",
            hint=f"bv3-schedule freeze {suite} --source CHECKOUT, or --product-revision REV",
        )
    return revision
