"""From a run record and its log slice to a `Case`: everything a rule may look at. Pure.

The gradeable window is the first dispatch: it ends at the first line that begins another one, be it
the recovery, which may fill again, or the read-only payload probe; for every marker alike.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from operator import attrgetter

from broker.types import Claim, MetricsRow, Mode, PageRead, Probe, RunRecord, SiteTask
from grader.lazy import lazy
from grader.markers import Catalogue, Hit, Scan, load_catalogue, unquote
from grader.page import PageView, view_pages
from grader.surface import Surface, is_message_box, is_other_box, is_same_page, is_sign_in, judge_url

# The product prints at most this much of a URL, by the line that holds it.
_FILL_URL_LENGTH = 90
_URL_LENGTHS = {"fill_target": _FILL_URL_LENGTH, "decline_wall": 60, "dryrun_report": 120}
# A command that took this long was given up by the product and never answered (contract 2.4).
_LEASH_MS, _FIND_LEASH_MS, _NAVIGATE_LEASH_MS = 15_000, 30_000, 25_000
# those with leashes of their own, 12 to 45 s: the longest, so that none that was answered counts
_LONGEST_LEASH_MS = 45_000
_LEASH_TOLERANCE = 0.99

NEXT_DISPATCH = ("payload_probe", "recovery_dispatch")
WALL_DECLINES = ("decline_wall", "decline_reveal_wall", "decline_signed_out")
OTHER_DECLINES = (
    "decline_no_composer",
    "decline_read_only",
    "decline_no_payload",
    "decline_content_type",
    "decline_nothing_editable",
)
FAILED_FILLS = ("fill_errored", "fill_not_committed", "sendscript_outer_skip")
# What a try to fill can come to; the last one of a dispatch decides.
_OUTCOMES = ("dryrun_filled", "send_done", "receipt_withheld", *FAILED_FILLS, *WALL_DECLINES, *OTHER_DECLINES)
_SENT = ("send_done", "receipt_passed", "autosend_delivered", "probe_verdict")
# Where the first dispatch stood, the line that saw it last first.
_STOOD_AT = ("fill_target", "decline_wall", "decline_content_type", "dryrun_report", "prestage_done")
_NAMES_PARENT = ("direct_dispatch", "brief_entry", *NEXT_DISPATCH, "probe_verdict", "session_done")
_NAMES_CHILD = ("ghost", "dispatch_time", "perceives_dead", "card_unusable")
_NAMES_CARD = ("mount_poll", "spawn_ack", "action", "slow_command", "perceives_dead", "card_unusable")
_NOT_STAGED = (
    "prestage_step",
    "prestage_unsettled",
    "prestage_repeated",
    "prestage_skipped",
    "prestage_outer_skip",
)
_ASKS_MODEL = ("classifier_unavailable", "prestage_outer_skip", "prestage_skipped")
_CARRIES_ERROR = (
    *_ASKS_MODEL,
    "fill_errored",
    "structural_none",
    "sendscript_outer_skip",
    "replay_step_failed",
    "agent_navigated",
)
_RECORD_FIELDS = fields(RunRecord)
_read_record = attrgetter(*(one.name for one in _RECORD_FIELDS))


@dataclass(frozen=True, slots=True, kw_only=True)
class FillTarget:
    """The box that the product says it filled last within the window."""

    name: str
    url: str
    hit: Hit


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """The trial's own times: the first child's row, never the recovery's; None: not printed."""

    total_ms: int | None = None
    llm_ms: int | None = None
    tools_ms: int | None = None
    other_ms: int | None = None
    prestage_ms: int | None = None
    task_ms: int | None = None
    turns: int | None = None
    # 0 or 1 when prestage found its composer without a model; None otherwise
    tier: int | None = None


@dataclass(frozen=True, kw_only=True)
class Case:
    """One attempt as the rules see it: `make_blind` has taken out of its record what no rule may know."""

    record: RunRecord
    task: SiteTask
    planned_mode: Mode
    planned_payload: str
    log: bytes
    scan: Scan
    catalogue: Catalogue

    @lazy
    def next_dispatch(self) -> Hit | None:
        """The line that ends the window, if any."""
        return next(iter(self.scan.find(*NEXT_DISPATCH)), None)

    @lazy
    def recovery(self) -> Hit | None:
        """The first recovery dispatch; unlike the probe it may move the page on."""
        return next(iter(self.scan.find("recovery_dispatch")), None)

    def window(self, *names: str) -> tuple[Hit, ...]:
        """The lines of these markers within the first dispatch."""
        return self._within(self.scan.find(*names))

    def _within(self, hits: tuple[Hit, ...]) -> tuple[Hit, ...]:
        end = self.next_dispatch
        return hits if end is None else tuple([hit for hit in hits if hit.start < end.start])

    @lazy
    def outcome(self) -> Hit | None:
        """What the last try to fill came to."""
        return _last(self.window(*_OUTCOMES))

    @lazy
    def sent(self) -> tuple[Hit, ...]:
        """Receipts, wherever they stand: a post that went out is not undone by a later dispatch."""
        return tuple(hit for hit in self.scan.find(*_SENT) if _says_sent(hit))

    @property
    def receipt(self) -> str:
        """The receipt that the reply's own trace holds; empty: none."""
        return self.record.parent.receipt if self.record.parent else ""

    @lazy
    def claim(self) -> Claim:
        """What the product says it did; never its session's status.

        A reply says `sent` by the receipt in its trace. Its words are a model's: what they mean can't be told
        by any pattern ("Posted!", "I could not confirm that it was posted"), and a page can put them there.
        """
        if self.sent or self.receipt:
            return Claim.SENT
        filled = self.outcome is not None and self.outcome.marker == "dryrun_filled" and self.cut_off is None
        return Claim.FILLED if filled else Claim.NONE

    @lazy
    def fill(self) -> FillTarget | None:
        """Where the product says it filled."""
        hit = _last(self.window("fill_target"))
        return None if hit is None else FillTarget(name=unquote(hit.text("name")), url=hit.text("url"), hit=hit)

    @property
    def cut_off(self) -> FillTarget | None:
        """The last fill when nothing was printed of what it came to: what was said before is not of it."""
        fill = self.fill
        return fill if fill is not None and (self.outcome is None or self.outcome.start < fill.hit.start) else None

    @lazy
    def submit(self) -> bool | None:
        """Whether the control that would have sent the fill was found and could be pressed; None: not said."""
        if self.outcome is not None and self.outcome.marker == "dryrun_filled":
            return self.outcome.text("resolved") == "True"
        if self.fill is not None and any(hit.start > self.fill.hit.start for hit in self.window("submit_disabled")):
            return False
        return None

    @lazy
    def page(self) -> PageView:
        """What bv3 read."""
        return view_pages(self.record)

    @lazy
    def page_moved_on(self) -> bool:
        """Whether a recovery had run before the page was read, so that absence says little of the trial."""
        return self.recovery is not None and self.page.after_dispatch != 1

    def is_of_trial(self, read: PageRead) -> bool:
        """Whether no recovery ran before this read; the payload probe only reads."""
        return self.recovery is None or read.after_dispatch == 1

    def speaks_of_trial(self, read: PageRead) -> bool:
        """Whether what this read found was there for the first dispatch."""
        return self.is_of_trial(read) or self.stood_on(read)

    def stood_on(self, read: PageRead) -> bool:
        """Whether the page that was read is where the first dispatch says that it stood.

        The same page, or a sign-in page both times: they change their addresses by themselves.
        """
        hit = self._stood_at
        if hit is None:
            return False
        stood = unquote(hit.text("url"))
        return is_same_page(read.url, stood, truncated=is_url_cut(hit)) or (
            is_sign_in(stood, self.task) and is_sign_in(read.url, self.task)
        )

    @lazy
    def _stood_at(self) -> Hit | None:
        """The line of the first dispatch that says last where it stood."""
        return next((hits[-1] for name in _STOOD_AT if (hits := self.window(name))), None)

    @lazy
    def claimed_surface(self) -> Surface:
        """The surface by the product's own word."""
        if self.fill is None:
            return Surface.UNKNOWN
        return judge_url(self.fill.url, self.task, truncated=len(self.fill.url) >= _FILL_URL_LENGTH)

    @lazy
    def surface(self) -> Surface:
        """Wrong when either side's is wrong; else by bv3's own reading, or the product's word when it has none."""
        own = judge_url(self.page.url, self.task)
        if own is Surface.UNKNOWN or self.claimed_surface is Surface.WRONG:
            return self.claimed_surface
        return own

    @lazy
    def is_message_box(self) -> bool:
        """Whether the filled box is a private-message box on a public task; bv3's own reading of its name first."""
        label = self.page.label or (self.fill.name if self.fill else "")
        return is_message_box(label, self.task)

    @lazy
    def is_other_box(self) -> bool:
        """Whether the box that bv3 read the text in can't be the task's editor, whatever the product calls it."""
        return is_other_box(self.page.kind, self.page.label, self.task, others=self.page.others)

    @lazy
    def errors(self) -> tuple[tuple[Hit, frozenset[str]], ...]:
        """Lines of the window that carry an error, with the reply markers found in it."""
        return tuple((hit, self.catalogue.replies_in(hit.text("error"))) for hit in self.window(*_CARRIES_ERROR))

    def errors_with(self, *replies: str) -> tuple[Hit, ...]:
        """Lines of the window whose error holds one of these replies."""
        return tuple(hit for hit, found in self.errors if found.intersection(replies))

    def model_errors_with(self, *replies: str) -> tuple[Hit, ...]:
        """Those of them that come of asking a model; what a provider says may stand anywhere in such an error."""
        return tuple(hit for hit in self.errors_with(*replies) if hit.marker in _ASKS_MODEL)

    @lazy
    def unanswered(self) -> tuple[Hit, ...]:
        """Commands of the first dispatch that took their whole leash, before anything came of it.

        Leashes of a reference stack may be shortened. What hangs after the outcome, as its picture may, is no
        part of the trial.
        """
        slow = self.before_outcome(self.window("slow_command"))
        return tuple(hit for hit in slow if _took_leash(hit, self.record.leash_scale))

    def before_outcome(self, lines: tuple[Hit, ...]) -> tuple[Hit, ...]:
        """Those of these lines that stand before what the last try to fill came to."""
        end = len(self.log) if self.outcome is None else self.outcome.start
        return tuple(hit for hit in lines if hit.start < end)

    @lazy
    def dead(self) -> tuple[Hit, ...]:
        """Lines by which the first dispatch gave its card up."""
        return self.window("perceives_dead", "card_unusable")

    @property
    def is_dead_by_silence(self) -> bool:
        """Whether the card was given up after commands on it that were never answered."""
        return any(hit.start < self.dead[-1].start for hit in self.unanswered) if self.dead else False

    def decisive(self, lines: tuple[Hit, ...]) -> tuple[Hit, ...]:
        """These lines, or none of them when a fill was begun after the last: what they tell had been overcome."""
        if not lines or (self.fill is not None and self.fill.hit.start > max(hit.start for hit in lines)):
            return ()
        return lines

    @lazy
    def failed_probe(self) -> Probe | None:
        """The first of bv3's own probes that was not answered."""
        probes = (self.record.probe_before, self.record.probe_after)
        return next((probe for probe in probes if probe is not None and not probe.answered), None)

    @lazy
    def named_parent(self) -> str | None:
        """The first parent session that the slice itself names."""
        return next((hit.text("sid") for hit in self.scan.find(*_NAMES_PARENT)), None)

    @lazy
    def foreign_lines(self) -> tuple[Hit, ...]:
        """Lines of a session that is not this run's: another parent, or a child this parent does not have."""
        parent = self.record.parent
        children = [_id(child.session_id) for child in self.record.children]
        parents = self.scan.find_naming_none([_id(parent.session_id)], *_NAMES_PARENT) if parent else ()
        others = self.scan.find_naming_none(children, *_NAMES_CHILD) if children else ()
        return (*parents, *others)

    @lazy
    def foreign_card_lines(self) -> tuple[Hit, ...]:
        """Lines of the window about a card that this run's session did not spawn."""
        own = [_id(card) for card in self.record.cards]
        lines = self._within(self.scan.find_naming_none(own, *_NAMES_CARD))
        if not lines:
            return ()
        # a card that died is none of the record's any more
        own += [_id(hit.text("card")) for hit in self.window("new_card")]
        return self._within(self.scan.find_naming_none(own, *_NAMES_CARD)) if own else ()

    @lazy
    def is_own_log(self) -> bool:
        """Whether the slice names this run's session, or ends before any session could be named."""
        parent = self.record.parent
        if parent is None or _id(parent.session_id) in self.log:
            return True
        return bool(self.scan.find("classifier_unavailable"))

    @lazy
    def timing(self) -> Timing:
        """The first dispatch's times."""
        row = _first_row(self.record)
        if row is None:
            return Timing(prestage_ms=self._printed_prestage_ms(), tier=self._tier())
        return Timing(
            total_ms=row.total_ms,
            llm_ms=row.llm_ms,
            tools_ms=row.tools_ms,
            other_ms=row.other_ms,
            prestage_ms=self._printed_prestage_ms() if row.prestage_ms is None else row.prestage_ms,
            task_ms=row.task_ms,
            turns=row.turns,
            tier=self._tier(),
        )

    def _printed_prestage_ms(self) -> int | None:
        done = self.window("prestage_done")
        return done[0].number("ms") if done else None

    def _tier(self) -> int | None:
        # the line of tier 1 is printed before its page has loaded: what follows may have needed a model after all
        if self.window("prestage_tier1") and not self.window(*_NOT_STAGED):
            return 1
        return 0 if self.window("prestage_tier0") else None


def make_blind(record: RunRecord) -> RunRecord:
    """The record without the truth's name and hash, and without what a reference stack was told to inject."""
    # what `dataclasses.replace` does, at a third of its cost: this is done for every record
    blind = object.__new__(RunRecord)
    for one, value in zip(_RECORD_FIELDS, _read_record(record), strict=True):
        object.__setattr__(blind, one.name, value)
    object.__setattr__(blind, "evidence", ())
    object.__setattr__(blind, "faults", "")
    return blind


def build_case(
    record: RunRecord,
    log: bytes,
    task: SiteTask,
    *,
    planned_mode: Mode = Mode.DRY,
    planned_payload: str | None = None,
    scan: Scan | None = None,
) -> Case:
    """The case of this record. `planned_payload`: what the start gave out, by default the record's own.

    `scan`: of this very log, when there is one already.
    """
    catalogue = load_catalogue()
    return Case(
        record=make_blind(record),
        task=task,
        planned_mode=planned_mode,
        planned_payload=record.payload if planned_payload is None else planned_payload,
        log=log,
        scan=catalogue.scan(log) if scan is None else scan,
        catalogue=catalogue,
    )


def _first_row(record: RunRecord) -> MetricsRow | None:
    if not record.children:
        return None
    first = record.children[0].session_id
    return next((row for row in record.metrics if row.session_id == first), None)


def is_url_cut(hit: Hit) -> bool:
    """Whether the end of the URL that this line prints may be missing."""
    limit = _URL_LENGTHS.get(hit.marker)
    return limit is not None and len(unquote(hit.text("url"))) >= limit


def _says_sent(hit: Hit) -> bool:
    """Whether this line of a send's end says that the write went out."""
    if hit.marker == "send_done":
        return "True" in {hit.text("sent"), hit.text("delivered")}
    return hit.marker != "probe_verdict" or hit.text("verdict") == "found"


def _took_leash(hit: Hit, scale: float) -> bool:
    leash_ms = _LEASH_MS
    if hit.text("navigates"):
        leash_ms = _NAVIGATE_LEASH_MS
    elif hit.text("finds"):
        leash_ms = _FIND_LEASH_MS
    elif hit.text("waits"):
        leash_ms = _LONGEST_LEASH_MS
    return (hit.number("ms") or 0) >= leash_ms * scale * _LEASH_TOLERANCE


def _id(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def _last(hits: Iterable[Hit]) -> Hit | None:
    return max(hits, key=lambda hit: hit.start, default=None)
