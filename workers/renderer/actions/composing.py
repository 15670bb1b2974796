"""find_composer: the box one would write in, wherever on the page it is, and what brings it out of hiding."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from playwright.async_api import Error

from workers.renderer.actions import pointing, writing
from workers.renderer.cards import Tab
from workers.renderer.errors import CommandError
from workers.renderer.frames import Document, read_steadily
from workers.renderer.protocol import Reply

SELECTOR = '[data-osw-composer="1"]'
LOOK_EVERY_S = 0.03
APPEAR_S = 0.6
SCREENS_MOST = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Composer:
    """The best composer of one document."""

    document: Document
    tag: str
    role: str
    score: float
    near_submit: bool
    # 2 for words of public writing, 1 for none, 0 for words of private messages.
    intent: int
    area: int
    url: str

    @property
    def rank(self) -> tuple[float, int, int]:
        """What decides between two."""
        return self.score, self.intent, self.area


async def find_composer(tab: Tab, params: Mapping[str, Any]) -> Reply:
    """Find the composer, with `reveal` after bringing it out, and with `fill` write into it.

    Not finding one is an answer, not an error.
    """
    reveals: list[str] = []
    best = await _search(tab)
    if best is None and params.get("reveal"):
        best, reveals = await _reveal(tab)
    if best is None:
        return {"found": False, "reveals": reveals}
    object_id = await _claim(tab, best)
    reply: Reply = {
        "found": True,
        "selector": SELECTOR,
        "tag": best.tag,
        "role": best.role,
        "score": int(best.score) if best.score == int(best.score) else best.score,
        "nearSubmit": best.near_submit,
        "filled": False,
    }
    text = params.get("fill")
    if isinstance(text, str) and text and object_id is not None:
        mode, _ = await writing.fill(tab, best.document, object_id, text)
        reply["filled"] = mode != "keystroke-failed"
        if mode != "inserted":
            reply["fillMode"] = mode
    reply["reveals"] = reveals
    if best.document.parent is not None:
        reply |= {"frameSessionId": best.document.frame_id, "frameUrl": best.url}
    return reply


async def _search(tab: Tab) -> Composer | None:
    async def search() -> list[Composer | None]:
        documents = await tab.frames.read_documents()
        return await asyncio.gather(*(_search_document(document) for document in documents))

    found = await read_steadily(search)
    return max((one for one in found if one is not None), key=lambda one: one.rank, default=None)


async def _search_document(document: Document) -> Composer | None:
    try:
        found = await document.call("composer")
    except Error:
        if document.parent is None:
            raise
        return None  # a frame that navigates while we look holds no composer now
    return None if found is None else Composer(document=document, **found)


async def _claim(tab: Tab, best: Composer) -> str | None:
    """Mark the composer, and nothing else, with the attribute that the selector names."""
    await asyncio.gather(*(document.call("unclaim") for document in await tab.frames.read_documents()))
    return await best.document.call_for_element("claim")


async def _reveal(tab: Tab) -> tuple[Composer | None, list[str]]:
    """Try what brings composers out, one after the other; which of it was done is told."""
    steps: dict[str, Callable[[Tab], Awaitable[Composer | None]]] = {
        "trigger": lambda tab: _press_found(tab, "opener"),
        "scroll": _scroll_on,
        "retop": _scroll_back,
        "activate": lambda tab: _press_found(tab, "sleeper"),
    }
    done: list[str] = []
    for name, step in steps.items():
        try:
            best = await step(tab)
        except _StepSkippedError:
            continue
        done.append(name)
        if best is not None:
            return best, done
    return None, done


class _StepSkippedError(Exception):
    """Nothing on the page calls for this step."""


async def _press_found(tab: Tab, finder: str) -> Composer | None:
    for document in await tab.frames.read_documents():
        object_id = await document.call_for_element(finder)
        if object_id is not None:
            try:
                await pointing.press_on(tab, document, object_id)
            except CommandError as error:
                raise _StepSkippedError from error
            return await _await_composer(tab)
    raise _StepSkippedError


async def _scroll_on(tab: Tab) -> Composer | None:
    for number in range(SCREENS_MOST):
        top = (await tab.frames.read_documents())[0]
        if not await top.call("scrollOn"):
            if number:
                return None
            raise _StepSkippedError
        if best := await _await_composer(tab, for_s=APPEAR_S / 3):
            return best
    return None


async def _scroll_back(tab: Tab) -> Composer | None:
    top = (await tab.frames.read_documents())[0]
    if not await top.call("scrollBack"):
        raise _StepSkippedError
    return await _await_composer(tab, for_s=APPEAR_S / 3)


async def _await_composer(tab: Tab, for_s: float = APPEAR_S) -> Composer | None:
    """Look again until a composer is there or the time is up."""
    loop = asyncio.get_running_loop()
    end = loop.time() + for_s
    while True:
        best = await _search(tab)
        if best is not None or loop.time() > end:
            return best
        await asyncio.sleep(LOOK_EVERY_S)
