"""What happened on a box: kept in its folder, so that a box without a farm has it too, and told to the farm."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import structlog

log = structlog.get_logger(__name__)

FILE = "events.jsonl"
# Then a new file is begun, and the one before the last is dropped.
_MOST_BYTES = 1024 * 1024


class EventLog:
    """The box's events. `forward` is called with each as well, when there is a farm to tell."""

    def __init__(self, folder: Path, *, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._path = folder / FILE
        self._clock = clock
        self.forward: Callable[..., None] | None = None

    def add(self, kind: str, **facts: str) -> None:
        """The event is in the file and on its way to the farm."""
        if self.forward is not None:
            self.forward(kind, **facts)
        event = {"kind": kind, "at": self._clock().isoformat(timespec="milliseconds"), **facts}
        try:
            if self._path.exists() and self._path.stat().st_size > _MOST_BYTES:
                self._path.replace(self._path.with_suffix(".jsonl.1"))
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(event) + "\n")
        except OSError as error:
            # a full disk must not end the box
            log.warning("an event could not be kept", kind=kind, cause=str(error))


def read_events(folder: Path) -> tuple[dict[str, str], ...]:
    """The events that the folder keeps, oldest first; lines that were cut short are passed over."""
    found = []
    for path in (folder / f"{FILE}.1", folder / FILE):
        try:
            lines = path.read_text("utf-8", errors="replace").splitlines()
        except FileNotFoundError:
            continue
        for line in lines:
            try:
                event = json.loads(line)
            except ValueError:
                continue
            if isinstance(event, dict):
                found.append(event)
    return tuple(found)
