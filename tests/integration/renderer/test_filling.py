"""A fill whose text stands there once is a fill, whatever else the editor shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Open = Callable[[str], str]

ADDITIONS = ["chip", "counter", "ghost", "brackets", "wordjoiner", "mark", "numbers"]
TEXTS = ("probe (k3f9x coverage alpha", "another text (m8")


def read_written(backend: Any, card: str) -> str:
    """What stands in the editor besides what the page put there."""
    return str(backend.do(card, "evaluate", expression="read().replace(/\\s+/g, ' ').trim()")["text"])


@pytest.mark.parametrize("kind", ADDITIONS)
def test_an_editor_that_shows_more_than_the_text_is_filled_and_keeps_it(
    backend: Any, open_card: Open, kind: str
) -> None:
    card = open_card(f"additions.html?{kind}")
    for text in TEXTS:
        reply = backend.do(card, "find_composer", fill=text)
        assert (reply["found"], reply["filled"]) == (True, True), reply
        assert read_written(backend, card) == text, "it stands there, and nothing of the one before"


@pytest.mark.parametrize("kind", [kind for kind in ADDITIONS if kind != "numbers"])
def test_click_index_fills_an_editor_that_shows_more_than_the_text(backend: Any, open_card: Open, kind: str) -> None:
    card = open_card(f"additions.html?{kind}")
    backend.do(card, "list_interactives")
    for text in TEXTS:
        reply = backend.do(card, "click_index", index=1, text=text)
        assert f"{text}" in reply.get("text", ""), reply
        assert read_written(backend, card) == text


def test_several_lines_between_line_numbers_are_read_as_the_text(backend: Any, open_card: Open) -> None:
    card = open_card("additions.html?numbers")
    for text in ("first\nsecond (a\n\nfourth", "one\ntwo"):
        assert backend.do(card, "find_composer", fill=text)["filled"] is True
        assert backend.do(card, "evaluate", expression="read()")["text"] == text


def test_a_page_that_uses_our_names_is_acted_on(backend: Any, open_card: Open) -> None:
    card = open_card("clobbered.html")
    rows = {row["name"]: row["index"] for row in backend.do(card, "list_interactives")["elements"]}
    assert 'contains "by index"' in backend.do(card, "click_index", index=rows["Write a post"], text="by index")["text"]
    reply = backend.do(card, "find_composer", fill="found")
    assert (reply["found"], reply["filled"]) == (True, True)
    assert backend.do(card, "click_index", index=rows["Post"])["clickLanded"] is True
    assert '<button "Posted">' in backend.do(card, "list_interactives")["text"]
