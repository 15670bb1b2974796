"""The account of a frame of another origin, which the page around it asks for."""

from __future__ import annotations

import json
from typing import Any

from playwright.sync_api import Browser

HEAR = """() => { window.heard = []; addEventListener("message", (event) => window.heard.push(event.data)); }"""
PING = """() => new Promise((resolve) => {
  addEventListener("message", (event) => event.data.answer === "last" && resolve());
  document.querySelector("iframe").contentWindow.postMessage({ survey: "last", payload: "none" }, "*");
})"""


def test_a_frame_is_asked_once_for_its_account_and_answers_once(browser: Browser) -> None:
    page = browser.new_page()
    page.goto("https://cross-origin-frame.editors.test/")
    page.frames[-1].wait_for_function("() => !!globalThis.reference?.handle")
    page.evaluate(HEAR)
    page.frames[-1].evaluate(HEAR)
    found: dict[str, Any] = json.loads(page.evaluate("reference.survey('probe', null)"))
    # Two more turns of the same way: what was sent in between has come by then.
    page.evaluate(PING)
    page.evaluate(PING)
    heard = (len(page.evaluate("window.heard")), len(page.frames[-1].evaluate("window.heard")))
    page.close()
    assert (found["intended"], found["elsewhere"]) == (0, 0)
    assert heard == (3, 3)
