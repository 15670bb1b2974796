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
LINES = 'a 1 < 2 & "q" \N{LATIN SMALL LETTER E WITH ACUTE} \N{GRINNING FACE}\nand a second line'
KEPT = "probe m2c7q <b>kept</b> & more\nfrom before"
LIMIT_S = 20.0
LIMIT_MS = LIMIT_S * 1000
SITES = {site.name: site for site in load_sites() if site.name.startswith("shape-")}
# An editor may make quotes smart, and keeps some spaces from breaking.
QUOTES = str.maketrans("\N{LEFT SINGLE QUOTATION MARK}\N{RIGHT SINGLE QUOTATION MARK}\N{NO-BREAK SPACE}", "'' ")
QUOTES |= str.maketrans("\N{LEFT DOUBLE QUOTATION MARK}\N{RIGHT DOUBLE QUOTATION MARK}", '""')
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
RENDERED = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
TAKER = """() => {
  let node = document.activeElement;
  for (;;) {
    const inner = node.shadowRoot?.activeElement ?? node.contentDocument?.activeElement;
    if (!inner) break;
    node = inner;
  }
  const box = node.getBoundingClientRect();
  const size = Math.min(box.width, box.height) < 10 ? " of a few pixels" : "";
  const way = node.editContext ? " with an EditContext" : node.isContentEditable ? " made editable" : "";
  const name = node.getAttribute("aria-label") ?? node.labels?.[0]?.textContent ?? "";
  return [node.localName + way + size, node.getAttribute("role") ?? "", name];
}"""
WRITE = "text => reference.handle.write(text)"

# What takes the keys once a visitor has clicked, its role and its name: only what libraries and real sites give them.
TAKERS = {
    "shape-textarea": ("textarea", "", "Your note"),
    "shape-contenteditable": ("div made editable", "", ""),
    "shape-draft": ("div made editable", "textbox", ""),
    "shape-lexical": ("div made editable", "", ""),
    "shape-slate": ("div made editable", "textbox", ""),
    "shape-quill": ("div made editable", "", ""),
    "shape-prosemirror": ("div made editable", "", ""),
    "shape-tiptap": ("div made editable", "textbox", ""),
    "shape-trix": ("trix-editor made editable", "textbox", ""),
    "shape-tinymce-frame": ("body made editable", "", "Rich Text Area"),
    "shape-tinymce-inline": ("div made editable", "", ""),
    "shape-ckeditor5": ("div made editable", "textbox", "Rich Text Editor. Editing area: main. Press Alt+0 for help."),
    "shape-ckeditor4": ("body made editable", "textbox", "Editor, field"),
    "shape-codemirror5": ("textarea", "", ""),
    "shape-codemirror6": ("div made editable", "textbox", ""),
    "shape-ace": ("textarea of a few pixels", "textbox", "Cursor at row 1"),
    "shape-monaco": ("div with an EditContext of a few pixels", "textbox", "Editor content"),
    "shape-summernote": ("div made editable", "textbox", ""),
    "shape-editorjs": ("div made editable", "", ""),
    "shape-jodit": ("div made editable", "", ""),
    "shape-toastui": ("div made editable", "", ""),
    "shape-medium-editor": ("div made editable", "textbox", ""),
    "shape-easymde": ("textarea", "", ""),
    "shape-shadow-dom": ("div made editable", "textbox", ""),
    "shape-cross-origin-frame": ("div made editable", "textbox", "Join the discussion"),
}

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
        element = self.frame.evaluate_handle(ELEMENT, self.site.truth.editor).as_element()
        assert element is not None
        element.click(timeout=LIMIT_MS)

    def read(self) -> str:
        """The lines of the editor's own model, with plain quotes and spaces."""
        text = str(self.frame.evaluate(READ, self.site.truth.editor)).translate(QUOTES)
        return re.sub(r"\n+", "\n", text).strip()

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


def test_what_is_typed_key_by_key_is_in_the_editors_model_once_and_posted(
    editor: Editor, sites: Any, wait_until: Wait
) -> None:
    host = urlsplit(editor.frame.url).hostname
    before = len(sites.posts(host))
    assert editor.survey() == (0, 0)
    editor.click()
    editor.page.keyboard.type(TEXT)
    wait_until(lambda: editor.read() == TEXT, "the typed text in the model", LIMIT_S)
    assert editor.survey() == (1, 0)
    editor.frame.locator("button", has_text=SUBMIT).click(timeout=LIMIT_MS)
    wait_until(lambda: len(sites.posts(host)) == before + 1, "the post", LIMIT_S)
    assert sites.posts(host)[-1]["text"].strip().translate(QUOTES) == TEXT


def test_what_comes_at_once_in_lines_or_from_the_site_is_in_the_model_and_what_stands_beside_the_editor_is_not(
    editor: Editor, site: Site, wait_until: Wait
) -> None:
    # One page for all of it: opening one costs more than everything else here.
    _find_elsewhere(editor)
    editor.click()
    assert tuple(editor.frame.evaluate(TAKER)) == TAKERS[site.name]
    editor.page.keyboard.insert_text(TEXT)
    wait_until(lambda: editor.read() == TEXT, "the inserted text in the model", LIMIT_S)
    assert editor.survey() == (1, 0)
    editor.page.keyboard.press("ControlOrMeta+A")
    editor.page.keyboard.press("Delete")
    wait_until(lambda: not editor.read(), "the empty editor", LIMIT_S)
    _type_lines(editor)
    wait_until(lambda: editor.read() == LINES, f"the lines, and not {editor.read()!r}", LIMIT_S)
    _bring_back(editor, wait_until)


def _find_elsewhere(editor: Editor) -> None:
    """What stands in the search box of a page with enough text is not in the editor."""
    assert len(editor.page.inner_text("main")) > 200
    search = editor.page.get_by_role("searchbox").first
    search.fill(TEXT)
    assert editor.survey() == (0, 1)
    search.fill("")


def _bring_back(editor: Editor, wait_until: Wait) -> None:
    """What the site brings back takes the place of the text; without a library there is no model to bring it to."""
    if editor.site.truth.editor:
        return
    for text in (KEPT, ""):
        editor.frame.evaluate(WRITE, text)
        wait_until(lambda: editor.read() == text, "the written text in the model", LIMIT_S)  # noqa: B023 - at once


def _type_lines(editor: Editor) -> None:
    for index, line in enumerate(LINES.split("\n")):
        if index:
            editor.page.keyboard.press("Enter")
        # Trix sets its caret only as it renders the new line: a key that comes before then goes astray.
        editor.frame.evaluate(RENDERED)
        editor.page.keyboard.type(line)
