"""What a visitor meets under each nature that is no fault, alone and many at the same time, in a real Chromium."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Dialog, Page, expect

from infra.reference.sites.natures import NATURES
from infra.reference.truth import SURVEY

TEXT = "probe k3f9x coverage alpha"
LIMIT_MS = 30_000
#: A site with a library and one without: the host, the page with the editor, and the editor.
SITES = {
    "x": ("x.com", "/home", "#composer [contenteditable]"),
    "reddit": ("www.reddit.com", "/r/test/submit", "textarea[name=body]"),
}
#: What takes or changes the text itself; under all others it stands there once when it was typed.
SPOILING = {"editor_reverts", "editor_late", "editor_doubles", "editor_rejects", "char_limit_short", "focus_theft"}
USUAL = sorted(name for name, nature in NATURES.items() if nature.rate)
pytestmark = pytest.mark.xdist_group("natures")
Open = Callable[..., Page]


@pytest.fixture
def show(browser: Browser, sites: Any) -> Iterator[Open]:
    """Open a site's page under natures; it has none again at the end."""
    page = browser.new_page()
    page.set_default_timeout(LIMIT_MS)
    hosts = []

    def open_page(site: str, *natures: str) -> Page:
        host, path, _ = SITES[site]
        hosts.append(host)
        sites.set_natures(host, natures)
        page.goto(f"https://{host}{path}", wait_until="load", timeout=2 * LIMIT_MS)
        return page

    yield open_page
    page.close()
    for host in hosts:
        sites.set_natures(host, ())


def write(page: Page, site: str, text: str = TEXT) -> None:
    """Put a text into the editor, whatever lies above it."""
    box = page.locator(SITES[site][2])
    box.wait_for()
    box.focus()
    page.keyboard.insert_text(text)


def survey(page: Page, site: str, text: str = TEXT) -> dict[str, Any]:
    """What really stands on the page, once nothing is to change any more."""
    path = None if site == "x" else SITES[site][2]
    call = f"{SURVEY.rstrip()}({json.dumps(text)}, {json.dumps(path)})"
    page.wait_for_function("() => !globalThis.natures?.isOwing()", timeout=LIMIT_MS)
    found: dict[str, Any] = json.loads(page.evaluate(call))
    assert not found["owing"]
    return found


@pytest.mark.parametrize("site", sorted(SITES))
@pytest.mark.parametrize(
    ("nature", "seen"),
    [
        ("cookie_banner", "[role=dialog] button:text-is('Accept all')"),
        ("header_login", ".login-bar input[type=password]"),
        ("newsletter", "input[type=email]"),
        ("second_composer", "[role=textbox][aria-label='Write a reply']"),
        ("dm_trap", "[role=textbox][aria-label=Message]"),
        ("infinite_feed", "#natures-feed article >> nth=0"),
        ("ad_frames", "#natures-ads iframe >> nth=99"),
    ],
)
def test_what_stands_around_the_editor_is_there_and_holds_nothing(
    show: Open, site: str, nature: str, seen: str
) -> None:
    page = show(site, nature)
    expect(page.locator(seen)).to_be_attached(timeout=LIMIT_MS)
    write(page, site)
    found = survey(page, site)
    assert (found["intended"], found["elsewhere"]) == (1, 0)


@pytest.mark.parametrize("site", sorted(SITES))
def test_a_text_in_a_box_that_was_not_meant_is_elsewhere(show: Open, site: str) -> None:
    page = show(site, "second_composer", "dm_trap")
    for box in ("Write a reply", "Message"):
        page.get_by_role("textbox", name=box, exact=True).focus()
        page.keyboard.insert_text(TEXT)
    found = survey(page, site)
    assert (found["intended"], found["elsewhere"]) == (0, 2)


def test_a_consent_dialog_covers_the_lower_half_until_it_is_answered(show: Open) -> None:
    page = show("x", "cookie_banner")
    banner = page.get_by_role("dialog", name="Cookie consent")
    box, window = banner.bounding_box(), page.viewport_size
    assert box is not None
    assert window is not None
    assert (round(box["height"]), round(box["y"] + box["height"])) == (window["height"] // 2, window["height"])
    banner.get_by_role("button", name="Manage").click()
    banner.get_by_role("button", name="Confirm choices").click()
    expect(banner).to_have_count(0)


@pytest.mark.parametrize("site", sorted(SITES))
def test_nothing_is_seen_at_first_of_a_page_that_mounts_late(show: Open, site: str) -> None:
    page = show(site, "late_mount")
    seen_ms = page.evaluate(
        """(path) => new Promise((resolve) => {
          const look = () => {
            const box = document.querySelector(path);
            if (box && getComputedStyle(box).visibility === "visible") resolve(performance.now());
            else setTimeout(look, 10);
          };
          look();
        })""",
        SITES[site][2],
    )
    loaded_ms = page.evaluate("performance.getEntriesByType('navigation')[0].loadEventStart")
    assert seen_ms - loaded_ms >= 790


@pytest.mark.parametrize("site", sorted(SITES))
def test_the_focus_goes_to_the_search_box_once(show: Open, site: str) -> None:
    page = show(site, "focus_theft")
    write(page, site)
    page.wait_for_function("() => document.activeElement?.type === 'search'", timeout=LIMIT_MS)
    write(page, site, " and more")
    assert survey(page, site)["elsewhere"] == 0
    assert page.evaluate("document.activeElement.type") != "search"


@pytest.mark.parametrize("site", sorted(SITES))
def test_drafts_are_kept_and_the_page_says_so(show: Open, site: str, sites: Any) -> None:
    page = show(site, "autosave", "char_limit")
    write(page, site)
    expect(page.get_by_role("status")).to_have_text("Saved", timeout=LIMIT_MS)
    assert {"text": TEXT} in sites.drafts(SITES[site][0])
    expect(page.locator("#natures-count")).to_have_text(f"{len(TEXT)}/280")


@pytest.mark.parametrize("site", sorted(SITES))
@pytest.mark.parametrize(
    ("nature", "text", "held"),
    [
        ("char_limit", "a" * 300, "a" * 280),
        ("char_limit_short", TEXT, TEXT[:20]),
        ("smart_quotes", 'it\'s "so" said', "it\u2019s \u201cso\u201d said"),
    ],
)
def test_a_text_is_cut_or_curled_in_the_editors_own_state(
    show: Open, site: str, nature: str, text: str, held: str
) -> None:
    page = show(site, nature)
    write(page, site, text)
    page.wait_for_function(
        "([path, held]) => { const box = document.querySelector(path); return (box.value ?? box.innerText) === held; }",
        arg=[SITES[site][2], held],
        timeout=LIMIT_MS,
    )
    assert survey(page, site, held)["intended"] == 1


@pytest.mark.parametrize("site", sorted(SITES))
def test_a_page_that_was_written_in_asks_before_it_is_left(show: Open, site: str) -> None:
    page = show(site, "beforeunload")
    asked: list[str] = []

    def accept(dialog: Dialog) -> None:
        asked.append(dialog.type)
        dialog.accept()

    page.on("dialog", accept)
    page.locator(SITES[site][2]).click()
    write(page, site)
    page.reload()
    assert asked == ["beforeunload"]


def test_a_worker_answers_from_the_network_and_goes_with_the_nature(show: Open, sites: Any) -> None:
    page = show("x", "service_worker")
    page.wait_for_function("() => navigator.serviceWorker.controller !== null", timeout=LIMIT_MS)
    page.reload()
    write(page, "x")
    assert survey(page, "x")["intended"] == 1
    sites.set_natures("x.com", ())
    page.evaluate("navigator.serviceWorker.getRegistration().then((one) => one.update())")
    page.wait_for_function("() => navigator.serviceWorker.getRegistration().then((one) => !one)", timeout=LIMIT_MS)


@pytest.mark.parametrize("site", sorted(SITES))
def test_the_first_page_is_reached_over_a_subdomain_and_late(show: Open, site: str) -> None:
    page = show(site, "redirect_chain", "slow_network")
    host, path, _ = SITES[site]
    assert page.url == f"https://{host}{path}"
    timing = page.evaluate(
        "(({redirectCount, duration}) => ({redirectCount, duration}))(performance.getEntriesByType('navigation')[0])"
    )
    assert timing["duration"] >= 150


@pytest.mark.parametrize("site", sorted(SITES))
def test_nothing_can_be_submitted_before_the_rules_are_agreed_to(show: Open, site: str) -> None:
    page = show(site, "submit_disabled")
    if site == "reddit":
        page.locator("input[name=title]").fill("A title")
    write(page, site)
    submit = page.get_by_role("button", name="Post", exact=True)
    expect(submit).to_be_disabled(timeout=LIMIT_MS)
    page.get_by_role("checkbox").check()
    expect(submit).to_be_enabled(timeout=LIMIT_MS)


def _sets() -> list[tuple[str, ...]]:
    """All of them, and sets drawn by a seed."""
    chance = random.Random(7)
    harmless = [name for name in USUAL if name not in SPOILING]
    return [tuple(USUAL), tuple(harmless), *(tuple(chance.sample(USUAL, 7)) for _ in range(4))]


@pytest.mark.parametrize("natures", _sets())
@pytest.mark.parametrize("site", sorted(SITES))
def test_under_any_set_the_page_loads_and_the_survey_says_what_it_holds(
    show: Open, site: str, natures: tuple[str, ...]
) -> None:
    page = show(site, *natures)
    page.locator(SITES[site][2]).wait_for(timeout=LIMIT_MS)
    if "editor_old_text" in natures:
        page.locator(SITES[site][2]).focus()
        page.keyboard.press("ControlOrMeta+A")
    write(page, site)
    found = survey(page, site)
    held = page.evaluate(
        "(path) => { const box = document.querySelector(path); return (box.value ?? box.innerText).trim(); }",
        SITES[site][2],
    )
    assert found["intended"] == (held == TEXT)
    assert found["elsewhere"] == 0
    if not SPOILING.intersection(natures):
        assert held == TEXT
    if "editor_rejects" in natures:
        assert TEXT not in held
