"""What the dispatcher does next, decided from one look at the board. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from broker.holds import HoldKind
from broker.store.dispatching import Board, BoxState, OpenDispatch, PlannedRun
from broker.types import Bucket, Family

SLOTS = (1, 2)
# A box that handed a run back gets no other at once, or a contended box would spin.
REST_AFTER_RELEASE_S = 3.0
RESEND_AFTER_S = 30.0
RESEND_UNSENT_AFTER_S = 1.0
RESEND_AFTER_BEATS = 2
# A waiting run goes to an idle box only if its own box does not get to it within this time.
STEAL_AFTER_S = 1.0
LOST_AFTER_S = 45.0
# So many attempts in a row with an infra verdict hold a box.
QUARANTINE_AFTER = 3
# No longer gap between two of our own answered reads, or the watch starts anew.
WATCH_GAP_S = 5.0
OUTAGE_BOXES = 3
OUTAGE_LIMIT_S = 600.0
# A finished attempt is lost when its record has been missing for so long with nothing waiting for the grader.
RECORD_LIMIT_S = 600.0
RECORD_LOOK_EVERY_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOut:
    """Give this run to this box."""

    run_id: int
    box: str
    slot: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeBack:
    """This dispatch has not started and shall not start there."""

    dispatch_id: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarantine:
    """This box gets no runs until it has passed a check of its health."""

    box: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Decisions:
    """What one tick does, in this order."""

    quarantine: tuple[Quarantine, ...]
    take_back: tuple[TakeBack, ...]
    hand_out: tuple[HandOut, ...]
    send_again: tuple[int, ...]


def decide(board: Board) -> Decisions:
    """Sick boxes are held, waiting runs taken back where they must be, free slots filled, lost messages sent again."""
    quarantine = tuple(found for box in board.boxes if (found := _judge(box)) is not None)
    reasons = {item.box: f"{HoldKind.QUARANTINED}: {item.reason}" for item in quarantine}
    boxes = tuple(
        replace(box, held=reasons[box.name], may_work=False) if box.name in reasons else box for box in board.boxes
    )
    board = replace(board, boxes=boxes)
    take_back = tuple(
        TakeBack(dispatch_id=dispatch.id, reason=reason)
        for box in board.boxes
        for dispatch in box.dispatches
        if not dispatch.started and (reason := _reason_to_take_back(box, dispatch))
    )
    if not take_back:
        take_back = _steal_for_idle(board)
    taken = {item.dispatch_id for item in take_back}
    return Decisions(
        quarantine=quarantine,
        take_back=take_back,
        hand_out=_fill_slots(board),
        send_again=tuple(
            dispatch.id
            for box in board.boxes
            for dispatch in box.dispatches
            if dispatch.id not in taken and _is_unheard(box, dispatch)
        ),
    )


def _reason_to_take_back(box: BoxState, dispatch: OpenDispatch) -> str | None:
    if dispatch.sweep_stopped:
        return "the sweep is stopped"
    if box.held is not None:
        return f"the box is held, {box.held}"
    if not box.may_work:
        return f"the box is {box.phase}"
    if dispatch.needs_verified and not box.verified:
        return "the markers at its revision are not verified"
    return None


def _judge(box: BoxState) -> Quarantine | None:
    """Three attempts in a row that the instrument spoilt: it is the box, until it proves the contrary."""
    if box.is_quarantined or len(box.recent) < QUARANTINE_AFTER:
        return None
    last = box.recent[-QUARANTINE_AFTER:]
    if any(Bucket(attempt.bucket).family is not Family.INFRA for attempt in last):
        return None
    named = ", ".join(f"{attempt.name} {attempt.bucket}" for attempt in last)
    return Quarantine(box=box.name, reason=f"three infra attempts in a row: {named}")


def _suits(box: BoxState, run: PlannedRun | OpenDispatch) -> bool:
    return box.verified or not run.needs_verified


def _is_fit(box: BoxState, run: PlannedRun) -> bool:
    rested = box.released_ago_s is None or box.released_ago_s > REST_AFTER_RELEASE_S
    return box.may_work and rested and box.mode == run.mode and _suits(box, run)


def _steal_for_idle(board: Board) -> tuple[TakeBack, ...]:
    """At the end of a sweep, a run that waits behind another goes to a box that has nothing to do."""
    idle = [box for box in board.boxes if not box.dispatches and box.may_work]
    if board.planned or not idle:
        return ()
    waiting = [
        dispatch
        for box in board.boxes
        if len(box.dispatches) > 1
        for dispatch in box.dispatches
        if not dispatch.started and dispatch.sent_ago_s > STEAL_AFTER_S
        if any(other.mode == box.mode and _suits(other, dispatch) for other in idle)
    ]
    return tuple(TakeBack(dispatch_id=dispatch.id, reason="another box is idle") for dispatch in waiting[: len(idle)])


def _fill_slots(board: Board) -> tuple[HandOut, ...]:
    free = {
        box.name: [slot for slot in SLOTS if slot not in {dispatch.slot for dispatch in box.dispatches}]
        for box in board.boxes
    }
    by_name = {box.name: box for box in board.boxes}
    handed: list[HandOut] = []
    for run in board.planned:
        fit = [name for name, slots in free.items() if slots and _is_fit(by_name[name], run)]
        if not fit:
            continue
        # the emptiest box first, so that no box waits for a second run while another has none
        name = max(fit, key=lambda candidate: (len(free[candidate]), [-ord(char) for char in candidate]))
        handed.append(HandOut(run_id=run.id, box=name, slot=free[name].pop(0)))
    return tuple(handed)


def _is_unheard(box: BoxState, dispatch: OpenDispatch) -> bool:
    if dispatch.started:
        return False
    if dispatch.sent_at_beat is None:
        return dispatch.sent_ago_s > RESEND_UNSENT_AFTER_S
    is_idle = box.phase == "ready" and box.beats >= dispatch.sent_at_beat + RESEND_AFTER_BEATS
    return is_idle and dispatch.sent_ago_s > RESEND_AFTER_S


@dataclass(slots=True, kw_only=True)
class BeatWatch:
    """How long each box's beat counter has stood still, counted only over our own unbroken watching.

    An outage, a restart or a pause of the watcher starts the watch anew (DELIVERY, "Lost box").
    """

    _last_look_s: float | None = None
    _seen: dict[str, tuple[str, int, float]] = field(default_factory=dict)

    def observe(self, now_s: float, boxes: tuple[BoxState, ...]) -> dict[str, float]:
        """The seconds each box has been silent, by the watcher's monotonic clock."""
        if self._last_look_s is None or now_s - self._last_look_s > WATCH_GAP_S:
            self._seen.clear()
        self._last_look_s = now_s
        for box in boxes:
            known = self._seen.get(box.name)
            if known is None or known[:2] != (box.token, box.beats):
                self._seen[box.name] = (box.token, box.beats, now_s)
        names = {box.name for box in boxes}
        self._seen = {name: seen for name, seen in self._seen.items() if name in names}
        return {name: now_s - since for name, (_, _, since) in self._seen.items()}

    def forget(self) -> None:
        """The watch starts anew at the next look."""
        self._last_look_s = None


@dataclass(slots=True, kw_only=True)
class RecordWatch:
    """How long records have been missing while nothing waited for the grader, over our own unbroken watching.

    A farm that stood still for a night has not waited for its boxes.
    """

    _last_look_s: float | None = None
    _since_s: dict[int, float] = field(default_factory=dict)

    def observe(self, now_s: float, unreported: frozenset[int], *, is_empty: bool) -> tuple[int, ...]:
        """The attempts whose record has been missing for too long, by the watcher's monotonic clock."""
        is_broken = self._last_look_s is None or now_s - self._last_look_s > RECORD_LOOK_EVERY_S + WATCH_GAP_S
        self._last_look_s = now_s
        if is_broken or not is_empty:
            self._since_s.clear()
        self._since_s = {attempt: self._since_s.get(attempt, now_s) for attempt in unreported}
        return tuple(sorted(a for a, since_s in self._since_s.items() if now_s - since_s >= RECORD_LIMIT_S))


def choose_lost(silent_s: dict[str, float]) -> tuple[str, ...]:
    """The boxes that are lost. Three or more, and over half, silent together are an outage of the farm instead."""
    lost = tuple(sorted(name for name, seconds in silent_s.items() if seconds >= LOST_AFTER_S))
    is_outage = len(lost) >= OUTAGE_BOXES and len(lost) * 2 > len(silent_s)
    if is_outage and min(silent_s[name] for name in lost) < OUTAGE_LIMIT_S:
        return ()
    return lost
