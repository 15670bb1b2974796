"""Going to a page and reading it: navigate, get_text, evaluate, list_interactives, screenshot, wait."""

import asyncio
import json
from collections.abc import Mapping
from functools import partial
from typing import Any

from playwright.async_api import Error

from workers.renderer import perception
from workers.renderer.cards import Tab
from workers.renderer.errors import CommandError
from workers.renderer.frames import NO_DOCUMENT, read_steadily
from workers.renderer.params import read_number, read_text, require_text
from workers.renderer.protocol import Reply

TEXT_CHARS = 15_000
TEXT_CHARS_LEAST = 1_000
TEXT_CHARS_MOST = 30_000
SHOT_TRIES = 20
LOOK_EVERY_S = 0.05


async def navigate(tab: Tab, params: Mapping[str, Any]) -> Reply:
    """Load a URL in the card; done once the document has been parsed.

    The reply names the URL that was asked for, as the product's does: where the page ended up is told by
    ``evaluate``.
    """
    url = require_text(params, "url")
    try:
        response = await tab.page.goto(url, wait_until="domcontentloaded", timeout=0)
    except asyncio.CancelledError:
        tab.stop_loading()
        raise
    text = f"Navigated to {url}"
    if response is None or "json" not in response.headers.get("content-type", ""):
        return {"text": text, "url": url}
    return {"text": f"{text}\n{(await response.text())[:TEXT_CHARS]}", "url": url, "data_document": True}


async def get_text(tab: Tab, params: Mapping[str, Any]) -> Reply:
    """The beginning of the page's visible text."""
    chars = int(read_number(params, "max_chars", TEXT_CHARS, least=TEXT_CHARS_LEAST, most=TEXT_CHARS_MOST))
    text = f"(document.body?.innerText ?? '').slice(0, {chars})"
    expression = f"({{text: {text}, url: location.href, title: document.title}})"
    value = (await read_steadily(partial(_evaluate, tab, expression)))["result"].get("value") or {}
    return {**value, "routes_available": 0}


async def evaluate(tab: Tab, params: Mapping[str, Any]) -> Reply:
    """The value of an expression in the page's own world: text as it is, all else as JSON.

    It runs once: an expression that a navigation cuts short may have done its work already.

    Raises:
        CommandError: the expression threw.
    """
    expression = require_text(params, "expression")
    answer = await read_steadily(partial(_evaluate, tab, expression), again_on=NO_DOCUMENT)
    if "exceptionDetails" in answer:
        raise CommandError(f"JS evaluation error: {_describe_exception(answer['exceptionDetails'])}")
    return {"text": _render_value(answer["result"]), "url": tab.page.url, "routes_available": 0}


async def list_interactives(tab: Tab, params: Mapping[str, Any]) -> Reply:
    """What can be clicked or typed into, numbered for ``click_index``."""
    tab.view = await perception.look(tab.frames, tab.view.listing, read_text(params, "goal"))
    listing = tab.view.listing
    return {"text": listing.render(), "elements": listing.elements(), "url": tab.page.url}


async def take_screenshot(tab: Tab, params: Mapping[str, Any]) -> Reply:
    """The viewport as a PNG in base64, with the numbers of the last listing unless `annotate` is false.

    The numbers are drawn into the picture, never into the page.

    Raises:
        CommandError: the browser gave none, several times.
    """
    clock = asyncio.get_running_loop().time
    began_at = clock()
    image = await _capture(tab)
    stages = [f"capture={(clock() - began_at) * 1000:.0f}ms"]
    reply: Reply = {"image": image, "url": tab.page.url, "title": await tab.page.title(), "stages": stages}
    if params.get("annotate", True) is not False and (marks := await perception.measure(tab.view)):
        began_at = clock()
        top = (await tab.frames.read_documents())[0]
        reply["image"] = await top.call("annotate", image, marks)
        reply["text"] = f"{len(marks)} numbered elements are marked"
        stages.append(f"annotate={(clock() - began_at) * 1000:.0f}ms")
    return reply


async def wait(tab: Tab, params: Mapping[str, Any]) -> Reply:
    """Let time pass, until the page shows the text `until` if one is given."""
    for_s = read_number(params, "milliseconds", 1000, least=100, most=10_000) / 1000
    until = read_text(params, "until")
    text = f"Waited {for_s * 1000:.0f} ms"
    if not until:
        await asyncio.sleep(for_s)
    elif await _await_text(tab, until, for_s):
        text = f'The page shows "{until}"'
    return {"text": text, "url": tab.page.url, "title": await tab.page.title()}


async def _capture(tab: Tab) -> str:
    for tries_left in reversed(range(SHOT_TRIES)):
        try:
            shot = await tab.frames.session.send("Page.captureScreenshot", {"format": "png"})
        except Error as error:
            # A page that has not been painted yet can't be captured.
            if not tries_left:
                raise CommandError(f"Screenshot failed after retries: {error.message}") from error
            await asyncio.sleep(LOOK_EVERY_S)
        else:
            return str(shot["data"])
    raise AssertionError("the last try returns or raises")


async def _await_text(tab: Tab, text: str, for_s: float) -> bool:
    loop = asyncio.get_running_loop()
    end = loop.time() + for_s
    while loop.time() < end:
        for document in await tab.frames.read_documents():
            if await document.call("hasText", text):
                return True
        await asyncio.sleep(LOOK_EVERY_S)
    return False


async def _evaluate(tab: Tab, expression: str) -> dict[str, Any]:
    """Run an expression in the top document's own world."""
    request = {"expression": expression, "awaitPromise": True, "returnByValue": True, "userGesture": True}
    answer: dict[str, Any] = await tab.frames.session.send("Runtime.evaluate", request)
    return answer


def _describe_exception(details: Mapping[str, Any]) -> str:
    thrown = details.get("exception", {})
    return str(thrown.get("description") or thrown.get("value") or details.get("text", "unknown"))


def _render_value(result: Mapping[str, Any]) -> str:
    if result.get("type") == "undefined":
        return "undefined"
    if "unserializableValue" in result:
        return str(result["unserializableValue"])
    value = result.get("value")
    return value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)
