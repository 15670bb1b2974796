"""What a prompt asks for: the payload, the kind of text, and what to open first. Pure."""

import re
from dataclasses import dataclass
from typing import Literal

Kind = Literal["email", "comment", "message", "chat", "note", "topic", "paste", "page", "story", "post", "type"]
PAYLOAD_CHARS = range(4, 301)

_QUOTED = re.compile(r"[\"“]([^\"”]+)[\"”]")
_URL = re.compile(r"https?://\S+|\b(?:[a-z0-9-]+\.)+[a-z]{2,}(?:/\S*)?", re.IGNORECASE)
_BROWSY = re.compile(
    r"https?://|\b(?:[a-z0-9-]+\.)+(?:com|org|net|io|tv|co|es|it|rs|dev|app|social|test)\b|"
    r"\b(?:browser|website|web ?site|web ?page|go to|open|navigate|visit)\b",
    re.IGNORECASE,
)
_READ_ONLY = re.compile(
    r"\bread-only\b|\b(?:do not|don't|never|without) (?:post|send|submit|publish|type|write|click)",
    re.IGNORECASE,
)
# The order decides: "a comment on the first post" is a comment, "an email note" is an email.
_KINDS: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    ("email", re.compile(r"\be-?mails?\b", re.IGNORECASE)),
    ("comment", re.compile(r"\b(?:comment|reply|respond)(?:s|ing)?\b", re.IGNORECASE)),
    ("chat", re.compile(r"\bchat\b", re.IGNORECASE)),
    ("message", re.compile(r"\b(?:direct message|message|dm)\b", re.IGNORECASE)),
    ("note", re.compile(r"\bnote\b", re.IGNORECASE)),
    ("topic", re.compile(r"\btopic\b", re.IGNORECASE)),
    ("paste", re.compile(r"\bpaste\b", re.IGNORECASE)),
    ("story", re.compile(r"\bstory\b", re.IGNORECASE)),
    ("page", re.compile(r"\b(?:create|make|start)\b.*\bpage\b", re.IGNORECASE)),
    ("post", re.compile(r"\b(?:post|tweet)\b", re.IGNORECASE)),
    # A task that names no kind of text, and a place for it: something is only to be written there.
    ("type", re.compile(r"\b(?:type|write|enter)\b.*\b(?:box|editor|pane|field|area)\b", re.IGNORECASE)),
)
# Where the text belongs: "in the test string box", "into the HTML pane"; what stands before the noun tells it apart.
_PLACE = re.compile(
    r"\bin(?:to)? (?:the|its|this) ((?:[\w-]+ ){0,3})(?:box|editor|pane|field|area|input)\b", re.IGNORECASE
)
# Words before that noun that tell no box from another: nearly every box takes text.
_PLAIN = frozenset({"text", "edit", "editing", "demo", "input", "main", "rich", "large"})
_THING = re.compile(
    r"\bfirst\s+(?:[\w-]+\s+){0,2}?(video|reel|post|channel|stream|article|story|thread|result|link)\b",
    re.IGNORECASE,
)
_TITLE = re.compile(r"\b(?:title|subject|headline)\b", re.IGNORECASE)
_BODY = re.compile(r"\bbody\b", re.IGNORECASE)
_PRIVATE: frozenset[Kind] = frozenset({"email", "message"})
# What boxes for a kind of text are called, where the task tells no place.
_GOALS: dict[Kind, tuple[str, ...]] = {
    "email": ("body", "message"),
    "comment": ("comment", "reply", "discussion"),
    "chat": ("chat", "message"),
    "message": ("message",),
    "note": ("note", "thoughts", "mind"),
    "topic": ("topic", "body"),
    "paste": ("paste", "content"),
    "page": ("story", "page", "content"),
    "story": ("story", "text"),
    "post": ("post", "body", "happening", "mind"),
    "type": ("editor",),
}
# Words that tell nothing about a task.
_DULL = frozenset(
    {"a", "an", "and", "as", "at", "by", "for", "go", "in", "is", "it", "its", "of", "on", "open", "or"}
    | {"please", "that", "the", "then", "this", "to", "use", "with", "you", "your"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A prompt, understood."""

    # The one double-quoted span of a usable length; None when there is none, or more than one distinct.
    payload: str | None
    kind: Kind
    # The payload belongs in a field named so, not in the body.
    into_title: bool
    # The kind of thing to open first ("the first video"), or None.
    first: str | None
    read_only: bool
    # The words that tell the box apart from others, in lower case ("test", "string"); often none.
    place: tuple[str, ...] = ()

    @property
    def goal(self) -> str:
        """The words by which a box that carries no name of its own is told from others."""
        return " ".join(self.place or _GOALS.get(self.kind, ("",)))

    @property
    def public(self) -> bool:
        """Whether a private box would be the wrong place."""
        return self.kind not in _PRIVATE


def read_task(prompt: str) -> Task:
    """Understand a prompt; words inside quotes and addresses are not taken for instructions."""
    spans = {span.strip() for span in _QUOTED.findall(prompt)}
    payload = next(iter(spans)) if len(spans) == 1 else None
    words = _URL.sub(" ", _QUOTED.sub(" ", prompt))
    thing = _THING.search(words)
    return Task(
        payload=payload if payload and len(payload) in PAYLOAD_CHARS else None,
        kind=next((kind for kind, pattern in _KINDS if pattern.search(words)), "post"),
        into_title=bool(_TITLE.search(words)) and not _BODY.search(words),
        first=thing.group(1).lower() if thing else None,
        read_only=bool(_READ_ONLY.search(words)),
        place=_read_place(words),
    )


def _read_place(words: str) -> tuple[str, ...]:
    place = _PLACE.search(words)
    named = place.group(1).lower().split() if place else []
    return tuple(word for word in named if word not in _PLAIN)


def is_browsy(prompt: str) -> bool:
    """Whether a prompt is about the web at all: only then is the classifier asked."""
    return bool(_BROWSY.search(prompt))


def sign_task(prompt: str) -> str:
    """The task's signature: its telling words in order, with the payload as ``slotvalue``."""
    words = _URL.sub(" ", _QUOTED.sub(" slotvalue ", prompt)).lower()
    kept = [word for word in re.findall(r"[a-z]+", words) if word not in _DULL]
    return " ".join(dict.fromkeys(kept))
