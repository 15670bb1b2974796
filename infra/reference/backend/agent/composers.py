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
# Weaker words: a box named so is written in when no other is.
_ROOM = re.compile(
    r"\bcontents?\b|\btext\b|\bedit(?:or|ing)\b|\bpaste\b|\bstory\b|\barticle\b|markdown|\bnotes?\b|"
    r"\bsource\b|\bcode editor\b|what.?s (?:up|on your mind)",
    re.IGNORECASE,
)
_TITLE = re.compile(r"title|subject|headline", re.IGNORECASE)
_PRIVATE = re.compile(r"\bmessag|\bdm\b|direct message", re.IGNORECASE)
_ANSWER = re.compile(r"\breply\b|\bcomment\b|\banswer\b|\brespond\b", re.IGNORECASE)
# What no text of a task belongs into, and what a box for a few letters is called.
_NEVER = re.compile(r"\bsearch|\bfilter\b|newsletter|subscri|\bpass(?:word|code|phrase)\b", re.IGNORECASE)
_NARROW = re.compile(
    r"\bcode$|e-?mail|user ?name|log ?in|sign ?in|phone|coupon|\btags?\b|\burl\b|\blink\b|captcha|"
    r"\blanguages?\b|\bname\b",
    re.IGNORECASE,
)
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
    r"\b(?:start|create|write|add|new|leave|compose)\b.*"
    r"\b(?:post|comment|reply|note|message|mail|email|topic|paste|page|story|thread)\b",
    re.IGNORECASE,
)
_NOUNS: dict[Kind, re.Pattern[str]] = {
    "post": re.compile(r"\bposts?\b", re.IGNORECASE),
    "comment": re.compile(r"\bcomments?\b|\breply\b", re.IGNORECASE),
    "note": re.compile(r"\bnotes?\b", re.IGNORECASE),
    "email": re.compile(r"\bmail\b|\bemail\b|\bcompose\b", re.IGNORECASE),
    "message": re.compile(r"\bmessages?\b|\bdm\b", re.IGNORECASE),
    "chat": re.compile(r"\bchat\b", re.IGNORECASE),
    "topic": re.compile(r"\btopics?\b|\bthreads?\b", re.IGNORECASE),
    "paste": re.compile(r"\bpastes?\b", re.IGNORECASE),
    "page": re.compile(r"\bpages?\b", re.IGNORECASE),
    "story": re.compile(r"\bstor(?:y|ies)\b", re.IGNORECASE),
}
_SEND = re.compile(r"(?:send(?: now| message)?|post(?: all)?|tweet|reply|publish|comment|share)", re.IGNORECASE)
# Kinds that answer something that is there already.
_ANSWERS: frozenset[Kind] = frozenset({"comment", "message", "chat", "email"})


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
    boxes = [element for element in elements if element.is_textbox and not _NEVER.search(element.name)]
    ignored = tuple(box for box in boxes if _COMPOSE.search(box.name) and not suits(box.name, task))
    composer = _find_composer([box for box in boxes if box not in ignored], task)
    return Choice(composer=composer, opener=_find_opener(elements, task), ignored=ignored)


def suits(name: str, task: Task) -> bool:
    """Whether a box of this name is on the surface that the task is about, as far as its name tells."""
    if task.public and _PRIVATE.search(name):
        return False
    return task.kind in _ANSWERS or not _ANSWER.search(name) or any(word in name.lower() for word in task.place)


def lists_send(elements: Sequence[Element]) -> bool:
    """Whether any listed button or link is labelled like a submit control."""
    return any(element.is_pressable and _SEND.fullmatch(element.name.strip()) for element in elements)


def is_writable(box: Element) -> bool:
    """Whether a box is for more than a search, an address or signing in; one without a name may be."""
    if not box.name:
        return box.role == "textbox"
    return bool(_COMPOSE.search(box.name)) or _is_roomy(box)


def _find_composer(boxes: Sequence[Element], task: Task) -> Element | None:
    titled = [box for box in boxes if _TITLE.search(box.name)]
    if task.into_title and titled:
        return _only(titled)
    placed = [box for box in boxes if task.place and _has_words(box.name, task.place)]
    if task.place and task.kind == "type":
        return _only(placed)  # the words of the task name one box, and any other is the wrong one
    shaped = placed or [box for box in boxes if _COMPOSE.search(box.name)] or [box for box in boxes if _is_roomy(box)]
    bodies = [box for box in shaped if box not in titled]
    noun = _NOUNS.get(task.kind)
    return _only([box for box in bodies if noun and noun.search(box.name)] or bodies)


def _has_words(name: str, words: Sequence[str]) -> bool:
    return all(re.search(rf"\b{re.escape(word)}", name, re.IGNORECASE) for word in words)


def _is_roomy(box: Element) -> bool:
    return bool(_ROOM.search(box.name)) and box.role == "textbox" and not _NARROW.search(box.name)


def _find_opener(elements: Sequence[Element], task: Task) -> Element | None:
    if task.kind == "type":
        return None  # what is to be written in stands there already
    opening = [element for element in elements if element.is_pressable and _opens(element.name)]
    fitting = [element for element in opening if _NOUNS[task.kind].search(element.name)]
    return _only(fitting or opening)


def _opens(name: str) -> bool:
    return name.strip().lower() in _OPENERS or bool(_OPENER_PHRASE.search(name))


def _only(elements: Sequence[Element]) -> Element | None:
    return elements[0] if len(elements) == 1 else None
