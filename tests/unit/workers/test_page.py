from __future__ import annotations

from typing import Any

import pytest

from broker.types import Seen
from workers.page import blind_read, interpret
from workers.pagewords import count_payload, normalise

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
    assert count_payload("probe k3f9x shape\u2019s own text \u2026 \u2014", "shape's own text ... --") == 1


def test_a_doubled_fill_is_counted_twice() -> None:
    assert read({"editables": [editable(f"{PAYLOAD}{PAYLOAD}")]}).payload_count == 2


def test_a_text_cut_short_is_no_payload() -> None:
    assert count_payload(PAYLOAD[:-1], PAYLOAD) == 0


def test_page_without_the_payload_is_absent_only_when_all_of_it_was_read() -> None:
    assert read({"editables": [editable("draft")], "unread": 0}).payload is Seen.ABSENT
    assert read({"editables": [editable("draft")], "unread": 1}).payload is Seen.COULD_NOT_LOOK
    assert read({"editables": [editable("draft", length=9_000)]}).payload is Seen.COULD_NOT_LOOK
    assert read({"editables": [], "skipped": 3}).payload is Seen.COULD_NOT_LOOK
    assert read({"editables": [], "takers": 1}).payload is Seen.COULD_NOT_LOOK
    assert read({"editables": [], "failed": 1}).payload is Seen.COULD_NOT_LOOK


def test_painted_lines_of_a_longer_text_prove_what_they_show_and_nothing_else() -> None:
    page = read({"editables": [editable("draft", part=True)]})
    assert (page.payload, page.in_part) == (Seen.COULD_NOT_LOOK, True)
    page = read({"editables": [editable(PAYLOAD, part=True)]})
    assert (page.payload, page.payload_count, page.in_part) == (Seen.SEEN, 1, True)
    assert not read({"editables": [editable(PAYLOAD)]}).in_part


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


def test_second_copy_in_a_frame_that_could_not_be_entered_is_counted() -> None:
    own = editable(PAYLOAD, name="Post")
    rows = f'[1]<textbox "Post" value="{PAYLOAD}">\n[2]<textbox "Comment" value="{PAYLOAD}">'
    page = read({"editables": [own], "unread": 100}, rows)
    assert (page.payload_count, page.in_part) == (2, False)


def test_one_fill_is_one_whatever_the_listing_calls_its_box() -> None:
    own = editable(PAYLOAD, name="Comment")
    painted = read({"editables": [own], "unread": 1}, f'[2]<textbox "COMMENT" value="{PAYLOAD}">')
    assert (painted.payload, painted.payload_count, painted.in_part) == (Seen.SEEN, 1, False)
    other = read({"editables": [own], "unread": 1}, f'[2]<textbox "Write here" value="{PAYLOAD}">')
    assert (other.payload, other.payload_count, other.frames_unread, other.in_part) == (Seen.SEEN, 1, 1, True)


def test_row_of_a_result_pane_is_no_copy_in_a_frame() -> None:
    listing = f'[1]<textbox "Source" value="{PAYLOAD}">\n[2]<textbox "Result" value="{PAYLOAD}">'
    plain = {
        "editables": [editable(PAYLOAD, name="Source")],
        "unread": 100,
        "echoes": [{"name": "Result", "text": PAYLOAD}],
    }
    page = read(plain, listing)
    assert (page.payload, page.payload_count, page.frames_unread) == (Seen.SEEN, 1, 100)


def test_listing_without_the_payload_leaves_the_frame_unread() -> None:
    page = read({"editables": [], "unread": 1}, '[2]<textbox "Post" value="other">')
    assert (page.payload, page.frames_unread) == (Seen.COULD_NOT_LOOK, 1)


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
