"""Which frames of a page with many are looked into, and what is forgotten of those that have gone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from playwright.async_api import async_playwright

from workers.renderer.frames import Frames

Open = Callable[[str], str]
Wait = Callable[..., Any]


def test_a_small_frame_of_the_page_s_own_is_found_among_many_larger_of_others(
    backend: Any, open_card: Open, wait_until: Wait
) -> None:
    card = open_card("adframes.html")
    loaded = "frames.length + document.readyState"
    wait_until(lambda: backend.do(card, "evaluate", expression=loaded)["text"] == "32complete", "the frames", 60)
    listing = backend.do(card, "list_interactives")["text"]
    assert '<textbox "Post text"' in listing, "a foreign one in view comes before larger ones out of view"
    backend.do(card, "scroll", direction="down", amount=10**6)
    assert '<textbox "Write small"' in backend.do(card, "list_interactives")["text"]
    assert backend.do(card, "find_composer", fill="in the small one", goal="small")["filled"] is True
    small = "document.querySelector('iframe[src*=inner]').contentDocument.querySelector('textarea,[contenteditable]')"
    written = f"{small}.value ?? {small}.innerText"
    assert backend.do(card, "evaluate", expression=written)["text"] == "in the small one"


def test_of_frames_that_have_gone_nothing_is_kept(pages: int, chromium: Any) -> None:
    asyncio.run(_rotate(pages, chromium))


async def _rotate(pages: int, chromium: Any) -> None:
    rules = f"--host-resolver-rules=MAP *:80 127.0.0.1:{pages}"
    args = [*chromium.args, "--site-per-process", rules]
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium.path, args=args, env=chromium.env or None)
        page = await browser.new_page()
        await page.goto("http://pages.test/nothing.html")
        frames = Frames(page=page, session=await page.context.new_cdp_session(page))
        for number in range(50):
            url = f"http://elsewhere.test/nothing.html?{number}"
            show = "url => new Promise(done => { const frame = document.createElement('iframe'); frame.src = url;"
            await page.evaluate(f"{show} frame.onload = done; document.body.replaceChildren(frame) }})", url)
            documents = await frames.read_documents()
            assert [document.parent is None for document in documents] == [True, False], "it was looked into"
        await page.evaluate("document.body.replaceChildren()")
        assert len(await frames.read_documents()) == 1
        assert frames.known == 0
        await browser.close()
