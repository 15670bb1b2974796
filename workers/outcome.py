"""How a box's supervisor last ended: kept in the folder for whoever waits for it, and for whoever asks later."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from broker.errors import Bv3Error, StackError

_FILE = "ended.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The end of one supervisor. Without a cause it was told to end."""

    pid: int
    at: str
    cause: str = ""
    hint: str | None = None

    def as_error(self) -> StackError:
        """The cause as an error."""
        return StackError(self.cause, hint=self.hint)


@contextmanager
def note_outcome(folder: Path) -> Iterator[None]:
    """How the block ended is in the folder, unless the folder itself can't be written."""
    cause, hint = "a bug: see box.log", None
    try:
        yield
        cause = ""
    except Bv3Error as error:
        cause, hint = error.message, error.hint
        raise
    finally:
        at = datetime.now(UTC).isoformat(timespec="seconds")
        _write(folder, Outcome(pid=os.getpid(), at=at, cause=cause, hint=hint))


def _write(folder: Path, outcome: Outcome) -> None:
    fresh = folder / f"{_FILE}.{outcome.pid}"
    try:
        fresh.write_text(json.dumps(asdict(outcome)), encoding="utf-8")
        fresh.replace(folder / _FILE)
    except OSError:
        return


def read_outcome(folder: Path, *, pid: int | None = None) -> Outcome | None:
    """How the last supervisor ended, or how that one did; None when nobody wrote it down."""
    try:
        plain = json.loads((folder / _FILE).read_text("utf-8"))
        outcome = Outcome(**plain)
    except (OSError, ValueError, TypeError):
        return None
    return outcome if pid in {None, outcome.pid} else None
