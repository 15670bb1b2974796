"""What a verdict remembers of its case, and an attempt as the scorecard sees it. Pure values."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime

from broker.codec import clean_text
from broker.types import Bucket, Claim, Evidence, Mode, Seen
from grader.evidence import Case, Timing
from grader.markers import Hit
from grader.rules import Verdict
from grader.surface import Surface

_MAX_LINES = 20
_MAX_LINE_LENGTH = 400
_GATE_BARS = ("informational", "removal", "unconfirmed")
_SKILL_REFUSALS = (
    "skill_not_robust",
    "skill_not_deliverable",
    "skill_unfillable",
    "skill_none",
    "skill_not_replayed",
    "replay_step_failed",
    "replay_quarantined",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LineRef:
    """A deciding line: bytes `start` to `end` of the attempt's log slice."""

    marker: str
    start: int
    end: int
    time: str
    # its first 400 characters
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillCounts:
    """What one attempt's log says of learned skills (criterion 9); a dry log cannot record."""

    recorded: int = 0
    replays: int = 0
    replays_succeeded: int = 0
    # why a skill was not recorded or not replayed, by the marker's name
    refusals: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictFacts:
    """The case's measured values, kept beside the verdict as JSON; the defaults say that there was no record."""

    claim: Claim = Claim.NONE
    page: Seen = Seen.COULD_NOT_LOOK
    page_count: int = 0
    page_url: str = ""
    page_label: str = ""
    # frames that could not be entered, and whether more may stand in an editor than was read of it
    page_frames_unread: int = 0
    page_in_part: bool = False
    surface: Surface = Surface.UNKNOWN
    evidence: Evidence | None = None
    lines: tuple[LineRef, ...] = ()
    # byte offset of the line that ended the gradeable window
    window_end: int | None = None
    log_size: int = 0
    log_sha256: str = ""
    target: str = ""
    # whether the product found the control that would have sent it; None: it did not say
    submit: bool | None = None
    # launch to terminal push
    wall_ms: int | None = None
    timing: Timing = field(default_factory=Timing)
    dispatches: int = 0
    budget_used: bool = False
    payload: str = ""
    mode: Mode | None = None
    lane: str = ""
    renderer: str = ""
    product_revision: str = ""
    leash_scale: float = 1.0
    faults: str = ""
    skills: SkillCounts = field(default_factory=SkillCounts)
    # names of the values above that nobody knows: a row of another harness keeps few
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRow:
    """One attempt of a sweep with the verdict that stands for it."""

    run_id: int
    attempt_id: int
    attempt_no: int
    arm: str
    site: str
    trial: int
    box: str
    editor_shape: str
    bucket: Bucket
    rule: str
    detail: str
    grader_version: int
    started_at: datetime | None
    finished_at: datetime | None
    facts: VerdictFacts
    # the stored record that was judged; None: the attempt left none
    record_id: int | None = None

    @property
    def name(self) -> str:
        """The run's short name, `youtube#7`."""
        return f"{self.site}#{self.trial}"


def collect_facts(case: Case, verdict: Verdict, *, faults: str = "") -> VerdictFacts:
    """Everything of the case that the verdict's row keeps; text is clean enough for PostgreSQL.

    `faults`: what the record says of them. The case does not know: whoever reads the verdict must.
    """
    record, page = case.record, case.page
    return VerdictFacts(
        claim=case.claim,
        page=page.payload,
        page_count=page.count,
        page_url=_clean(page.url),
        page_label=_clean(page.label),
        page_frames_unread=page.frames_unread,
        page_in_part=page.in_part,
        surface=case.surface,
        evidence=verdict.evidence,
        lines=tuple(_refer(case, hit) for hit in verdict.lines[:_MAX_LINES]),
        window_end=case.next_dispatch.start if case.next_dispatch else None,
        log_size=len(case.log),
        log_sha256=_clean(record.log.sha256) if record.log else "",
        target=_clean(case.fill.name) if case.fill else "",
        submit=case.submit,
        wall_ms=record.wall_ms,
        timing=case.timing,
        dispatches=len(record.children),
        budget_used=record.budget_used,
        payload=_clean(record.payload),
        mode=record.mode,
        lane=_clean(record.lane),
        renderer=_clean(record.renderer),
        product_revision=_clean(record.product_revision),
        leash_scale=record.leash_scale,
        faults=_clean(faults),
        skills=count_skills(case),
    )


def count_skills(case: Case) -> SkillCounts:
    """The skill lines of all dispatches: a skill that the recovery recorded is recorded as well."""
    gate = [hit for hit in case.scan.find("skill_gate") if _is_refusal(hit)]
    refusals = [*gate, *case.scan.find(*_SKILL_REFUSALS)]
    return SkillCounts(
        recorded=len(case.scan.find("skill_recorded")),
        replays=len(case.scan.find("replay_attempt", "replay_prefix")),
        replays_succeeded=len(case.scan.find("replay_succeeded")),
        refusals=dict(sorted(Counter(hit.marker for hit in refusals).items())),
    )


def _is_refusal(gate: Hit) -> bool:
    """Whether the gate let nothing be recorded: it wants an honest end that was not gathered, removed or unsure."""
    return gate.text("honest") != "True" or any(gate.text(bar) == "True" for bar in _GATE_BARS)


def _refer(case: Case, hit: Hit) -> LineRef:
    data = case.log[hit.start : min(hit.end, hit.start + 4 * _MAX_LINE_LENGTH)]
    text = data.decode("utf-8", "replace")[:_MAX_LINE_LENGTH]
    return LineRef(marker=hit.marker, start=hit.start, end=hit.end, time=_clean(hit.time), text=_clean(text))


def _clean(text: str) -> str:
    return clean_text(text[:_MAX_LINE_LENGTH])[0]
