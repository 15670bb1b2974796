"""The agent's hands: browser commands on one card, timed, counted and logged as the product does."""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from infra.reference.backend import lines
from infra.reference.backend.agent.listing import View, read_view
from infra.reference.backend.commands import NO_DASHBOARD, Relay

Reply = dict[str, Any]
SLOW_MS = 1500
#: Between two looks at a page that is still changing.
LOOK_PAUSE_S = 0.03
#: A page is at rest when so many looks in a row saw the same.
STILL_LOOKS = 3
SETTLE_LIMIT_S = 8.0
_TIERS = {
    "list_interactives": "t3_action_surface",
    "click_index": "t3_action_surface",
    "navigate": "t3_action_surface",
    "get_text": "t4_content",
}
_TOOLS = {
    "list_interactives": "BrowserListInteractives",
    "click_index": "BrowserClickIndex",
    "navigate": "BrowserNavigate",
    "get_text": "BrowserGetText",
    "find_composer": "BrowserFindComposer",
    "evaluate": "BrowserEvaluate",
    "screenshot": "BrowserScreenshot",
}


@dataclass(slots=True)
class Meter:
    """What the commands cost since the meter was set up."""

    started: float = field(default_factory=time.monotonic)
    tools_s: float = 0.0
    tiers: Counter[str] = field(default_factory=Counter)

    @property
    def total_ms(self) -> int:
        """Milliseconds since the meter was set up."""
        return round((time.monotonic() - self.started) * 1000)

    @property
    def tools_ms(self) -> int:
        """Milliseconds spent in commands."""
        return round(self.tools_s * 1000)


class Hands:
    """Commands on one card."""

    def __init__(self, relay: Relay, card: str, *, scale: float = 1.0) -> None:
        self.card = card
        self._slow_ms = SLOW_MS * scale
        self.meter = Meter()
        # The error of the latest command; empty when it went well.
        self.error = ""
        self._relay = relay

    @property
    def lost(self) -> bool:
        """Whether the latest command found no renderer to go to."""
        return self.error == NO_DASHBOARD

    async def look(self) -> View:
        """See the page once: its interactive elements and its text."""
        listing = await self._run("list_interactives", {"docOrder": True})
        if "error" in listing:
            return View(error=str(listing["error"]))
        return read_view(listing, await self._run("get_text", {}))

    async def read(self) -> str:
        """The page's text alone; empty after an error."""
        return str((await self._run("get_text", {})).get("text", ""))

    async def settle(
        self,
        wanted: Callable[[View], bool],
        *,
        patient: bool = False,
        limit_s: float = SETTLE_LIMIT_S,
        unlisted: Callable[[], Awaitable[bool]] | None = None,
    ) -> View:
        """Look until the wanted is seen or the page is loaded and at rest; the last view is returned.

        It is also returned after the limit without either, or when a command failed. A patient wait takes no rest
        for an end, unless what is wanted is there and not in the listing, which `unlisted` is asked at each rest.
        """
        end = time.monotonic() + limit_s
        seen: list[View] = []
        while True:
            seen.append(await self.look())
            if seen[-1].error or wanted(seen[-1]) or time.monotonic() >= end:
                return seen[-1]
            still = len(seen) >= STILL_LOOKS and len(set(seen[-STILL_LOOKS:])) == 1
            if still and await self._is_done(patient=patient, unlisted=unlisted):
                return seen[-1]
            await asyncio.sleep(LOOK_PAUSE_S)

    async def _is_done(self, *, patient: bool, unlisted: Callable[[], Awaitable[bool]] | None) -> bool:
        if patient:
            return unlisted is not None and await unlisted()
        return await self.evaluate("document.readyState") == "complete"

    async def click(self, index: int, text: str | None = None) -> Reply:
        """Press an element of the last listing, or put text into it."""
        lines.ACTION.log(tool=_TOOLS["click_index"], summary=f"click#{index}", card=self.card)
        params: Reply = {"index": index, "selfheal": True}
        return await self._run("click_index", params if text is None else {**params, "text": text})

    async def navigate(self, url: str) -> Reply:
        """Load an address; the reply's own words say nothing about where the page ended."""
        return await self._run("navigate", {"url": url})

    async def find_composer(self, *, fill: str | None = None, reveal: bool = False, goal: str = "") -> Reply:
        """Look for a composer by structure, pressing what hides it when asked to; fill it when a text is given.

        The words of a goal decide between several, and have the reply tell the name of the one found.
        """
        params: Reply = {"reveal": reveal, **({"goal": goal} if goal else {})}
        return await self._run("find_composer", params if fill is None else {**params, "fill": fill})

    async def evaluate(self, expression: str) -> str:
        """The value of an expression as text; empty after an error."""
        reply = await self._run("evaluate", {"expression": expression})
        return str(reply.get("text", "")) if "error" not in reply else ""

    async def screenshot(self) -> None:
        """Take a picture, as the product does at the end of a dispatch."""
        await self._run("screenshot", {})

    async def _run(self, action: str, params: Reply) -> Reply:
        started = time.monotonic()
        reply = await self._relay.run(action, self.card, params)
        took_s = time.monotonic() - started
        self.meter.tools_s += took_s
        if action in _TIERS:
            self.meter.tiers[_TIERS[action]] += 1
        if took_s * 1000 >= self._slow_ms:
            gate = f" gate={reply['gate_ms']}ms" if reply.get("gate_ms") else ""
            lines.SLOW.log(tool=_TOOLS[action], ms=round(took_s * 1000), gate=gate, card=self.card)
        self.error = str(reply.get("error", ""))
        return reply
