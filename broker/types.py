"""The values that pass between processes. Pure: no I/O, no clock, no randomness.

Every value is frozen and is written as JSON by `broker.codec`, with its schema's number.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

RECORD_SCHEMA = 1
RUN_BUDGET_S = 200.0
WALL_LIMIT_S = 300.0


class Mode(StrEnum):
    """Whether the backend process may make the irreversible click. A missing variable counts as live."""

    DRY = "dry"
    LIVE = "live"


class Seen(StrEnum):
    """The three answers of every read: absence is evidence only if the read succeeded (seed rule 2)."""

    SEEN = "seen"
    ABSENT = "absent"
    COULD_NOT_LOOK = "could_not_look"


class Claim(StrEnum):
    """What the product itself says it did."""

    NONE = "none"
    FILLED = "filled"
    SENT = "sent"


class Phase(StrEnum):
    """The phases of one attempt, in order."""

    PREFLIGHT = "preflight"
    START = "start"
    RESET = "reset"
    LAUNCH = "launch"
    WAIT = "wait"
    AUDIT = "audit"
    CAPTURE = "capture"
    TEARDOWN = "teardown"


class Family(StrEnum):
    """The four families of buckets; they always sum to the number of attempts."""

    OK = "ok"
    PRODUCT = "product"
    INFRA = "infra"
    NOT_MEASURABLE = "not_measurable"


class Bucket(StrEnum):
    """Exactly one per verdict. Adding one is a change of the grader's version."""

    OK = "ok"
    PRODUCT_NO_COMPOSER = "product_no_composer"
    PRODUCT_WRONG_SURFACE = "product_wrong_surface"
    PRODUCT_FILL_DIED = "product_fill_died"
    # claimed, the page was read in time and does not hold the payload
    PRODUCT_UNVERIFIED_FILL = "product_unverified_fill"
    # claimed, the page could not be read: a failure, reach is printed with and without it
    PRODUCT_UNCONFIRMED = "product_unconfirmed"
    PRODUCT_COMMAND_TIMEOUT = "product_command_timeout"
    PRODUCT_TIMEOUT = "product_timeout"
    PRODUCT_FALSE_SUCCESS = "product_false_success"
    INFRA_BACKEND = "infra_backend"
    INFRA_ROUTER = "infra_router"
    INFRA_BROWSER = "infra_browser"
    INFRA_NO_RENDERER = "infra_no_renderer"
    INFRA_HARNESS = "infra_harness"
    INFRA_BOX_LOST = "infra_box_lost"
    INFRA_CONTENDED = "infra_contended"
    NOT_MEASURABLE = "not_measurable"

    @property
    def family(self) -> Family:
        """The family this bucket is summed under."""
        if self is Bucket.OK:
            return Family.OK
        if self is Bucket.NOT_MEASURABLE:
            return Family.NOT_MEASURABLE
        return Family.PRODUCT if self.value.startswith("product_") else Family.INFRA


class Evidence(StrEnum):
    """On whose word an exclusion rests (DESIGN: exclusions are judged on the page's own evidence)."""

    PROVEN = "PROVEN"
    UNVERIFIED = "UNVERIFIED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Retirement:
    """Why a site left the denominator, with its evidence."""

    date: str
    evidence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteTask:
    """One task of a suite: what is asked on which site, and which surface is meant."""

    site: str
    # exactly one double-quoted {payload}
    prompt: str
    # holds {nonce} once, within its first 24 characters
    payload: str
    entry: str
    # the page's host must equal it or be a subdomain
    host: str
    # regular expression on the URL's path
    path_rule: str
    # public, private or chat
    visibility: str
    kind: str
    # a word of `broker.suites.vocabulary`; in rows of before it, a description
    editor_shape: str
    # how one comes to the editor: a word of the same
    flow: str = ""
    # the editor in words
    editor: str = ""
    # regular expression on the names of the page's other boxes of the same kind; empty: none is known
    other_boxes: str = ""
    # who found the site
    origin: str = ""
    # of a frozen suite: what it was frozen with
    group: str = ""
    retired: Retirement | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOrder:
    """What a box is told: one run, by its dispatch number. A box reads no table, so all it needs is here."""

    sweep: str
    run: int
    dispatch: int
    arm: str
    trial: int
    mode: Mode
    task: SiteTask
    budget_s: float = RUN_BUDGET_S
    wall_limit_s: float = WALL_LIMIT_S
    schema: int = RECORD_SCHEMA

    @property
    def name(self) -> str:
        """The run's short name, the same in every log line, error and progress row: `youtube#7`."""
        return f"{self.task.site}#{self.trial}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseSpan:
    """How long a phase took, by the box's monotonic clock; `started_ms` counts from the order's arrival."""

    phase: Phase
    started_ms: int
    duration_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ParentOutcome:
    """How the parent session ended. Its status is never a claim (contract 2.3)."""

    session_id: str
    # completed, error, stopped, gone, waiting_approval (nobody approves), or running when the budget was used up
    status: str
    reply: str
    # event: the pushed agent:status; poll: found by asking
    ended_by: str
    # what the reply's own trace calls its receipt of a sent write; empty: it holds none
    receipt: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Child:
    """One dispatch of the product: a browser sub-agent's session, in order of creation."""

    session_id: str
    status: str
    created_at: str | None = None
    closed_at: str | None = None
    browser_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSlice:
    """Which bytes of the backend's log belong to this attempt: cut by offset and inode, never by line."""

    path: str
    inode: int
    start: int
    end: int
    sha256: str
    # the file was replaced or shortened between start and end
    torn: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsRow:
    """One row of the product's tasks.jsonl, joined by the child's session id; None: not printed."""

    session_id: str
    status: str
    path: str
    total_ms: int | None
    llm_ms: int | None
    tools_ms: int | None
    other_ms: int | None
    prestage_ms: int | None = None
    task_ms: int | None = None
    turns: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Editable:
    """One editable that bv3 itself read on the page, and how often it holds the payload."""

    # 0 is the page itself
    frame: int
    frame_url: str
    # textarea, input, contenteditable, or the editor's own text
    kind: str
    label: str
    payload_count: int
    # the first 200 characters, cleaned
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRead:
    """What bv3 read on one card after a dispatch, without a model and without the product's word."""

    card: str
    # which dispatch was the last to have ended when this was read: 1 is the trial
    after_dispatch: int
    # since the terminal push
    offset_ms: int
    duration_ms: int
    # location.href as evaluated; empty when it could not be read
    url: str
    title: str
    payload: Seen
    # over all editables; the fill is right at exactly 1
    payload_count: int
    editables: tuple[Editable, ...]
    frames: int
    frames_unread: int
    # a visible password field in a sign-in form
    password_form: Seen
    # a visible bot-detection challenge
    challenge: Seen
    # text had NUL or lone surrogates, now U+FFFD
    sanitised: bool = False
    error: str = ""
    # an editable may hold more than was read of it, so that absence in it is no evidence;
    # or a listing's row of another name was taken for one that was read
    in_part: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """bv3's own `evaluate` on its audit card: the renderer answers, or it does not."""

    answered: bool
    duration_ms: int
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxEvent:
    """Something that happened on the box: a restart, a refusal, a hold. `at`: its wall clock, ISO 8601."""

    kind: str
    at: str
    facts: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceRef:
    """A piece of evidence by its content's SHA-256; the bytes travel ahead of the record in chunks."""

    # log, screenshot, truth
    name: str
    sha256: str
    size: int
    media_type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HarnessError:
    """A failure of the instrument's own, or of a part it stands on, told apart by `kind`."""

    phase: Phase
    # backend, renderer, router, harness, clean_start, budget
    kind: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """Run record v1: what the worker saw in one attempt. Facts only; the grader decides."""

    sweep: str
    run: int
    dispatch: int
    attempt: int
    attempt_no: int
    # the start's nonce: a record without it is dropped and counted
    nonce: str
    box: str
    arm: str
    site: str
    trial: int
    lane: str
    renderer: str
    product_revision: str
    # as read from the running backend's environment
    mode: Mode
    prompt: str
    payload: str
    phases: tuple[PhaseSpan, ...]
    # launch to terminal push
    wall_ms: int
    budget_used: bool
    parent: ParentOutcome | None
    children: tuple[Child, ...]
    log: LogSlice | None
    metrics: tuple[MetricsRow, ...]
    reads: tuple[PageRead, ...]
    # cards that this run's session spawned
    cards: tuple[str, ...]
    probe_before: Probe | None
    probe_after: Probe | None
    events: tuple[BoxEvent, ...]
    evidence: tuple[EvidenceRef, ...]
    errors: tuple[HarnessError, ...]
    versions: dict[str, str]
    # by how much a reference stack shortened the product's own waits; 1: not at all
    leash_scale: float = 1.0
    # the faults that a reference stack was told to inject, as it was told; empty: none
    faults: str = ""
    schema: int = RECORD_SCHEMA

    def evidence_named(self, name: str) -> EvidenceRef | None:
        """The first piece of evidence of that name, or None."""
        return next((ref for ref in self.evidence if ref.name == name), None)


def plan_prompt(task: SiteTask, payload: str) -> str:
    """The prompt that is sent: the task's template with the payload put in its one quoted place."""
    return task.prompt.replace("{payload}", payload)
