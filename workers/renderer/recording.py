"""What is recorded of a session's browsing: a Playwright trace or a video, in a file named by the session's id.

Recording is an extra: whatever fails in it is one line in the log, and nothing waits for it for long.
"""

import asyncio
import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from weakref import WeakSet

from playwright.async_api import BrowserContext, Error, Page

log = logging.getLogger(__name__)

START_TIMEOUT_S = 5.0
FINISH_TIMEOUT_S = 20.0
NAME_CHARS = 80
# The folder of videos that are being made, in the recordings' folder.
UNFINISHED = ".unfinished"
_UNFIT = re.compile(r"[^A-Za-z0-9_.-]")


class Record(StrEnum):
    """What is recorded."""

    NONE = "none"
    TRACE = "trace"
    VIDEO = "video"


def choose_path(folder: Path, session_id: str, suffix: str) -> Path:
    """A file in the folder that is not there yet: ``<session>.zip``, then ``<session>-2.zip`` and so on."""
    name = _UNFIT.sub("_", session_id)[:NAME_CHARS].strip(".") or "session"
    path, number = folder / f"{name}{suffix}", 1
    while path.exists():
        number += 1
        path = folder / f"{name}-{number}{suffix}"
    return path


@dataclass(slots=True, kw_only=True)
class Recorder:
    """Records the contexts it is given; one that records nothing costs nothing."""

    kind: Record = Record.NONE
    folder: Path | None = None
    # Contexts in which tracing was started, and those with a session's trace under way.
    _prepared: "WeakSet[BrowserContext]" = field(default_factory=WeakSet)
    _traced: "WeakSet[BrowserContext]" = field(default_factory=WeakSet)

    @property
    def video_folder(self) -> Path | None:
        """Where a context puts its videos while they are made; None when none are."""
        is_wanted = self.kind is Record.VIDEO and self.folder is not None
        return self.folder / UNFINISHED if is_wanted and self.folder else None

    async def begin(self, context: BrowserContext, session_id: str) -> None:
        """Begin the trace of a session, unless one is under way in this context."""
        if self.kind is not Record.TRACE or context in self._traced:
            return
        self._traced.add(context)
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                await self._start_trace(context, session_id)
        except (Error, TimeoutError) as error:
            self._traced.discard(context)
            log.warning("no trace of session %s: %s", session_id, error or "no answer")

    async def finish(self, context: BrowserContext, session_id: str) -> None:
        """Write the session's trace; to be called before its context closes."""
        if context not in self._traced or self.folder is None:
            return
        self._traced.discard(context)
        part = choose_path(self.folder, session_id, ".part")
        try:
            async with asyncio.timeout(FINISH_TIMEOUT_S):
                await context.tracing.stop_chunk(path=part)
            part.replace(choose_path(self.folder, session_id, ".zip"))
        except (Error, TimeoutError, OSError) as error:
            part.unlink(missing_ok=True)
            log.warning("the trace of session %s was not written: %s", session_id, error or "no answer")

    async def keep_videos(self, pages: Sequence[Page], session_id: str | None) -> None:
        """Give the videos of closed pages their session's name; without a session they go."""
        if self.kind is not Record.VIDEO or self.folder is None:
            return
        for page in pages:
            try:
                async with asyncio.timeout(FINISH_TIMEOUT_S):
                    if page.video is not None and session_id is not None:
                        await page.video.save_as(choose_path(self.folder, session_id, ".webm"))
                    if page.video is not None:
                        await page.video.delete()
            except (Error, TimeoutError, OSError) as error:
                log.warning("a video of session %s was not kept: %s", session_id, error or "no answer")

    async def _start_trace(self, context: BrowserContext, session_id: str) -> None:
        if context in self._prepared:
            await context.tracing.start_chunk(title=session_id)
            return
        # No snapshots of the document: for them Playwright puts code of its own into the page.
        await context.tracing.start(title=session_id, screenshots=True, snapshots=False, sources=False)
        self._prepared.add(context)
