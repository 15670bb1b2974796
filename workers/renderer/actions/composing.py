"""find_composer: the box one would write in, wherever on the page it is, and what brings it out of hiding."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from playwright.async_api import Error

from workers.renderer.actions import pointing, writing
from workers.renderer.cards import Tab
from workers.renderer.errors import CommandError
from workers.renderer.frames import Document, read_steadily
from workers.renderer.params import read_text
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
    # How many words of the goal it answers to.
    hits: float
    name: str
    url: str

    @property
    def rank(self) -> tuple[float, float, int, int]:
        """What decides between two."""
        return self.hits, self.score, self.intent, self.area


# Looks once for the best composer.
Search = Callable[[], Awaitable[Composer | None]]


async def find_composer(tab: Tab, params: Mapping[str, Any]) -> Reply:
    """Find the composer, with `reveal` after bringing it out, and with `fill` write into it.

    The words of a `goal` decide between several; a reply to one tells the name too. Not finding one is an answer,
    not an error.
    """
    reveals: list[str] = []
    goal = read_text(params, "goal")
    search = partial(_search, tab, goal)
    best = await search()
    if params.get("reveal") and not _is_meant(best, goal):
        revealed, reveals = await _reveal(tab, partial(_search_meant, search, goal))
        best = revealed or best
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
    if goal:
        reply["name"] = best.name
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


def _is_meant(best: Composer | None, goal: str) -> bool:
    """Whether to look no further: a private box that a goal has no word for is only the last choice."""
    return best is not None and not (goal and best.intent == 0 and not best.hits)


async def _search_meant(search: Search, goal: str) -> Composer | None:
    best = await search()
    return best if _is_meant(best, goal) else None


async def _search(tab: Tab, goal: str) -> Composer | None:
    async def search() -> list[Composer | None]:
        documents = await tab.frames.read_documents()
        return await asyncio.gather(*(_search_document(document, goal) for document in documents))

    found = await read_steadily(search)
    return max((one for one in found if one is not None), key=lambda one: one.rank, default=None)


async def _search_document(document: Document, goal: str) -> Composer | None:
    try:
        found = await document.call("composer", goal)
    except Error:
        if document.parent is None:
            raise
        return None  # a frame that navigates while we look holds no composer now
    if found is None:
        return None
    around = await _read_hits_around(document, goal) if goal and not found["hits"] else 0
    return Composer(document=document, **{**found, "hits": found["hits"] or around})


async def _read_hits_around(document: Document, goal: str) -> float:
    """How many words of the goal stand around the frames that a composer without a name is in."""
    hits = 0.0
    while not hits and (parent := document.parent) is not None:
        try:
            owner = await parent.session.send("DOM.getFrameOwner", {"frameId": document.frame_id})
            object_id = await parent.resolve(owner["backendNodeId"])
            hits = 0 if object_id is None else await parent.call("hitsAround", goal, this=object_id)
        except Error:
            break
        document = parent
    return hits


async def _claim(tab: Tab, best: Composer) -> str | None:
    """Mark the composer, and nothing else, with the attribute that the selector names."""
    await asyncio.gather(*(document.call("unclaim") for document in await tab.frames.read_documents()))
    return await best.document.call_for_element("claim")


async def _reveal(tab: Tab, search: Search) -> tuple[Composer | None, list[str]]:
    """Try what brings composers out, one after the other; which of it was done is told."""
    steps: dict[str, Callable[[Tab, Search], Awaitable[Composer | None]]] = {
        "trigger": partial(_press_found, "opener"),
        "scroll": _scroll_on,
        "retop": _scroll_back,
        "activate": partial(_press_found, "sleeper"),
    }
    done: list[str] = []
    for name, step in steps.items():
        try:
            best = await step(tab, search)
        except _StepSkippedError:
            continue
        done.append(name)
        if best is not None:
            return best, done
    return None, done


class _StepSkippedError(Exception):
    """Nothing on the page calls for this step."""


async def _press_found(finder: str, tab: Tab, search: Search) -> Composer | None:
    for document in await tab.frames.read_documents():
        object_id = await document.call_for_element(finder)
        if object_id is not None:
            try:
                await pointing.press_on(tab, document, object_id)
            except CommandError as error:
                raise _StepSkippedError from error
            return await _await_composer(search)
    raise _StepSkippedError


async def _scroll_on(tab: Tab, search: Search) -> Composer | None:
    """Scroll screen by screen, then to the end: what comes last may be made only there, a frame included."""
    for number in range(SCREENS_MOST):
        top = (await tab.frames.read_documents())[0]
        if not await top.call("scrollOn"):
            if number:
                return await _await_composer(search)
            raise _StepSkippedError
        if best := await _await_composer(search, for_s=APPEAR_S / 3):
            return best
    await (await tab.frames.read_documents())[0].call("scrollToEnd")
    return await _await_composer(search)


async def _scroll_back(tab: Tab, search: Search) -> Composer | None:
    top = (await tab.frames.read_documents())[0]
    if not await top.call("scrollBack"):
        raise _StepSkippedError
    return await _await_composer(search, for_s=APPEAR_S / 3)


async def _await_composer(search: Search, for_s: float = APPEAR_S) -> Composer | None:
    """Look again until a composer is there or the time is up."""
    loop = asyncio.get_running_loop()
    end = loop.time() + for_s
    while True:
        best = await search()
        if best is not None or loop.time() > end:
            return best
        await asyncio.sleep(LOOK_EVERY_S)
