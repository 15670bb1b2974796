"""Which boxes may take the runs of a sweep that asks for verified markers, and what is said when none may. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from broker.errors import UsageError
from broker.store.progress import BoxLine, Progress
from broker.store.standing import CheckState
from scheduler.wording import clean

# A box that was silent for so long is not part of the farm any more.
FORGOTTEN_S = 120.0
_MOST_NAMED = 5
_MOST_REVISION = 60


def is_away(box: BoxLine) -> bool:
    """Whether the box is gone, or silent for so long that it might be."""
    return box.phase == "gone" or box.last_beat_s is None or box.last_beat_s > FORGOTTEN_S


def say_check(box: BoxLine) -> str:
    """What is known of the markers at the box: `runs 21a08c23, where 2 markers are dead: a, b`."""
    revision = clean(box.revision or "")[:_MOST_REVISION]
    if box.check == CheckState.VERIFIED:
        return f"runs {revision}, whose markers are verified"
    if box.check == CheckState.DEAD:
        more = len(box.dead_markers) - _MOST_NAMED
        named = clean(", ".join(box.dead_markers[:_MOST_NAMED])) + (f" and {more} more" if more > 0 else "")
        dead = "1 marker is" if len(box.dead_markers) == 1 else f"{len(box.dead_markers)} markers are"
        return f"runs {revision}, where {dead} dead: {named}"
    if box.check == CheckState.OTHER_CATALOGUE:
        return "has another catalogue of markers than this farm: another bv3"
    return (
        f"has not checked the markers of {box.revision} yet" if box.revision else "boots, and then checks the markers"
    )


def say_waiting(progress: Progress) -> str | None:
    """Why no run of the sweep is handed out for want of verified markers; None when nothing stands in the way."""
    boxes = _candidates(progress.boxes, progress.mode)
    is_over = progress.state != "active" or progress.over >= progress.total
    if is_over or not progress.needs_verified or not boxes or _any(boxes, CheckState.VERIFIED):
        return None
    named = "; ".join(f"{box.name} {say_check(box)}" for box in boxes)
    if _any(boxes, CheckState.AWAITED):
        return f"waiting for a check of the markers: {named}"
    return f"no box may take its runs: {named}. Cancel it and plan it with --unverified, or give it another box"


def refuse_unverified(boxes: Sequence[BoxLine], mode: str) -> None:
    """Raises UsageError when there are boxes and each has been found unfit for a sweep of verified markers."""
    live = _candidates(boxes, mode)
    if not live or _any(live, CheckState.VERIFIED) or _any(live, CheckState.AWAITED):
        return
    named = "; ".join(f"{box.name} {say_check(box)}" for box in live)
    raise UsageError(
        f"the markers are verified at no box: {named}",
        hint="bv3-grade verify shows each marker; --unverified plans it all the same, and its scorecard says so",
    )


def _candidates(boxes: Sequence[BoxLine], mode: str) -> list[BoxLine]:
    return [box for box in boxes if not is_away(box) and box.mode in {mode, None}]


def _any(boxes: Sequence[BoxLine], state: CheckState) -> bool:
    return any(box.check == state for box in boxes)
