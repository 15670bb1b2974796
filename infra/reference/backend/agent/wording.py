"""What a prompt asks for: the payload, the kind of text, and what to open first. Pure."""

import re
from dataclasses import dataclass
from typing import Literal

Kind = Literal["email", "comment", "message", "chat", "note", "post"]
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
)
_THING = re.compile(
    r"\bfirst\s+(?:[\w-]+\s+){0,2}?(video|reel|post|channel|stream|article|story|thread|result|link)\b",
    re.IGNORECASE,
)
_TITLE = re.compile(r"\b(?:title|subject|headline)\b", re.IGNORECASE)
_BODY = re.compile(r"\bbody\b", re.IGNORECASE)
_PUBLIC: frozenset[Kind] = frozenset({"comment", "note", "post", "chat"})
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

    @property
    def public(self) -> bool:
        """Whether a private box would be the wrong place."""
        return self.kind in _PUBLIC


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
    )


def is_browsy(prompt: str) -> bool:
    """Whether a prompt is about the web at all: only then is the classifier asked."""
    return bool(_BROWSY.search(prompt))


def sign_task(prompt: str) -> str:
    """The task's signature: its telling words in order, with the payload as ``slotvalue``."""
    words = _URL.sub(" ", _QUOTED.sub(" slotvalue ", prompt)).lower()
    kept = [word for word in re.findall(r"[a-z]+", words) if word not in _DULL]
    return " ".join(dict.fromkeys(kept))
