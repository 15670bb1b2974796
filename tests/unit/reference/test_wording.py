"""What the write agent takes from a prompt."""

from __future__ import annotations

import pytest

from broker.suites.loader import load_suite, suite_names
from infra.reference.backend.agent.wording import is_browsy, read_task, sign_task


@pytest.mark.parametrize(
    ("prompt", "payload"),
    [
        ('Go to https://x.com/ and publish exactly "probe k3f9x coverage alpha"', "probe k3f9x coverage alpha"),
        ("Go to https://x.com/ and publish “probe k3f9x coverage alpha”", "probe k3f9x coverage alpha"),
        ('Post "one text here" and then "one text here" again', "one text here"),
        ('Post "one text here" or "another text"', None),
        ("Post something nice", None),
        ('Post "abc"', None),
        (f'Post "{"a" * 301}"', None),
    ],
)
def test_the_payload_is_the_one_quoted_span_of_a_usable_length(prompt: str, payload: str | None) -> None:
    assert read_task(prompt).payload == payload


@pytest.mark.parametrize(
    ("prompt", "kind", "first"),
    [
        ('Go to https://x.com/ and publish a post with exactly this text: "words here"', "post", None),
        ('Open https://www.youtube.com/, open the first video and write this comment: "a post"', "comment", "video"),
        ('Go to https://www.instagram.com/ and write "words here" as a comment on the first post', "comment", "post"),
        ('Open the first live channel on twitch.tv and write "words here" in its chat', "chat", "channel"),
        ('Go to https://mail.google.com/ and start a new email whose body is "words here"', "email", None),
        ('Go to https://substack.com/ and start a new note with the text "words here"', "note", None),
        ('Visit https://comments.example/first/video and create a post: "words here"', "post", None),
    ],
)
def test_verbs_and_nouns_outside_quotes_and_addresses_decide_what_is_written_where(
    prompt: str, kind: str, first: str | None
) -> None:
    task = read_task(prompt)
    assert (task.kind, task.first) == (kind, first)


def test_a_title_is_meant_only_when_no_body_is_named() -> None:
    assert read_task('Create a post with the title "words here"').into_title
    assert not read_task('Create a post with any title and the body "words here"').into_title


@pytest.mark.parametrize("words", ["READ-ONLY verification of", "do NOT send but look at", "without posting, read"])
def test_a_directive_not_to_write_is_heard(words: str) -> None:
    assert read_task(f'{words} https://x.com/ "words here"').read_only


def test_a_directive_inside_the_payload_is_not_heard() -> None:
    assert not read_task('Publish a post on https://x.com/: "do not send this read-only text"').read_only


def test_only_prompts_about_the_web_are_classified() -> None:
    assert is_browsy("Go to x.com and post this")
    assert not is_browsy("What is seven times six?")


def test_the_signature_of_a_task_holds_neither_payload_nor_address() -> None:
    one = sign_task('Go to https://x.com/ and create a post with exactly this text: "probe k3f9x coverage alpha"')
    other = sign_task('Go to https://y.example/ and create a post with exactly this text: "probe 77777 coverage alpha"')
    assert one == other == "create post exactly text slotvalue"


@pytest.mark.parametrize(
    ("prompt", "place"),
    [
        ('Go to x.com and write exactly this text in the test string box: "words here"', ("test", "string")),
        ('Go to x.com and write exactly this text in the HTML pane: "words here"', ("html",)),
        ('Go to x.com and type exactly this text into the source text box: "words here"', ("source",)),
        ('Go to x.com and write exactly this text in the demo editor: "words here"', ()),
        ('Go to x.com and publish a post with exactly this text: "words in the other box"', ()),
    ],
)
def test_the_words_that_tell_the_box_apart_are_heard(prompt: str, place: tuple[str, ...]) -> None:
    assert read_task(prompt).place == place


@pytest.mark.parametrize("name", suite_names())
def test_every_task_of_ours_is_understood(name: str) -> None:
    for task in load_suite(name).tasks:
        payload = task.payload.replace("{nonce}", "k3f9x")
        prompt = task.prompt.replace("{payload}", payload)
        understood = read_task(prompt)
        assert understood.payload == payload, task.site
        assert understood.kind == ("story" if task.site == "lobsters" else task.kind), task.site
        assert understood.public is (task.visibility != "private"), task.site
        assert not understood.read_only, task.site
        assert not understood.into_title, task.site
        assert is_browsy(prompt), task.site
