"""What a log slice says on its own: no record, no page read, no farm. Pure.

It is the product's side alone. What only a record can tell (bv3's own probes and reads, events of the box,
which session, card and payload were this run's, the plan's mode, the suite's retirements) is not asked, so the
best that a slice can say is `product_unconfirmed`, with the claim.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from broker.codec import clean_text
from broker.types import Bucket, Claim, Evidence, LogSlice, Mode, ParentOutcome, RunRecord, SiteTask
from grader.evidence import Case, build_case
from grader.facts import LineRef, SkillCounts, collect_facts
from grader.rules import GRADER_VERSION, RULES, Rule, agreement, decide, failures, instrument, surroundings
from grader.rules.exclusions import wall_claimed, wall_refuted

# Lines that only a dry backend prints.
_DRY = ("dryrun_filled", "dryrun_report")
_SLICE_RULES = frozenset(
    {
        instrument.sent_in_dry_run,
        instrument.backend_restarted,
        instrument.log_missing,
        instrument.foreign_session,
        instrument.wrong_log,
        instrument.reused_card,
        agreement.filled_message_box,
        agreement.filled_other_box,
        agreement.filled_wrong_page,
        surroundings.renderer_away,
        surroundings.card_died,
        surroundings.no_provider,
        wall_claimed,
        wall_refuted,
        failures.page_unread,
        failures.sent_unproven,
        failures.command_timed_out,
        failures.fill_died,
        failures.landed_elsewhere,
        failures.declined,
        failures.nothing_tried,
    }
)
# In the order in which they are asked; the others need a record.
SLICE_RULES: tuple[Rule, ...] = tuple(rule for rule in RULES if rule in _SLICE_RULES)
# Without a host every page may be the one that was meant; see `judge_url`.
_ANY_SITE = SiteTask(
    site="",
    prompt="",
    payload="",
    entry="",
    host="",
    path_rule="",
    visibility="private",
    kind="",
    editor_shape="",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The product's side of one run, as far as its slice tells."""

    bucket: Bucket
    rule: str
    evidence: Evidence | None
    detail: str
    # the deciding lines, with their bytes in the slice
    lines: tuple[LineRef, ...]
    claim: Claim
    # what the product says that it filled, and where
    target: str
    url: str
    # whether the control that would have sent it was found; None: not said
    submit: bool | None
    # byte offset of the line that ended the gradeable window; None: it never ended
    window_end: int | None
    # the parent session that the slice names; empty: none
    session: str
    # True when a line is there that only a dry backend prints; else the mode is not known
    dry: bool
    site: str | None
    prestage_ms: int | None
    # 0 or 1 when prestage found its composer without a model
    tier: int | None
    skills: SkillCounts
    size: int
    sha256: str
    grader_version: int = GRADER_VERSION


def explain_slice(log: bytes, task: SiteTask | None = None) -> Explanation:
    """What the first dispatch of this slice came to by the product's own lines. Without a task no surface is judged.

    The slice's own first parent session is the run's; a second one makes it `foreign_session`. A `sent` is
    a false success only where the slice shows that the run was dry.
    """
    case, is_dry = _make_case(log, task or _ANY_SITE)
    verdict = decide(case, SLICE_RULES)
    facts = collect_facts(case, verdict)
    parent = case.record.parent
    return Explanation(
        bucket=verdict.bucket,
        rule=verdict.rule,
        evidence=verdict.evidence,
        detail=clean_text(verdict.why)[0],
        lines=facts.lines,
        claim=facts.claim,
        target=facts.target,
        url=clean_text(case.fill.url[:400])[0] if case.fill else "",
        submit=facts.submit,
        window_end=facts.window_end,
        session=parent.session_id if parent else "",
        dry=is_dry,
        site=task.site if task else None,
        prestage_ms=facts.timing.prestage_ms,
        tier=facts.timing.tier,
        skills=facts.skills,
        size=facts.log_size,
        sha256=facts.log_sha256,
    )


def _make_case(log: bytes, task: SiteTask) -> tuple[Case, bool]:
    """A case that holds the slice and nothing else, and whether the slice is a dry run's."""
    bare = build_case(_make_record(log, None, Mode.LIVE), log, task)
    is_dry = bool(bare.scan.find(*_DRY))
    mode = Mode.DRY if is_dry else Mode.LIVE
    # a file in which nothing is the product's is no slice of it, and belongs to nobody
    session = bare.named_parent if bare.scan.find_all() else "none"
    record = _make_record(log, session, mode)
    return build_case(record, log, task, planned_mode=mode, scan=bare.scan), is_dry


def _make_record(log: bytes, session: str | None, mode: Mode) -> RunRecord:
    parent = None
    if session is not None:
        parent = ParentOutcome(session_id=session, status="", reply="", ended_by="")
    return RunRecord(
        sweep="",
        run=0,
        dispatch=0,
        attempt=0,
        attempt_no=0,
        nonce="",
        box="",
        arm="",
        site="",
        trial=0,
        lane="",
        renderer="",
        product_revision="",
        mode=mode,
        prompt="",
        payload="",
        phases=(),
        wall_ms=0,
        budget_used=False,
        parent=parent,
        children=(),
        log=LogSlice(path="", inode=0, start=0, end=len(log), sha256=hashlib.sha256(log).hexdigest()),
        metrics=(),
        reads=(),
        cards=(),
        probe_before=None,
        probe_after=None,
        events=(),
        evidence=(),
        errors=(),
        versions={},
    )
