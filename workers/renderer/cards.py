"""The browser cards: one page each, in the room of their session, mounted and closed as the dashboard says."""

import asyncio
import contextlib
import logging
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from playwright.async_api import Error, Page

from workers.renderer.errors import CardMissing
from workers.renderer.frames import Frames
from workers.renderer.listing import Listing
from workers.renderer.perception import View
from workers.renderer.protocol import CardSpec
from workers.renderer.rooms import Room, Rooms

log = logging.getLogger(__name__)
T = TypeVar("T")

# How long a command waits for a card that is not there yet, and for the card's first page.
UNKNOWN_CARD_WAIT_S = 2.0
FIRST_LOAD_WAIT_S = 2.0
CLOSED_KEPT = 500


@dataclass(slots=True, kw_only=True)
class Tab:
    """A mounted card's page and what we know of it."""

    page: Page
    frames: Frames
    view: View = field(default_factory=lambda: View(listing=Listing(), documents={}))
    # Windows that the page opened; they close with the card.
    popups: list[Page] = field(default_factory=list)
    # Acting commands on one card follow each other; looking never waits for them.
    acting: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass(slots=True, kw_only=True)
class Card:
    """One card of the dashboard, from the moment its mounting begins."""

    spec: CardSpec
    # Fixed when it is mounted: who owns the card may change, where its page lives can't.
    room: Room
    opening: asyncio.Task[Tab]
    loading: asyncio.Task[None] | None = None
    is_closed: bool = False

    async def tab(self) -> Tab:
        """The card's page once its first document has been parsed, or 2 s after asking.

        Raises:
            CardMissing: the card was closed meanwhile.
        """
        tab = await asyncio.shield(self.opening)
        if self.loading is not None:
            await asyncio.wait({self.loading}, timeout=FIRST_LOAD_WAIT_S)
        if self.is_closed:
            raise CardMissing(self.spec.browser_id)
        return tab


class Deck:
    """All mounted cards."""

    def __init__(self, rooms: Rooms, *, on_crash: Callable[[str], None]) -> None:
        self._rooms = rooms
        self._on_crash = on_crash
        self._cards: dict[str, Card] = {}
        self._arrival = asyncio.Event()
        self._closed: OrderedDict[str, None] = OrderedDict()
        self._tasks: set[asyncio.Task[Any]] = set()

    @property
    def specs(self) -> dict[str, CardSpec]:
        """What is mounted or being mounted now, by id."""
        return {browser_id: card.spec for browser_id, card in self._cards.items()}

    def mount(self, spec: CardSpec) -> Card:
        """Open a page for the card and load its URL; a card that is there only takes the new particulars."""
        if card := self._cards.get(spec.browser_id):
            self.update(spec)
            return card
        room = self._rooms.enter(spec.spawned_by)
        card = Card(spec=spec, room=room, opening=self._spawn(self._open(spec, room)))
        card.loading = self._spawn(self._load(card))
        self._cards[spec.browser_id] = card
        self._closed.pop(spec.browser_id, None)
        self._arrival.set()
        self._arrival = asyncio.Event()
        return card

    def update(self, spec: CardSpec) -> None:
        """Take new particulars of a card, if it is mounted; one that was asked to be kept stays so."""
        if card := self._cards.get(spec.browser_id):
            card.spec = replace(spec, keep_open=spec.keep_open or card.spec.keep_open)

    def keep(self, browser_id: str) -> None:
        """Leave the card open when its session ends."""
        if card := self._cards.get(browser_id):
            card.spec = replace(card.spec, keep_open=True)

    def unmount(self, browser_id: str) -> None:
        """Forget the card at once and close its page behind its back; no card is no error."""
        card = self._cards.pop(browser_id, None)
        if card is None:
            return
        card.is_closed = True
        self._closed[browser_id] = None
        while len(self._closed) > CLOSED_KEPT:
            self._closed.popitem(last=False)
        self._rooms.leave(card.room, self._pages_of(card))

    async def find(self, browser_id: str, tab_id: str = "") -> Card:
        """The card a command names; one never seen is waited for, 2 s at most.

        Raises:
            CardMissing: it did not come, or it was closed here.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(UNKNOWN_CARD_WAIT_S):
                while browser_id not in self._cards and browser_id not in self._closed:
                    await self._arrival.wait()
        card = self._cards.get(browser_id)
        if card is None or (tab_id and card.spec.tab_ids and tab_id not in card.spec.tab_ids):
            raise CardMissing(browser_id, tab_id)
        return card

    async def _open(self, spec: CardSpec, room: Room) -> Tab:
        page = await room.open_page()
        page.on("crash", lambda _: self._on_crash(spec.browser_id))
        session = await page.context.new_cdp_session(page)
        tab = Tab(page=page, frames=Frames(page=page, session=session))
        page.on("popup", lambda popup: tab.popups.append(popup))  # noqa: PLW0108 - Playwright takes no built-in method
        return tab

    async def _load(self, card: Card) -> None:
        try:
            tab = await asyncio.shield(card.opening)
            if card.is_closed or card.spec.url == "about:blank":
                return
            await tab.page.goto(card.spec.url, wait_until="domcontentloaded", timeout=0)
        except Error as error:
            if not card.is_closed:
                log.warning("%s: %s", card.spec.browser_id, error.message.splitlines()[0])

    @staticmethod
    async def _pages_of(card: Card) -> list[Page]:
        tab = await asyncio.shield(card.opening)
        return [*tab.popups, tab.page]

    def _spawn(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
