"""Closing cards after their session has ended, as the product's own window does.

The backend leaves the card in the layout; whoever shows it removes it, about three seconds after the
parent session completed or failed. In that time somebody else may already have taken the card out of
the layout, which nothing announces: so the layout is read again and again while such a card is held.
"""

import asyncio
import logging
import time

from workers.renderer.cards import Deck
from workers.renderer.dashboard import Layouts
from workers.renderer.errors import RendererError
from workers.renderer.protocol import CardSpec, SessionStatus

log = logging.getLogger(__name__)

LAYOUT_EVERY_S = 0.25


def pick_due(specs: dict[str, CardSpec], ended: dict[str, float], now: float) -> frozenset[str]:
    """The cards whose session's time is up."""
    return frozenset(key for key, spec in pick_held(specs, ended).items() if ended[spec.spawned_by or ""] <= now)


def pick_held(specs: dict[str, CardSpec], ended: dict[str, float]) -> dict[str, CardSpec]:
    """The cards of ended sessions that nobody asked to keep."""
    return {key: spec for key, spec in specs.items() if spec.spawned_by in ended and not spec.keep_open}


class Closer:
    """Watches sessions end and closes their cards."""

    def __init__(self, deck: Deck, layouts: Layouts, close_after_s: float) -> None:
        self._deck = deck
        self._layouts = layouts
        self._close_after_s = close_after_s
        # When the cards of each ended session are due, on the monotonic clock.
        self._ended: dict[str, float] = {}
        self._woken = asyncio.Event()

    def note(self, status: SessionStatus) -> None:
        """Take note that a session's status changed; one that runs again keeps its cards."""
        if status.has_ended:
            self._ended.setdefault(status.session_id, time.monotonic() + self._close_after_s)
            self._woken.set()
        elif not status.is_child:
            self._ended.pop(status.session_id, None)

    async def run(self) -> None:
        """Close what is due, for ever."""
        while True:
            held = pick_held(self._deck.specs, self._ended)
            if not held:
                self._forget_past()
                self._woken.clear()
                await self._woken.wait()
                continue
            await self.sync()
            await self._close_due()
            next_due = min((self._ended.get(spec.spawned_by or "", 0.0) for spec in held.values()), default=0.0)
            await asyncio.sleep(max(0.0, min(LAYOUT_EVERY_S, next_due - time.monotonic())))

    async def sync(self) -> None:
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

    async def _close_due(self) -> None:
        due = pick_due(self._deck.specs, self._ended, time.monotonic())
        for browser_id in due:
            log.info("%s is closed: its session has ended", browser_id)
            self._deck.unmount(browser_id)
        if due:
            try:
                await self._layouts.remove_cards(due)
            except RendererError as error:
                log.warning("can't write the layout: %s", error)

    def _forget_past(self) -> None:
        """Forget sessions that are past due, except for a card of theirs that comes late."""
        horizon = time.monotonic() - 60
        self._ended = {key: due for key, due in self._ended.items() if due > horizon}
