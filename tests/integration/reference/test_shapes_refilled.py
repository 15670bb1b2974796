"""The renderer's fill in the editor of every shape: what is filled takes the place of what stood there."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.async_api import Browser, Page, async_playwright

from infra.reference.sites.catalogue import Site, load_sites
from workers.renderer.actions.composing import find_composer
from workers.renderer.cards import Tab
from workers.renderer.frames import Frames

TEXTS = ("probe k3f9x one", "the second m2c7q (of two", "third")
SITES = {site.name: site for site in load_sites() if site.name.startswith("shape-")}
LIMIT_S = 30.0
FIND = """(path) => {
  let node = path && document;
  for (const part of (path ?? "").split(" >>> ")) node = node && (node.shadowRoot ?? node).querySelector(part);
  return node;
}"""
MOUNTED = f"path => !!globalThis.reference && !!(reference.handle?.element ?? ({FIND})(path))"
READ = f"""path => {{
  if (reference.handle) return reference.handle.read();
  const node = ({FIND})(path);
  return node.value ?? node.innerText;
}}"""


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    """The loop that the browser of this module lives in."""
    with asyncio.Runner() as running:
        yield running


@pytest.fixture(scope="module")
def chromium(runner: asyncio.Runner, runtime: Any, sites: Any) -> Iterator[Browser]:
    """A Chromium driven as the renderer drives it, that finds every host among the sites."""
    rules = [f"--host-resolver-rules={sites.host_map}", "--ignore-certificate-errors", "--site-per-process"]
    environment = pytest.MonkeyPatch()
    for name, value in runtime.environment.items():
        environment.setenv(name, value)
    manager = async_playwright()
    playwright = runner.run(manager.start())
    args = [*runtime.chromium_args, *rules]
    launched = runner.run(playwright.chromium.launch(executable_path=runtime.chromium, args=args))
    yield launched
    runner.run(launched.close())
    runner.run(playwright.stop())
    environment.undo()


@pytest.mark.parametrize("site", SITES.values(), ids=SITES)
def test_what_is_filled_takes_the_place_of_what_stood_there(
    runner: asyncio.Runner, chromium: Browser, site: Site
) -> None:
    runner.run(_refill(chromium, site))


async def _refill(browser: Browser, site: Site) -> None:
    page = await browser.new_page()
    async with asyncio.timeout(3 * LIMIT_S):
        await page.goto(f"https://{site.host}/")
        frame = [one for one in page.frames if one.url.startswith("https:")][-1]
        await frame.wait_for_function(MOUNTED, arg=site.truth.editor, timeout=LIMIT_S * 1000)
        tab = await _open_tab(page)
        for text in TEXTS:
            reply = await find_composer(tab, {"fill": text, "reveal": True})
            assert reply.get("filled") is True, reply
            held = str(await frame.evaluate(READ, site.truth.editor))
            # An editor for code closes what is opened.
            shown = re.sub(r"\s+", " ", held).strip()
            assert shown.removesuffix(")") == text, f"{site.name}: {reply}"
    await page.close()


async def _open_tab(page: Page) -> Tab:
    session = await page.context.new_cdp_session(page)
    return Tab(page=page, frames=Frames(page=page, session=session))
