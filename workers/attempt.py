"""The phases of one attempt on the product, each a small step that adds to the notes.

Order: reset, launch, wait, audit, capture, teardown. What a phase needs of an earlier one stands in `Trail`.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from broker.codec import clean_text
from broker.types import BoxEvent, EvidenceRef, ParentOutcome, Phase, plan_prompt
from workers.audit import AuditTarget, choose_cards, read_cards, take_screenshot
from workers.cleaning import Leftovers, NotCleanError, clean_up, find_leftovers
from workers.client.errors import BackendAwayError, BackendRefusedError, ProductError
from workers.client.product import ProductClient
from workers.client.session import SessionEnd, SessionSocket, wait_for_end
from workers.client.views import WAITING_APPROVAL
from workers.evidence import EvidenceStore
from workers.journal import Journal
from workers.logslice import FileMark, cut_slice, mark_end
from workers.metrics import find_truth, join_metrics, read_rows
from workers.preflight import Preflight, probe_renderer
from workers.processes import ProcessBook, Recorded
from workers.record import RECEIPT_CHARS, REPLY_CHARS, Notes
from workers.stack.facts import StackFacts
from workers.watch import Watch

RUNNING = "running"
_MOST_NAMED = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What the phases work with."""

    preflight: Preflight
    journal: Journal
    evidence: EvidenceStore

    @property
    def facts(self) -> StackFacts:
        """The booted stack."""
        return self.preflight.facts

    @property
    def product(self) -> ProductClient:
        """The product."""
        return self.preflight.product

    @property
    def book(self) -> ProcessBook:
        """The box's processes."""
        return self.preflight.book


@dataclass(slots=True, kw_only=True)
class Trail:
    """What one phase leaves for the next ones."""

    log: FileMark
    metrics: FileMark
    truth: FileMark | None
    # how many processes the box had started by then
    processes: int
    # looks whether others come, from launch to capture
    watch: Watch
    # monotonic: the POST of launch
    launched_s: float = 0.0
    ended_s: float = 0.0
    session_id: str = ""
    # the prompt may be with the product, so its end is waited for
    may_run: bool = False
    end: SessionEnd | None = None
    socket: SessionSocket | None = field(default=None)


def reset(bench: Bench, notes: Notes) -> Trail:
    """Nothing of an earlier run is left, and it is noted where log and metrics end now."""
    trail = mark_files(bench)
    leftovers = find_leftovers(bench.product, bench.facts.audit_card)
    if leftovers.is_any:
        raise NotCleanError(f"left by an earlier run: {leftovers}")
    notes.prompt = plan_prompt(notes.order.task, notes.answer.payload)
    return trail


def mark_files(bench: Bench) -> Trail:
    """Where the product's files end now."""
    facts = bench.facts
    return Trail(
        log=mark_end_of(facts.log_file),
        metrics=mark_end_of(facts.metrics_file),
        truth=mark_end_of(facts.truth_file) if facts.truth_file else None,
        processes=len(bench.book.read()),
        watch=Watch(bench.preflight.list_intrusions),
    )


def mark_end_of(path: str) -> FileMark:
    """The file's end now."""
    return mark_end(Path(path))


def launch(bench: Bench, notes: Notes, trail: Trail) -> None:
    """The prompt is with the product. From the journal's `launching` on it may have acted, whatever fails here."""
    order = notes.order
    bench.journal.mark_launching(order.run, order.dispatch)
    trail.watch.open()
    trail.launched_s = time.monotonic()
    trail.session_id = bench.product.launch(f"{order.sweep} {order.name}")
    trail.socket = SessionSocket(bench.product.address, trail.session_id)
    # before the message, so that no event of it is missed
    trail.socket.open()
    try:
        trail.may_run = True
        bench.product.send_message(trail.session_id, notes.prompt)
    except BackendRefusedError:
        trail.may_run = False
        raise
    except BackendAwayError as error:
        trail.may_run = error.may_have_arrived
        raise


def wait(bench: Bench, notes: Notes, trail: Trail) -> None:
    """The session has ended, or the budget is used up."""
    deadline_s = trail.launched_s + notes.order.budget_s
    socket = trail.socket or SessionSocket(bench.product.address, trail.session_id)
    trail.end = wait_for_end(bench.product, socket, trail.session_id, deadline_s=deadline_s)
    trail.ended_s = trail.end.at_s if trail.end else time.monotonic()
    notes.budget_used = trail.end is None
    notes.wall_ms = round((trail.ended_s - trail.launched_s) * 1000)
    if trail.end is not None and trail.end.status == WAITING_APPROVAL:
        # Nobody is there to say yes, and bv3 never does: what it would be answering for is the product's affair.
        notes.events.append(BoxEvent(kind="approval_asked", at=datetime.now(UTC).isoformat(), facts={}))


def audit(bench: Bench, notes: Notes, trail: Trail) -> None:
    """Every card that this session spawned has been read by bv3 itself, within the window after the end."""
    notes.children = bench.product.list_children(trail.session_id)
    spawners = frozenset({trail.session_id, *(child.session_id for child in notes.children)})
    notes.cards = choose_cards(bench.product.list_cards(), spawners)
    # One that still runs has moved the page on as surely as one that has ended.
    dispatches = len(notes.children)
    target = AuditTarget(
        payload=notes.answer.payload, cards=notes.cards, after_dispatch=dispatches, ended_s=trail.ended_s
    )
    notes.reads = read_cards(bench.product, target)
    for card in notes.cards:
        picture = take_screenshot(bench.product, card, deadline_s=target.deadline_s)
        if picture:
            keep_evidence(bench, notes, "screenshot", picture, "image/png")


def capture(bench: Bench, notes: Notes, trail: Trail) -> None:
    """What the product said and wrote about the run is noted; its log slice and the truth are evidence."""
    # whatever fails below
    trail.watch.stop()
    # Files first: they can be read when the backend is gone.
    try:
        notes.log, data = cut_slice(trail.log)
        keep_evidence(bench, notes, "log", data, "text/plain")
        if notes.log.torn:
            notes.fail(Phase.CAPTURE, "harness", f"the log was replaced, or too long: {len(data)} bytes are kept")
    except OSError as error:
        notes.fail(Phase.CAPTURE, "harness", f"the backend's log can't be read: {error}")
    notes.events += list_restarts(bench, trail)
    note_intrusions(notes, trail)
    children = [child.session_id for child in notes.children]
    notes.metrics = join_metrics(read_rows(trail.metrics), children)
    if trail.truth and trail.session_id and (truth := find_truth(read_rows(trail.truth), trail.session_id)):
        keep_evidence(bench, notes, "truth", truth, "application/json")
    notes.probe_after = probe_renderer(bench.product, bench.facts.audit_card)
    if not notes.probe_after.answered:
        notes.fail(Phase.CAPTURE, "renderer", f"the audit card does not answer: {notes.probe_after.error}")
    if trail.session_id:
        _read_reply(bench, notes, trail)


def teardown(bench: Bench, notes: Notes, trail: Trail) -> None:
    """Session, children and cards of this run are gone from the product, which is quiet. Raises NotCleanError."""
    if trail.socket is not None:
        trail.socket.close()
    sessions = [child.session_id for child in notes.children]
    if trail.session_id:
        # the parent first: it stops its children, and makes no new ones
        sessions.insert(0, trail.session_id)
    clean_up(bench.product, Leftovers(sessions=tuple(sessions), cards=notes.cards))
    leftovers = find_leftovers(bench.product, bench.facts.audit_card)
    if leftovers.is_any:
        clean_up(bench.product, leftovers)
    # each by its name: what a deletion leaves in the lists is another matter than what it leaves behind
    if left := bench.product.list_left(sessions=sessions, cards=notes.cards):
        raise NotCleanError(f"still there after the teardown: {', '.join(left[:_MOST_NAMED])}")


def keep_evidence(bench: Bench, notes: Notes, name: str, data: bytes, media_type: str) -> None:
    """The data is on disk and named in the record."""
    sha256 = bench.evidence.keep(notes.answer.attempt, data)
    notes.evidence.append(EvidenceRef(name=name, sha256=sha256, size=len(data), media_type=media_type))


def list_restarts(bench: Bench, trail: Trail) -> list[BoxEvent]:
    """The parts that were started again while the run was on."""
    return [describe_restart(item) for item in bench.book.read()[trail.processes :]]


def note_intrusions(notes: Notes, trail: Trail) -> None:
    """What others did to the box within the run is noted: it is never graded against the product."""
    for seen in trail.watch.close():
        said, at = seen.condition.said, seen.at.isoformat()
        if seen.condition.reason == "router":
            notes.fail(Phase.AUDIT, "router", f"{said}, seen at {at}")
        else:
            notes.events.append(BoxEvent(kind="contended", at=at, facts={"reason": f"{seen.condition.reason}: {said}"}))


def describe_restart(process: Recorded) -> BoxEvent:
    """A part of the stack that was started while the run was on: one that had ended."""
    at = datetime.fromtimestamp(process.started_s, tz=UTC).isoformat()
    return BoxEvent(kind="part_restarted", at=at, facts={"part": process.name, "pid": str(process.pid)})


def _read_reply(bench: Bench, notes: Notes, trail: Trail) -> None:
    status = trail.end.status if trail.end else RUNNING
    ended_by = trail.end.ended_by if trail.end else "budget"
    reply = receipt = ""
    try:
        session = bench.product.read_session(trail.session_id)
        reply, receipt = clean_text(session.reply)[0], clean_text(session.receipt)[0]
    except ProductError as error:
        notes.fail(Phase.CAPTURE, "backend", error.message)
    if len(reply) > REPLY_CHARS:
        keep_evidence(bench, notes, "reply", reply.encode(), "text/plain")
    notes.parent = ParentOutcome(
        session_id=trail.session_id,
        status=status,
        reply=reply[:REPLY_CHARS],
        ended_by=ended_by,
        receipt=receipt[:RECEIPT_CHARS],
    )
