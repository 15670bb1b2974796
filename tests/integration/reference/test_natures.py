"""What each nature does to a page in a real Chromium, to its editor's own state as well as to what is shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from playwright.sync_api import Browser, Error, Locator, Page

from infra.reference.sites.natures import NATURES

TEXT = "probe k3f9x coverage alpha"
OLD = "probe zzzzz coverage alpha"
#: The host, the page with the editor, what is pressed first, the editor, and the name of its submit control.
EDITORS = {
    "x": ("x.com", "/home", None, "#composer [contenteditable]", "Post"),
    "linkedin": ("www.linkedin.com", "/feed/", "#open", ".ql-editor", "Post"),
    "reddit": ("www.reddit.com", "/r/test/submit", None, "textarea[name=body]", "Post"),
    "youtube": ("www.youtube.com", "/watch?v=qk3vT0mB1xA", "#placeholder", "#contenteditable-root", "Comment"),
    "instagram": ("www.instagram.com", "/p/C9fKx2PoLqA/", None, "form.comment textarea", "Post"),
    "twitch": ("www.twitch.tv", "/lumen_plays", None, "#chat-input", "Send Chat"),
}
Open = Callable[[str, str], "Editor"]
Enter = Callable[[Page], None]
WAYS: dict[str, Enter] = {
    "in one go": lambda page: page.keyboard.insert_text(TEXT),
    "key by key": lambda page: page.keyboard.type(TEXT),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Editor:
    """An editor that is open and has the keyboard."""

    page: Page
    box: Locator
    submit: Locator
    posts: Callable[[], list[dict[str, Any]]]

    @property
    def shown(self) -> str:
        return str(self.box.evaluate("(box) => (box.value ?? box.innerText).trim()"))

    def record(self) -> Callable[[], list[str]]:
        """From now on every text that the editor shows is noted in the page."""
        self.box.evaluate(
            """(box) => {
              window.shown = new Set();
              setInterval(() => window.shown.add((box.value ?? box.innerText).trim()), 5);
            }"""
        )
        return lambda: list(self.page.evaluate("[...window.shown]"))

    def wait_for(self, text: str) -> None:
        """The editor has come to show exactly this text."""
        for _ in range(300):
            if self.shown == text:
                return
            self.page.wait_for_timeout(10)
        assert self.shown == text

    def send(self) -> str:
        """Press the site's own submit control; what the editor's own state gave it."""
        title = self.page.locator("input[name=title]")
        if title.count():
            title.fill("A title")
        with self.page.expect_response("**/reference/posts"):
            self.submit.click()
        sent = self.posts()[-1]
        return str(sent.get("body", sent.get("text")))

    def holds_nothing(self) -> bool:
        """Whether the site's own view of its editor is empty: it can't be sent, or is sent empty."""
        if self.page.locator("input[name=title]").count():
            return not self.send()
        return self.submit.is_disabled()


@pytest.fixture
def open_editor(browser: Browser, sites: Any) -> Iterator[Open]:
    page = browser.new_page()
    hosts = set()

    def open_page(site: str, nature: str) -> Editor:
        host, path, opener, box, label = EDITORS[site]
        hosts.add(host)
        sites.set_nature(host, nature)
        page.goto(f"https://{host}{path}")
        if opener:
            page.locator(opener).click()
        page.locator(box).click()
        submit = page.get_by_role("button", name=label, exact=True)
        return Editor(page=page, box=page.locator(box), submit=submit, posts=lambda: sites.posts(host))

    yield open_page
    page.close()
    for host in hosts:
        sites.set_nature(host, None)


@pytest.mark.parametrize("way", sorted(WAYS))
@pytest.mark.parametrize("site", sorted(EDITORS))
def test_text_is_taken_then_reverted_and_stays_away(open_editor: Open, site: str, way: str) -> None:
    editor = open_editor(site, "editor_reverts")
    shown = editor.record()
    WAYS[way](editor.page)
    editor.wait_for("")
    assert TEXT in shown()
    shown = editor.record()
    editor.box.click()
    WAYS[way](editor.page)
    assert editor.holds_nothing()
    assert set(shown()) == {""}


@pytest.mark.parametrize("way", sorted(WAYS))
@pytest.mark.parametrize("site", sorted(EDITORS))
def test_text_is_shown_late_and_is_then_the_editors_own(open_editor: Open, site: str, way: str) -> None:
    editor = open_editor(site, "editor_late")
    started = editor.page.evaluate("performance.now()")
    WAYS[way](editor.page)
    editor.page.wait_for_timeout(1000)
    assert editor.shown == ""
    editor.wait_for(TEXT)
    assert editor.page.evaluate("performance.now()") - started >= 1500
    assert editor.send() == TEXT


@pytest.mark.parametrize("site", sorted(EDITORS))
def test_old_draft_is_there_and_gives_way_to_what_replaces_it(open_editor: Open, site: str) -> None:
    editor = open_editor(site, "editor_old_text")
    editor.wait_for(OLD)
    editor.box.click()
    editor.page.keyboard.press("ControlOrMeta+A")
    editor.page.keyboard.insert_text(TEXT)
    editor.wait_for(TEXT)
    assert editor.send() == TEXT


@pytest.mark.parametrize("site", sorted(EDITORS))
def test_old_draft_is_the_editors_own_state(open_editor: Open, site: str) -> None:
    editor = open_editor(site, "editor_old_text")
    editor.wait_for(OLD)
    assert editor.send() == OLD


@pytest.mark.parametrize("way", sorted(WAYS))
@pytest.mark.parametrize("site", sorted(EDITORS))
def test_text_is_doubled_in_the_editors_own_state(open_editor: Open, site: str, way: str) -> None:
    editor = open_editor(site, "editor_doubles")
    shown = editor.record()
    WAYS[way](editor.page)
    editor.wait_for(TEXT + TEXT)
    assert TEXT in shown()
    assert editor.send() == TEXT + TEXT
    assert editor.shown == TEXT + TEXT


@pytest.mark.parametrize("way", sorted(WAYS))
@pytest.mark.parametrize("site", sorted(EDITORS))
def test_nothing_gets_in(open_editor: Open, site: str, way: str) -> None:
    editor = open_editor(site, "editor_rejects")
    shown = editor.record()
    WAYS[way](editor.page)
    assert editor.holds_nothing()
    assert set(shown()) == {""}


# Lexical's state stays empty as well, but its DOM keeps what came by a command.
@pytest.mark.parametrize("site", sorted(set(EDITORS) - {"twitch"}))
def test_not_even_a_scripted_command_leaves_text(open_editor: Open, site: str) -> None:
    editor = open_editor(site, "editor_rejects")
    editor.page.evaluate("(text) => document.execCommand('insertText', false, text)", TEXT)
    editor.wait_for("")
    assert editor.holds_nothing()


@pytest.mark.parametrize("host", ["x.com", "www.youtube.com"])
def test_dropped_connection_ends_in_the_browsers_own_error_page(browser: Browser, sites: Any, host: str) -> None:
    page = browser.new_page()
    sites.set_nature(host, "page_dropped")
    try:
        with pytest.raises(Error, match=r"ERR_(EMPTY_RESPONSE|CONNECTION_CLOSED|CONNECTION_RESET)"):
            page.goto(f"https://{host}/")
    finally:
        sites.set_nature(host, None)
    page.close()
    page = browser.new_page()
    answer = page.goto(f"https://{host}/")
    assert answer is not None
    assert answer.status == 200
    page.close()
    assert "Traceback" not in sites.process.output


def test_login_redirect_ends_on_the_sites_own_sign_in_page(browser: Browser, sites: Any) -> None:
    page = browser.new_page()
    sites.set_nature("www.linkedin.com", "page_login_redirect")
    try:
        page.goto("https://www.linkedin.com/feed/")
        assert page.url == "https://www.linkedin.com/login"
        assert page.get_by_role("heading", name="Log in to LinkedIn").is_visible()
        assert page.locator("form input[type=password]").is_visible()
    finally:
        sites.set_nature("www.linkedin.com", None)
    page.close()


def test_challenge_shows_its_checkbox_in_a_frame(browser: Browser, sites: Any) -> None:
    page = browser.new_page()
    sites.set_nature("x.com", "challenge_shown")
    try:
        answer = page.goto("https://x.com/home")
        assert answer is not None
        assert (answer.status, page.url) == (200, "https://x.com/home")
        assert page.get_by_role("heading", name="Verify you are human").is_visible()
        assert page.frame_locator("iframe").get_by_role("checkbox", name="Verify you are human").is_visible()
    finally:
        sites.set_nature("x.com", None)
    page.close()


def test_hash_is_added_to_the_address_and_the_page_stays(browser: Browser, sites: Any) -> None:
    page = browser.new_page()
    sites.set_nature("x.com", "page_hash_change")
    try:
        page.goto("https://x.com/home")
        page.wait_for_url("https://x.com/home#main-content")
        assert page.get_by_role("textbox", name="Post text").is_visible()
    finally:
        sites.set_nature("x.com", None)
    page.close()


def test_mention_has_a_badge_of_a_size_and_asks_no_other_host(browser: Browser, sites: Any) -> None:
    page = browser.new_page()
    answered: list[str] = []
    page.on("response", lambda response: answered.append(response.url))
    sites.set_nature("x.com", "challenge_mention")
    try:
        page.goto("https://x.com/home")
        assert page.locator("iframe[title=reCAPTCHA]").bounding_box() is not None
    finally:
        sites.set_nature("x.com", None)
    page.close()
    assert {url.split("/")[2] for url in answered} == {"x.com"}


def test_every_nature_has_a_test_of_its_own_here_or_at_the_server() -> None:
    seen_here = {name for name in NATURES if name.startswith("editor_")}
    at_server = {"page_404", "page_500", "page_204", "footer_login", "header_password"}
    others = {"page_dropped", "page_login_redirect", "challenge_shown", "page_hash_change", "challenge_mention"}
    assert set(NATURES) == seen_here | at_server | others
