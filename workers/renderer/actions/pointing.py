"""Clicking, keys and scrolling: click_index, click_by_name, click, click_point, press_key, scroll."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from workers.renderer import perception
from workers.renderer.actions import writing
from workers.renderer.cards import Tab
from workers.renderer.errors import CommandError
from workers.renderer.frames import Document
from workers.renderer.listing import Row, match
from workers.renderer.params import read_number, read_text, require_text
from workers.renderer.protocol import Reply

REFRESH = "Call BrowserListInteractives first to refresh the index, then try again."
SCROLL_AMOUNT = 500
HOLD_MS_MOST = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Landing:
    """Where a click went, in CSS pixels of the page's viewport, and what it met there."""

    x: float
    y: float
    landed: bool
    hit: str


async def click_index(tab: Tab, params: Mapping[str, Any]) -> Reply:
    """Click the element with this number of the last listing or, with `text`, write into it.

    Raises:
        CommandError: no such number, the element has gone, or the text did not stay.
    """
    index = int(read_number(params, "index", -1, least=-1, most=1e9))
    row = tab.view.listing.row(index)
    if row is None:
        raise CommandError(f"Index {index} is not in the cached element map. {REFRESH}")
    place = await _locate(tab, row)
    healed: Reply = {}
    if place is None and params.get("selfheal"):
        place = await _find_again(tab, row)
        healed = {"selfHealed": True}
    if place is None:
        raise CommandError(f"Index {index} is no longer valid (the element left the page). {REFRESH}")
    named = {"clickedRole": row.role, "clickedName": row.name}
    if isinstance(params.get("text"), str):
        text = await writing.fill_index(tab, *place, params["text"], index)
        return {"text": text, **named, **healed}
    landing = await press_on(tab, *place)
    return {
        "text": f'Clicked index {index} ({row.role} "{row.name}")',
        **named,
        **await _render_landing(tab, landing),
        **healed,
    }


async def click_by_name(tab: Tab, params: Mapping[str, Any]) -> Reply:
    """Click the element of this role and accessible name, looked up afresh.

    Raises:
        CommandError: none is there.
    """
    role, name = read_text(params, "role"), require_text(params, "name")
    view = await perception.look(tab.frames, tab.view.listing, name)
    row = match(view.listing.rows, role, name)
    place = None if row is None else await _locate_in(view, row)
    if row is None or place is None:
        raise CommandError(f'No element matching role="{role}" name="{name}" on this page.')
    landing = await press_on(tab, *place)
    return {
        "text": f'Clicked {row.role} "{row.name}"',
        "clickedRole": row.role,
        "clickedName": row.name,
        **await _render_landing(tab, landing),
    }


async def click(tab: Tab, params: Mapping[str, Any]) -> Reply:
    """Click the first element that matches a CSS selector, in open shadow roots and frames too.

    Raises:
        CommandError: none matches.
    """
    selector = require_text(params, "selector")
    landing = await press_on(tab, *await writing.select(tab, selector))
    width, height = await _read_viewport(tab)
    return {
        "text": f"Clicked {selector}",
        "url": tab.page.url,
        "clickX": round(landing.x / width, 4),
        "clickY": round(landing.y / height, 4),
    }


async def click_point(tab: Tab, params: Mapping[str, Any]) -> Reply:
    """Click, hold or only hover at a point given in per cent of the viewport."""
    x_percent = read_number(params, "xPercent", 50, least=0, most=100)
    y_percent = read_number(params, "yPercent", 50, least=0, most=100)
    width, height = await _read_viewport(tab)
    x, y = width * x_percent / 100, height * y_percent / 100
    if params.get("hoverOnly"):
        await tab.page.mouse.move(x, y)
        verb = "Hovered"
    else:
        hold_ms = read_number(params, "hold_ms", 0, least=0, most=HOLD_MS_MOST)
        await tab.page.mouse.click(x, y, button=_read_button(params), delay=hold_ms)
        verb = "Clicked"
    return {
        "text": f"{verb} at {x_percent:g}%, {y_percent:g}%",
        "clickX": x_percent,
        "clickY": y_percent,
        "url": tab.page.url,
    }


async def press_key(tab: Tab, params: Mapping[str, Any]) -> Reply:
    """Press one key or a combination such as ``Control+A``."""
    key = require_text(params, "key")
    await tab.page.keyboard.press(key)
    return {"text": f"Pressed {key}"}


async def scroll(tab: Tab, params: Mapping[str, Any]) -> Reply:
    """Scroll the page, or the largest part of it that scrolls when the page itself does not.

    Raises:
        CommandError: the direction is not up, down, left or right.
    """
    direction = read_text(params, "direction") or "down"
    amount = read_number(params, "amount", SCROLL_AMOUNT, least=1, most=100_000)
    top = (await tab.frames.read_documents())[0]
    moved = await top.call("scrollPage", direction, amount)
    if moved is None:
        raise CommandError(f"direction must be up, down, left or right, not {direction!r}")
    return {"text": f"Scrolled {direction} by {amount:.0f} px", **moved, "url": tab.page.url}


async def press_on(tab: Tab, document: Document, object_id: str) -> Landing:
    """Bring an element into view and click it with the mouse.

    Raises:
        CommandError: it has no place on the page.
    """
    spot = await document.call("aim", this=object_id)
    if spot is None:
        raise CommandError("the element has no place on the page to click")
    left, top = await document.frame_offset()
    x, y = left + spot["x"], top + spot["y"]
    await tab.page.mouse.click(x, y)
    return Landing(x=x, y=y, landed=spot["landed"], hit=spot["hit"])


async def _locate(tab: Tab, row: Row) -> tuple[Document, str] | None:
    return await _locate_in(tab.view, row)


async def _locate_in(view: perception.View, row: Row) -> tuple[Document, str] | None:
    """The document and remote id of a row's element; None when it has left the page."""
    document = view.documents.get(row.key.document_id)
    object_id = None if document is None else await document.resolve(row.key.backend_id)
    if document is None or object_id is None or not await document.call("isThere", this=object_id):
        return None
    return document, object_id


async def _find_again(tab: Tab, row: Row) -> tuple[Document, str] | None:
    """Look again for an element of the same role and name, if there is exactly one."""
    tab.view = await perception.look(tab.frames, tab.view.listing, row.name)
    alike = [one for one in tab.view.listing.rows if (one.role, one.name) == (row.role, row.name)]
    return await _locate(tab, alike[0]) if len(alike) == 1 else None


async def _render_landing(tab: Tab, landing: Landing) -> Reply:
    width, height = await _read_viewport(tab)
    return {
        "clickX": round(100 * landing.x / width, 2),
        "clickY": round(100 * landing.y / height, 2),
        "clickLanded": landing.landed,
        "clickHit": landing.hit,
    }


async def _read_viewport(tab: Tab) -> tuple[float, float]:
    size = tab.page.viewport_size or {"width": 1280, "height": 800}
    return float(size["width"]), float(size["height"])


def _read_button(params: Mapping[str, Any]) -> Literal["left", "middle", "right"]:
    button = params.get("button")
    return button if button in {"left", "middle", "right"} else "left"
