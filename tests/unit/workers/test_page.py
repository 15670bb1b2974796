from __future__ import annotations

from typing import Any

import pytest

from broker.types import Seen
from workers.page import blind_read, count_listed, count_payload, interpret, normalise

PAYLOAD = "probe k3f9x coverage alpha"


def read(plain: dict[str, Any], listing: str | None = None) -> Any:
    return interpret(
        plain, card="browser-1", payload=PAYLOAD, listing=listing, after_dispatch=1, offset_ms=5, duration_ms=9
    )


def editable(text: str, **more: Any) -> dict[str, Any]:
    return {"frame": 0, "frame_url": "https://x.com/home", "kind": "textarea", "label": "Post", "text": text,
            "length": len(text), **more}  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "probe\u00a0k3f9x\u00a0coverage\u00a0alpha",
        "probe k3f9x\n coverage\t alpha\n",
        "\ufeffprobe k3f9x cov\u200berage alpha\u200b",
    ],
)
def test_white_space_and_invisible_characters_do_not_hide_the_payload(text: str) -> None:
    assert count_payload(text, PAYLOAD) == 1


def test_typographic_quotes_count_as_straight_ones() -> None:
    assert normalise("\u201csay\u201d \u2018it\u2019") == "\"say\" 'it'"
    assert count_payload("he said \u201chi\u201d", 'said "hi"') == 1


def test_a_doubled_fill_is_counted_twice() -> None:
    assert read({"editables": [editable(f"{PAYLOAD}{PAYLOAD}")]}).payload_count == 2


def test_a_text_cut_short_is_no_payload() -> None:
    assert count_payload(PAYLOAD[:-1], PAYLOAD) == 0


def test_page_without_the_payload_is_absent_only_when_all_of_it_was_read() -> None:
    assert read({"editables": [editable("draft")], "unread": 0}).payload is Seen.ABSENT
    assert read({"editables": [editable("draft")], "unread": 1}).payload is Seen.COULD_NOT_LOOK
    assert read({"editables": [editable("draft", length=9_000)]}).payload is Seen.COULD_NOT_LOOK
    assert read({"editables": [], "skipped": 3}).payload is Seen.COULD_NOT_LOOK


def test_answers_that_the_page_did_not_give_are_could_not_look() -> None:
    page = read({"editables": []})
    assert page.password_form is page.challenge is Seen.COULD_NOT_LOOK
    page = read({"editables": [], "password_form": True, "challenge": False})
    assert (page.password_form, page.challenge) == (Seen.SEEN, Seen.ABSENT)


def test_listing_serves_for_a_frame_that_could_not_be_entered() -> None:
    listing = f'1 interactive elements:\n[1]<button "Send">\n[2]*<textbox "Comment" value="{PAYLOAD}">'
    page = read({"editables": [editable("draft")], "unread": 1, "frames": 1}, listing)
    assert (page.payload, page.payload_count, page.frames_unread) == (Seen.SEEN, 1, 0)
    assert page.editables[0].kind == "listing"


def test_what_the_listing_repeats_of_the_page_itself_is_not_counted_again() -> None:
    listing = f'[2]<textbox "Post" value="{PAYLOAD}">'
    page = read({"editables": [editable(PAYLOAD)], "unread": 1}, listing)
    assert (page.payload_count, page.frames_unread) == (1, 1)


def test_listing_without_the_payload_leaves_the_frame_unread() -> None:
    page = read({"editables": [], "unread": 1}, '[2]<textbox "Post" value="other">')
    assert (page.payload, page.frames_unread) == (Seen.COULD_NOT_LOOK, 1)


def test_listing_counts_text_boxes_and_no_buttons() -> None:
    assert count_listed(f'[1]<button "{PAYLOAD}" value="{PAYLOAD}">', PAYLOAD) == 0
    assert count_listed(f'[1]<combobox "" ctx="a" value="{PAYLOAD}">', PAYLOAD) == 1


def test_long_payload_is_known_by_its_beginning_in_a_listing() -> None:
    payload = f"{PAYLOAD} {'and more ' * 20}"
    assert count_listed(f'[1]<textbox "a" value="{payload[:60]}">', payload) == 1


def test_hostile_text_is_replaced_and_said() -> None:
    page = read({"editables": [editable("a\x00b\ud83d")], "title": "t\x00"})
    assert page.sanitised
    assert page.editables[0].text == "a\ufffdb\ufffd"
    assert page.title == "t\ufffd"


def test_editable_with_the_payload_comes_first() -> None:
    page = read({"editables": [*(editable("draft") for _ in range(50)), editable(PAYLOAD)]})
    assert page.editables[0].payload_count == 1
    assert len(page.editables) == 40


def test_blind_read_answers_nothing() -> None:
    page = blind_read(card="c", after_dispatch=2, offset_ms=1, duration_ms=2, error="away\x00")
    assert {page.payload, page.password_form, page.challenge} == {Seen.COULD_NOT_LOOK}
    assert page.error == "away\ufffd"
