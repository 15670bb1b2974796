"""What the write agent sees in a listing, and what it takes for a composer, an opener or a wall."""

from __future__ import annotations

import pytest

from infra.reference.backend.agent.composers import choose, lists_send
from infra.reference.backend.agent.listing import View, read_listing
from infra.reference.backend.agent.walls import find_wall
from infra.reference.backend.agent.wording import Task, read_task

POST = read_task('Publish a post on https://x.com/: "words here"')
COMMENT = read_task('Write a comment on https://x.com/: "words here"')


def listing(*rows: str) -> str:
    head = f"{len(rows)} interactive elements (* = new since your last look; same number = same element as before):"
    return "\n".join([head, *(f"[{number}]<{row}>" for number, row in enumerate(rows, start=1))])


def test_rows_are_read_with_marks_context_values_and_quotes_in_names() -> None:
    elements = read_listing(
        "4 interactive elements (* = new since your last look; same number = same element as before):\n"
        '[1]*<textbox "Post text" value="hello there">\n'
        '[2]<button "Like" ctx="Ada: \\"hi\\"">\n'
        '[7]<link "Say "yes" today">\n'
        "[9]<textbox>\n"
        "an unrelated line"
    )
    assert [(item.index, item.role, item.name, item.value) for item in elements] == [
        (1, "textbox", "Post text", "hello there"),
        (2, "button", "Like", ""),
        (7, "link", 'Say "yes" today', ""),
        (9, "textbox", "", ""),
    ]


def test_a_page_without_elements_is_an_empty_listing() -> None:
    assert read_listing("No interactive elements found on this page.") == ()


@pytest.mark.parametrize(
    ("rows", "task", "composer", "opener"),
    [
        (['textbox "Post text"', 'button "Post"'], POST, "Post text", "Post"),
        (['searchbox "Search"', 'button "Start a post"'], POST, None, "Start a post"),
        (['button "Start a post"', 'button "Comment"', 'button "Comment"'], POST, None, "Start a post"),
        (['button "Comment"', 'button "Comment"'], COMMENT, None, None),
        (['textbox "Write a reply"', 'textbox "Add a comment…"'], COMMENT, None, None),
        (['textbox "Message…"', 'textbox "Add a comment…"'], COMMENT, "Add a comment…", None),
        (['textbox "Title"', 'textbox "Body text (optional)"'], POST, "Body text (optional)", None),
        (['textbox ""', 'button "Publish"'], POST, None, None),
    ],
)
def test_composer_and_opener_are_picked_only_where_there_is_one_that_fits(
    rows: list[str], task: Task, composer: str | None, opener: str | None
) -> None:
    choice = choose(read_listing(listing(*rows)), task)
    assert (choice.composer and choice.composer.name) == composer
    assert (choice.opener and choice.opener.name) == opener


def test_a_private_box_is_a_wrong_surface_on_a_public_task_and_right_for_a_message() -> None:
    elements = read_listing(listing('textbox "Message…"'))
    assert [box.name for box in choose(elements, COMMENT).ignored] == ["Message…"]
    message = read_task('Send a direct message on https://x.com/: "words here"')
    assert choose(elements, message).composer is not None


def test_a_title_field_is_picked_when_the_task_names_a_title() -> None:
    task = read_task('Create a post on https://x.com/ with the title "words here"')
    choice = choose(read_listing(listing('textbox "Title"', 'textbox "Body text"')), task)
    assert choice.composer is not None
    assert choice.composer.name == "Title"


def test_send_controls_are_seen_by_their_exact_label() -> None:
    assert lists_send(read_listing(listing('button "Send now"')))
    assert not lists_send(read_listing(listing('button "Postpone"', 'textbox "Post"')))


def view(url: str, *rows: str, text: str = "") -> View:
    return View(url=url, text=text, listing="", elements=read_listing(listing(*rows)))


@pytest.mark.parametrize(
    ("page", "wall"),
    [
        (view("https://accounts.google.com/v3/signin/identifier?x=/home", 'textbox "Email"'), "url: /signin"),
        (view("https://x.test/login", 'textbox "Name"'), "url: /login"),
        (view("https://x.test/", 'textbox "Password"', 'button "Sign in"'), "password field: 'Password'"),
        (view("https://x.test/", 'button "OK"', text="Please sign in to continue."), "copy: Please sign in"),
        (view("https://x.test/", 'textbox "Password"', 'button "Create a paste"'), None),
        (view("https://x.test/logins-of-the-year", 'textbox "Write a post"'), None),
        (view("https://x.test/?next=/login", 'textbox "Write a post"'), None),
        (view("https://x.test/", 'textbox "Write a post"', text="Please sign in to continue."), None),
    ],
)
def test_a_wall_is_told_by_its_own_address_its_password_field_or_its_copy(page: View, wall: str | None) -> None:
    assert find_wall(page) == wall
