"""What the write agent sees in a listing, and what it takes for a composer, an opener or a wall."""

from __future__ import annotations

import pytest

from infra.reference.backend.agent.banners import find_banner_control
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
        (view("https://x.test/", 'textbox "Password"', 'button "Log in"', 'textbox "Write a post"'), None),
        (view("https://x.test/", 'textbox "Password"', 'button "Log in"', 'textbox ""', 'button "Paste"'), None),
        (
            view("https://x.test/", 'searchbox "Search"', 'textbox "Password"', 'button "Log in"'),
            "password field: 'Password'",
        ),
        (view("https://x.test/logins-of-the-year", 'textbox "Write a post"'), None),
        (view("https://x.test/?next=/login", 'textbox "Write a post"'), None),
        (view("https://x.test/", 'textbox "Write a post"', text="Please sign in to continue."), None),
    ],
)
def test_a_wall_is_told_by_its_own_address_its_password_field_or_its_copy(page: View, wall: str | None) -> None:
    found = find_wall(page)
    assert (found and str(found)) == wall


def task(words: str) -> Task:
    return read_task(f'Go to https://x.test/ and {words}: "words here"')


@pytest.mark.parametrize(
    ("words", "rows", "composer"),
    [
        (
            "write exactly this text in the test string box",
            ['textbox "Regular expression"', 'textbox "Test string"'],
            1,
        ),
        ("write exactly this text in the test string box", ['textbox "Regular expression"', 'textbox ""'], None),
        ("type exactly this text into the source text box", ['combobox "Source text"', 'textbox "Search"'], 0),
        ("write exactly this text in the HTML pane", ['textbox "CSS editor"', 'textbox "HTML editor"'], 1),
        (
            "write exactly this text in the edit box",
            ['searchbox "Search"', 'textbox "Editing Sandbox"', 'textbox "Summary"'],
            1,
        ),
        (
            "create a new paste with this text",
            ['textbox "New Paste"', 'textbox "Paste Name / Title"', 'textbox "Tags"'],
            0,
        ),
        ("create a new paste with this text", ['textbox "Email"', 'textbox "Your name"'], None),
        ("create a paste with this text", ['textbox "Custom edit code"', 'textbox "Custom url"'], None),
        ("start a new post whose body is this text", ['textbox "Post title"', 'textbox "Post content"'], 1),
        ("start a new story whose text is this", ['textbox "URL"', 'textbox "Title"', 'textbox "Text"'], 2),
        ("create a post with this text", ['textbox "Write a reply"', 'textbox "What\'s on your mind?"'], 1),
        ("create a post with this text", ['textbox "Write a reply"'], None),
        ("write this text as a comment", ['textbox "Your email for our newsletter"', 'textbox "Add a comment"'], 1),
        ("write exactly this text in the comment box", ['textbox "Write a message"', 'textbox "Comment"'], 1),
    ],
)
def test_among_several_boxes_the_words_of_the_task_decide(words: str, rows: list[str], composer: int | None) -> None:
    choice = choose(read_listing(listing(*rows)), task(words))
    assert (choice.composer and choice.composer.index - 1) == composer


@pytest.mark.parametrize(
    ("words", "rows", "opener"),
    [
        ("start a new topic whose body is this", ['button "New Topic"', 'button "New message"'], "New Topic"),
        ("create a new paste with this text", ['link "new paste"', 'link "Log in"'], "new paste"),
        ("create a note with this text", ['button "Create a note"', 'button "Create a post"'], "Create a note"),
        ("write this text in the editor", ['button "Post"'], None),
    ],
)
def test_what_opens_a_composer_names_the_kind_of_text(words: str, rows: list[str], opener: str | None) -> None:
    choice = choose(read_listing(listing(*rows)), task(words))
    assert (choice.opener and choice.opener.name) == opener


COOKIES = "We use cookies to make this site better."


@pytest.mark.parametrize(
    ("rows", "text", "control"),
    [
        (['button "Accept all"', 'button "Reject all"'], COOKIES, "Reject all"),
        (['button "Accept cookies"', 'button "Only necessary"'], COOKIES, "Only necessary"),
        (['button "Settings"', 'button "Got it"'], COOKIES, "Got it"),
        (['button "Close"', 'textbox "Write"'], COOKIES, "Close"),
        (['button "Close"', 'link "Cookies"'], "Terms Cookies Imprint", None),
        (['button "Accept the invitation"'], COOKIES, None),
    ],
)
def test_a_banner_is_refused_before_it_is_accepted_and_no_other_page_has_one(
    rows: list[str], text: str, control: str | None
) -> None:
    found = find_banner_control(view("https://x.test/", *rows, text=text))
    assert (found and found.name) == control
