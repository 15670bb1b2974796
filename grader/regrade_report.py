"""A regrade as people and programs read it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from broker.store.quoting import Adoption, GivenVerdict
from broker.store.regrading import StoredVerdict
from grader.regrade import Change, Regrade

# Raised when a key changes its meaning or goes; new keys may come without.
SCHEMA = 1
_MAX_LISTED = 200
_MAX_RANGES = 6

# The exported slice of a case's attempt, where an export has put one.
Exported = Callable[[Change], Path | None]


def regrade_lines(done: Regrade, exported: Exported) -> Iterator[str]:
    """What the command prints: breaches and broken promises first, then flips, then which version is quoted."""
    yield f"{done.sweep}: {_count(done.cases, 'case')} judged again by grader {done.grader_version}"
    yield from _broken(done, exported)
    for flip in done.breaches:
        yield f"FALSE SUCCESS in {flip.run} (attempt {flip.attempt_id}): {flip.detail}"
    if done.breaches:
        yield "  the sweep is over: no box is held for it; look for what was sent, it may still be there"
    for failure in done.failures:
        yield f"not graded: {failure.run} (attempt {failure.attempt_id}, record {failure.record_id}): {failure.error}"
    yield from _flips(done, exported)
    if done.waiting:
        yield f"{_count(done.waiting, 'record')} without any verdict yet, left to the grader (bv3-grade grade)"
    if done.broken:
        yield "nothing was written"
        return
    known = done.cases - done.inserted - len(done.failures)
    yield f"{_count(done.inserted, 'new verdict')}, {known} known before, {len(done.failures)} failed"
    yield quoting_line(done.quoted, done.adoption)
    if done.quoted != (done.grader_version,):
        yield f"to have it quote grader {done.grader_version}: bv3-grade regrade {done.sweep} --adopt"


def _broken(done: Regrade, exported: Exported) -> Iterator[str]:
    if not done.broken:
        return
    yield (
        f"BROKEN PROMISE: the rules have changed and are still called version {done.grader_version};"
        f" {_count(len(done.broken), 'stored verdict')} of that version would be another today"
    )
    for change in done.broken[:_MAX_LISTED]:
        yield from _change(done.sweep, change, exported)
    yield from _rest(len(done.broken))


def _flips(done: Regrade, exported: Exported) -> Iterator[str]:
    if not done.flips:
        yield "no flips"
        return
    yield f"{_count(len(done.flips), 'flip')} against what is quoted:"
    for old, new, times in done.kinds():
        same = " (by another rule or on other evidence)" if old is new else ""
        yield f"  {times:>5}  {old.value} -> {new.value}{same}"
    for flip in done.flips[:_MAX_LISTED]:
        yield from _change(done.sweep, flip, exported)
    yield from _rest(len(done.flips))


def _rest(number: int) -> Iterator[str]:
    if number > _MAX_LISTED:
        yield f"  and {number - _MAX_LISTED} more; --json has them all"


def _change(sweep: str, change: Change, exported: Exported) -> Iterator[str]:
    late = "" if change.counts else ", counts in no rate"
    yield (
        f"  {change.run} (attempt {change.attempt_id}{late}): {_name(change.old)} -> {_name(change.new)}:"
        f" {change.detail}"
    )
    ranges = ", ".join(f"{start}-{end}" for start, end in change.lines[:_MAX_RANGES])
    path = exported(change)
    if path is not None and ranges:
        yield f"      {path} bytes {ranges}"
    elif ranges:
        yield f"      bytes {ranges} of its log slice (bv3-grade export {sweep} writes it)"
    yield f"      bv3-grade show {sweep} {change.run}"


def _name(verdict: StoredVerdict) -> str:
    evidence = f" {verdict.evidence}" if verdict.evidence else ""
    return f"{verdict.bucket.value}{evidence} ({verdict.rule}, grader {verdict.grader_version})"


def quoting_line(versions: Sequence[int], adoption: Adoption | None) -> str:
    """Which versions the scorecard quotes, and on whose word."""
    named = ", ".join(map(str, versions)) or "-"
    if adoption is None:
        return f"the scorecard quotes each attempt's first verdict: grader {named}"
    when = f"{adoption.adopted_at:%Y-%m-%d %H:%M}"
    word = f"grader {adoption.grader_version} was adopted by {adoption.requested_by} at {when} UTC"
    return f"the scorecard quotes grader {named}: {word}"


def verdict_line(given: GivenVerdict) -> str:
    """A verdict that is not the quoted one, in a line."""
    record = "the attempt without a record" if given.record_id is None else f"record {given.record_id}"
    counts = "" if given.counts else ", counts in no rate"
    return f"grader {given.grader_version} says {given.bucket} (rule {given.rule}) of {record}{counts}"


def regrade_json(done: Regrade, exported: Exported) -> dict[str, Any]:
    """The document of docs/reference/regrade-json.md."""
    adoption = done.adoption
    return {
        "schema": SCHEMA,
        "sweep": done.sweep,
        "grader_version": done.grader_version,
        "cases": done.cases,
        "inserted": done.inserted,
        "waiting": done.waiting,
        "kinds": [{"old": old.value, "new": new.value, "cases": times} for old, new, times in done.kinds()],
        "flips": [_change_json(change, exported) for change in done.flips],
        "breaches": [change.attempt_id for change in done.breaches],
        "broken": [_change_json(change, exported) for change in done.broken],
        "failures": [asdict(failure) for failure in done.failures],
        "quoted": {
            "grader_versions": list(done.quoted),
            "adopted": None
            if adoption is None
            else {
                "grader_version": adoption.grader_version,
                "requested_by": adoption.requested_by,
                "adopted_at": adoption.adopted_at.isoformat(timespec="milliseconds"),
            },
            "changed": done.has_adopted,
        },
    }


def _change_json(change: Change, exported: Exported) -> dict[str, Any]:
    path = exported(change)
    return {
        "run": change.run,
        "arm": change.arm,
        "attempt": change.attempt_id,
        "attempt_no": change.attempt_no,
        "counts": change.counts,
        "old": asdict(change.old),
        "new": asdict(change.new),
        "detail": change.detail,
        "lines": [{"start": start, "end": end} for start, end in change.lines],
        "artifact": None if path is None else str(path),
    }


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
