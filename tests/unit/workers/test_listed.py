from __future__ import annotations

import pytest

from workers.listed import count_beyond, read_rows

PAYLOAD = "probe k3f9x shape's own text"


def count(listing: str, *names: str, payload: str = PAYLOAD) -> int:
    return count_beyond(read_rows(listing, payload), names).count


def test_text_boxes_are_counted_and_no_buttons() -> None:
    assert count(f'[1]<button "{PAYLOAD}" value="{PAYLOAD}">') == 0
    assert count(f'[1]<combobox "" ctx="a" value="{PAYLOAD}">') == 1
    assert count(f'[1]*<searchbox "Find" value="before {PAYLOAD} after">') == 1


def test_long_payload_is_known_by_its_beginning() -> None:
    payload = f"{PAYLOAD} {'and more ' * 20}"
    assert count(f'[1]<textbox "a" value="{payload[:60]}">', payload=payload) == 1


def test_curly_and_double_quotes_are_the_listing_s_single_ones() -> None:
    assert count('[1]<textbox "a" value="probe k3f9x shape\u2019s own text">') == 1
    assert count('[1]<textbox "a" value="say \'it\' now">', payload='say "it" now') == 1


def test_payload_twice_in_one_value_is_two() -> None:
    assert count(f'[1]<textbox "a" value="{PAYLOAD}{PAYLOAD}">') == 2


def test_value_that_is_cut_within_a_second_copy_is_two() -> None:
    payload = "probe k3f9x coverage of the alpha"
    assert count(f'[1]<textbox "a" value="{f"{payload} {payload}"[:60]}">', payload=payload) == 2
    assert (
        count(f'[1]<textbox "a" value="{f"{payload} and something else that is longer"[:60]}">', payload=payload) == 1
    )
    # a text that ends so without having been cut
    assert count(f'[1]<textbox "a" value="{payload} probe k3f9x">', payload=payload) == 1


@pytest.mark.parametrize(
    ("names", "beyond"),
    [
        (("Post", "Comment"), 0),
        (("Comment", "Post"), 0),
        (("Post",), 1),
        (("Comment",), 1),
        (("", ""), 0),
        (("", "Post"), 0),
        (("Reply",), 1),
        ((), 2),
        (("Post a comment that is much longer than a row",), 1),
    ],
)
def test_row_is_a_frame_s_only_if_nothing_on_the_page_can_be_what_it_shows(names: tuple[str, ...], beyond: int) -> None:
    listing = f'[1]<textbox "Post" value="{PAYLOAD}">\n[2]<textbox "Comment" value="{PAYLOAD}">'
    assert count(listing, *names) == beyond


@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("COMMENT", "Comment"),
        ("* Comment", "Comment"),
        ("Comment (required)", "Comment"),
        ("Comment Required", "CommentRequired"),
        ("Comment here", "Comment\nhereand the words of the field"),
    ],
)
def test_box_whose_name_is_painted_otherwise_is_no_second_box(name: str, own: str) -> None:
    beyond = count_beyond(read_rows(f'[1]<textbox "{name}" value="{PAYLOAD}">', PAYLOAD), [own])
    assert (beyond.count, beyond.is_sure) == (0, True)


@pytest.mark.parametrize("names", [("Search", "Reply"), ("Post", "Post")])
def test_row_of_another_name_is_taken_for_a_box_that_has_no_row_and_not_for_sure(names: tuple[str, ...]) -> None:
    listing = f'[1]<textbox "Post" value="{PAYLOAD}">\n[2]<textbox "Comment" value="{PAYLOAD}">'
    beyond = count_beyond(read_rows(listing, PAYLOAD), names)
    assert (beyond.count, beyond.is_sure) == (0, False)


def test_rows_show_a_copy_beyond_once_every_box_has_its_own_row() -> None:
    listing = f'[1]<textbox "Post" value="{PAYLOAD}">\n[2]<textbox "Comment" value="{PAYLOAD}">'
    beyond = count_beyond(read_rows(listing, PAYLOAD), ["Comment"])
    assert (beyond.count, beyond.is_sure) == (1, True)
