"""Every site of the shapes suite in a real Chromium, with the editor library it is about.

The editor's own model is asked what it holds, never the page: an editor whose DOM shows a text may not know of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Frame, Page

from infra.reference.sites.catalogue import Site, load_sites

TEXT = "probe k3f9x shape's own text"
OTHER = "probe m2c7q kept from before"
LIMIT_MS = 20_000
SITES = {site.name: site for site in load_sites() if site.name.startswith("shape-")}
# Where a visitor clicks to write, where the middle of the editor is not the place.
SPOTS: dict[str, str] = {}
# As the truth has it: an editor may make quotes smart.
QUOTES = str.maketrans({"\N{LEFT SINGLE QUOTATION MARK}": "'", "\N{RIGHT SINGLE QUOTATION MARK}": "'"})
SUBMIT = re.compile("^(Save( note| changes)?|Publish|Post|Send|Submit|Comment|Commit changes|Write)$")
FIND = """(path) => {
  let node = path && document;
  for (const part of (path ?? "").split(" >>> ")) node = node && (node.shadowRoot ?? node).querySelector(part);
  return node;
}"""
ELEMENT = f"path => reference.handle?.element ?? ({FIND})(path)"
READ = f"""path => {{
  if (reference.handle) return reference.handle.read();
  const node = ({FIND})(path);
  return node.value ?? node.innerText;
}}"""
WRITE = "text => reference.handle.write(text)"

pytestmark = pytest.mark.parametrize("site", SITES.values(), ids=SITES)


class Editor:
    """The opened page of a shape, and the account that its editor gives."""

    def __init__(self, page: Page, site: Site) -> None:
        self.page = page
        self.site = site
        page.goto(f"https://{site.host}/")
        self.frame = self._find()

    def _find(self) -> Frame:
        """The frame whose page names an editor, once there is one."""
        script = f"path => !!globalThis.reference && !!({ELEMENT})(path)"
        for frame in self.page.frames[::-1]:
            # The frame of a library has no address of its own.
            if urlsplit(frame.url).scheme != "https":
                continue
            frame.wait_for_function(script, arg=self.site.truth.editor, timeout=LIMIT_MS)
            return frame
        raise AssertionError("no frame of the page has an editor")

    def click(self) -> None:
        """Click where a visitor would, to write."""
        spot = SPOTS.get(self.site.name)
        if spot:
            self.frame.locator(spot).click(timeout=LIMIT_MS)
            return
        element = self.frame.evaluate_handle(ELEMENT, self.site.truth.editor).as_element()
        assert element is not None
        element.scroll_into_view_if_needed()
        box = element.bounding_box()
        assert box is not None
        self.page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)

    def read(self) -> str:
        """The text of the editor's own model, on one line and with plain quotes."""
        text = str(self.frame.evaluate(READ, self.site.truth.editor))
        return re.sub(r"\s+", " ", text).strip().translate(QUOTES)

    def survey(self) -> tuple[int, int]:
        """How often the payload stands in the intended editor, and how often elsewhere, as the truth has it."""
        call = "([payload, path]) => reference.survey(payload, path)"
        found: dict[str, Any] = json.loads(self.page.evaluate(call, [TEXT, self.site.truth.editor]))
        return found["intended"], found["elsewhere"]


@pytest.fixture
def editor(browser: Browser, site: Site) -> Iterator[Editor]:
    """A page whose errors and refused requests fail the test, and which asks the site's hosts only."""
    page = browser.new_page()
    said: list[str] = []
    asked: set[str] = set()
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
    page.on("request", lambda request: asked.add(urlsplit(request.url).hostname or ""))
    yield Editor(page, site)
    page.close()
    assert said == []
    assert asked - {""} <= site.hosts


Wait = Callable[..., None]


def test_what_is_typed_key_by_key_is_in_the_editors_model_once(editor: Editor, wait_until: Wait) -> None:
    assert editor.survey() == (0, 0)
    editor.click()
    editor.page.keyboard.type(TEXT)
    wait_until(lambda: editor.read() == TEXT, "the typed text in the model", LIMIT_MS / 1000)
    assert editor.survey() == (1, 0)


def test_what_is_inserted_at_once_is_in_the_editors_model_once(editor: Editor, wait_until: Wait) -> None:
    editor.click()
    editor.page.keyboard.insert_text(TEXT)
    wait_until(lambda: editor.read() == TEXT, "the inserted text in the model", LIMIT_MS / 1000)
    assert editor.survey() == (1, 0)


def test_what_the_site_brings_back_takes_the_place_of_the_text(editor: Editor, site: Site, wait_until: Wait) -> None:
    if site.truth.editor:
        pytest.skip("no library, so no model beside the element")
    editor.click()
    editor.page.keyboard.type("some words")
    wait_until(lambda: editor.read() == "some words", "the typed text in the model", LIMIT_MS / 1000)
    editor.frame.evaluate(WRITE, OTHER)
    wait_until(lambda: editor.read() == OTHER, "the written text in the model", LIMIT_MS / 1000)
    editor.frame.evaluate(WRITE, "")
    wait_until(lambda: not editor.read(), "the empty model", LIMIT_MS / 1000)


def test_what_stands_in_the_search_box_is_elsewhere(editor: Editor) -> None:
    editor.page.get_by_role("searchbox").first.fill(TEXT)
    assert editor.survey() == (0, 1)


def test_what_is_submitted_is_the_editors_text(editor: Editor, sites: Any, wait_until: Wait) -> None:
    host = urlsplit(editor.frame.url).hostname
    before = len(sites.posts(host))
    editor.click()
    editor.page.keyboard.type(TEXT)
    wait_until(lambda: editor.read() == TEXT, "the typed text in the model", LIMIT_MS / 1000)
    editor.frame.locator("button", has_text=SUBMIT).click(timeout=LIMIT_MS)
    wait_until(lambda: len(sites.posts(host)) == before + 1, "the post", LIMIT_MS / 1000)
    assert sites.posts(host)[-1]["text"].strip().translate(QUOTES) == TEXT


def test_the_page_says_enough_to_be_taken_for_a_page(editor: Editor) -> None:
    assert len(editor.page.inner_text("main")) > 200
