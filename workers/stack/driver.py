"""What the supervisor and the worker need of a stack, whichever it is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from broker.settings import Manifest
from broker.types import Mode
from workers.boxfile import BoxFile
from workers.processes import ProcessBook
from workers.stack.facts import StackFacts

# bv3's own cards on the dashboard: one that probes ask, one that a person looks at pages with.
AUDIT_CARD = "browser-audit000"
RAW_CARD = "browser-raw00000"


class StackDriver(Protocol):
    """Boots, watches and stops one kind of stack. Blocking; every step has its deadline."""

    def boot(self, *, give_up: Callable[[], bool]) -> StackFacts:
        """The stack is healthy: each part answered a real request. Raises StackError naming the part."""

    def is_alive(self) -> bool:
        """Whether something still watches over the parts."""

    def describe(self) -> dict[str, str]:
        """The state of each part."""

    def restart(self, part: str) -> None:
        """The part is started anew and healthy again. Raises UsageError for a part that there is not, StackError."""

    def heal(self, reason: str) -> str | None:
        """The part that a refusal's reason speaks of is started anew; its name, or None when no part helps."""

    def stop(self) -> None:
        """Nothing of the stack is left: processes gone, ports free. Raises StackError naming what stayed."""


def folder_of(box: BoxFile) -> Path:
    """The stack's own folder within the box's."""
    return box.folder / "stack"


def facts_path(box: BoxFile) -> Path:
    """Where the booted stack's facts are."""
    return folder_of(box) / "facts.json"


def profile_of(box: BoxFile) -> Path:
    """The browser profile that is kept, of a box whose profile policy is `persistent`."""
    return box.folder / "profile"


def recordings_of(box: BoxFile) -> Path:
    """Where the renderer puts traces and videos, named by session."""
    return folder_of(box) / "recordings"


def make_driver(
    box: BoxFile,
    manifest: Manifest,
    book: ProcessBook,
    *,
    mode: Mode,
    lock_fd: int,
    announce: Callable[[str], None] = lambda _part: None,
) -> StackDriver:
    """The driver for the box's kind of stack. `announce` hears of each part that has come up while it boots."""
    # one driver's imports, not all
    if box.stack == "openswarm":
        from workers.stack.openswarm import OpenSwarmDriver  # noqa: PLC0415

        return OpenSwarmDriver(box, manifest, book, mode=mode, lock_fd=lock_fd, announce=announce)
    from workers.stack.reference import ReferenceDriver  # noqa: PLC0415

    return ReferenceDriver(box, manifest, book, mode=mode, lock_fd=lock_fd, announce=announce)
