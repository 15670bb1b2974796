"""Closing cards after their session has ended, as the product's own window does.

The backend leaves the card in the layout; whoever shows it removes it, about three seconds after the
parent session completed or failed. Somebody else may take a card out of the layout, which nothing
announces: so the layout is read again while cards of agents are mounted, and often after a session's end.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass

from workers.renderer.cards import Deck
from workers.renderer.dashboard import Layouts
from workers.renderer.errors import RendererError
from workers.renderer.protocol import CardSpec, SessionStatus

log = logging.getLogger(__name__)

LAYOUT_OFTEN_S = 0.25
LAYOUT_SELDOM_S = 2.0
# How long after a session's end somebody is likely to tidy up behind it.
OFTEN_FOR_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """When a parent session ended, on the monotonic clock, and whether that closes its cards."""

    at_s: float
    closes_cards: bool


def pick_due(
    specs: Mapping[str, CardSpec], endings: Mapping[str, Ending], *, close_after_s: float, now_s: float
) -> frozenset[str]:
    """The cards whose session's time is up and that nobody asked to keep."""
    return frozenset(
        browser_id
        for browser_id, spec in specs.items()
        if (ending := endings.get(spec.spawned_by or "")) is not None
        and ending.closes_cards
        and not spec.keep_open
        and ending.at_s + close_after_s <= now_s
    )


def choose_pause_s(
    specs: Mapping[str, CardSpec], endings: Mapping[str, Ending], *, close_after_s: float, now_s: float
) -> float:
    """Seconds until the layout is read again or a card is due."""
    held = [ending for spec in specs.values() if (ending := endings.get(spec.spawned_by or "")) is not None]
    ages_s = [now_s - ending.at_s for ending in held]
    pause_s = LAYOUT_OFTEN_S if any(age_s < OFTEN_FOR_S for age_s in ages_s) else LAYOUT_SELDOM_S
    left_s = [close_after_s - age_s for age_s in ages_s if age_s < close_after_s]
    return min([pause_s, *left_s])


class Closer:
    """Watches sessions end and closes their cards."""

    def __init__(self, deck: Deck, layouts: Layouts, close_after_s: float) -> None:
        self._deck = deck
        self._layouts = layouts
        self._close_after_s = close_after_s
        self._endings: dict[str, Ending] = {}
        # Closed here, but still in the layout as far as we know.
        self._leaving: set[str] = set()
        self._woken = asyncio.Event()

    @property
    def leaving(self) -> frozenset[str]:
        """Cards that are closed and not yet taken out of the layout: not to be mounted again."""
        return frozenset(self._leaving)

    def note(self, status: SessionStatus) -> None:
        """Take note that a session's status changed; one that runs again keeps its cards."""
        if status.is_child:
            return
        if not status.has_ended:
            self._endings.pop(status.session_id, None)
        elif status.session_id not in self._endings:
            ending = Ending(at_s=time.monotonic(), closes_cards=status.closes_cards)
            self._endings[status.session_id] = ending
            self._woken.set()

    async def run(self) -> None:
        """Close what is due, for ever."""
        while True:
            specs = self._deck.specs
            pause_s = choose_pause_s(specs, self._endings, close_after_s=self._close_after_s, now_s=time.monotonic())
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._woken.wait(), pause_s)
            self._woken.clear()
            if any(spec.spawned_by for spec in self._deck.specs.values()):
                await self._read_layout()
            self._close_due()
            await self._tidy_layout()
            self._forget()

    async def _read_layout(self) -> None:
        """Unmount every card that has gone from the layout; without an answer nothing changes."""
        before = frozenset(self._deck.specs)
        try:
            there = await self._layouts.read_cards()
        except RendererError as error:
            log.warning("can't read the layout: %s", error)
            return
        for browser_id in before - there.keys():
            log.info("%s is no longer in the layout", browser_id)
            self._deck.unmount(browser_id)
        for spec in there.values():
            self._deck.update(spec)

    def _close_due(self) -> None:
        due = pick_due(self._deck.specs, self._endings, close_after_s=self._close_after_s, now_s=time.monotonic())
        for browser_id in due:
            log.info("%s is closed: its session has ended", browser_id)
            self._deck.unmount(browser_id)
        self._leaving |= due

    async def _tidy_layout(self) -> None:
        if not self._leaving:
            return
        try:
            await self._layouts.remove_cards(self.leaving)
        except RendererError as error:
            log.warning("can't write the layout: %s", error)
        else:
            self._leaving.clear()

    def _forget(self) -> None:
        """Forget sessions that ended a while ago and hold no card any more."""
        holders = {spec.spawned_by for spec in self._deck.specs.values()}
        horizon_s = time.monotonic() - OFTEN_FOR_S - self._close_after_s
        self._endings = {
            session_id: ending
            for session_id, ending in self._endings.items()
            if session_id in holders or ending.at_s > horizon_s
        }
