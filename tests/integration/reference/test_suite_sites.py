"""A site for every task of every suite: it answers where the task enters, and each judges what stands on its page."""

from __future__ import annotations

import json
import re
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, FrameLocator, Locator, Page

from infra.reference.sites.catalogue import Site, find_site, load_sites
from infra.reference.truth import SURVEY

TEXT = "probe k3f9x coverage alpha"
LIMIT_S = 60.0
#: A page with no more characters than these counts as one that is not there yet.
MOUNTED_CHARS = 200
SUITES = Path(__file__).parents[3] / "broker" / "suites"
EDITABLE = "textarea, input:not([type=hidden]), [contenteditable]"
#: More presses than any page has things before its editor.
MOST_TABS = 60
#: Whether the keys go to the intended editor of this document.
HAS_KEYS = """(path) => {
  let own = globalThis.reference?.handle?.element ?? null;
  if (!own && path) {
    own = document;
    for (const part of path.split(" >>> ")) own = own && (own.shadowRoot ?? own).querySelector(part);
  }
  let active = document.activeElement;
  while (active?.shadowRoot?.activeElement) active = active.shadowRoot.activeElement;
  return document.hasFocus() && !!own && own.contains(active);
}"""
Facts = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How a person comes from the entry to the one intended editor of a site, and to a box that is not it."""

    editor: str
    # A box beside it; empty where there is none.
    decoy: str = ""
    # What is pressed, one after the other, before the editor is there.
    opens: tuple[str, ...] = ()
    # What is pressed besides before the decoy is there.
    reveals: tuple[str, ...] = ()
    # The frames that hold editor, decoy, and submit control with what it needs; empty for the page itself.
    frame: str = ""
    decoy_frame: str = ""
    submit_frame: str = ""
    # Fields without which nothing is taken.
    needs: Mapping[str, str] = field(default_factory=dict)
    # The site's own control that takes what was written; empty where a site takes nothing.
    submit: str = ""
    # Whose destination it reaches, if not the entry's.
    host: str = ""


WAYS: dict[str, Way] = {
    # known
    "x": Way(editor="#composer [contenteditable]", submit="#send"),
    "linkedin": Way(editor=".ql-editor", opens=("#open",), decoy="input[type=search]", submit="#send"),
    "reddit": Way(editor="[name=body]", decoy="[name=title]", needs={"[name=title]": "A title"}, submit="#send"),
    "youtube": Way(
        editor="#contenteditable-root",
        opens=("#video-title-link >> nth=0", "#placeholder"),
        decoy="input[aria-label=Search]",
        submit="button:text-is('Comment')",
    ),
    "instagram": Way(
        editor="form.comment textarea",
        opens=("a:text('View this photo') >> nth=0",),
        decoy="form.direct textarea",
        submit="form.comment button",
    ),
    "twitch": Way(editor="#chat-input", opens=("main a >> nth=0",), decoy="input[type=search]", submit="#send"),
    # anon
    "gtranslate": Way(
        editor="textarea.source", decoy="[aria-label='Search languages']", reveals=("#more",), submit="#save"
    ),
    "deepl": Way(editor="tx-area.source > div", decoy="input"),
    "wikisandbox": Way(editor="#editform textarea", decoy="[name=wpSummary]", submit="text=Publish changes"),
    "onlinegdb": Way(editor=".ace_content", decoy="[name=input]", submit="#run"),
    "w3schools": Way(editor=".CodeMirror-lines", frame="[title=Code]", decoy="input[type=search]", submit="#run"),
    "regex101": Way(editor="#text .cm-content", decoy="#expression .cm-content", submit="#save"),
    # holdout
    "bsky": Way(
        editor="[role=dialog] [contenteditable]",
        opens=("[aria-label='Compose new post']",),
        decoy="input[type=search]",
        submit="[aria-label='Publish post']",
    ),
    "rentry": Way(editor="#text .CodeMirror-lines", decoy="[name=url]", submit="[type=submit]"),
    "ckeditor": Way(editor=".ck-content", decoy="aside textarea"),
    "codemirror": Way(
        editor="#HTML .cm-content",
        frame="[title=Editors]",
        decoy="#CSS .cm-content",
        decoy_frame="[title=Editors]",
        submit="#save",
    ),
    "mastodon": Way(editor="form.compose textarea", decoy="input[type=search]", submit="form.compose [type=submit]"),
    "devto": Way(editor="[name=body]", decoy="[name=title]", needs={"[name=title]": "A title"}, submit="#publish"),
    "lobsters": Way(editor="#text", decoy="#title", needs={"#title": "A title"}, submit="input[type=submit]"),
    "pastebin": Way(editor="form.paste textarea", decoy="[name=user]", submit="text=Create New Paste"),
    "discourse": Way(
        editor=".d-editor-input",
        opens=("#create",),
        decoy="#reply-title",
        needs={"#reply-title": "A title"},
        submit="button.create",
    ),
    "controlc": Way(editor="form.paste textarea", decoy="[name=title]", submit="[type=submit]"),
    "justpaste": Way(editor=".page > div", decoy="[name=title]", submit="#publish"),
    "telegraph": Way(editor="#story .ql-editor", decoy="h1", submit="#publish"),
    "disqus": Way(
        editor=".postbox",
        opens=("article a >> nth=0",),
        frame="#disqus_thread iframe",
        submit_frame="#disqus_thread iframe",
        decoy=".subscribe input",
        submit="[type=submit]",
        host="embed.disqus.com",
    ),
    "quill": Way(editor="#editor .ql-editor", decoy="textarea"),
    "tinymce": Way(editor="body#tinymce", frame=".tox iframe", decoy=".newsletter input"),
}


def _read_tasks() -> dict[str, Facts]:
    """Every task of every suite by its site, as the files have them."""
    files = [tomllib.loads(path.read_text()) for path in sorted(SUITES.glob("*.toml"))]
    return {task["site"]: task for file in files for task in file["task"]}


SITES = {site.name: site for site in load_sites()}
TASKS = _read_tasks()
ENTERED = sorted(site for site, task in TASKS.items() if "retired" not in task)
# The ways to the others' editors, and test_shapes.py, begin at their entries.
WALLS = [site for site in ENTERED if SITES[site].truth.not_measurable is not None]
RETIRED = sorted(site for site, task in TASKS.items() if "retired" in task)
TAKING = sorted(site for site, way in WAYS.items() if way.submit)


@pytest.fixture
def enter(browser: Browser) -> Iterator[Callable[[str], Page]]:
    """Open the page that a site's task enters; at the end of the test nothing may have gone wrong on it."""
    pages: list[tuple[Site, Page, list[str], set[str]]] = []

    def open_page(site: str) -> Page:
        page = browser.new_page()
        page.set_default_timeout(LIMIT_S * 1000)
        said: list[str] = []
        asked: set[str] = set()
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
        page.on("request", lambda request: asked.add(urlsplit(request.url).hostname or ""))
        pages.append((SITES[site], page, said, asked))
        answer = page.goto(TASKS[site]["entry"])
        assert answer is not None
        assert answer.status == 200
        return page

    yield open_page
    for site, page, said, asked in pages:
        page.close()
        assert said == []
        assert [host for host in asked if host and not site.owns(host)] == []


def _within(page: Page, frame: str) -> Page | FrameLocator:
    return page.frame_locator(frame) if frame else page


def _come_to_editor(page: Page, way: Way) -> Locator:
    """The intended editor, as a person comes to it."""
    for pressed in way.opens:
        page.locator(pressed).click()
    if way.frame:
        page.locator(way.frame).evaluate_all("(frames) => frames.length")
        page.keyboard.press("End")
    return _within(page, way.frame).locator(way.editor)


def _tab_to(page: Page, site: str, editor: Locator) -> None:
    """Press Tab until the intended editor has the keys, as somebody without a mouse does."""
    frames = {page.main_frame, editor.element_handle().owner_frame()} - {None}
    for _ in range(MOST_TABS):
        if any(frame.evaluate(HAS_KEYS, SITES[site].truth.editor) for frame in frames if frame):
            return
        page.keyboard.press("Tab")
    raise AssertionError("no key leads to the editor")


def _write(page: Page, box: Locator | None = None) -> None:
    """Mark whatever stands in the box, or where the keys go already, and write the text instead."""
    if box:
        box.click()
    page.keyboard.press("ControlOrMeta+A")
    page.keyboard.type(TEXT)


def _survey(page: Page, site: str) -> Facts:
    """What really stands on the page."""
    call = f"{SURVEY.rstrip()}({json.dumps(TEXT)}, {json.dumps(SITES[site].truth.editor)})"
    facts: Facts = json.loads(page.evaluate(call))
    return facts


def _wait_for(page: Page, site: str, *, intended: int, elsewhere: int) -> Facts:
    """What stands on the page as soon as it is this; a frame under load may miss to answer once."""
    end = time.monotonic() + LIMIT_S
    while (facts := _survey(page, site)) and time.monotonic() < end:
        if (facts["intended"], facts["elsewhere"]) == (intended, elsewhere):
            return facts
    raise AssertionError(facts)


def _accepts(site: Site, url: str) -> bool:
    address = urlsplit(url)
    return site.owns(address.hostname or "") and bool(site.truth.surface.search(address.path))


def test_every_folder_belongs_to_a_task_on_its_host_and_every_task_has_a_folder() -> None:
    assert [site for site in SITES if site not in TASKS] == []
    assert sorted(set(TASKS) - set(SITES)) == []
    for name, site in SITES.items():
        host = TASKS[name]["host"]
        assert site.host == host or site.host.endswith(f".{host}")
        assert find_site(urlsplit(TASKS[name]["entry"]).hostname or "") is site


def test_every_site_that_can_be_measured_has_a_way_to_its_editor() -> None:
    # Those of the shapes are one page each, made alike: test_shapes.py has their one way.
    open_sites = {name for name, site in SITES.items() if site.truth.not_measurable is None}
    assert {name for name in open_sites if not name.startswith("shape-")} == set(WAYS)
    assert {SITES[name].truth.bucket for name in open_sites} == {"ok"}


@pytest.mark.parametrize("site", WALLS)
def test_entry_of_a_wall_answers_with_a_page_of_its_own_host_and_enough_text(
    enter: Callable[[str], Page], site: str
) -> None:
    _judge_entry(enter(site), site)


def _judge_entry(page: Page, site: str) -> None:
    assert SITES[site].owns(urlsplit(page.url).hostname or "")
    assert len(page.inner_text("body")) > MOUNTED_CHARS


@pytest.mark.parametrize("site", ENTERED)
def test_surface_of_the_truth_is_the_surface_of_the_task(site: str) -> None:
    task, truth = TASKS[site], SITES[site].truth
    paths = {
        urlsplit(task["entry"]).path,
        "/",
        "/elsewhere",
        "/home",
        "/p/a",
        "/watch",
        "/new",
        "/wiki/Other",
        "/a/b/c",
    }
    rule = re.compile(task["path_rule"])
    judged = {path: bool(rule.search(path)) for path in paths}
    assert {path: bool(truth.surface.search(path)) for path in paths} == judged


@pytest.mark.parametrize("site", RETIRED)
def test_retired_service_says_so_and_offers_nothing_to_write_in(enter: Callable[[str], Page], site: str) -> None:
    page = enter(site)
    assert len(page.inner_text("main")) > MOUNTED_CHARS
    assert page.locator(EDITABLE).count() == 0
    truth = SITES[site].truth
    assert (truth.bucket, truth.not_measurable, truth.editor) == ("not_measurable", "retired", None)


@pytest.mark.parametrize("site", sorted(WAYS))
def test_keys_lead_to_the_intended_editor_whose_text_stands_there_and_nowhere_else(
    enter: Callable[[str], Page], site: str
) -> None:
    page = enter(site)
    _judge_entry(page, site)
    editor = _come_to_editor(page, WAYS[site])
    editor.wait_for()
    assert _survey(page, site)["intended"] == 0
    _tab_to(page, site, editor)
    _write(page)
    facts = _wait_for(page, site, intended=1, elsewhere=0)
    assert _accepts(SITES[site], facts["url"])
    assert re.search(TASKS[site]["path_rule"], urlsplit(facts["url"]).path)
    if WAYS[site].decoy:
        _write_beside(page, site)


def _write_beside(page: Page, site: str) -> None:
    """What is written in the box beside the editor as well stands elsewhere."""
    way = WAYS[site]
    for pressed in way.reveals:
        page.locator(pressed).click()
    _write(page, _within(page, way.decoy_frame).locator(way.decoy))
    _wait_for(page, site, intended=1, elsewhere=1)


def test_frame_that_is_slow_to_give_account_is_waited_for(enter: Callable[[str], Page]) -> None:
    page = enter("disqus")
    _write(page, _come_to_editor(page, WAYS["disqus"]))
    _wait_for(page, "disqus", intended=1, elsewhere=0)
    frame = page.frames[-1]
    assert urlsplit(frame.url).hostname == "embed.disqus.com"
    frame.evaluate("""() => {
      const survey = reference.survey;
      reference.survey = async (...given) => {
        await new Promise((resolve) => setTimeout(resolve, 800));
        return survey(...given);
      };
    }""")
    assert _survey(page, "disqus")["intended"] == 1


def test_a_hundred_ads_come_from_hosts_of_their_own_and_what_is_written_into_one_stands_elsewhere(
    enter: Callable[[str], Page],
) -> None:
    page = enter("onlinegdb")
    ads = [frame for frame in page.frames if (urlsplit(frame.url).hostname or "").endswith(".ad-network.test")]
    assert (len(ads), len({urlsplit(frame.url).hostname for frame in ads})) == (100, 20)
    _write(page, page.frame_locator("iframe.wide >> nth=0").locator("input"))
    _wait_for(page, "onlinegdb", intended=0, elsewhere=1)


@pytest.mark.parametrize("site", TAKING)
def test_what_is_submitted_comes_to_the_site_itself(enter: Callable[[str], Page], sites: Any, site: str) -> None:
    way, page = WAYS[site], enter(site)
    editor = _come_to_editor(page, way)
    place = _within(page, way.submit_frame)
    _write(page, editor)
    for selector, text in way.needs.items():
        place.locator(selector).fill(text)
    host = way.host or urlsplit(page.url).hostname
    before = len(sites.posts(host))
    with page.expect_response("**/reference/posts") as answer:
        place.locator(way.submit).click()
    assert answer.value.status == 201
    (post,) = sites.posts(host)[before:]
    assert TEXT in {post.get("text"), post.get("body")}
