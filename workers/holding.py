"""What keeps this box from its work: its own word, in a file that outlives everything, and what the farm told last.

`drain` and `resume` need no supervisor; one that is up carries the word to the farm with its next beat.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import structlog

from broker.codec import clean_text
from broker.errors import UsageError
from broker.holds import HoldKind, say_what_ends
from broker.requester import name_requester
from broker.store.box_client import BeatAnswer, Hold

log = structlog.get_logger(__name__)

LONGEST_REASON = 300
# A check that failed is made again, later each time.
_AGAIN_AFTER_S = 30.0
_AGAIN_AT_MOST_S = 300.0
_UNREADABLE = "its reason can't be read"


def drain(folder: Path, reason: str) -> None:
    """The box begins no run from now on; a running one is finished.

    Raises UsageError for a reason that says nothing, or too much.
    """
    said = " ".join(clean_text(reason)[0].split())
    if not said or not said.isprintable():
        raise UsageError(
            "a drained box needs a reason that others can read", hint='as in --reason "new disk on Monday"'
        )
    if len(said) > LONGEST_REASON:
        raise UsageError(f"the reason has {len(said)} characters, {LONGEST_REASON} at most")
    folder.mkdir(parents=True, exist_ok=True)
    word = {"reason": said, "at": datetime.now(UTC).isoformat(timespec="seconds"), "by": name_requester()}
    _write(_word_path(folder), word)


def resume(folder: Path) -> bool:
    """The box's own word is taken back; False when there was none.

    Raises UsageError, with what ends it, when the box is held for something that is not its own to lift.
    """
    was_drained = read_drained(folder) is not None
    _word_path(folder).unlink(missing_ok=True)
    foreign = [hold for hold in read_told(folder) if hold.kind != HoldKind.DRAINED]
    if foreign:
        done = "the box is drained no longer, but " if was_drained else ""
        named = "; ".join(f"{hold.kind}: {hold.reason}" for hold in foreign)
        endings = "; ".join(f"{hold.kind} is ended by {say_what_ends(hold.kind)}" for hold in foreign)
        raise UsageError(f"{done}it stays held, {named}", hint=endings)
    return was_drained


def read_drained(folder: Path) -> str | None:
    """Why the box is drained by its own word; None when it is not."""
    try:
        plain = json.loads(_word_path(folder).read_text("utf-8"))
        reason = plain["reason"]
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError):
        # somebody wrote it by hand, and meant it
        return _UNREADABLE
    return reason[:LONGEST_REASON] if isinstance(reason, str) and reason.strip() else _UNREADABLE


def read_told(folder: Path) -> tuple[Hold, ...]:
    """The holds that the farm told last, oldest first; the supervisor may have been down since."""
    try:
        plain = json.loads(_told_path(folder).read_text("utf-8"))
        return tuple(Hold(id=int(one["id"]), kind=str(one["kind"]), reason=str(one["reason"])) for one in plain)
    except (OSError, ValueError, KeyError, TypeError):
        return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Check:
    """A health check that was made."""

    hold: int
    passed: bool
    detail: str


@dataclass(slots=True)
class Holding:
    """The supervisor's side: `describe` and `take` on the beat's thread, the rest on any."""

    folder: Path
    clock: Callable[[], float] = time.monotonic
    _holds: tuple[Hold, ...] = field(default=(), init=False)
    _untold: list[_Check] = field(default_factory=list, init=False)
    _sent: _Check | None = field(default=None, init=False)
    _failures: int = field(default=0, init=False)
    _is_unsaved: bool = field(default=False, init=False)
    # which hold was last checked for, and when it may be again
    _checked: int | None = field(default=None, init=False)
    _again_at_s: float = field(default=0.0, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def __post_init__(self) -> None:
        """Until the first answer, what the farm told last holds."""
        self._holds = read_told(self.folder)

    def describe(self) -> dict[str, Any]:
        """What the next beat says of it: `holds` always, `health` until an answer has come."""
        reason = read_drained(self.folder)
        facts: dict[str, Any] = {"holds": {} if reason is None else {HoldKind.DRAINED.value: reason}}
        with self._lock:
            self._sent = self._untold[0] if self._untold else None
            if self._sent is not None:
                facts["health"] = asdict(self._sent)
        return facts

    def take(self, answer: BeatAnswer) -> None:
        """What the farm holds the box for is known, to later commands too."""
        if answer.answer == "stale":
            return
        with self._lock:
            if self._sent is not None and self._untold and self._untold[0] is self._sent:
                self._untold.pop(0)
            self._sent = None
            is_news = self._holds != answer.holds or self._is_unsaved or not _told_path(self.folder).exists()
            self._holds = answer.holds
        if is_news:
            plain = [{"id": hold.id, "kind": hold.kind, "reason": hold.reason} for hold in answer.holds]
            try:
                _write(_told_path(self.folder), plain)
                self._is_unsaved = False
            except OSError as error:
                # A full disk: what else the answer says is what makes room on it again.
                self._is_unsaved = True
                log.warning("the farm's holds are not on disk", cause=str(error))

    @property
    def holds(self) -> tuple[Hold, ...]:
        """What the farm holds the box for, and what the box itself does before the farm has heard of it."""
        reason = read_drained(self.folder)
        told = tuple(hold for hold in self._holds if hold.kind != HoldKind.DRAINED or hold.reason != reason)
        mine = () if reason is None else (Hold(id=0, kind=HoldKind.DRAINED.value, reason=reason),)
        return (*mine, *told)

    @property
    def wanted_check(self) -> int | None:
        """The quarantine that a health check is wanted for now; None for a while after one that failed."""
        with self._lock:
            hold = next((hold.id for hold in self._holds if hold.kind == HoldKind.QUARANTINED), None)
            if hold is None or any(check.hold == hold for check in self._untold):
                return None
            return None if hold == self._checked and self.clock() < self._again_at_s else hold

    def note_check(self, hold_id: int, passed: bool, detail: str) -> None:  # noqa: FBT001  # the check's own answer
        """The next beat tells what came of the check."""
        with self._lock:
            self._failures = self._failures + 1 if hold_id == self._checked else 1
            self._checked = hold_id
            self._again_at_s = self.clock() + min(_AGAIN_AFTER_S * 2 ** (self._failures - 1), _AGAIN_AT_MOST_S)
            self._untold.append(_Check(hold=hold_id, passed=passed, detail=clean_text(detail)[0][:500]))


def _word_path(folder: Path) -> Path:
    return folder / "drained.json"


def _told_path(folder: Path) -> Path:
    return folder / "holds.json"


def _write(path: Path, plain: Any) -> None:
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(plain), encoding="utf-8")
    fresh.replace(path)
