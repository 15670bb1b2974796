"""Each browser action against a real page, its reply in the words and shapes of the protocol."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest

Open = Callable[[str], str]


def test_navigate_goes_there_and_names_the_url_it_was_asked_for(backend: Any, open_card: Open) -> None:
    card = open_card("nothing.html")
    reply = backend.do(card, "navigate", url="http://pages.test/rich.html")
    assert reply["text"] == "Navigated to http://pages.test/rich.html"
    assert reply["url"] == "http://pages.test/rich.html"
    assert backend.do(card, "evaluate", expression="location.href")["text"] == "http://pages.test/rich.html"


def test_navigate_without_url_is_refused(backend: Any, open_card: Open) -> None:
    assert backend.do(open_card("nothing.html"), "navigate")["error"] == "url parameter is required"


def test_navigate_to_a_refused_connection_is_an_error(backend: Any, open_card: Open, free_port: Any) -> None:
    reply = backend.do(open_card("nothing.html"), "navigate", url=f"http://127.0.0.1:{free_port()}/")
    assert reply["error"].startswith("Browser command failed: ")
    assert "ERR_CONNECTION_REFUSED" in reply["error"]


def test_navigate_leaves_a_page_that_asks_to_stay_and_no_question_holds_anything_up(
    backend: Any, open_card: Open
) -> None:
    card = open_card("leaving.html")
    backend.do(card, "list_interactives")
    assert "error" not in backend.do(card, "click_index", index=1, text="unsaved")
    assert backend.do(card, "evaluate", expression="String(confirm('Really?'))")["text"] == "false"
    assert "error" not in backend.do(card, "navigate", url="http://pages.test/rich.html")
    assert backend.do(card, "evaluate", expression="location.href")["text"] == "http://pages.test/rich.html"


def test_navigate_to_json_shows_the_document(backend: Any, open_card: Open) -> None:
    reply = backend.do(open_card("nothing.html"), "navigate", url="http://pages.test/data.json")
    assert reply["data_document"] is True
    assert '{"answer": 42}' in reply["text"]


def test_get_text_reads_text_address_and_title(backend: Any, open_card: Open) -> None:
    reply = backend.do(open_card("rich.html"), "get_text")
    assert reply["text"] == "Write\nprobe text\nPost"
    assert (reply["url"], reply["title"]) == ("http://pages.test/rich.html", "Contenteditable composer")
    assert reply["routes_available"] == 0
    assert reply.keys() == {"request_id", "text", "url", "title", "routes_available", "gate_ms", "total_ms"}


def test_get_text_is_clamped(backend: Any, open_card: Open) -> None:
    card = open_card("nothing.html")
    backend.do(card, "evaluate", expression="document.body.textContent = 'x'.repeat(50000)")
    assert len(backend.do(card, "get_text", max_chars=5)["text"]) == 1000
    assert len(backend.do(card, "get_text")["text"]) == 15000
    assert len(backend.do(card, "get_text", max_chars=10**9)["text"]) == 30000


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("'as it is'", "as it is"),
        ("1 + 1", "2"),
        ("({u: [1, {}], s: 'é'})", '{\n  "u": [\n    1,\n    {}\n  ],\n  "s": "é"\n}'),
        ("null", "null"),
        ("undefined", "undefined"),
        ("Promise.resolve('later')", "later"),
        ("'\\ud83d'", "\ud83d"),
    ],
)
def test_evaluate_gives_text_as_it_is_and_all_else_as_json(
    backend: Any, open_card: Open, expression: str, text: str
) -> None:
    assert backend.do(open_card("nothing.html"), "evaluate", expression=expression)["text"] == text


def test_evaluate_tells_what_was_thrown(backend: Any, open_card: Open) -> None:
    card = open_card("nothing.html")
    reply = backend.do(card, "evaluate", expression="throw new Error('boom')")
    assert reply["error"] == "JS evaluation error: Error: boom\n    at <anonymous>:1:7"
    assert backend.do(card, "evaluate", expression="throw 'text'")["error"] == "JS evaluation error: text"
    assert backend.do(card, "evaluate")["error"] == "expression parameter is required"


def test_listing_is_the_recorded_one(backend: Any, open_card: Open) -> None:
    card = open_card("rich.html")
    backend.do(card, "evaluate", expression="document.querySelector('[contenteditable]').textContent = ''")
    reply = backend.do(card, "list_interactives", docOrder=True)
    assert reply["text"] == (
        "2 interactive elements (* = new since your last look; same number = same element as before):\n"
        '[1]<textbox "Post text">\n[2]<button "Post">'
    )
    assert reply["elements"] == [
        {"index": 1, "role": "textbox", "name": "Post text"},
        {"index": 2, "role": "button", "name": "Post"},
    ]
    assert reply["url"] == "http://pages.test/rich.html"


def test_listing_of_nothing_says_so(backend: Any, open_card: Open) -> None:
    reply = backend.do(open_card("nothing.html"), "list_interactives")
    assert reply["text"] == "No interactive elements found on this page."
    assert reply["elements"] == []


def test_fill_replaces_what_was_there_and_the_next_listing_shows_it(backend: Any, open_card: Open) -> None:
    card = open_card("rich.html")
    backend.do(card, "list_interactives")
    reply = backend.do(card, "click_index", index=1, text="hello there")
    assert reply["text"] == (
        'Focused index 1 and typed the text in. Verified: the box now contains "hello there". Do NOT type it again.'
    )
    assert (reply["clickedRole"], reply["clickedName"]) == ("textbox", "Post text")
    assert '[1]<textbox "Post text" value="hello there">' in backend.do(card, "list_interactives")["text"]


def test_new_elements_are_starred_and_known_ones_keep_their_number(backend: Any, open_card: Open) -> None:
    card = open_card("lazy.html")
    assert backend.do(card, "list_interactives")["text"].endswith('\n[1]<button "Start a post">')
    backend.do(card, "click_index", index=1)
    backend.do(card, "wait", milliseconds=2000, until="Post")
    backend.do(card, "evaluate", expression="new Promise(r => setTimeout(r, 120))")
    text = backend.do(card, "list_interactives")["text"]
    assert '[2]*<textbox "Write something">' in text
    assert '[3]*<button "Post">' in text
    assert "Start a post" not in text, "the dialog covers it"


def test_another_page_is_numbered_from_one_without_stars(backend: Any, open_card: Open) -> None:
    card = open_card("lazy.html")
    backend.do(card, "list_interactives")
    backend.do(card, "navigate", url="http://pages.test/textarea.html")
    assert backend.do(card, "list_interactives")["text"].endswith('\n[1]<textbox "Write a post">\n[2]<button "Post">')


def test_listing_shows_only_what_a_person_could_use(backend: Any, open_card: Open) -> None:
    text = backend.do(open_card("crowd.html"), "list_interactives")["text"]
    assert "Under the veil" not in text
    assert "Nothing" not in text
    assert '<textbox "Secret">' in text, "a password's value is never shown"
    assert "<textbox \"Say 'it'\" value=\"a 'quoted' value\">" in text
    assert '<button "Like" ctx="First story">' in text
    assert '<button "Like" ctx="Second story">' in text
    assert '<checkbox "Agree">' in text, "its label stands for it"
    assert '<button "Below the fold">' in text


def test_listing_keeps_sixty_rows_and_inputs_first(backend: Any, open_card: Open) -> None:
    reply = backend.do(open_card("many.html"), "list_interactives", goal="press button 97 please")
    assert len(reply["elements"]) == 60
    assert reply["elements"][-1]["name"] == "Last input"
    assert reply["elements"][0]["name"] == "Button 0"


def test_listing_and_clicks_reach_into_frames_of_any_process(backend: Any, open_card: Open) -> None:
    card = open_card("frames.html")

    def rows() -> dict[str, int]:
        elements = backend.do(card, "list_interactives")["elements"]
        return {element["name"]: element["index"] for element in elements}

    while len(found := rows()) < 4:
        pass
    assert set(found) == {"Write same", "Post same", "Write nested", "Post nested"}
    for place in ("same", "nested"):
        reply = backend.do(card, "click_index", index=found[f"Write {place}"], text=f"into {place}")
        assert f'contains "into {place}"' in reply["text"]
        assert backend.do(card, "click_index", index=found[f"Post {place}"])["clickLanded"] is True
    text = backend.do(card, "list_interactives")["text"]
    for place in ("same", "nested"):
        assert f'<textbox "Write {place}" value="into {place}">' in text
        assert f'<button "Post {place} clicked">' in text


def test_click_tells_where_it_landed(backend: Any, open_card: Open) -> None:
    card = open_card("lazy.html")
    backend.do(card, "list_interactives")
    reply = backend.do(card, "click_index", index=1)
    assert (reply["clickedRole"], reply["clickedName"]) == ("button", "Start a post")
    assert reply["clickLanded"] is True
    assert reply["clickHit"] == 'button "Start a post"'
    assert 0 < reply["clickX"] < 20
    assert 0 < reply["clickY"] < 20


def test_an_unknown_index_is_refused_in_the_recorded_words(backend: Any, open_card: Open) -> None:
    assert backend.do(open_card("rich.html"), "click_index", index=99)["error"] == (
        "Index 99 is not in the cached element map. Call BrowserListInteractives first to refresh the index, "
        "then try again."
    )


def test_an_element_that_left_is_no_longer_valid_or_is_found_again(backend: Any, open_card: Open) -> None:
    card = open_card("textarea.html")
    backend.do(card, "list_interactives")
    backend.do(card, "evaluate", expression="document.querySelector('form').innerHTML += ''")
    assert "Index 1 is no longer valid (" in backend.do(card, "click_index", index=1, text="x")["error"]
    reply = backend.do(card, "click_index", index=1, text="healed", selfheal=True)
    assert reply["selfHealed"] is True
    assert 'contains "healed"' in reply["text"]


def test_a_rejecting_editor_is_told_in_the_recorded_words(backend: Any, open_card: Open) -> None:
    card = open_card("reject.html")
    backend.do(card, "list_interactives")
    assert backend.do(card, "click_index", index=1, text="hello")["error"] == (
        "Focused index 1 but the text did not register even as real keystrokes; the box may be a custom editor "
        "that rejects automation. Try a different element."
    )


def test_an_editor_that_hears_only_keys_is_filled_by_keys(backend: Any, open_card: Open) -> None:
    card = open_card("keys.html")
    backend.do(card, "list_interactives")
    assert 'contains "by keys"' in backend.do(card, "click_index", index=1, text="by keys")["text"]
    found = backend.do(card, "find_composer", fill="again")
    assert found["filled"] is False or found["fillMode"] == "keystroke"


def test_several_lines_stay_several_lines(backend: Any, open_card: Open) -> None:
    for page in ("textarea.html", "rich.html"):
        card = open_card(page)
        backend.do(card, "list_interactives")
        assert "error" not in backend.do(card, "click_index", index=1, text="one\ntwo")
        box = "document.querySelector('textarea,[contenteditable]')"
        expression = f"({box}.value ?? {box}.innerText).trim()"
        assert backend.do(card, "evaluate", expression=expression)["text"] == "one\ntwo"


def test_a_filled_title_enables_the_disabled_submit(backend: Any, open_card: Open) -> None:
    card = open_card("disabled.html")
    backend.do(card, "list_interactives")
    backend.do(card, "click_index", index=1, text="A title")
    disabled = backend.do(card, "evaluate", expression="document.querySelector('button').disabled")
    assert disabled["text"] == "false"


def test_click_by_name_finds_the_element_or_says_which_is_missing(backend: Any, open_card: Open) -> None:
    card = open_card("lazy.html")
    assert backend.do(card, "click_by_name", name="Start a post", role="button")["clickLanded"] is True
    assert backend.do(card, "click_by_name", name="Send", role="link")["error"] == (
        'No element matching role="link" name="Send" on this page.'
    )


def test_click_and_type_by_selector(backend: Any, open_card: Open) -> None:
    card = open_card("shadow.html")
    assert backend.do(card, "type", selector="#box", text="in the shadow")["committed"] is True
    reply = backend.do(card, "click", selector="#box")
    assert 0 < reply["clickX"] < 1
    assert 0 < reply["clickY"] < 1
    assert backend.do(card, "click", selector="#none")["error"] == "Element not found: #none"
    assert backend.do(card, "type", selector="][", text="x")["error"] == "Element not found: ]["


def test_click_point_clicks_at_per_cent_of_the_viewport(backend: Any, open_card: Open) -> None:
    card = open_card("nothing.html")
    backend.do(card, "evaluate", expression="document.onclick = e => { document.title = `${e.clientX},${e.clientY}` }")
    reply = backend.do(card, "click_point", xPercent=25, yPercent=50)
    assert (reply["clickX"], reply["clickY"]) == (25, 50)
    assert backend.do(card, "get_text")["title"] == "320,400"
    backend.do(card, "click_point", xPercent=1, yPercent=1, hoverOnly=True)
    assert backend.do(card, "get_text")["title"] == "320,400"


def test_press_key_types_where_the_focus_is(backend: Any, open_card: Open) -> None:
    card = open_card("textarea.html")
    backend.do(card, "click", selector="textarea")
    assert backend.do(card, "press_key", key="a")["text"] == "Pressed a"
    assert backend.do(card, "evaluate", expression="document.querySelector('textarea').value")["text"] == "a"
    assert backend.do(card, "press_key", key="NoSuchKey")["error"].startswith("Browser command failed: ")


def test_scroll_tells_how_far_it_came(backend: Any, open_card: Open) -> None:
    card = open_card("crowd.html")
    down = backend.do(card, "scroll", direction="down", amount=400)
    assert (down["scrolled"], down["scrollTop"], down["atTop"], down["target"]) == (True, 400, False, "page")
    assert backend.do(card, "scroll", direction="down", amount=10**6)["atBottom"] is True
    up = backend.do(card, "scroll", direction="up", amount=10**6)
    assert (up["atTop"], up["scrolled"]) == (True, True)
    assert backend.do(card, "scroll", direction="up")["scrolled"] is False
    assert "direction" in backend.do(card, "scroll", direction="sideways")["error"]


def test_wait_ends_when_the_text_appears(backend: Any, open_card: Open) -> None:
    card = open_card("nothing.html")
    backend.do(card, "evaluate", expression="void setTimeout(() => { document.body.textContent = 'Here it is' }, 200)")
    reply = backend.do(card, "wait", milliseconds=9000, until="Here it is")
    assert reply["total_ms"] < 8000
    assert reply["title"] == "Nothing"
    assert backend.do(card, "wait", milliseconds=1)["total_ms"] >= 100


def test_screenshot_is_a_png_of_the_viewport(backend: Any, open_card: Open) -> None:
    reply = backend.do(open_card("rich.html"), "screenshot")
    image = base64.b64decode(reply["image"])
    assert image.startswith(b"\x89PNG")
    assert (int.from_bytes(image[16:20], "big"), int.from_bytes(image[20:24], "big")) == (1280, 800)
    assert (reply["url"], reply["title"]) == ("http://pages.test/rich.html", "Contenteditable composer")


def test_find_composer_is_the_recorded_reply(backend: Any, open_card: Open) -> None:
    reply = backend.do(open_card("rich.html"), "find_composer", fill="probe coverage alpha")
    for name in ("request_id", "gate_ms", "total_ms"):
        reply.pop(name)
    assert reply == {
        "found": True,
        "selector": '[data-osw-composer="1"]',
        "tag": "div",
        "role": "contenteditable",
        "score": 7,
        "nearSubmit": True,
        "filled": True,
        "reveals": [],
    }


@pytest.mark.parametrize(
    ("page", "role"),
    [
        ("textarea.html", "textarea"),
        ("shadow.html", "contenteditable"),
        ("disabled.html", "textarea"),
        ("tiny.html", "textarea"),
        ("editcontext.html", "editcontext"),
        ("strict.html", "textarea"),
    ],
)
def test_find_composer_fills_every_kind_of_editor(backend: Any, open_card: Open, page: str, role: str) -> None:
    card = open_card(page)
    reply = backend.do(card, "find_composer", fill="probe coverage alpha")
    assert (reply["found"], reply["role"], reply["filled"]) == (True, role, True)
    shown = "document.body.innerText + [...document.querySelectorAll('textarea')].map(t => t.value).join()"
    if page != "shadow.html":
        assert "probe coverage alpha" in backend.do(card, "evaluate", expression=shown)["text"]


def test_find_composer_passes_over_decoys_and_prefers_the_public_box(backend: Any, open_card: Open) -> None:
    card = open_card("decoys.html")
    assert backend.do(card, "find_composer")["found"] is True
    chosen = "document.querySelector('[data-osw-composer]').placeholder"
    assert backend.do(card, "evaluate", expression=chosen)["text"] == "Add a comment…"


def test_find_composer_of_nothing_is_an_answer(backend: Any, open_card: Open) -> None:
    reply = backend.do(open_card("nothing.html"), "find_composer", fill="x", reveal=True)
    assert (reply["found"], reply["reveals"]) == (False, [])
    assert "error" not in reply


@pytest.mark.parametrize(
    ("page", "reveals"),
    [("lazy.html", ["trigger"]), ("scrolled.html", ["scroll"]), ("asleep.html", ["activate"])],
)
def test_find_composer_brings_hidden_ones_out(backend: Any, open_card: Open, page: str, reveals: list[str]) -> None:
    card = open_card(page)
    assert backend.do(card, "find_composer", fill="x")["found"] is False
    reply = backend.do(card, "find_composer", fill="out of hiding", reveal=True)
    assert (reply["found"], reply["filled"], reply["reveals"]) == (True, True, reveals)


@pytest.mark.parametrize("page", ["framebody.html", "designmode.html"])
def test_find_composer_fills_a_frame_whose_body_is_the_editor(backend: Any, open_card: Open, page: str) -> None:
    card = open_card(page)
    reply = backend.do(card, "find_composer", fill="in the body")
    assert (reply["found"], reply["filled"]) == (True, True)
    inner = "document.querySelector('iframe').contentDocument.body.innerText.trim()"
    assert backend.do(card, "evaluate", expression=inner)["text"] == "in the body"


def test_what_lies_in_a_covered_frame_is_not_listed(backend: Any, open_card: Open) -> None:
    card = open_card("veiledframe.html")
    ready = "new Promise(done => document.readyState === 'complete' ? done() : addEventListener('load', done))"
    backend.do(card, "evaluate", expression=ready)
    assert [row["name"] for row in backend.do(card, "list_interactives")["elements"]] == ["In front"]


def test_a_window_that_a_card_opens_closes_with_it(backend: Any, open_card: Open, pages: int) -> None:
    page = f"http://127.0.0.1:{pages}/nothing.html"
    watcher, card = open_card(page), open_card(page)
    count = "navigator.locks.query().then(all => all.held.length)"
    hold = "this.navigator.locks.request('popup', () => new Promise(() => {}))"
    opening = f"void (open('nothing.html').onload = function () {{ {hold} }})"
    backend.do(card, "evaluate", expression=opening)
    while backend.do(watcher, "evaluate", expression=count)["text"] != "1":
        pass
    backend.drop_card(card)
    while backend.do(watcher, "evaluate", expression=count)["text"] != "0":
        pass


def test_find_composer_names_the_frame_it_is_in(backend: Any, open_card: Open) -> None:
    card = open_card("http://elsewhere.test/outer.html")
    while not (reply := backend.do(card, "find_composer", fill="in a frame"))["found"]:
        pass
    assert reply["filled"] is True
    assert reply["frameUrl"] == "http://elsewhere.test/inner.html?nested"
    assert reply["frameSessionId"]


def test_every_reply_has_its_times_as_numbers(backend: Any, open_card: Open) -> None:
    card = open_card("rich.html")
    for action in ("get_text", "list_interactives", "frobnicate", "screenshot"):
        reply = json.loads(json.dumps(backend.do(card, action)))
        assert isinstance(reply["gate_ms"], int)
        assert isinstance(reply["total_ms"], int)
        assert 0 <= reply["gate_ms"] <= reply["total_ms"]


def test_an_unknown_action_is_named(backend: Any, open_card: Open) -> None:
    assert backend.do(open_card("nothing.html"), "frobnicate")["error"] == "Unknown browser action: frobnicate"
