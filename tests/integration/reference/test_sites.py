"""The nine sites of the known suite in a real Chromium: real editors hold what is typed, nothing is asked elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Locator, Page

from infra.reference.sites.catalogue import load_sites

TEXT = "probe k3f9x coverage alpha"


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page whose errors fail the test, and which may ask its own hosts only."""
    opened = browser.new_page()
    errors: list[str] = []
    asked: set[str] = set()
    opened.on("pageerror", lambda error: errors.append(str(error)))
    opened.on("request", lambda request: asked.add(httpx.URL(request.url).host))
    yield opened
    visited = {httpx.URL(opened.url).host, "mail.google.com"}
    opened.close()
    assert errors == []
    assert {host for host in asked if host} <= visited


def _open_draft(page: Page) -> Locator:
    page.goto("https://x.com/")
    return page.get_by_role("textbox", name="Post text")


def _open_draft_dialog(page: Page) -> Locator:
    page.goto("https://x.com/compose/post")
    return page.get_by_role("dialog").get_by_role("textbox")


def _open_quill(page: Page) -> Locator:
    page.goto("https://www.linkedin.com/feed/")
    assert page.get_by_role("dialog").count() == 0
    page.get_by_role("button", name="Start a post").click()
    return page.get_by_role("textbox", name="Text editor for creating content")


def _open_form(page: Page) -> Locator:
    page.goto("https://www.reddit.com/r/test/submit")
    return page.get_by_role("textbox", name="Body text (optional)")


def _open_shadow(page: Page) -> Locator:
    page.goto("https://www.youtube.com/")
    page.get_by_role("link", name="How a canal lock works").click()
    page.get_by_role("button", name="Add a comment…").click()
    assert page.evaluate("document.querySelectorAll('[contenteditable]').length") == 0
    return page.get_by_role("textbox", name="Add a comment…")


def _open_comment(page: Page) -> Locator:
    page.goto("https://www.instagram.com/")
    page.get_by_role("link", name="View this photo").first.click()
    return page.get_by_role("textbox", name="Add a comment…")


def _open_lexical(page: Page) -> Locator:
    page.goto("https://www.twitch.tv/")
    page.get_by_role("link", name="lumen_plays").click()
    return page.locator("#chat-input")


EDITORS: dict[str, tuple[Callable[[Page], Locator], str, str]] = {
    "draft": (_open_draft, "Post", "x.com"),
    "draft in a dialog": (_open_draft_dialog, "Post", "x.com"),
    "quill": (_open_quill, "Post", "www.linkedin.com"),
    "shadow roots": (_open_shadow, "Comment", "www.youtube.com"),
    "textarea": (_open_comment, "Post", "www.instagram.com"),
    "lexical": (_open_lexical, "Send Chat", "www.twitch.tv"),
}


def _read(editor: Locator) -> str:
    return str(editor.evaluate("(box) => (box.value ?? box.innerText).trim()"))


@pytest.mark.parametrize("name", sorted(EDITORS))
def test_an_editor_holds_what_is_typed_and_its_control_posts_it_to_its_own_site(
    page: Page, sites: Any, name: str
) -> None:
    open_editor, label, host = EDITORS[name]
    editor = open_editor(page)
    submit = page.get_by_role("button", name=label, exact=True)
    editor.click()
    assert submit.is_disabled()
    page.keyboard.type(TEXT)
    assert _read(editor) == TEXT
    before = len(sites.posts(host))
    with page.expect_response("**/reference/posts") as answer:
        submit.click()
    assert answer.value.status == 201
    assert sites.posts(host)[before:] == [{"text": TEXT}]


def test_the_form_can_be_submitted_only_once_it_has_a_title(page: Page, sites: Any) -> None:
    body = _open_form(page)
    body.fill(TEXT)
    submit = page.get_by_role("button", name="Post", exact=True)
    assert submit.is_disabled()
    page.get_by_role("textbox", name="Title").fill("A title")
    before = len(sites.posts("www.reddit.com"))
    with page.expect_response("**/reference/posts"):
        submit.click()
    assert sites.posts("www.reddit.com")[before:] == [{"title": "A title", "body": TEXT}]


def test_the_private_box_is_there_and_named_as_one(page: Page) -> None:
    _open_comment(page)
    assert page.get_by_role("textbox", name="Message…").is_visible()


def test_mail_leads_to_a_sign_in_page_at_another_address(page: Page) -> None:
    page.goto("https://mail.google.com/mail/u/0/")
    assert page.url.startswith("https://accounts.google.com/v3/signin/identifier?continue=")
    assert page.get_by_role("textbox", name="Email or phone").is_visible()


def test_the_wall_shows_its_password_field_at_the_address_asked_for(page: Page) -> None:
    page.goto("https://substack.com/")
    assert page.url == "https://substack.com/"
    assert page.locator("form input[type=password]").is_visible()


def test_the_challenge_comes_with_status_200_and_offers_nothing_to_write_in(page: Page) -> None:
    answer = page.goto("https://www.tiktok.com/")
    assert answer is not None
    assert answer.status == 200
    assert page.get_by_role("dialog", name="Security check").is_visible()
    assert page.locator("textarea, [contenteditable], input[type=text]").count() == 0


ADDRESSES = (
    "https://x.com/home",
    "http://www.linkedin.com/feed/",
    "https://www.reddit.com/r/test/submit",
    "https://mail.google.com/",
    "https://www.youtube.com/",
    "https://www.youtube.com/watch?v=b0HjYd5uQ4e",
    "https://www.instagram.com/",
    "https://www.instagram.com/p/C8wTz7RnMbE/",
    "https://www.tiktok.com/@anyone/video/1",
    "https://substack.com/home",
    "http://www.twitch.tv/",
    "https://www.twitch.tv/chess_with_ines",
)


@pytest.mark.parametrize("address", ADDRESSES)
def test_a_page_carries_enough_text_to_count_as_mounted(page: Page, address: str) -> None:
    page.goto(address)
    assert len(page.inner_text("body")) > 200


@pytest.mark.parametrize(
    "address", ["https://nobody.example/", "https://x.com/i/none", "https://www.youtube.com/watch?v=0"]
)
def test_what_is_not_there_is_a_404(browser: Browser, address: str) -> None:
    context = browser.new_context()
    opened = context.new_page()
    answer = opened.goto(address)
    assert answer is not None
    assert answer.status == 404
    context.close()


def test_the_sites_say_on_any_other_host_that_they_are_well(sites: Any) -> None:
    answer = httpx.get(f"http://127.0.0.1:{sites.http_port}/healthz", trust_env=False)
    named = [site.name for site in load_sites()]
    assert (answer.status_code, answer.json()["ok"], answer.json()["sites"]) == (200, True, named)


def test_missing_bundles_are_named_before_anything_is_served(spawn: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "editors").mkdir()
    ports = ["--http-port", "1", "--https-port", "2"]
    process = spawn("sites", *ports, "--editors", str(tmp_path / "editors"), "--state", str(tmp_path / "state"))
    assert process.popen.wait(10) == 1
    assert "error: no draft.js, lexical.js, " in process.output
    assert "hint: run python -m infra.reference.build" in process.output
    assert not (tmp_path / "state").exists()


def test_handshakes_that_a_browser_breaks_off_are_no_noise(browser: Browser, sites: Any) -> None:
    browser.new_page().goto("https://x.com/home")
    assert "Traceback" not in sites.process.output
    assert "SSL" not in sites.process.output
