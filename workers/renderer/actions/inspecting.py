"""Looking deeper into a page: get_elements, get_console, detect_webmcp, list_routes, replay_route."""

import json
from collections.abc import Mapping
from typing import Any

from playwright.async_api import Error

from workers.renderer.cards import Tab
from workers.renderer.errors import CommandError
from workers.renderer.params import read_text, require_text
from workers.renderer.protocol import Reply

ELEMENTS_MOST = 80
MESSAGES_MOST = 50
MESSAGE_CHARS = 500
BODY_CHARS = 15_000
# A page's own messages, and those of the browser about it (a request that failed, a policy that was broken).
ERROR_KINDS = frozenset({"error", "assert"})


async def get_elements(tab: Tab, params: Mapping[str, Any]) -> Reply:
    """What matches a selector, or whatever a person could use: tag, words and attributes as JSON, 80 at most.

    Raises:
        CommandError: the selector is none.
    """
    selector = read_text(params, "selector")
    found: list[dict[str, Any]] = []
    for document in await tab.frames.read_documents():
        try:
            found += await document.call("elements", selector, ELEMENTS_MOST - len(found))
        except Error as error:
            if document.parent is None:
                raise CommandError(f"Invalid selector: {selector}") from error
        if len(found) >= ELEMENTS_MOST:
            break
    return {"text": json.dumps(found, indent=2, ensure_ascii=False), "url": tab.page.url}


async def get_console(tab: Tab, _params: Mapping[str, Any]) -> Reply:
    """The latest messages of the document's console, and which of them are errors.

    The browser keeps them for each document and tells them when asked: nobody has to listen all the time, which a
    page that logs in a loop could make expensive.
    """
    session = await tab.page.context.new_cdp_session(tab.page)
    messages: list[tuple[str, str]] = []
    session.on("Runtime.consoleAPICalled", lambda event: messages.append(_read_message(event)))
    session.on("Runtime.exceptionThrown", lambda event: messages.append(("error", _read_exception(event))))
    session.on("Log.entryAdded", lambda event: messages.append((event["entry"]["level"], _cut(event["entry"]["text"]))))
    try:
        await session.send("Runtime.enable")
        await session.send("Log.enable")
    finally:
        # Not awaited: a page that hangs would keep us here beyond the deadline that has just ended.
        tab.detach(session)
    latest = messages[-MESSAGES_MOST:]
    return {
        "text": "\n".join(f"[{kind}] {text}" for kind, text in latest) or "No console messages.",
        "errors": [text for kind, text in latest if kind in ERROR_KINDS],
        "url": tab.page.url,
    }


async def detect_webmcp(tab: Tab, _params: Mapping[str, Any]) -> Reply:
    """The tools that the page offers to agents (WebMCP): those of its scripts and those of its forms."""
    request = {"expression": WEBMCP, "awaitPromise": True, "returnByValue": True}
    answer = await tab.frames.session.send("Runtime.evaluate", request)
    tools = answer["result"].get("value") or []
    lines = [f"{tool['name']}: {tool['description']}" for tool in tools]
    return {"text": "\n".join(lines) or "This page offers no WebMCP tools.", "tools": tools, "url": tab.page.url}


async def list_routes(tab: Tab, params: Mapping[str, Any]) -> Reply:
    """The addresses that the page's scripts asked for; those that write too with `writes`."""
    routes = tab.routes.pick(tab.page.url, writes=bool(params.get("writes")))
    text = "\n".join(f"{route.method} {route.url}" for route in routes) or "No routes seen on this page."
    told = [{"method": route.method, "url": route.url} for route in routes]
    return {"text": text, "routes": told, "url": tab.page.url}


async def replay_route(tab: Tab, params: Mapping[str, Any]) -> Reply:
    """Ask for an address again that the page's scripts have asked for, from within the page, as the page would.

    Raises:
        CommandError: the page never asked for it, it would write, or nothing was answered.
    """
    url, method = require_text(params, "url"), (read_text(params, "method") or "GET").upper()
    routes = tab.routes.pick(tab.page.url, writes=True)
    route = next((one for one in routes if (one.method, one.url) == (method, url)), None)
    if route is None:
        raise CommandError(f"No route {method} {url} was seen on this page")
    if route.is_write:
        # Sent again it could post a second time, and nobody would know.
        raise CommandError(f"{method} {url} may change something there and is not sent again")
    top = (await tab.frames.read_documents())[0]
    answer = await top.call("ask", method, url, BODY_CHARS)
    if answer.get("error"):
        raise CommandError(f"{method} {url} was not answered: {answer['error']}")
    return {"text": answer["text"], "status": answer["status"], "url": url}


WEBMCP = """(async () => {
  const said = (value) => String(value ?? "").slice(0, 300);
  const asked = await (navigator.modelContextTesting?.listTools?.() ?? navigator.modelContext?.listTools?.() ?? []);
  const scripted = [...asked].map((tool) => ({ name: said(tool.name), description: said(tool.description) }));
  const forms = [...document.querySelectorAll("form[toolname]")].map((form) => ({
    name: said(form.getAttribute("toolname")),
    description: said(form.getAttribute("tooldescription")),
  }));
  const names = new Set(scripted.map((tool) => tool.name));
  return [...scripted, ...forms.filter((tool) => !names.has(tool.name))].slice(0, 50);
})()"""


def _read_message(event: Mapping[str, Any]) -> tuple[str, str]:
    words = [str(one.get("value", one.get("description", one.get("type")))) for one in event["args"]]
    return event["type"], _cut(" ".join(words))


def _read_exception(event: Mapping[str, Any]) -> str:
    details = event["exceptionDetails"]
    return _cut(str(details.get("exception", {}).get("description") or details.get("text", "")))


def _cut(text: str) -> str:
    return text[:MESSAGE_CHARS]
