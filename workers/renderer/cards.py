"""The browser cards: one page each, in the room of their session, mounted and closed as the dashboard says."""

import asyncio
import contextlib
import logging
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from playwright.async_api import BrowserContext, CDPSession, Dialog, Error, Page, Request

from workers.renderer.errors import CardMissing, describe
from workers.renderer.frames import Frames
from workers.renderer.listing import Listing
from workers.renderer.perception import View
from workers.renderer.protocol import CardSpec
from workers.renderer.rooms import Room, Rooms
from workers.renderer.routes import Routes

log = logging.getLogger(__name__)
T = TypeVar("T")

# How long a command waits for a card that is not there yet, and for the card's first page.
UNKNOWN_CARD_WAIT_S = 2.0
FIRST_LOAD_WAIT_S = 2.0
# Commands wait for the first page at most until it has been loading for so long: some never end.
FIRST_LOAD_MOST_S = 6.0
# A server that has not answered by then won't: as long as a navigation may take.
FIRST_LOAD_LEASH_S = 24.0
CLOSED_KEPT = 500


@dataclass(slots=True, kw_only=True)
class Tab:
    """A mounted card's page and what we know of it."""

    page: Page
    frames: Frames
    opened_at_s: float = field(default_factory=time.monotonic)
    view: View = field(default_factory=lambda: View(listing=Listing(), documents={}))
    routes: Routes = field(default_factory=Routes)
    # Windows that the page opened; they close with the card.
    popups: list[Page] = field(default_factory=list)
    # Acting commands on one card follow each other; looking never waits for them.
    acting: asyncio.Lock = field(default_factory=asyncio.Lock)
    _aside: "set[asyncio.Task[None]]" = field(default_factory=set)

    def stop_loading(self) -> None:
        """Give up a navigation that has not ended: while it waits for its server the page answers nobody."""
        self._do_aside(self.frames.session.send("Page.stopLoading"))

    def detach(self, session: CDPSession) -> None:
        """Let go of a session, without waiting for the page."""
        self._do_aside(session.detach())

    def _do_aside(self, work: Awaitable[Any]) -> None:
        task = asyncio.get_running_loop().create_task(_do_quietly(work))
        self._aside.add(task)
        task.add_done_callback(self._aside.discard)


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
        """The card's page once its first document has been parsed, at most 2 s after asking.

        Raises:
            CardMissing: the card was closed meanwhile.
        """
        tab = await asyncio.shield(self.opening)
        left_s = tab.opened_at_s + FIRST_LOAD_MOST_S - time.monotonic()
        if self.loading is not None and left_s > 0:
            await asyncio.wait({self.loading}, timeout=min(left_s, FIRST_LOAD_WAIT_S))
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

    async def find_context(self, browser_id: str) -> BrowserContext | None:
        """The session of a card; where none is named, the one session there is, if it is one.

        Raises:
            CardMissing: the card that is named is not there; another session's would be somebody else's run.
        """
        if not browser_id:
            return await self._rooms.find_only()
        if (card := self._cards.get(browser_id)) is None:
            raise CardMissing(browser_id)
        return await card.room.context()

    @contextlib.asynccontextmanager
    async def borrow(self, context: BrowserContext) -> AsyncIterator[Tab]:
        """A page of this session that is no card, closed at the end."""
        page = await context.new_page()
        try:
            yield await self._dress(page, "a page without a card")
        finally:
            self._spawn(_do_quietly(page.close()))

    async def _open(self, spec: CardSpec, room: Room) -> Tab:
        return await self._dress(await room.open_page(), spec.browser_id)

    async def _dress(self, page: Page, name: str) -> Tab:
        page.on("crash", lambda _: self._on_crash(name))
        session = await page.context.new_cdp_session(page)
        tab = Tab(page=page, frames=Frames(page=page, session=session))
        page.on("popup", lambda popup: tab.popups.append(popup))  # noqa: PLW0108 - Playwright takes no built-in method
        page.on("request", lambda request: _note_route(tab, request))
        page.on("dialog", _answer_dialog)
        return tab

    async def _load(self, card: Card) -> None:
        try:
            tab = await asyncio.shield(card.opening)
            if card.is_closed or card.spec.url == "about:blank":
                return
            async with asyncio.timeout(FIRST_LOAD_LEASH_S):
                await tab.page.goto(card.spec.url, wait_until="domcontentloaded", timeout=0)
        except TimeoutError:
            log.warning("%s: %s has not answered for %g s", card.spec.browser_id, card.spec.url, FIRST_LOAD_LEASH_S)
            (await card.opening).stop_loading()
        except Error as error:
            if not card.is_closed:
                log.warning("%s: %s", card.spec.browser_id, describe(error))

    @staticmethod
    async def _pages_of(card: Card) -> list[Page]:
        tab = await asyncio.shield(card.opening)
        return [*tab.popups, tab.page]

    def _spawn(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


async def _answer_dialog(dialog: Dialog) -> None:
    """A page that asks whether to leave is left, and all else that a page asks is dismissed: nobody is there to ask."""
    await _do_quietly(dialog.accept() if dialog.type == "beforeunload" else dialog.dismiss())


def _note_route(tab: Tab, request: Request) -> None:
    tab.routes.note(kind=request.resource_type, method=request.method, url=request.url, page_url=tab.page.url)


async def _do_quietly(work: Awaitable[Any]) -> None:
    with contextlib.suppress(Error):
        await work
