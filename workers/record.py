"""Building run record v1 from what was noted during an attempt, within the size that may be sent. Pure."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from broker.codec import clean_text, encode
from broker.queues import MAX_MESSAGE_BYTES
from broker.store.box_client import StartAnswer
from broker.types import (
    BoxEvent,
    Child,
    EvidenceRef,
    HarnessError,
    LogSlice,
    MetricsRow,
    Mode,
    PageRead,
    ParentOutcome,
    Phase,
    PhaseSpan,
    Probe,
    RunOrder,
    RunRecord,
)

REPLY_CHARS = 8_000
RECEIPT_CHARS = 400
ERROR_CHARS = 1_000
# base64 and the envelope need the rest
MAX_RECORD_BYTES = MAX_MESSAGE_BYTES * 3 // 4 - 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxFacts:
    """What is the same in every record of a booted box."""

    box: str
    lane: str
    renderer: str
    product_revision: str
    versions: dict[str, str]
    # of a reference stack: what it was told to inject, and how long its leashes are
    faults: str = ""
    leash_scale: float = 1.0


@dataclass(slots=True, kw_only=True)
class Notes:
    """What has been seen of one attempt so far. Every phase adds to it; none takes anything away."""

    order: RunOrder
    answer: StartAnswer
    nonce: str
    mode: Mode
    prompt: str = ""
    spans: list[PhaseSpan] = field(default_factory=list)
    wall_ms: int = 0
    budget_used: bool = False
    parent: ParentOutcome | None = None
    children: tuple[Child, ...] = ()
    log: LogSlice | None = None
    metrics: tuple[MetricsRow, ...] = ()
    reads: tuple[PageRead, ...] = ()
    cards: tuple[str, ...] = ()
    probe_before: Probe | None = None
    probe_after: Probe | None = None
    events: list[BoxEvent] = field(default_factory=list)
    evidence: list[EvidenceRef] = field(default_factory=list)
    errors: list[HarnessError] = field(default_factory=list)

    def fail(self, phase: Phase, kind: str, message: str) -> None:
        """The failure is noted."""
        self.errors.append(HarnessError(phase=phase, kind=kind, message=clean_text(message)[0][:ERROR_CHARS]))

    def has_failed(self, *phases: Phase) -> bool:
        """Whether any of these phases failed."""
        return any(error.phase in phases for error in self.errors)


def build_record(notes: Notes, box: BoxFacts) -> RunRecord:
    """The record of this attempt: facts only."""
    order = notes.order
    return RunRecord(
        sweep=order.sweep,
        run=order.run,
        dispatch=order.dispatch,
        attempt=notes.answer.attempt,
        attempt_no=notes.answer.attempt_no,
        nonce=notes.nonce,
        box=box.box,
        arm=order.arm,
        site=order.task.site,
        trial=order.trial,
        lane=box.lane,
        renderer=box.renderer,
        product_revision=box.product_revision,
        mode=notes.mode,
        prompt=notes.prompt,
        payload=notes.answer.payload,
        phases=tuple(notes.spans),
        wall_ms=notes.wall_ms,
        budget_used=notes.budget_used,
        parent=notes.parent,
        children=notes.children,
        log=notes.log,
        metrics=notes.metrics,
        reads=notes.reads,
        cards=notes.cards,
        probe_before=notes.probe_before,
        probe_after=notes.probe_after,
        events=tuple(notes.events),
        evidence=tuple(notes.evidence),
        errors=tuple(notes.errors),
        versions=box.versions,
        faults=box.faults,
        leash_scale=box.leash_scale,
    )


def encode_record(record: RunRecord) -> bytes:
    """The record's bytes, never more than may be sent: what is too long is cut, and an error says so."""
    data = encode(record)
    if len(data) <= MAX_RECORD_BYTES:
        return data
    said = HarnessError(phase=Phase.CAPTURE, kind="harness", message=f"the record had {len(data)} bytes and was cut")
    for keep in (10, 3, 0):
        record = _shorten(record, keep)
        data = encode(dataclasses.replace(record, errors=(*record.errors[:keep], said)))
        if len(data) <= MAX_RECORD_BYTES:
            return data
    return encode(dataclasses.replace(_drop_lists(record), errors=(said,)))


def _shorten(record: RunRecord, keep: int) -> RunRecord:
    """The record with so many editables per read; those that hold the payload come first."""
    reads = tuple(dataclasses.replace(read, editables=read.editables[:keep]) for read in record.reads[: max(1, keep)])
    return dataclasses.replace(record, reads=reads, children=record.children[:50], metrics=record.metrics[:50])


def _drop_lists(record: RunRecord) -> RunRecord:
    empty: dict[str, Any] = {"children": (), "metrics": (), "events": (), "cards": record.cards[:10]}
    return dataclasses.replace(record, **empty)
