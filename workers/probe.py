"""Where does the text of a run's page surface? Found by looking everywhere a run leaves something. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from workers.pagewords import count_payload, normalise
from workers.trial import TrialReport

_ROLES = ("user", "assistant", "system", "thinking", "tool_call", "tool_result")
_AROUND_CHARS = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One place that was looked at, or could not be."""

    name: str
    # None: could not look
    count: int | None
    # around the first one; why, where nobody could look
    excerpt: str
    # what stands here was said to the product by whoever asked
    is_own: bool = False


def find_places(report: TrialReport, needle: str) -> tuple[Place, ...]:
    """Every place, in the order from the answer down to the files, with how often the needle stands there."""
    return (
        *_in_messages("parent", report.messages, report.unread.get("parent"), needle, own="user"),
        *_in_children(report, needle),
        *_in_pages(report, needle),
        _look("log slice", report.log.decode("utf-8", "replace"), needle, report.unread.get("log")),
        *_in_metrics(report, needle),
    )


def judge_places(places: Sequence[Place]) -> int | None:
    """How often it was found beyond what was said to the product; None: nowhere, and not everything was looked at."""
    found = sum(place.count or 0 for place in places if not place.is_own)
    return None if not found and any(place.count is None for place in places) else found


def list_texts(value: Any) -> Iterator[str]:
    """Every text within a JSON value, keys left out."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from list_texts(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from list_texts(inner)


def _in_children(report: TrialReport, needle: str) -> Iterator[Place]:
    if "children" in report.unread:
        yield Place(name="children", count=None, excerpt=report.unread["children"])
    for number, child in enumerate(report.children, start=1):
        said = report.child_messages.get(child.session_id, ())
        unread = report.unread.get(f"child {child.session_id}")
        # its task is what the parent was told, the prompt and more
        yield from _in_messages(f"child {number}", said, unread, needle, own="user")


def _in_messages(
    whose: str, messages: Sequence[dict[str, Any]], unread: str | None, needle: str, *, own: str
) -> Iterator[Place]:
    if unread is not None:
        yield Place(name=whose, count=None, excerpt=unread)
        return
    known = {str(message.get("role")) for message in messages}
    for role in (*_ROLES, *sorted(known - set(_ROLES))):
        contents = [message.get("content") for message in messages if message.get("role") == role]
        if role == "tool_result":
            yield from _in_results(whose, contents, needle)
        elif contents or role in {"user", "assistant"}:
            text = "\n".join(list_texts(contents))
            yield _look(f"{whose}: {role}", text, needle, None, is_own=role in {own, "tool_call"})


def _in_results(whose: str, contents: Sequence[Any], needle: str) -> Iterator[Place]:
    traces = [content.get("browser_trace") for content in contents if isinstance(content, dict)]
    rest = [
        {key: value for key, value in content.items() if key != "browser_trace"}
        if isinstance(content, dict)
        else content
        for content in contents
    ]
    yield _look(f"{whose}: tool_result text", "\n".join(list_texts(rest)), needle, None)
    yield _look(f"{whose}: tool_result browser_trace", "\n".join(list_texts(traces)), needle, None)


def _in_pages(report: TrialReport, needle: str) -> Iterator[Place]:
    if "cards" in report.unread:
        yield Place(name="live page", count=None, excerpt=report.unread["cards"])
    for card in report.cards:
        name = f"live page {card}"
        if (page := report.pages.get(card)) is None:
            yield Place(name=name, count=None, excerpt=report.unread.get(f"page {card}", "it was not read"))
            continue
        yield _look(f"{name}: text", page.text, needle, _why_in_part(page.is_cut, page.unread))
        yield _look(f"{name}: text fields", "\n".join(page.fields), needle, None)


def _why_in_part(is_cut: bool, unread: Sequence[str]) -> str | None:  # noqa: FBT001  # a fact among others
    if is_cut:
        return "the page holds more text than was brought over"
    return f"a frame of another origin stayed unread: {unread[0]}" if unread else None


def _in_metrics(report: TrialReport, needle: str) -> Iterator[Place]:
    """A row names the task, which is the prompt again, and what else the product has to say."""
    unread = report.unread.get("metrics")
    tasks = [row.get("task") for row in report.metrics]
    rest = [{key: value for key, value in row.items() if key != "task"} for row in report.metrics]
    yield _look("metrics rows: task", "\n".join(list_texts(tasks)), needle, unread, is_own=True)
    yield _look("metrics rows: the rest", "\n".join(list_texts(rest)), needle, unread)


def _look(name: str, text: str, needle: str, unread: str | None, *, is_own: bool = False) -> Place:
    """What is seen counts, also where not everything could be read; what is not seen there is unknown."""
    count = count_payload(text, needle)
    if not count and unread is not None:
        return Place(name=name, count=None, excerpt=unread, is_own=is_own)
    return Place(name=name, count=count, excerpt=_cut_around(text, needle) if count else "", is_own=is_own)


def _cut_around(text: str, needle: str) -> str:
    plain, wanted = normalise(text), normalise(needle)
    at = plain.find(wanted)
    start, end = max(0, at - _AROUND_CHARS), at + len(wanted) + _AROUND_CHARS
    return f"{'...' if start else ''}{plain[start:end]}{'...' if end < len(plain) else ''}"
