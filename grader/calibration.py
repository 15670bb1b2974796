"""Verdicts set against the truth that a reference stack recorded of each run. Pure.

No rule may see the truth: nothing that grades imports this module (a contract in pyproject.toml holds it).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from broker.errors import UsageError
from broker.types import Bucket, Evidence, Family
from grader.facts import AttemptRow
from grader.intervals import Interval, upper_bound

# The name under which a record keeps the truth as evidence.
TRUTH = "truth"
# What an attempt without a fault is counted under.
NO_FAULT = "none"
# A reference stack's revision begins so; nothing else tells the truth.
_REFERENCE = "reference-"
# Why a truth is true begins so where it was written before the fault happened, and nothing after it.
_AHEAD = "written ahead"


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """What really happened in one run, by the stack that made it happen."""

    # the injected fault's name; empty: none
    fault: str
    bucket: Bucket
    # on what an exclusion rests; None for every other bucket
    evidence: Evidence | None
    # of the first child's row; None: it printed none
    total_ms: int | None
    why: str
    # what the run's pages were like, by the names of the stack
    natures: tuple[str, ...] = ()

    @property
    def is_foretold(self) -> bool:
        """Whether it says what was to happen to a run that was then cut off for another reason.

        Only what ends the stack itself is true although nobody was left to say so.
        """
        return self.why.startswith(_AHEAD) and self.bucket.family is not Family.INFRA


@dataclass(frozen=True, slots=True, kw_only=True)
class Witnessed:
    """One graded attempt of a sweep, with its truth as it was stored (None: none was)."""

    sweep: str
    row: AttemptRow
    truth: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Misgraded:
    """One attempt whose verdict is not the truth; `differs`: bucket, evidence, total_ms."""

    sweep: str
    row: AttemptRow
    truth: Truth
    differs: tuple[str, ...]

    @property
    def command(self) -> str:
        """What shows the verdict with its lines."""
        return f"bv3-grade show {self.sweep} {self.row.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Untold:
    """One attempt that nothing can be said of: neither right nor wrong."""

    sweep: str
    row: AttemptRow
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultCount:
    """How often a fault was injected, and how many of those verdicts are not the truth."""

    fault: str
    attempts: int
    misgraded: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NatureCount:
    """How many runs met a nature, alone or among others, how many per true bucket, and how many are misgraded."""

    nature: str
    attempts: int
    misgraded: int
    # true bucket to (attempts, those of them that were given this bucket)
    buckets: Mapping[Bucket, tuple[int, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """Every attempt is in `confusion` or in `untold`, so the two sum to `attempts`."""

    sweeps: tuple[str, ...]
    product_revision: str
    grader_version: int
    # what the stack was told to inject ("all seed 7"), with the number of attempts
    mixes: Mapping[str, int]
    leash_scales: tuple[float, ...]
    attempts: int
    # attempts without a verdict yet; not among `attempts`
    ungraded: int
    # (truth, verdict) to attempts
    confusion: Mapping[tuple[Bucket, Bucket], int]
    faults: tuple[FaultCount, ...]
    # of each nature that a run met; empty: none was set
    natures: tuple[NatureCount, ...]
    misgraded: tuple[Misgraded, ...]
    untold: tuple[Untold, ...]

    @property
    def compared(self) -> int:
        """Attempts that were set against their truth."""
        return sum(self.confusion.values())

    @property
    def bound(self) -> Interval | None:
        """The exact one-sided 95% bound of the share that is misgraded."""
        return upper_bound(len(self.misgraded), self.compared)


def read_truth(stored: bytes) -> Truth:
    """The truth in these bytes. Raises ValueError with what is wrong; a truth that is half there is none."""
    try:
        plain = json.loads(stored)
    except ValueError as error:
        raise ValueError("the truth is no JSON") from error
    if not isinstance(plain, dict):
        raise ValueError("the truth is no JSON object")  # noqa: TRY004 - one error for one broken text
    missing = [key for key in ("fault", "bucket", "evidence", "total_ms") if key not in plain]
    if missing:
        raise ValueError(f"the truth has no {', '.join(missing)}")
    if plain["bucket"] not in list(Bucket):
        raise ValueError(f"the truth names no bucket: {plain['bucket']!r}")
    if plain["evidence"] not in (None, *Evidence):
        raise ValueError(f"the truth names no kind of evidence: {plain['evidence']!r}")
    total_ms = plain["total_ms"]
    if total_ms is not None and (not isinstance(total_ms, int) or isinstance(total_ms, bool)):
        raise ValueError(f"the truth's total_ms is no whole number: {total_ms!r}")
    return Truth(
        fault=str(plain["fault"] or ""),
        bucket=Bucket(plain["bucket"]),
        evidence=None if plain["evidence"] is None else Evidence(plain["evidence"]),
        total_ms=total_ms,
        why=str(plain.get("why") or ""),
        natures=tuple(str(name) for name in plain.get("natures") or ()),
    )


def calibrate(sweeps: Sequence[str], attempts: Iterable[Witnessed], *, ungraded: int = 0) -> Calibration:
    """The attempts of these sweeps against their truth; the order of either changes nothing.

    Raises UsageError when they can't be summed: a sweep named twice, another stack than the reference, more than
    one product revision or grader version, or not one attempt with a truth.
    """
    every = sorted(attempts, key=lambda one: (one.sweep, one.row.site, one.row.trial, one.row.attempt_no))
    revision, version = _common(sweeps, every)
    confusion: Counter[tuple[Bucket, Bucket]] = Counter()
    injected: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    told_of: list[tuple[Truth, AttemptRow]] = []
    misgraded: list[Misgraded] = []
    untold: list[Untold] = []
    for one in every:
        told = _tell(one)
        if isinstance(told, Untold):
            untold.append(told)
            continue
        fault = told.fault or NO_FAULT
        told_of.append((told, one.row))
        confusion[told.bucket, one.row.bucket] += 1
        injected[fault] += 1
        if differs := _compare(told, one.row):
            wrong[fault] += 1
            misgraded.append(Misgraded(sweep=one.sweep, row=one.row, truth=told, differs=differs))
    if not confusion:
        raise UsageError("no attempt has a truth to be set against", hint="was it a sweep of this reference stack?")
    return Calibration(
        sweeps=tuple(sorted(sweeps)),
        product_revision=revision,
        grader_version=version,
        mixes=dict(sorted(Counter(one.row.facts.faults or NO_FAULT for one in every if _ran(one)).items())),
        leash_scales=tuple(sorted({one.row.facts.leash_scale for one in every if _ran(one)})),
        attempts=len(every),
        ungraded=ungraded,
        confusion=dict(sorted(confusion.items())),
        faults=tuple(
            FaultCount(fault=fault, attempts=injected[fault], misgraded=wrong[fault])
            for fault in sorted(injected, key=lambda name: (name != NO_FAULT, name))
        ),
        natures=_count_natures(told_of),
        misgraded=tuple(misgraded),
        untold=tuple(untold),
    )


def _count_natures(told_of: Sequence[tuple[Truth, AttemptRow]]) -> tuple[NatureCount, ...]:
    """One count for each nature that any run met, by name; a run with several counts for each of them."""
    names = sorted({name for truth, _ in told_of for name in truth.natures})
    return tuple(
        _count_nature(name, [(truth, row) for truth, row in told_of if name in truth.natures]) for name in names
    )


def _count_nature(name: str, met: Sequence[tuple[Truth, AttemptRow]]) -> NatureCount:
    true = Counter(truth.bucket for truth, _ in met)
    right = Counter(truth.bucket for truth, row in met if truth.bucket is row.bucket)
    return NatureCount(
        nature=name,
        attempts=len(met),
        misgraded=sum(bool(_compare(truth, row)) for truth, row in met),
        buckets={bucket: (true[bucket], right[bucket]) for bucket in sorted(true)},
    )


def _ran(one: Witnessed) -> bool:
    """Whether a record says what the attempt ran on; that of a lost box does not."""
    return bool(one.row.facts.product_revision)


def _common(sweeps: Sequence[str], attempts: Sequence[Witnessed]) -> tuple[str, int]:
    """The one product revision and the one grader version of all these attempts."""
    twice = [sweep for sweep, times in Counter(sweeps).items() if times > 1]
    if twice:
        raise UsageError(f"sweep {twice[0]} is named twice", hint="its attempts would count twice")
    for sweep in sweeps:
        own = {one.row.facts.product_revision for one in attempts if one.sweep == sweep and _ran(one)}
        foreign = sorted(revision for revision in own if not revision.startswith(_REFERENCE))
        if foreign or not own:
            ran = f"ran on {', '.join(foreign)}" if foreign else "has no attempt that says what it ran on"
            raise UsageError(
                f"sweep {sweep} {ran}: only a reference stack tells the truth of its runs",
                hint="name sweeps of a reference stack; `bv3-schedule list` has all sweeps",
            )
    revisions = {one.row.facts.product_revision: one.sweep for one in attempts if _ran(one)}
    versions = {one.row.grader_version: one.sweep for one in attempts}
    for what, found in (("product revisions", revisions), ("grader versions", versions)):
        if len(found) > 1:
            listed = ", ".join(f"{value} ({sweep})" for value, sweep in sorted(found.items()))
            raise UsageError(f"these attempts are of several {what}: {listed}", hint="calibrate them one by one")
    return next(iter(revisions)), next(iter(versions))


def _tell(one: Witnessed) -> Truth | Untold:
    if one.row.record_id is None:
        return Untold(sweep=one.sweep, row=one.row, why="it left no record")
    if one.truth is None:
        return Untold(sweep=one.sweep, row=one.row, why="its record holds no truth")
    try:
        truth = read_truth(one.truth)
    except ValueError as error:
        return Untold(sweep=one.sweep, row=one.row, why=str(error))
    if truth.is_foretold:
        return Untold(sweep=one.sweep, row=one.row, why="the run was cut off before its truth was known")
    return truth


def _compare(truth: Truth, row: AttemptRow) -> tuple[str, ...]:
    """What the verdict says otherwise than the truth."""
    pairs = {
        "bucket": (truth.bucket, row.bucket),
        "evidence": (truth.evidence, row.facts.evidence),
        "total_ms": (truth.total_ms, row.facts.timing.total_ms),
    }
    return tuple(name for name, (true, judged) in pairs.items() if true != judged)


def to_json(done: Calibration) -> dict[str, Any]:
    """The calibration as plain JSON values (docs/reference/calibration.md)."""
    return {
        "schema": 1,
        "sweeps": list(done.sweeps),
        "product_revision": done.product_revision,
        "grader_version": done.grader_version,
        "mixes": dict(done.mixes),
        "leash_scales": list(done.leash_scales),
        "attempts": done.attempts,
        "compared": done.compared,
        "misgraded_share_at_most": None if done.bound is None else done.bound.high,
        "ungraded": done.ungraded,
        "confusion": [
            {"truth": truth.value, "verdict": verdict.value, "attempts": attempts}
            for (truth, verdict), attempts in done.confusion.items()
        ],
        "faults": [{"fault": one.fault, "attempts": one.attempts, "misgraded": one.misgraded} for one in done.faults],
        "natures": [
            {
                "nature": one.nature,
                "attempts": one.attempts,
                "misgraded": one.misgraded,
                "buckets": [
                    {"truth": bucket.value, "attempts": attempts, "agreed": agreed}
                    for bucket, (attempts, agreed) in one.buckets.items()
                ],
            }
            for one in done.natures
        ],
        "misgraded": [
            _name(one.sweep, one.row)
            | {
                "fault": one.truth.fault or None,
                "natures": list(one.truth.natures),
                "differs": list(one.differs),
                "truth": _values(one.truth.bucket, one.truth.evidence, one.truth.total_ms) | {"why": one.truth.why},
                "verdict": _values(one.row.bucket, one.row.facts.evidence, one.row.facts.timing.total_ms)
                | {"rule": one.row.rule},
                "command": one.command,
            }
            for one in done.misgraded
        ],
        "untold": [
            _name(one.sweep, one.row)
            | {"verdict": {"bucket": one.row.bucket.value, "rule": one.row.rule}, "why": one.why}
            for one in done.untold
        ],
    }


def _name(sweep: str, row: AttemptRow) -> dict[str, Any]:
    return {"sweep": sweep, "run": row.name, "attempt": row.attempt_id, "attempt_no": row.attempt_no, "box": row.box}


def _values(bucket: Bucket, evidence: Evidence | None, total_ms: int | None) -> dict[str, Any]:
    return {"bucket": bucket.value, "evidence": evidence.value if evidence else None, "total_ms": total_ms}
