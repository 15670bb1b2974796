"""Rooms: one browser context for each spawning session, so that nothing of one run reaches the next.

Cookies, storage, caches and service workers belong to a context. The cards of one session share one, and it is
closed with the last of them; cards without an owner, bv3's own, have one of theirs. With a persistent profile
there is one context for all, and what was stored in it stays.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from playwright.async_api import BrowserContext, Error, Page

from workers.renderer.recording import Record, Recorder

log = logging.getLogger(__name__)
T = TypeVar("T")

CLOSE_TIMEOUT_S = 5.0
# A room made ahead is made when the card that took the last one has had its first seconds for itself.
SPARE_AFTER_S = 2.0

# Opens a context, whose pages are filmed if they are a session's and that is wanted.
OpenContext = Callable[[bool], Awaitable[BrowserContext]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A context, and a blank page in it that nobody has used, if one was made ahead."""

    context: BrowserContext
    blank: list[Page] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class Room:
    """The context of one session's cards, from the moment its opening begins."""

    owner: str | None
    opening: "asyncio.Task[Opened]"
    # Cards that live in it; the room is closed when it comes to none.
    holders: int = 0
    # Pages that were closed, whose videos are finished with the context.
    gone: list[Page] = field(default_factory=list)

    async def context(self) -> BrowserContext:
        """The context, once it is open."""
        return (await asyncio.shield(self.opening)).context

    async def open_page(self) -> Page:
        """A page of this room that nobody else uses."""
        opened = await asyncio.shield(self.opening)
        return opened.blank.pop() if opened.blank else await opened.context.new_page()


class Rooms:
    """All rooms of one browser.

    Args:
        open_context: opens a fresh context, or gives the one of a persistent profile.
        recorder: records sessions.
        is_shared: whether all sessions live in that one context.
    """

    def __init__(self, open_context: OpenContext, recorder: Recorder, *, is_shared: bool) -> None:
        self._open_context = open_context
        self._recorder = recorder
        self._is_shared = is_shared
        self._rooms: dict[str | None, Room] = {}
        self._spare: asyncio.Task[Opened | None] | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closing: set[asyncio.Task[None]] = set()
        # A blank page would be a part of the video.
        self._makes_spares = not is_shared and recorder.kind is not Record.VIDEO
        self._spare_after(0)

    def enter(self, owner: str | None) -> Room:
        """The room of a session's cards, one card fuller; opened when it is the first."""
        room = self._rooms.get(owner)
        if room is None:
            room = self._rooms[owner] = Room(owner=owner, opening=self._spawn(self._open(owner)))
        room.holders += 1
        return room

    def leave(self, room: Room, pages: Awaitable[Sequence[Page]]) -> None:
        """Take a card out of its room and close its pages behind its back, and the room with its last card."""
        room.holders -= 1
        if room.holders == 0 and self._rooms.get(room.owner) is room:
            del self._rooms[room.owner]
        task = self._spawn(self._close(room, pages, is_last=room.holders == 0))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def find_only(self) -> BrowserContext | None:
        """The context of all, or of the one session that has cards now; None when there are none or several."""
        if self._is_shared:
            return await self._open_context(False)  # noqa: FBT003 - the one there is
        owned = [room for owner, room in self._rooms.items() if owner is not None]
        return await owned[0].context() if len(owned) == 1 else None

    async def finish(self) -> None:
        """Write the recordings of the rooms that are still open."""
        open_rooms = [self._close_room(room) for room in self._rooms.values()]
        await asyncio.gather(*open_rooms, *self._closing, return_exceptions=True)

    async def _open(self, owner: str | None) -> Opened:
        opened = await self._take_spare() or Opened(context=await self._open_context(owner is not None))
        if owner is not None:
            await self._recorder.begin(opened.context, owner)
        return opened

    async def _take_spare(self) -> Opened | None:
        spare, self._spare = self._spare, None
        self._spare_after(SPARE_AFTER_S)
        return None if spare is None else await spare

    def _spare_after(self, wait_s: float) -> None:
        if self._makes_spares:
            self._spawn(self._make_spare(wait_s))

    async def _make_spare(self, wait_s: float) -> None:
        await asyncio.sleep(wait_s)
        if self._spare is None:
            self._spare = self._spawn(self._open_blank())

    async def _open_blank(self) -> Opened | None:
        try:
            context = await self._open_context(False)  # noqa: FBT003 - blank pages are not filmed
            return Opened(context=context, blank=[await context.new_page()])
        except Error:
            return None  # who needs a room then opens one, and hears what is wrong

    async def _close(self, room: Room, pages: Awaitable[Sequence[Page]], *, is_last: bool) -> None:
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                there = await pages
                room.gone += there
                # With its last card the whole context goes, a page that hangs or asks to stay included.
                if self._is_shared or not is_last:
                    await asyncio.gather(*(page.close() for page in there))
        except (Error, TimeoutError) as error:
            log.warning("a page of %s was not closed: %s", _tell(room), error or "no answer")
        if is_last:
            await self._close_room(room)

    async def _close_room(self, room: Room) -> None:
        try:
            opened = await asyncio.shield(room.opening)
            if room.owner is not None:
                await self._recorder.finish(opened.context, room.owner)
            if not self._is_shared:
                async with asyncio.timeout(CLOSE_TIMEOUT_S):
                    await opened.context.close()
        except (Error, TimeoutError) as error:
            log.warning("the context of %s was not closed: %s", _tell(room), error or "no answer")
        await self._recorder.keep_videos(room.gone, room.owner)

    def _spawn(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _tell(room: Room) -> str:
    return "bv3's own cards" if room.owner is None else f"session {room.owner}"
