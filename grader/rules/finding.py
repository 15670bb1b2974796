"""What a rule says when it found something, and the words that several rules share."""

from __future__ import annotations

from dataclasses import dataclass

from broker.types import BoxEvent, Bucket, Evidence
from grader.evidence import Case
from grader.markers import Hit

# What a box calls the event; its `part` says which.
PART_RESTARTED = "part_restarted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What a rule found: the bucket, why in one sentence, the lines it rests on."""

    bucket: Bucket
    why: str
    lines: tuple[Hit, ...] = ()
    evidence: Evidence | None = None


def find_restart(case: Case, *parts: str) -> BoxEvent | None:
    """The first event by which the box says that one of these parts was started within the run: it had ended."""
    return next(
        (event for event in case.record.events if event.kind == PART_RESTARTED and event.facts.get("part") in parts),
        None,
    )


def claim_lines(case: Case) -> tuple[Hit, ...]:
    """The lines that make the claim: which box, and what came of it."""
    lines = (case.fill.hit if case.fill else None, case.outcome)
    return tuple(line for line in lines if line is not None)


def describe_fill(case: Case) -> str:
    """`'submit' <- 'box' on url`: what was filled and which control would have sent it."""
    submit = case.outcome.text("submit") if case.outcome else ""
    box = case.fill.name if case.fill else "?"
    return f"{submit[:60] or None} <- '{box[:80]}' on {(case.page.url or (case.fill.url if case.fill else ''))[:120]}"


def describe_line(case: Case, hit: Hit) -> str:
    """The message of a line, without the logger's prefix, shortened."""
    line = case.log[hit.start : min(hit.end, hit.start + 400)].decode("utf-8", "replace")
    message = line.partition("] ")[2] or line
    return message.strip()[:200]


def distinct(lines: tuple[Hit, ...]) -> tuple[Hit, ...]:
    """Each line once, in the order of the log."""
    return tuple(sorted({line.start: line for line in lines}.values(), key=lambda line: line.start))
