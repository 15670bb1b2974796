"""Where a text surfaced: every place named, an echo of the prompt told apart, and what could not be looked at."""

from __future__ import annotations

from typing import Any

from broker.types import Child
from workers.probe import Place, find_places, judge_places
from workers.rawbrowser import PageView
from workers.trial import TrialReport

NEEDLE = "First light"


def page(text: str, **changed: Any) -> PageView:
    plain: dict[str, Any] = {"fields": (), "is_cut": False, "unread": (), **changed}
    return PageView(href="http://h/", title="", text=text, is_loaded=True, born=1.0, **plain)


def full_report() -> TrialReport:
    return TrialReport(
        session_id="s",
        children=(Child(session_id="k", status="error"),),
        messages=(
            {"role": "user", "content": "post 'First light'"},
            {"role": "tool_call", "content": {"tool": "t", "input": {"task": "post 'First light'"}}},
            {
                "role": "tool_result",
                "content": {
                    "tool": "t",
                    "text": "I saw First   light",
                    "browser_trace": {"pages": ["First light", {"x": "First light"}], "receipt": None},
                },
            },
            {"role": "assistant", "content": "Nothing."},
            {"role": "custom", "content": "First light"},
        ),
        child_messages={
            "k": ({"role": "user", "content": "First light"}, {"role": "assistant", "content": "First light"})
        },
        cards=("c",),
        pages={"c": page("Tonight: First light.", fields=("First light",))},
        log=b"20:00:00 I backend: filled 'First light'\n\xff",
        metrics=({"session_id": "k", "task": "post First light", "recurring_errors": [["First light", 1]]},),
    )


def counts(places: tuple[Place, ...]) -> dict[str, int | None]:
    return {place.name: place.count for place in places}


def test_every_place_is_looked_at() -> None:
    places = find_places(full_report(), NEEDLE)
    assert counts(places) == {
        "parent: user": 1,
        "parent: assistant": 0,
        "parent: tool_call": 1,
        "parent: tool_result text": 1,
        "parent: tool_result browser_trace": 2,
        "parent: custom": 1,
        "child 1: user": 1,
        "child 1: assistant": 1,
        "child 1: tool_result text": 0,
        "child 1: tool_result browser_trace": 0,
        "live page c: text": 1,
        "live page c: text fields": 1,
        "log slice": 1,
        "metrics rows: task": 1,
        "metrics rows: the rest": 1,
    }
    assert {place.name for place in places if place.is_own} == {
        "parent: user",
        "parent: tool_call",
        "child 1: user",
        "metrics rows: task",
    }
    assert judge_places(places) == 9


def test_excerpt_shows_the_first_one_with_what_stands_around_it() -> None:
    report = TrialReport(pages={"c": page("a" * 100 + " First light " + "b" * 100)}, cards=("c",))
    [found] = [place for place in find_places(report, NEEDLE) if place.count]
    assert found.excerpt == f"...{'a' * 39} First light {'b' * 39}..."


def test_echo_of_the_prompt_alone_is_nothing_found() -> None:
    report = TrialReport(messages=({"role": "user", "content": NEEDLE},))
    assert judge_places(find_places(report, NEEDLE)) == 0


def test_place_that_could_not_be_looked_at_is_not_called_empty() -> None:
    report = full_report()
    report.unread = {"log": "no such file", "page c": "no answer", "child k": "HTTP 404"}
    report.log, report.pages, report.child_messages = b"", {}, {}
    places = find_places(report, "telescope")
    assert counts(places)["log slice"] is None
    assert counts(places)["live page c"] is None
    assert counts(places)["child 1"] is None
    assert judge_places(places) is None
    assert judge_places(find_places(report, NEEDLE)) == 5, "what was found elsewhere counts all the same"


def test_page_with_a_frame_of_another_origin_was_looked_at_in_part() -> None:
    report = TrialReport(cards=("c",), pages={"c": page("nothing", unread=("https://other/",))})
    assert counts(find_places(report, NEEDLE))["live page c: text"] is None
