"""What a page read says: the payload counted per editable, and three answers to every question. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

from broker.codec import clean_text
from broker.markers import read_pattern
from broker.types import Editable, PageRead, Seen

KEPT_EDITABLES = 40
KEPT_TEXT_CHARS = 200
KEPT_LABEL_CHARS = 80
KEPT_URL_CHARS = 2000

_DOUBLE_QUOTES = "\u201c\u201d\u201e\u00ab\u00bb"
_SINGLE_QUOTES = "\u2018\u2019\u201a"
_QUOTES = str.maketrans(dict.fromkeys(_DOUBLE_QUOTES, '"') | dict.fromkeys(_SINGLE_QUOTES, "'"))
# What editors put into empty or edited text, and nobody typed.
_INVISIBLE = re.compile("[\u200b\u200c\u200d\u2060\ufeff\u00ad]")
# A text box in the accessibility listing (contract section 4), with its value.
_LISTED_VALUE = re.compile(read_pattern("reply_listed_value"), re.MULTILINE)
# The listing cuts values; a payload's first 24 characters tell it from any other.
_LISTED_VALUE_CHARS = 60
_DISTINCT_CHARS = 24


def normalise(text: str) -> str:
    """The text as a reader sees it: one space for any white space, straight quotes, nothing invisible."""
    plain = _INVISIBLE.sub("", unicodedata.normalize("NFC", text)).translate(_QUOTES)
    return " ".join(plain.split())


def count_payload(text: str, payload: str) -> int:
    """How often the text holds the payload, both normalised."""
    wanted = normalise(payload)
    return normalise(text).count(wanted) if wanted else 0


def count_listed(listing: str, payload: str) -> int:
    """How many text boxes of an accessibility listing hold the payload, as far as the listing shows values."""
    wanted = normalise(payload)
    values = [normalise(value) for value in _LISTED_VALUE.findall(listing)]
    if len(wanted) <= _LISTED_VALUE_CHARS - 2:
        return sum(wanted in value for value in values)
    return sum(wanted[:_DISTINCT_CHARS] in value for value in values)


def read_editables(plain: Sequence[Mapping[str, Any]], payload: str) -> tuple[tuple[Editable, ...], bool]:
    """The editables with their payload counts, those that hold it first, and whether any text had to be cleaned."""
    sanitised = False
    found: list[Editable] = []
    for item in plain:
        text, text_dirty = clean_text(str(item.get("text", "")))
        label, label_dirty = clean_text(str(item.get("label", "")))
        sanitised = sanitised or text_dirty or label_dirty
        found.append(
            Editable(
                frame=int(item.get("frame", 0)),
                frame_url=clean_text(str(item.get("frame_url", "")))[0][:KEPT_URL_CHARS],
                kind=str(item.get("kind", "")),
                label=label[:KEPT_LABEL_CHARS],
                payload_count=count_payload(text, payload),
                text=text[:KEPT_TEXT_CHARS],
            )
        )
    found.sort(key=lambda editable: editable.payload_count == 0)
    return tuple(found), sanitised


def is_read_in_part(plain: Mapping[str, Any]) -> bool:
    """Whether the page held more text in editables than was brought over."""
    items = plain.get("editables", ())
    return bool(plain.get("skipped")) or any(len(item.get("text", "")) < item.get("length", 0) for item in items)


def judge_payload(*, count: int, frames_unread: int, in_part: bool) -> Seen:
    """Absence is an answer only when all of the page could be read."""
    if count:
        return Seen.SEEN
    return Seen.COULD_NOT_LOOK if frames_unread or in_part else Seen.ABSENT


def interpret(
    plain: Mapping[str, Any],
    *,
    card: str,
    payload: str,
    listing: str | None,
    after_dispatch: int,
    offset_ms: int,
    duration_ms: int,
) -> PageRead:
    """The page read that these values from the page make. `listing`: asked for only when frames stayed closed."""
    editables, sanitised = read_editables(plain.get("editables", ()), payload)
    title, title_dirty = clean_text(str(plain.get("title", "")))
    count = sum(editable.payload_count for editable in editables)
    unread = int(plain.get("unread", 0))
    holding = sum(editable.payload_count > 0 for editable in editables)
    beyond = max(0, count_listed(listing, payload) - holding) if listing is not None else 0
    if beyond:
        # the listing showed it where evaluate can't enter
        editables = (_listed_editable(beyond), *editables)
        count += beyond
        unread = max(0, unread - 1)
    return PageRead(
        card=card,
        after_dispatch=after_dispatch,
        offset_ms=offset_ms,
        duration_ms=duration_ms,
        url=clean_text(str(plain.get("url", "")))[0][:KEPT_URL_CHARS],
        title=title[:KEPT_TEXT_CHARS],
        payload=judge_payload(count=count, frames_unread=unread, in_part=is_read_in_part(plain)),
        payload_count=count,
        editables=editables[:KEPT_EDITABLES],
        frames=int(plain.get("frames", 0)),
        frames_unread=unread,
        password_form=_seen(plain.get("password_form")),
        challenge=_seen(plain.get("challenge")),
        sanitised=sanitised or title_dirty,
    )


def blind_read(*, card: str, after_dispatch: int, offset_ms: int, duration_ms: int, error: str) -> PageRead:
    """A read that gave nothing: every answer is 'could not look'."""
    blind = Seen.COULD_NOT_LOOK
    return PageRead(
        card=card,
        after_dispatch=after_dispatch,
        offset_ms=offset_ms,
        duration_ms=duration_ms,
        url="",
        title="",
        payload=blind,
        payload_count=0,
        editables=(),
        frames=0,
        frames_unread=0,
        password_form=blind,
        challenge=blind,
        error=clean_text(error)[0][:500],
    )


def _listed_editable(count: int) -> Editable:
    return Editable(frame=-1, frame_url="", kind="listing", label="", payload_count=count, text="")


def _seen(value: object) -> Seen:
    if not isinstance(value, bool):
        return Seen.COULD_NOT_LOOK
    return Seen.SEEN if value else Seen.ABSENT
