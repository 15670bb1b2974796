"""Which attempts are one sample, and which sweeps may stand side by side."""

from __future__ import annotations

from dataclasses import replace

from grader.criteria.cells import Cell, Mark, Sample

_POOLED = ("renderer", "lane", "product_revision", "mode", "leash_scale", "faults")
# another revision against the baseline is what criterion 6 is for
OTHER_REVISION = tuple(name for name in _POOLED if name != "product_revision")
SAME_REVISION = _POOLED
_UNKNOWN = "unknown"


def distinct(sample: Sample, name: str) -> tuple[str, ...]:
    """What the attempts that left a record say of their renderer, lane, ...; `unknown` where they say nothing."""
    found = {getattr(one, name) for one in sample.conditions if one.mode is not None}
    return tuple(sorted({str(value) or _no_value(name) for value in found}))


def _no_value(name: str) -> str:
    return "none" if name == "faults" else _UNKNOWN


def unlike(sample: Sample) -> str:
    """Why these attempts are not one sample; empty: they are."""
    for name in _POOLED:
        found = distinct(sample, name)
        if len(found) > 1:
            return f"not pooled, {_words(name)} differs: {', '.join(found)}"
    return ""


def rehearsed(sample: Sample) -> str:
    """How the stack was made to misbehave or to wait less than the product does; empty: it was not."""
    faults = sorted({one.faults for one in sample.conditions} - {""})
    if faults:
        return f"faults injected: {', '.join(faults)}"
    scales = sorted({one.leash_scale for one in sample.conditions} - {1.0})
    if scales:
        return f"the product's waits were scaled by {', '.join(f'{scale:g}' for scale in scales)}"
    return ""


def incomparable(ours: Sample, theirs: Sample, names: tuple[str, ...]) -> str:
    """Why the two must not be set side by side; empty: nothing speaks against it."""
    problem = unlike(theirs)
    if problem:
        return f"{theirs.sweep.sweep}: {problem}"
    for name in names:
        here, there = distinct(ours, name), distinct(theirs, name)
        if here != there:
            mine, other = ", ".join(here) or _UNKNOWN, ", ".join(there) or _UNKNOWN
            return f"not compared, {_words(name)} differs: {mine} here, {other} there"
    return ""


def other_sites(ours: Sample, theirs: Sample) -> str:
    """Why two sweeps of one suite are none of the same sites; empty: they are."""
    if ours.sweep.suite != theirs.sweep.suite:
        return f"not compared, suite differs: {ours.sweep.suite} here, {theirs.sweep.suite} there"
    here, there = set(ours.sweep.sites), set(theirs.sweep.sites)
    if here == there:
        return ""
    only = [
        f"only {where} {', '.join(sorted(sites))}"
        for where, sites in (("here", here - there), ("there", there - here))
        if sites
    ]
    return f"not compared, sites differ: {'; '.join(only)}"


def withhold(cell: Cell, sample: Sample) -> Cell:
    """The cell as far as its sample may speak: no mark under injected faults, no rate over unlike attempts.

    One false success fails the hard gate whatever it is pooled with, but for those that were asked for.
    """
    is_breach = cell.unit == "count" and cell.mark is Mark.FAIL
    staged = rehearsed(sample)
    if staged and cell.mark is not Mark.OPEN and not (is_breach and not any(one.faults for one in sample.conditions)):
        cell = replace(cell, mark=Mark.OPEN, proven=None, hint=staged)
    problem = unlike(sample)
    if not problem or is_breach or cell.value is None:
        return cell
    return replace(
        cell, value=None, interval=None, mark=Mark.OPEN, proven=None, hint=problem, also=(), against=None, compared=()
    )


def _words(name: str) -> str:
    return name.replace("_", " ")
