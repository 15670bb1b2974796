"""What each nature does to a page in a real Chromium, to its editor's own state as well as to what is shown.

The editors' pages run on a clock that the test moves, so that what happens when is the page's affair alone: no load
of the machine comes between a text and the moment 300 ms after it. What an agent makes of them by a real clock is
in `test_natures_met.py`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from playwright.sync_api import Browser, Error, Locator, Page

TEXT = "probe k3f9x coverage alpha"
OLD = "probe zzzzz coverage alpha"
LIMIT_S = 20.0
#: The natures look at their editor so often.
WATCH_MS = 20
#: The host, the page with the editor, what is pressed first, the editor, and the name of its submit control.
EDITORS = {
    "x": ("x.com", "/home", None, "#composer [contenteditable]", "Post"),
    "linkedin": ("www.linkedin.com", "/feed/", "#open", ".ql-editor", "Post"),
    "reddit": ("www.reddit.com", "/r/test/submit", None, "textarea[name=body]", "Post"),
    "youtube": ("www.youtube.com", "/watch?v=qk3vT0mB1xA", "#placeholder", "#contenteditable-root", "Comment"),
    "instagram": ("www.instagram.com", "/p/C9fKx2PoLqA/", None, "form.comment textarea", "Post"),
    "twitch": ("www.twitch.tv", "/lumen_plays", None, "#chat-input", "Send Chat"),
}
#: One site of each kind of editor: Instagram's is a textarea as Reddit's.
KINDS = sorted(set(EDITORS) - {"instagram"})
# Two worlds of browsers and sites would cost more than they save.
pytestmark = pytest.mark.xdist_group("natures")
Open = Callable[[str, str], "Editor"]
SetNature = Callable[[str, str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Editor:
    """An editor that is open and has the keyboard, in a page whose clock stands still."""

    page: Page
    box: Locator
    submit: Locator
    posts: Callable[[], list[dict[str, Any]]]

    @property
    def shown(self) -> str:
        return str(self.box.evaluate("(box) => (box.value ?? box.innerText).trim()"))

    def insert(self) -> None:
        """Put the text in, in one go, as the agent does."""
        self.page.keyboard.insert_text(TEXT)

    def type_slowly(self) -> None:
        """Put the text in key by key, 10 ms apart by the page's clock."""
        for key in TEXT:
            self.page.keyboard.type(key)
            self.pass_time(10)

    def pass_time(self, ms: int) -> None:
        """So much time has passed in the page, and what was due has happened."""
        self.page.clock.run_for(ms)

    def wait_for(self, text: str) -> None:
        """The editor shows exactly this text, once it has drawn what it holds."""
        end = time.monotonic() + LIMIT_S
        while self.shown != text and time.monotonic() < end:
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
def set_nature(sites: Any) -> Iterator[SetNature]:
    """Give a host's pages a nature; they have their own again at the end."""
    hosts = set()

    def set_one(host: str, nature: str) -> None:
        hosts.add(host)
        sites.set_nature(host, nature)

    yield set_one
    for host in hosts:
        sites.set_nature(host, None)


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    opened = browser.new_page()
    yield opened
    opened.close()


@pytest.fixture
def open_editor(page: Page, sites: Any, set_nature: SetNature) -> Open:
    """Open a site's editor under a nature: time goes on until it can be written in, and stands still from then on."""

    def open_page(site: str, nature: str) -> Editor:
        host, path, opener, box, label = EDITORS[site]
        set_nature(host, nature)
        page.clock.install()
        page.goto(f"https://{host}{path}")
        if opener:
            page.locator(opener).click()
        page.locator(box).click()
        page.clock.pause_at(datetime.now(UTC) + timedelta(hours=1))
        submit = page.get_by_role("button", name=label, exact=True)
        return Editor(page=page, box=page.locator(box), submit=submit, posts=lambda: sites.posts(host))

    return open_page


@pytest.mark.parametrize("site", KINDS)
def test_text_is_taken_then_reverted_and_stays_away(open_editor: Open, site: str) -> None:
    editor = open_editor(site, "editor_reverts")
    editor.insert()
    editor.pass_time(300 - WATCH_MS)
    editor.wait_for(TEXT)
    editor.pass_time(3 * WATCH_MS)
    editor.wait_for("")
    editor.box.click()
    editor.insert()
    editor.pass_time(1)
    assert editor.shown == ""
    editor.pass_time(1000)
    assert editor.shown == ""
    assert editor.holds_nothing()


@pytest.mark.parametrize("site", KINDS)
def test_text_is_shown_late_and_is_then_the_editors_own(open_editor: Open, site: str) -> None:
    editor = open_editor(site, "editor_late")
    editor.insert()
    editor.pass_time(1500 - WATCH_MS)
    assert editor.shown == ""
    editor.pass_time(2 * WATCH_MS)
    editor.wait_for(TEXT)
    assert editor.send() == TEXT


@pytest.mark.parametrize("site", KINDS)
def test_text_is_doubled_in_the_editors_own_state_and_once_only(open_editor: Open, site: str) -> None:
    editor = open_editor(site, "editor_doubles")
    editor.insert()
    editor.pass_time(300 - WATCH_MS)
    editor.wait_for(TEXT)
    editor.pass_time(3 * WATCH_MS)
    editor.wait_for(TEXT + TEXT)
    editor.pass_time(1000)
    assert editor.shown == TEXT + TEXT
    assert editor.send() == TEXT + TEXT


@pytest.mark.parametrize(
    ("nature", "delay_ms", "text"),
    [("editor_reverts", 300, ""), ("editor_late", 1500, TEXT), ("editor_doubles", 300, TEXT + TEXT)],
)
def test_time_is_counted_from_the_last_key(open_editor: Open, nature: str, delay_ms: int, text: str) -> None:
    editor = open_editor("linkedin", nature)
    # 260 ms of typing and what follows are more than 300 ms from the first key on
    editor.type_slowly()
    editor.pass_time(delay_ms - 2 * WATCH_MS)
    editor.wait_for("" if nature == "editor_late" else TEXT)
    editor.pass_time(4 * WATCH_MS)
    editor.wait_for(text)


@pytest.mark.parametrize("site", sorted(EDITORS))
def test_old_draft_is_there_and_gives_way_to_what_replaces_it(open_editor: Open, site: str) -> None:
    editor = open_editor(site, "editor_old_text")
    editor.wait_for(OLD)
    editor.box.click()
    editor.page.keyboard.press("ControlOrMeta+A")
    editor.pass_time(WATCH_MS)
    editor.insert()
    editor.pass_time(1000)
    editor.wait_for(TEXT)
    assert editor.send() == TEXT


@pytest.mark.parametrize("site", ["twitch", "x"])
def test_old_draft_is_the_editors_own_state(open_editor: Open, site: str) -> None:
    editor = open_editor(site, "editor_old_text")
    editor.wait_for(OLD)
    assert editor.send() == OLD


@pytest.mark.parametrize("site", KINDS)
def test_nothing_gets_in_neither_at_once_nor_by_keys_nor_by_a_scripted_command(open_editor: Open, site: str) -> None:
    editor = open_editor(site, "editor_rejects")
    for enter in (editor.insert, editor.type_slowly):
        enter()
        assert editor.shown == ""
        editor.pass_time(1000)
        assert editor.shown == ""
    # Lexical's state stays empty as well, but its DOM keeps what came by a command.
    if site != "twitch":
        editor.page.evaluate("(text) => document.execCommand('insertText', false, text)", TEXT)
        editor.pass_time(1)
        editor.wait_for("")
    assert editor.holds_nothing()


def test_dropped_connection_ends_in_the_browsers_own_error_page(
    browser: Browser, page: Page, sites: Any, set_nature: SetNature
) -> None:
    set_nature("x.com", "page_dropped")
    with pytest.raises(Error, match=r"ERR_(EMPTY_RESPONSE|CONNECTION_CLOSED|CONNECTION_RESET)"):
        page.goto("https://x.com/")
    sites.set_nature("x.com", None)
    again = browser.new_page()
    answer = again.goto("https://x.com/")
    again.close()
    assert answer is not None
    assert answer.status == 200
    assert "Traceback" not in sites.process.output


def test_login_redirect_ends_on_the_sites_own_sign_in_page(page: Page, set_nature: SetNature) -> None:
    set_nature("www.linkedin.com", "page_login_redirect")
    page.goto("https://www.linkedin.com/feed/")
    assert page.url == "https://www.linkedin.com/login"
    assert page.get_by_role("heading", name="Log in to LinkedIn").is_visible()
    assert page.locator("form input[type=password]").is_visible()


def test_challenge_shows_its_checkbox_in_a_frame(page: Page, set_nature: SetNature) -> None:
    set_nature("x.com", "challenge_shown")
    answer = page.goto("https://x.com/home")
    assert answer is not None
    assert (answer.status, page.url) == (200, "https://x.com/home")
    assert page.get_by_role("heading", name="Verify you are human").is_visible()
    assert page.frame_locator("iframe").get_by_role("checkbox", name="Verify you are human").is_visible()


def test_hash_is_added_to_the_address_and_the_page_stays(page: Page, set_nature: SetNature) -> None:
    set_nature("x.com", "page_hash_change")
    page.goto("https://x.com/home")
    page.wait_for_url("https://x.com/home#main-content")
    assert page.get_by_role("textbox", name="Post text").is_visible()


def test_mention_has_a_badge_of_a_size_and_asks_no_other_host(page: Page, set_nature: SetNature) -> None:
    answered: list[str] = []
    page.on("response", lambda response: answered.append(response.url))
    set_nature("x.com", "challenge_mention")
    page.goto("https://x.com/home")
    assert page.locator("iframe[title=reCAPTCHA]").bounding_box() is not None
    assert {url.split("/")[2] for url in answered} == {"x.com"}
