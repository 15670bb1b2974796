"""Editors that take their keys in a way of their own: what a browser sees of each, and that they hold what is typed."""

from __future__ import annotations

import functools
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from infra.reference.build import BUNDLES
from infra.reference.sites.server import POLICY

TEXT = 'probe k3f9x "alpha" é'
SHELL = """<!doctype html><meta charset="utf-8"><title>{global_name}</title>
<h1>Write</h1>{field}<output></output><script src="/{file}"></script>
<script>{global_name}.mount(document.querySelector("#field"), {{
  label: "Code", onText: (text) => {{ document.querySelector("output").textContent = text; }}
}});</script>"""
FIELDS = {"Tiny": '<textarea id="field"></textarea>'}
FACTS = """() => {
  const taker = document.activeElement, box = taker.getBoundingClientRect();
  return {
    tag: taker.tagName, editContext: !!taker.editContext, editable: taker.isContentEditable,
    width: box.width, height: box.height,
    frameEditable: taker.contentDocument ? taker.contentDocument.body.isContentEditable : null,
  };
}"""


class _Pages(http.server.SimpleHTTPRequestHandler):
    def end_headers(self) -> None:
        self.send_header("content-security-policy", POLICY)
        super().end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing is said about a request."""


@pytest.fixture(scope="module")
def pages(runtime: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where a page for each editor is served, with the policy of the sites."""
    folder = tmp_path_factory.mktemp("editors")
    for bundle in BUNDLES:
        for file in bundle.files:
            (folder / file).symlink_to(Path(runtime.editors) / file)
        field = FIELDS.get(bundle.global_name, '<div id="field" style="height: 200px"></div>')
        page = SHELL.format(global_name=bundle.global_name, file=bundle.file, field=field)
        (folder / f"{bundle.global_name}.html").write_text(page)
    handler = functools.partial(_Pages, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def page(browser: Browser, pages: str) -> Iterator[Page]:
    """A page whose errors fail the test, and which may ask its own host only."""
    opened = browser.new_page(base_url=pages)
    said: list[str] = []
    asked: list[str] = []
    opened.on("pageerror", lambda error: said.append(str(error)))
    opened.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
    opened.on("request", lambda request: asked.append(request.url))
    yield opened
    opened.close()
    assert said == []
    assert [url for url in asked if not url.startswith((pages, "data:", "about:"))] == []


def _type(page: Page, name: str, spot: str) -> dict[str, Any]:
    page.goto(f"/{name}.html")
    page.locator(spot).click()
    facts: dict[str, Any] = page.evaluate(FACTS)
    page.keyboard.type(TEXT)
    page.locator("output", has_text=TEXT).wait_for()
    return facts


def test_tinymce_takes_its_text_in_the_body_of_a_frame(page: Page) -> None:
    facts = _type(page, "Tiny", "iframe")
    assert (facts["tag"], facts["frameEditable"]) == ("IFRAME", True)
    field = page.locator("#field").bounding_box()
    assert field is None or field["height"] == 0


def test_ace_takes_its_keys_through_a_textarea_of_a_few_pixels(page: Page) -> None:
    facts = _type(page, "Ace", "#field .ace_content")
    assert facts["tag"] == "TEXTAREA"
    assert (facts["width"], facts["height"]) < (10, 10)
    assert page.locator("#field .ace_line").first.inner_text() == TEXT


def test_monaco_takes_its_keys_through_an_edit_context(page: Page) -> None:
    facts = _type(page, "Monaco", "#field .view-lines")
    assert (facts["tag"], facts["editContext"], facts["editable"]) == ("DIV", True, False)
    shown = page.locator("#field .view-line").first.inner_text()
    assert shown.replace("\N{NO-BREAK SPACE}", " ") == TEXT
