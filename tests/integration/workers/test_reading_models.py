"""Editors that paint a part of a text they keep in a model: read from the library's handle, else what is painted."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, Route, sync_playwright

from broker.settings import load_settings, read_manifest
from broker.types import PageRead, Seen
from workers.audit import make_expression
from workers.page import interpret
from workers.pagewords import normalise

PAYLOAD = "probe k3f9x shape's own text"
FILLER = "\n".join(f"line {number} of a long text" for number in range(400))
RUNTIME = Path(__file__).resolve().parents[3] / ".runtime"
SERVED = {
    "ace.js": "editors/ace.js",
    "monaco.js": "editors/monaco.js",
    "monaco.css": "editors/monaco.css",
    "codemirror.js": "npm/node_modules/codemirror5/lib/codemirror.js",
    "codemirror.css": "npm/node_modules/codemirror5/lib/codemirror.css",
}
ACE = """<div id=field style="height:200px"></div><script src=ace.js></script><script>
const made = Ace.mount(field, {label: 'Code', onText() {}}); write = made.write;
forget = () => { for (const el of document.querySelectorAll('.ace_editor')) delete el.env; };
</script>"""
MONACO = """<div id=field style="height:200px"></div><script src=monaco.js></script><script>
const made = Monaco.mount(field, {label: 'Code', onText() {}}); write = made.write; forget = () => {};
</script>"""
CODEMIRROR = """<link rel=stylesheet href=codemirror.css><textarea id=field></textarea>
<script src=codemirror.js></script><script>
const made = CodeMirror.fromTextArea(field, {lineNumbers: true}); write = (text) => made.setValue(text);
forget = () => { delete document.querySelector('.CodeMirror').CodeMirror; };
</script>"""
PAGES = {"ace": ACE, "codemirror5": CODEMIRROR, "monaco": MONACO}
NESTED = f"<div contenteditable><p>Before</p><div contenteditable=false>{CODEMIRROR}</div><p>After</p></div>"
SERVED_PAGES = {**PAGES, "nested": NESTED}
SPOTS = {
    "ace": ".ace_content",
    "codemirror5": ".CodeMirror-lines",
    "nested": ".CodeMirror-lines",
    "monaco": ".view-lines",
}


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    manifest = read_manifest(load_settings())
    if manifest.playwright_node:
        os.environ["PLAYWRIGHT_NODEJS_PATH"] = manifest.playwright_node
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=manifest.chromium,
            args=list(manifest.chromium_args),
            env={**os.environ, **manifest.chromium_env},
        )
        opened = browser.new_page()
        opened.route("https://models.test/**", _serve)
        yield opened
        browser.close()


def _serve(route: Route) -> None:
    name = route.request.url.rpartition("/")[2]
    if name in SERVED:
        route.fulfill(path=RUNTIME / SERVED[name])
        return
    head = f"<!doctype html><meta charset=utf-8><title>{name}</title>"
    html = f"{head}<input aria-label=Search><h1>Write</h1>{SERVED_PAGES[name]}"
    route.fulfill(body=html, content_type="text/html")


@pytest.fixture
def open_editor(page: Page) -> Callable[[str], None]:
    """Open a page with this editor, its caret in it."""

    def do(kind: str) -> None:
        page.goto(f"https://models.test/{kind}")
        page.locator(SPOTS[kind]).first.click()

    return do


@pytest.fixture
def read(page: Page) -> Callable[[], PageRead]:
    def do() -> PageRead:
        plain: dict[str, Any] = json.loads(page.evaluate(make_expression()))
        return interpret(plain, card="c", payload=PAYLOAD, listing=None, after_dispatch=1, offset_ms=1, duration_ms=1)

    return do


Open = Callable[[str], None]
Read = Callable[[], PageRead]
Wait = Callable[..., None]
LIMIT_S = 20


@pytest.mark.parametrize("kind", PAGES)
def test_typed_text_is_read_once_as_the_editor_s_own(
    page: Page, open_editor: Open, read: Read, wait_until: Wait, kind: str
) -> None:
    open_editor(kind)
    empty = read()
    assert (empty.payload, empty.in_part) == (Seen.ABSENT, False)
    assert {one.kind for one in empty.editables} == {"input", kind}
    page.keyboard.type(PAYLOAD)
    wait_until(lambda: read().payload_count, "the typed text", LIMIT_S)
    once = read()
    assert (once.payload, once.payload_count, once.in_part) == (Seen.SEEN, 1, False)
    assert (once.editables[0].kind, normalise(once.editables[0].text)) == (kind, PAYLOAD)
    page.keyboard.press("Enter")
    page.keyboard.type(PAYLOAD)
    # lines are painted with the next frame
    wait_until(lambda: read().payload_count == 2, "the text typed again", LIMIT_S)


@pytest.mark.parametrize("kind", ["ace", "codemirror5"])
def test_text_beyond_the_painted_lines_is_read_from_the_model(
    page: Page, open_editor: Open, read: Read, kind: str
) -> None:
    open_editor(kind)
    page.evaluate("text => write(text)", f"{PAYLOAD}\n{FILLER}\n{PAYLOAD}")
    found = read()
    assert (found.payload_count, found.in_part) == (2, False)


@pytest.mark.parametrize("kind", PAGES)
def test_without_a_handle_the_painted_lines_are_read(
    page: Page, open_editor: Open, read: Read, wait_until: Wait, kind: str
) -> None:
    open_editor(kind)
    page.keyboard.type(PAYLOAD)
    page.evaluate("forget()")
    wait_until(lambda: read().payload_count, "the typed text", LIMIT_S)
    found = read()
    assert (found.payload, found.payload_count, found.in_part) == (Seen.SEEN, 1, False)


@pytest.mark.parametrize("kind", PAGES)
def test_without_a_handle_absence_in_a_part_of_a_long_text_is_no_evidence(
    page: Page, open_editor: Open, read: Read, wait_until: Wait, kind: str
) -> None:
    open_editor(kind)
    page.evaluate("text => write(text)", f"{FILLER}\n{PAYLOAD}\n{FILLER}")
    page.evaluate("forget()")
    wait_until(lambda: read().in_part, "the lines of the long text", LIMIT_S)
    assert read().payload is Seen.COULD_NOT_LOOK


def test_field_of_a_few_pixels_that_takes_the_keys_leaves_open_what_became_of_them(page: Page, read: Read) -> None:
    page.set_content("<canvas width=300 height=100></canvas><textarea id=t style='width:1px;height:1px'></textarea>")
    assert read().payload is Seen.ABSENT
    page.locator("#t").focus()
    assert (read().payload, read().in_part) == (Seen.COULD_NOT_LOOK, True)


def test_model_within_another_editor_is_read_with_it_as_far_as_it_is_painted(
    page: Page, open_editor: Open, read: Read
) -> None:
    open_editor("nested")
    assert (read().payload, read().in_part) == (Seen.ABSENT, False)
    page.keyboard.type(PAYLOAD)
    once = read()
    assert (once.payload, once.payload_count, once.in_part) == (Seen.SEEN, 1, False), once.editables
    page.evaluate("text => write(text)", f"{FILLER}\n{PAYLOAD}\n{FILLER}")
    beyond = read()
    assert (beyond.payload, beyond.in_part) == (Seen.COULD_NOT_LOOK, True)
