"""What the rules make of bv3's own reads of a page: copies, frames that can't be entered, boxes that were not meant."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import re2

from broker.suites import load_suite
from broker.suites.vocabulary import EditorShape
from broker.types import Bucket, Editable, PageRead, RunRecord, Seen, SiteTask
from grader.facts import VerdictFacts
from grader.page import view_pages
from grader.surface import is_other_box

Grade = Callable[..., Any]
Make = Callable[..., PageRead]
FRAMES = 100


def box(kind: str, label: str = "Post text", *, count: int = 1, frame: int = 0) -> Editable:
    return Editable(frame=frame, frame_url="", kind=kind, label=label, payload_count=count, text="")


@pytest.fixture
def closed(read_of: Make) -> Make:
    """A read of a page with a hundred frames that can't be entered."""

    def make(count: int, offset_ms: int = 40, **changes: Any) -> PageRead:
        boxes = (box("contenteditable", count=count),)
        values: dict[str, Any] = {
            "payload": Seen.SEEN if count else Seen.COULD_NOT_LOOK,
            "editables": boxes,
            "offset_ms": offset_ms,
            "frames_unread": FRAMES,
            "after_dispatch": 1,
        }
        return read_of(count=count, frames=FRAMES, **values | changes)

    return make


@pytest.fixture
def view(record_of: Callable[..., RunRecord]) -> Callable[..., Any]:
    def do(*reads: PageRead) -> Any:
        return view_pages(record_of(b"", reads=reads, cards=()))

    return do


def test_frames_that_can_not_be_entered_take_nothing_from_a_payload_seen_once(closed: Make, view: Any) -> None:
    seen = view(closed(1), closed(1, 740))
    assert (seen.payload, seen.count, seen.frames_unread) == (Seen.SEEN, 1, FRAMES)


def test_second_copy_that_the_listing_shows_in_a_frame_is_one_too_many(closed: Make, view: Any) -> None:
    both = (box("listing", "", frame=-1), box("contenteditable"))
    seen = view(closed(1), closed(2, 740, editables=both))
    assert (seen.payload, seen.count) == (Seen.ABSENT, 2)


def test_nothing_seen_beside_frames_that_can_not_be_entered_is_not_known(closed: Make, view: Any) -> None:
    assert view(closed(0), closed(0, 740)).payload is Seen.COULD_NOT_LOOK


def test_text_that_an_editor_took_back_is_absent_whatever_frames_there_are(closed: Make, view: Any) -> None:
    assert view(closed(1), closed(0, 740)).payload is Seen.ABSENT
    # what comes back is there
    assert view(closed(1), closed(0, 740), closed(1, 1500)).payload is Seen.SEEN


def test_text_that_a_listing_alone_had_shown_may_still_be_there(closed: Make, view: Any) -> None:
    listed = closed(1, editables=(box("listing", "", frame=-1),), frames_unread=0)
    assert view(listed, closed(0, 740)).payload is Seen.SEEN


@pytest.mark.parametrize("changes", [{"error": "gone", "frames_unread": 0}, {"in_part": True}])
def test_read_that_could_not_look_says_nothing_against_an_earlier_one(
    closed: Make, view: Any, changes: dict[str, Any]
) -> None:
    assert view(closed(1), closed(0, 740, **changes)).payload is Seen.SEEN


def test_text_that_is_gone_from_one_card_says_nothing_of_another(closed: Make, view: Any) -> None:
    seen = view(closed(1), closed(0, 740), closed(0, 745, card="browser-00000002"))
    assert seen.payload is Seen.COULD_NOT_LOOK


RICH = [
    shape for shape in EditorShape if shape not in {"textarea", "contenteditable", "shadow-dom", "cross-origin-frame"}
]


@pytest.mark.parametrize("shape", EditorShape)
def test_field_of_one_line_is_no_task_s_editor(shape: EditorShape, task: SiteTask) -> None:
    assert is_other_box("input", "Post text", dataclasses.replace(task, editor_shape=shape))


@pytest.mark.parametrize("shape", EditorShape)
def test_plain_textarea_beside_an_editor_is_no_library_s_editor(shape: EditorShape, task: SiteTask) -> None:
    own = dataclasses.replace(task, editor_shape=shape)
    assert is_other_box("textarea", "Post text", own, others={"contenteditable", "input"}) is (shape in RICH)


@pytest.mark.parametrize("others", [(), ("input",), ("textarea", "input"), ("listing",), ("textbox",)])
def test_plain_textarea_with_no_editor_beside_it_may_be_what_the_site_has_now(
    others: Sequence[str], task: SiteTask
) -> None:
    own = dataclasses.replace(task, editor_shape="codemirror5")
    assert not is_other_box("textarea", "Paste text", own, others=others)


@pytest.mark.parametrize("kind", ["ace", "codemirror5", "codemirror6", "monaco", "editcontext"])
def test_plain_textarea_beside_a_code_editor_is_another_box(kind: str, task: SiteTask) -> None:
    assert is_other_box("textarea", "stdin", dataclasses.replace(task, editor_shape="ace"), others=[kind])


@pytest.mark.parametrize("shape", ["", "multi-field form (title and body)"])
def test_prose_of_an_older_task_forbids_no_textarea(shape: str, task: SiteTask) -> None:
    own = dataclasses.replace(task, editor_shape=shape)
    assert not is_other_box("textarea", "Body text (optional)", own, others=["contenteditable"])


@pytest.mark.parametrize(
    ("label", "is_other"),
    [
        ("Search", True),
        ("Search or paste a link", True),
        ("Title", True),
        ("Post Title", True),
        ("New post title here…", True),
        ("Subject", True),
        ("Write a reply", True),
        ("Post your reply…", True),
        ("Reply", True),
        ("Replying is easy, so write", False),
        ("Message Body", False),
        ("Post Content", False),
        ("Research notes", False),
        ("What is the title of it about?", False),
        ("", False),
    ],
)
def test_box_with_the_name_of_another_field_is_not_the_editor(label: str, is_other: bool, task: SiteTask) -> None:
    own = dataclasses.replace(task, editor_shape="contenteditable")
    assert is_other_box("contenteditable", label, own) is is_other


def test_reply_box_is_the_editor_of_a_task_that_speaks_of_a_reply(task: SiteTask) -> None:
    own = dataclasses.replace(task, editor_shape="contenteditable", prompt='Reply to the first post: "{payload}"')
    assert not is_other_box("contenteditable", "Write a reply", own)


@pytest.mark.parametrize("kind", ["comment", "reply"])
@pytest.mark.parametrize("label", ["Reply to topic", "Write a reply", "Post your reply…"])
def test_comment_is_often_called_a_reply(kind: str, label: str, task: SiteTask) -> None:
    own = dataclasses.replace(task, editor_shape="contenteditable", kind=kind, prompt='Comment on it: "{payload}"')
    assert not is_other_box("contenteditable", label, own)
    assert is_other_box("contenteditable", label, dataclasses.replace(own, kind="post"))


@pytest.mark.parametrize(
    ("suite", "site", "others", "meant"),
    [
        (
            "anon",
            "regex101",
            [
                "Regular expression",
                "regular expression:",
                "Regex",
                "Substitution",
                "Replace",
                "Regular expression input",
            ],
            ["Regex test string", "Regular expression test string", "Test string", "Replace with your test string"],
        ),
        (
            "known",
            "twitch",
            ["Message", "Direct message", "Whisper"],
            ["Send a message", "Chat message", "Message the channel", "Say hello"],
        ),
        (
            "holdout",
            "codemirror",
            ["CSS", "css editor", "JS", "JavaScript", "JavaScript code"],
            ["HTML", "HTML (css and js beside)", "CSS and HTML", "JS, CSS and HTML in one"],
        ),
        (
            "holdout",
            "telegraph",
            ["Title", "Author", "Author name", "Your name"],
            ["Your story...", "Title and story", "Author's text"],
        ),
    ],
)
def test_other_boxes_of_a_suite_s_task_are_named_to_their_end(
    suite: str, site: str, others: Sequence[str], meant: Sequence[str]
) -> None:
    pattern = next(task.other_boxes for task in load_suite(suite).tasks if task.site == site)
    assert [label for label in (*others, *meant) if re2.search(pattern, label)] == others


@pytest.mark.parametrize(
    ("label", "is_other"), [("Regular Expression", True), ("regex", True), ("Test String", False), ("", False)]
)
def test_box_that_the_task_names_as_another_one_is_not_the_editor(label: str, is_other: bool, task: SiteTask) -> None:
    own = dataclasses.replace(task, editor_shape="codemirror6", other_boxes=r"(?i)^\W*(regular expression|regex)")
    assert is_other_box("contenteditable", label, own) is is_other


def test_box_that_nobody_read_is_not_another_one(task: SiteTask) -> None:
    assert not is_other_box("", "", dataclasses.replace(task, editor_shape="quill"))


@pytest.mark.parametrize(
    ("shape", "boxes", "bucket", "rule"),
    [
        ("quill", [box("contenteditable")], Bucket.OK, "reached"),
        ("quill", [box("input", "Search")], Bucket.PRODUCT_WRONG_SURFACE, "filled_other_box"),
        ("quill", [box("textarea", "index.js")], Bucket.OK, "reached"),
        (
            "quill",
            [box("textarea", "index.js"), box("contenteditable", count=0)],
            Bucket.PRODUCT_WRONG_SURFACE,
            "filled_other_box",
        ),
        ("ace", [box("ace", "")], Bucket.OK, "reached"),
        ("codemirror5", [box("codemirror5", "")], Bucket.OK, "reached"),
        ("monaco", [box("monaco", "Code")], Bucket.OK, "reached"),
        ("cross-origin-frame", [box("listing", "", frame=-1)], Bucket.OK, "reached"),
        ("ace", [box("ace", "", count=2)], Bucket.PRODUCT_UNVERIFIED_FILL, "payload_absent"),
        ("ace", [box("ace", ""), box("input", "arguments")], Bucket.PRODUCT_UNVERIFIED_FILL, "payload_absent"),
    ],
)
def test_claim_is_graded_by_the_box_that_holds_the_text(
    shape: str, boxes: Sequence[Editable], bucket: Bucket, rule: str, grade: Grade, read_of: Make
) -> None:
    count = sum(one.payload_count for one in boxes)
    read = read_of(count=count, editables=tuple(boxes))
    graded = grade("fill", "dryrun", task={"editor_shape": shape}, reads=(read,))
    assert (graded.verdict.bucket, graded.verdict.rule) == (bucket, rule)


def test_frames_that_could_not_be_entered_are_told_with_the_verdict(closed: Make, grade: Grade) -> None:
    facts: VerdictFacts = grade("fill", "dryrun", reads=(closed(1, in_part=True),)).facts
    assert (facts.page, facts.page_frames_unread, facts.page_in_part) == (Seen.SEEN, FRAMES, True)
