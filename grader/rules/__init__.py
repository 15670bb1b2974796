"""The rules, in the order in which they are asked. Pure, and no model is consulted.

A rule looks at one `Case` and says what it found, or None: then the next one is asked. Its name stands
in the verdict, with the lines it rests on; docs/reference/buckets.md has an entry for each.

The order is the argument: breaches of safety; whether the instrument may speak at all; what both sides
agree on; bv3's own probes; the product's word on its surroundings; exclusions; the product's failures.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from broker.types import Bucket, Evidence
from grader.evidence import Case
from grader.markers import Hit
from grader.rules import agreement, exclusions, failures, instrument, surroundings
from grader.rules.finding import Finding

GRADER_VERSION = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The finding of the first rule that found anything."""

    bucket: Bucket
    rule: str
    why: str
    lines: tuple[Hit, ...]
    evidence: Evidence | None
    grader_version: int = GRADER_VERSION


Rule = Callable[[Case], Finding | None]

RULES: tuple[Rule, ...] = (
    instrument.sent_in_dry_run,
    instrument.site_retired,
    instrument.box_contended,
    instrument.backend_restarted,
    instrument.wrong_mode,
    instrument.step_failed,
    instrument.no_session,
    instrument.log_missing,
    instrument.foreign_session,
    instrument.wrong_log,
    instrument.reused_card,
    instrument.foreign_card,
    instrument.wrong_payload,
    agreement.reached,
    agreement.filled_message_box,
    agreement.filled_wrong_page,
    agreement.filled_other_box,
    surroundings.part_restarted,
    surroundings.renderer_silent,
    surroundings.renderer_away,
    surroundings.card_died,
    surroundings.no_provider,
    exclusions.challenge_shown,
    exclusions.sign_in_page,
    exclusions.password_form,
    exclusions.wall_claimed,
    exclusions.wall_refuted,
    failures.budget_used,
    failures.payload_absent,
    failures.page_unread,
    failures.sent_unproven,
    failures.command_timed_out,
    failures.fill_died,
    failures.landed_elsewhere,
    failures.declined,
    failures.nothing_tried,
)

# Verdicts given without a case: what no rule can look at.
RULE_BOX_LOST = "box_lost"
RULE_UNREADABLE = "unreadable_record"
RULE_GRADING_FAILED = "grading_failed"


def decide(case: Case, rules: Sequence[Rule] = RULES) -> Verdict:
    """The verdict of the first rule that finds anything; the last one always does."""
    for rule in rules:
        if (found := rule(case)) is not None:
            return Verdict(
                bucket=found.bucket,
                rule=rule.__name__,
                why=found.why,
                lines=found.lines,
                evidence=found.evidence,
            )
    raise AssertionError("the last rule found nothing")
