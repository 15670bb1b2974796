"""The model router's stand-in answers from the prompt alone."""

from __future__ import annotations

import pytest

from broker.suites.loader import load_suite, suite_names
from infra.reference.backend.agent.classifier import SYSTEM, read_brief
from infra.reference.backend.agent.prestage import SYSTEM as PRESTAGE_SYSTEM
from infra.reference.router import Question, answer, read_question


def ask(prompt: str) -> str:
    return answer(Question(system=SYSTEM, user=prompt))


@pytest.mark.parametrize(
    ("prompt", "verdict", "entry"),
    [
        ('Go to https://x.com/ and publish a post: "read this"', "ACT", "https://x.com/"),
        ('Open twitch.tv, open the first channel and write "https://evil.example/" there', "ACT", "https://twitch.tv"),
        ("Go to https://x.com/home. What is the first headline?", "READ", "https://x.com/home"),
        ("What is seven times six?", "NO", None),
    ],
)
def test_the_classifier_is_answered_with_verdict_and_first_address(
    prompt: str, verdict: str, entry: str | None
) -> None:
    brief = read_brief(ask(prompt))
    assert (brief.verdict, brief.entry) == (verdict, entry)


@pytest.mark.parametrize("name", suite_names())
def test_every_task_of_ours_is_classified_as_writing_on_its_own_entry_page(name: str) -> None:
    for task in load_suite(name).tasks:
        brief = read_brief(
            ask(task.prompt.replace("{payload}", "probe k3f9x coverage alpha, see https://evil.example/"))
        )
        assert brief.verdict == "ACT", task.prompt
        assert brief.entry is not None
        assert brief.entry.rstrip("/") in task.prompt.partition('"')[0], task.prompt


def test_the_same_question_always_gets_the_same_answer() -> None:
    prompt = 'Go to https://x.com/ and publish a post: "words here"'
    assert len({ask(prompt) for _ in range(5)}) == 1


def test_a_prestage_question_is_answered_by_what_its_listing_shows() -> None:
    with_box = answer(Question(system=PRESTAGE_SYSTEM, user='Page: https://x.test/\n[3]*<textbox "Write">'))
    without = answer(Question(system=PRESTAGE_SYSTEM, user='Page: https://x.test/\n[3]<button "Write">'))
    assert with_box == "READY composer visible"
    assert without.startswith("READY ")
    assert without != with_box


def test_system_and_user_text_are_found_in_strings_and_in_blocks() -> None:
    blocks = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
    body = {"system": blocks, "messages": [{"role": "assistant", "content": "x"}, {"role": "user", "content": blocks}]}
    assert read_question(body) == Question(system="one\ntwo", user="one\ntwo")
