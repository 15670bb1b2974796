"""Which listed element is the composer, and which one opens it. Pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from infra.reference.backend.agent.listing import Element
from infra.reference.backend.agent.wording import Kind, Task

_COMPOSE = re.compile(
    r"write|messag|compose|reply|comment|post your|post text|what.?s happening|what is happening|tweet|"
    r"caption|say something|start a|new message|body|your (?:message|note)|text editor|creating content",
    re.IGNORECASE,
)
_TITLE = re.compile(r"title|subject|headline", re.IGNORECASE)
_PRIVATE = re.compile(r"\bmessag|\bdm\b|direct message", re.IGNORECASE)
_OPENERS = frozenset(
    {
        "message",
        "reply",
        "compose",
        "new message",
        "direct message",
        "dm",
        "send message",
        "write",
        "new chat",
        "comment",
        "post",
    }
)
_OPENER_PHRASE = re.compile(
    r"\b(?:start|create|write|add|new|leave|compose)\b.*\b(?:post|comment|reply|note|message|mail|email|topic)\b",
    re.IGNORECASE,
)
_NOUNS: dict[Kind, re.Pattern[str]] = {
    "post": re.compile(r"\bposts?\b", re.IGNORECASE),
    "comment": re.compile(r"\bcomments?\b|\breply\b", re.IGNORECASE),
    "note": re.compile(r"\bnotes?\b", re.IGNORECASE),
    "email": re.compile(r"\bmail\b|\bemail\b|\bcompose\b", re.IGNORECASE),
    "message": re.compile(r"\bmessages?\b|\bdm\b", re.IGNORECASE),
    "chat": re.compile(r"\bchat\b", re.IGNORECASE),
}
_SEND = re.compile(r"(?:send(?: now| message)?|post(?: all)?|tweet|reply|publish|comment|share)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What a listing offers for a task."""

    # The one box that fits; None when there is none or more than one.
    composer: Element | None
    # The one element that opens a composer; None when there is none or more than one.
    opener: Element | None
    # Boxes that look like composers and belong to another surface.
    ignored: tuple[Element, ...]


def choose(elements: Sequence[Element], task: Task) -> Choice:
    """Pick composer and opener; an ambiguous pick is no pick."""
    shaped = [element for element in elements if element.is_textbox and _COMPOSE.search(element.name)]
    ignored = tuple(element for element in shaped if task.public and _PRIVATE.search(element.name))
    fitting = [element for element in shaped if element not in ignored]
    if task.into_title:
        titled = [element for element in elements if element.is_textbox and _TITLE.search(element.name)]
        fitting = titled or fitting
    return Choice(composer=_only(fitting), opener=_find_opener(elements, task), ignored=ignored)


def lists_send(elements: Sequence[Element]) -> bool:
    """Whether any listed button or link is labelled like a submit control."""
    return any(element.is_pressable and _SEND.fullmatch(element.name.strip()) for element in elements)


def _find_opener(elements: Sequence[Element], task: Task) -> Element | None:
    opening = [element for element in elements if element.is_pressable and _opens(element.name)]
    fitting = [element for element in opening if _NOUNS[task.kind].search(element.name)]
    return _only(fitting or opening)


def _opens(name: str) -> bool:
    return name.strip().lower() in _OPENERS or bool(_OPENER_PHRASE.search(name))


def _only(elements: Sequence[Element]) -> Element | None:
    return elements[0] if len(elements) == 1 else None
