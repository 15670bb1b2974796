"""Which attempts are one sample, and which sweeps may stand side by side."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from grader.criteria.cells import Cell, Conditions, Mark, Sample

_POOLED = ("renderer", "lane", "product_revision", "mode", "leash_scale", "faults")
# another revision against the baseline is what criterion 6 is for
OTHER_REVISION = tuple(name for name in _POOLED if name != "product_revision")
SAME_REVISION = _POOLED
NOT_POOLED = "not pooled"
_UNKNOWN = "unknown"
_FLAKE = 7


def distinct(sample: Sample, name: str) -> tuple[str, ...]:
    """What the attempts that enter rates say of their renderer, lane, ...; `unknown` where they say nothing."""
    return _values(sample.measured_conditions, name)


def _values(conditions: Iterable[Conditions], name: str) -> tuple[str, ...]:
    # without a mode there was no record, or it is a row of an older harness: both are unlike nothing
    found = {getattr(one, name) for one in conditions if one.mode is not None}
    return tuple(sorted({str(value) or _no_value(name) for value in found}))


def _no_value(name: str) -> str:
    return "none" if name == "faults" else _UNKNOWN


def unlike(sample: Sample) -> str:
    """Why the attempts that enter rates are not one sample, `lane differs: a, b`; empty: they are."""
    return _differences({name: distinct(sample, name) for name in _POOLED})


def _unlike_with_spoilt(sample: Sample) -> str:
    """The same for flake, which counts spoilt attempts too.

    What one of those does not say is no difference, or an attempt that died early would blank the very rate that
    counts it. Nor is its mode: it was spoilt for running in another than the plan's.
    """
    found = {}
    for name in _POOLED:
        spoilt = () if name == "mode" else _values(sample.spoilt_conditions, name)
        found[name] = tuple(sorted({*distinct(sample, name), *spoilt} - {_UNKNOWN})) or (_UNKNOWN,)
    return unlike(sample) or _differences(found)


def _differences(found: Mapping[str, tuple[str, ...]]) -> str:
    return "; ".join(
        f"{_words(name)} differs: {', '.join(values)}" for name, values in found.items() if len(values) > 1
    )


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
    if unlike(ours):
        return NOT_POOLED
    if problem := unlike(theirs):
        return f"{theirs.sweep.sweep}: {NOT_POOLED}, {problem}"
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
    if unlike(sample):
        # the scorecard says once what differs
        problem = NOT_POOLED
    elif cell.number == _FLAKE and (apart := _unlike_with_spoilt(sample)):
        problem = f"{NOT_POOLED}, {apart}"
    else:
        return cell
    if is_breach:
        # how many there were is a count; of how many claims would be a rate
        return replace(cell, denominator=None)
    return replace(
        cell,
        value=None,
        numerator=None,
        denominator=None,
        interval=None,
        mark=Mark.OPEN,
        proven=None,
        hint=cell.hint if cell.value is None else problem,
        also=(),
    )


def _words(name: str) -> str:
    return name.replace("_", " ")
