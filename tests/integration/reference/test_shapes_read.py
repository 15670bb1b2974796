"""bv3's own reading of a page, on every site of the shapes suite: the text once in one editable, on its own evidence.

The page's account of its editor serves to click into it, and is taken away before the page is read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from broker.suites.vocabulary import EditorShape
from broker.types import PageRead, Seen
from infra.reference.sites.catalogue import load_sites
from workers.audit import make_expression
from workers.page import interpret

PAYLOAD = "probe k3f9x shape's own text"
LIMIT_MS = 20_000
# What an editor of this shape is to the page read; any other takes its text in an element that can be edited.
KINDS = {
    "textarea": "textarea",
    "ace": "ace",
    "codemirror5": "codemirror5",
    "codemirror6": "codemirror6",
    "easymde": "codemirror5",
    "monaco": "monaco",
}
PATHS = {site.name: site.truth.editor for site in load_sites()}
SHAPES = [shape for shape in EditorShape if shape is not EditorShape.CROSS_ORIGIN_FRAME]
FIND = """(path) => {
  let node = path && document;
  for (const part of (path ?? "").split(" >>> ")) node = node && (node.shadowRoot ?? node).querySelector(part);
  return node;
}"""
ELEMENT = f"path => globalThis.reference?.handle?.element ?? ({FIND})(path)"
ECHO = """(text) => {
  const add = (element, more) => document.body.append(Object.assign(document.createElement(element), more));
  add("output", { innerText: text });
  add("textarea", { value: text, readOnly: true });
  add("div", { innerText: text, role: "textbox", ariaReadOnly: "true" });
  document.title = text;
}"""


class Editor:
    """The opened page of a shape, its caret in the editor."""

    def __init__(self, page: Page, shape: str) -> None:
        self.page = page
        path = PATHS[f"shape-{shape}"]
        page.goto(f"https://{shape}.editors.test/")
        page.wait_for_function(f"path => !!({ELEMENT})(path)", arg=path, timeout=LIMIT_MS)
        element = page.evaluate_handle(ELEMENT, path).as_element()
        assert element is not None
        self._element = element
        self.click()
        page.evaluate("() => { delete globalThis.reference; }")

    def click(self) -> None:
        """The editor has the caret."""
        self._element.scroll_into_view_if_needed()
        box = self._element.bounding_box()
        assert box is not None
        self.page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)

    def read(self) -> PageRead:
        plain: dict[str, Any] = json.loads(self.page.evaluate(make_expression()))
        return interpret(plain, card="c", payload=PAYLOAD, listing=None, after_dispatch=1, offset_ms=1, duration_ms=1)


@pytest.fixture
def open_editor(browser: Browser) -> Iterator[Callable[[str], Editor]]:
    page = browser.new_page()
    yield lambda shape: Editor(page, shape)
    page.close()


Open = Callable[[str], Editor]
Wait = Callable[..., None]


@pytest.mark.parametrize("shape", SHAPES)
def test_payload_is_counted_where_it_was_typed_and_nowhere_else(
    open_editor: Open, wait_until: Wait, shape: EditorShape
) -> None:
    editor = open_editor(shape)
    empty = editor.read()
    assert (empty.payload, empty.in_part, empty.frames_unread) == (Seen.ABSENT, False, 0), empty.editables
    _look_beside(editor)
    editor.click()
    editor.page.keyboard.type(PAYLOAD)
    wait_until(lambda: editor.read().payload_count, "the typed text", LIMIT_MS / 1000)
    once = editor.read()
    assert (once.payload, once.payload_count, once.in_part) == (Seen.SEEN, 1, False), once.editables
    assert once.editables[0].kind == KINDS.get(shape, "contenteditable")
    editor.page.keyboard.type(" " + PAYLOAD)
    wait_until(lambda: editor.read().payload_count > 1, "the text typed again", LIMIT_MS / 1000)
    twice = editor.read()
    assert (twice.payload_count, twice.editables[0].payload_count) == (2, 2), twice.editables


def _look_beside(editor: Editor) -> None:
    """What only echoes the payload holds nothing, and what stands in the search box is not the editor's."""
    editor.page.evaluate(ECHO, PAYLOAD)
    echoed = editor.read()
    assert (echoed.payload, echoed.payload_count) == (Seen.ABSENT, 0), echoed.editables
    search = editor.page.get_by_role("searchbox").first
    search.fill(PAYLOAD)
    searched = editor.read()
    assert (searched.payload, searched.payload_count) == (Seen.SEEN, 1), searched.editables
    assert (searched.editables[0].kind, searched.editables[0].label) == ("input", "Search notes")
    search.fill("")


def test_reading_asks_nothing_of_the_pages_account_and_of_the_products_marks() -> None:
    expression = make_expression()
    assert "reference" not in expression
    assert "data-osw" not in expression
