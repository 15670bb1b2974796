"""One record, one verdict: the pure step that the grader's task repeats over stored rows."""

from __future__ import annotations

from dataclasses import dataclass

from broker.codec import clean_text
from broker.types import Mode, RunRecord, SiteTask
from grader.evidence import build_case
from grader.facts import VerdictFacts, collect_facts
from grader.rules import Verdict, decide


@dataclass(frozen=True, slots=True, kw_only=True)
class Graded:
    """A verdict with what it remembers of its case."""

    verdict: Verdict
    detail: str
    facts: VerdictFacts


def grade_record(
    record: RunRecord,
    log: bytes,
    task: SiteTask,
    *,
    planned_mode: Mode = Mode.DRY,
    planned_payload: str | None = None,
) -> Graded:
    """The verdict on this record and its log slice, the same for the same bytes, whoever asks and when."""
    case = build_case(record, log, task, planned_mode=planned_mode, planned_payload=planned_payload)
    verdict = decide(case)
    facts = collect_facts(case, verdict, faults=record.faults)
    return Graded(verdict=verdict, detail=clean_text(verdict.why)[0], facts=facts)
