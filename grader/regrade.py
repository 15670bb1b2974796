"""Judge a finished sweep's stored evidence by today's rules: new verdicts beside the old, and what flipped.

It is one transaction: an interrupted regrade has written nothing. No attempt, run, sweep or box changes, so
that a finished sweep can neither be tried again nor be halted by it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from broker.codec import clean_text
from broker.errors import UsageError
from broker.store import grading, quoting, regrading
from broker.store.regrading import JudgedCase, StoredVerdict
from broker.store.sweeps import IMPORT_PLAN, SweepRow
from broker.types import Bucket
from grader import rules
from grader.storing import judge, judge_lost

# (cases done, cases in all)
OnProgress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One case on which two verdicts differ. `lines`: bytes of the log slice on which the new one rests."""

    site: str
    trial: int
    arm: str
    attempt_id: int
    attempt_no: int
    # False: a record that enters no rate
    counts: bool
    old: StoredVerdict
    new: StoredVerdict
    detail: str
    lines: tuple[tuple[int, int], ...]

    @property
    def run(self) -> str:
        """The run's short name, `youtube#7`."""
        return f"{self.site}#{self.trial}"

    @property
    def is_breach(self) -> bool:
        """Whether the new verdict finds a false success that the old one did not."""
        found = Bucket.PRODUCT_FALSE_SUCCESS
        return self.new.bucket is found and self.old.bucket is not found


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A record on which grading failed: it keeps the verdicts that it has."""

    run: str
    attempt_id: int
    record_id: int | None
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Regrade:
    """What came of it. `broken`: cases whose stored verdict of this very version is not today's."""

    sweep: str
    grader_version: int
    cases: int
    inserted: int
    # records that wait for their first verdict: they are the grader's, not ours
    waiting: int
    flips: tuple[Change, ...]
    broken: tuple[Change, ...]
    failures: tuple[Failure, ...]
    # the versions that the scorecard quotes now
    quoted: tuple[int, ...]
    adoption: quoting.Adoption | None
    has_adopted: bool

    @property
    def breaches(self) -> tuple[Change, ...]:
        """The flips that found a false success."""
        return tuple(flip for flip in self.flips if flip.is_breach)

    @property
    def is_sound(self) -> bool:
        """Whether nothing of it needs a person: no promise broken, no failure, no breach."""
        return not (self.broken or self.failures or self.breaches)

    def kinds(self) -> tuple[tuple[Bucket, Bucket, int], ...]:
        """How often which bucket became which, the most frequent first; equal ones: by another rule."""
        counts = Counter((flip.old.bucket, flip.new.bucket) for flip in self.flips)
        return tuple(
            (old, new, times) for (old, new), times in sorted(counts.items(), key=lambda item: (-item[1], item))
        )


@dataclass(slots=True)
class _Tally:
    """What is gathered case by case."""

    inserted: int = 0
    flips: list[Change] = field(default_factory=list)
    broken: list[Change] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    # per case that counts: the version quoted, and whether it now has one of today's version
    quoted: list[tuple[int, bool]] = field(default_factory=list)


def regrade_sweep(
    connection: sa.Connection, sweep: SweepRow, *, adopt_for: str | None, on_progress: OnProgress
) -> Regrade:
    """The sweep's cases have a verdict of today's version each, unless a promise is broken: then nothing is written.

    With `adopt_for` the scorecard quotes today's version from now on, on that person's word. Raises UsageError
    for a sweep that is not finished, was imported, or is being regraded by somebody else.
    """
    _refuse(connection, sweep)
    version = rules.GRADER_VERSION
    total, waiting = regrading.count_cases(connection, sweep.id)
    before = quoting.read_adoption(connection, sweep.id)
    tally = _Tally()
    with connection.begin_nested() as savepoint:
        for done, case in enumerate(regrading.read_cases(connection, sweep.id, grader_version=version), start=1):
            _regrade_case(connection, case, tally)
            on_progress(done, total)
        if tally.broken:
            savepoint.rollback()
    is_wanted = adopt_for is not None and not tally.broken
    has_adopted = is_wanted and (before is None or before.grader_version != version)
    if adopt_for is not None and has_adopted:
        quoting.adopt_version(connection, sweep.id, grader_version=version, requested_by=adopt_for)
    return Regrade(
        sweep=sweep.id,
        grader_version=version,
        cases=total,
        inserted=0 if tally.broken else tally.inserted,
        waiting=waiting,
        flips=tuple(tally.flips),
        broken=tuple(tally.broken),
        failures=tuple(tally.failures),
        quoted=_versions(tally, version if is_wanted else None),
        adoption=quoting.read_adoption(connection, sweep.id),
        has_adopted=has_adopted,
    )


def _refuse(connection: sa.Connection, sweep: SweepRow) -> None:
    if sweep.plan == IMPORT_PLAN:
        raise UsageError(
            f"sweep {sweep.id} was imported: its evidence is gone, and without it nothing can be judged again"
        )
    if sweep.finished_at is None:
        raise UsageError(
            f"sweep {sweep.id} is {sweep.state}, not finished: its verdicts still decide what is tried again",
            hint=f"wait for its end (bv3-schedule follow {sweep.id}), or end it: bv3-schedule cancel {sweep.id}",
        )
    if not regrading.lock_regrade(connection, sweep.id):
        raise UsageError(f"sweep {sweep.id} is being regraded by another command", hint="let that one end first")


def _versions(tally: _Tally, adopted: int | None) -> tuple[int, ...]:
    return tuple(
        sorted({adopted if adopted is not None and has_today else quoted for quoted, has_today in tally.quoted})
    )


def _regrade_case(connection: sa.Connection, case: JudgedCase, tally: _Tally) -> None:
    try:
        new = _judge(connection, case)
    except sa.exc.SQLAlchemyError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever breaks on one record is named, and the others are graded
        said = clean_text(f"{type(error).__name__}: {error}")[0]
        tally.failures.append(_failure(case, said[:500]))
        _note_quoted(case, tally, has_today=case.same is not None)
        return
    _note_quoted(case, tally, has_today=True)
    today = StoredVerdict(
        grader_version=new.grader_version, bucket=new.bucket, rule=new.rule, evidence=new.facts.get("evidence")
    )
    if case.same is None:
        regrading.insert_verdict(connection, new)
        tally.inserted += 1
    elif case.same.rule == rules.RULE_GRADING_FAILED:
        said = f"version {today.grader_version} has said {case.same.rule}: only another version can say otherwise"
        tally.failures.append(_failure(case, said))
        return
    elif case.same != today:
        tally.broken.append(_change(case, case.same, today, new))
    if _differ(case.quoted, today):
        tally.flips.append(_change(case, case.quoted, today, new))


def _judge(connection: sa.Connection, case: JudgedCase) -> grading.NewVerdict:
    if case.record is None:
        return judge_lost(case.attempt_id)
    return judge(case.record, grading.read_evidence(connection, case.record.record_id, "log"))


def _note_quoted(case: JudgedCase, tally: _Tally, *, has_today: bool) -> None:
    if case.counts:
        tally.quoted.append((case.quoted.grader_version, has_today))


def _failure(case: JudgedCase, error: str) -> Failure:
    return Failure(
        run=f"{case.site}#{case.trial}",
        attempt_id=case.attempt_id,
        record_id=case.record.record_id if case.record else None,
        error=error,
    )


def _differ(one: StoredVerdict, other: StoredVerdict) -> bool:
    return (one.bucket, one.rule, one.evidence) != (other.bucket, other.rule, other.evidence)


def _change(case: JudgedCase, old: StoredVerdict, new: StoredVerdict, verdict: grading.NewVerdict) -> Change:
    lines: Sequence[dict[str, Any]] = verdict.facts.get("lines", ())
    return Change(
        site=case.site,
        trial=case.trial,
        arm=case.arm,
        attempt_id=case.attempt_id,
        attempt_no=case.attempt_no,
        counts=case.counts,
        old=old,
        new=new,
        detail=verdict.detail,
        lines=tuple((line["start"], line["end"]) for line in lines),
    )
