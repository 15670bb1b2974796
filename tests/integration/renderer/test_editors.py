"""The editors that real sites use, filled through the listing and through the structural finder."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest

Open = Callable[[str], str]
Wait = Callable[..., Any]

PROBE = "probe k3f9x coverage alpha"
BUNDLED = ["monaco", "ace", "tinymce", "quill", "draft", "lexical"]
# TinyMCE's body and an element without a role are no textboxes to the browser: only the structural finder sees them.
LISTED = ["monaco", "ace", "quill", "draft"]


def read_editor(backend: Any, card: str) -> str:
    """What the editor itself says that it holds."""
    return str(backend.do(card, "evaluate", expression="String(window.text).trim()")["text"])


def list_boxes(backend: Any, card: str) -> list[dict[str, Any]]:
    rows = backend.do(card, "list_interactives")["elements"]
    return [row for row in rows if row["role"] in {"textbox", "combobox", "searchbox"}]


def open_editor(backend: Any, open_card: Open, wait_until: Wait, page: str) -> str:
    card = open_card(f"{page}.html")
    mounted = "Boolean(window.editor || document.querySelector('#place [role=textbox]'))"
    wait_until(lambda: backend.do(card, "evaluate", expression=mounted)["text"] == "true", "the editor", 20)
    return card


@pytest.mark.parametrize("page", BUNDLED)
def test_a_real_editor_is_found_and_filled_once(backend: Any, open_card: Open, wait_until: Wait, page: str) -> None:
    card = open_editor(backend, open_card, wait_until, page)
    for text in (PROBE, "another text"):
        reply = backend.do(card, "find_composer", fill=text)
        assert (reply["found"], reply["filled"]) == (True, True), reply
        assert read_editor(backend, card) == text, "the editor's own model holds it, and nothing of the one before"


@pytest.mark.parametrize("page", LISTED)
def test_a_real_editor_is_listed_filled_and_listed_with_its_value(
    backend: Any, open_card: Open, wait_until: Wait, page: str
) -> None:
    card = open_editor(backend, open_card, wait_until, page)
    if page in {"monaco", "ace"}:
        assert list_boxes(backend, card) == [], "a surface of no size that nobody uses is no row"
        backend.do(card, "click", selector="#place")
    box = list_boxes(backend, card)[0]
    for text in (PROBE, "another text"):
        reply = backend.do(card, "click_index", index=box["index"], text=text)
        assert f'contains "{text}"' in reply.get("text", ""), reply
        assert read_editor(backend, card) == text
        listing = backend.do(card, "list_interactives")["text"]
        # ACE calls its surface after the row that the cursor is in.
        row = next(line for line in listing.splitlines() if line.startswith(f"[{box['index']}]<"))
        assert row.endswith(f' value="{text}">')


@pytest.mark.parametrize("origin", ["http://pages.test", "http://elsewhere.test"])
@pytest.mark.parametrize("page", ["monaco", "ace", "tinymce", "quill", "nestedshadow"])
def test_editors_in_frames_of_any_origin_are_filled(
    backend: Any, open_card: Open, wait_until: Wait, origin: str, page: str
) -> None:
    card = open_card(f"framed.html?{quote(f'{origin}/framed.html?{origin}/{page}.html', safe='')}")
    replies: list[dict[str, Any]] = []

    def fill() -> bool:
        replies.append(backend.do(card, "find_composer", fill=PROBE))
        is_filled = replies[-1].get("filled") is True
        # Until TinyMCE is there, its page has a plain textarea instead, and nothing for a moment between the two.
        return is_filled and (page != "tinymce" or str(replies[-1]["tag"]).lower() != "textarea")

    wait_until(fill, "the editor in the frames", 30)
    assert replies[-1]["frameSessionId"]
    if page != "tinymce":
        assert f'value="{PROBE}"' in backend.do(card, "list_interactives")["text"]


def test_nested_open_shadow_roots_are_filled_and_listed(backend: Any, open_card: Open) -> None:
    card = open_card("nestedshadow.html")
    assert backend.do(card, "find_composer", fill=PROBE)["filled"] is True
    listing = backend.do(card, "list_interactives")["text"]
    assert f'[1]<textbox "Write a post" value="{PROBE}">' in listing
    assert "error" not in backend.do(card, "click_index", index=1, text="by index")
    assert 'value="by index"' in backend.do(card, "list_interactives")["text"]


def test_a_field_that_a_library_left_behind_undrawn_is_no_composer(backend: Any, open_card: Open) -> None:
    card = open_card("lefteditors.html")
    reply = backend.do(card, "find_composer", fill=PROBE)
    assert (reply["tag"], reply["filled"]) == ("div", True)
    assert backend.do(card, "evaluate", expression="left.value + '|' + box.innerText")["text"] == f"|{PROBE}"


def test_words_of_a_goal_decide_between_two_boxes_and_the_name_is_told(backend: Any, open_card: Open) -> None:
    card = open_card("twoboxes.html")
    for goal, name in (("test string", "second"), ("regular expression", "first")):
        reply = backend.do(card, "find_composer", fill=goal, goal=goal)
        assert (reply["filled"], "name" in reply) == (True, True)
        assert backend.do(card, "evaluate", expression=f"{name}.innerText")["text"] == goal
    assert "name" not in backend.do(card, "find_composer")
