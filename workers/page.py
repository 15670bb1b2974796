"""What a page read says: the payload counted per editable, and three answers to every question. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from broker.codec import clean_text
from broker.types import Editable, PageRead, Seen
from workers.listed import count_beyond, read_rows
from workers.pagewords import count_payload

KEPT_EDITABLES = 40
KEPT_TEXT_CHARS = 200
KEPT_LABEL_CHARS = 80
KEPT_URL_CHARS = 2000
# What `audit.js` gives. A page can bend what its own world makes of it.
_PAGE_FORM = {
    "url": str, "title": str, "editables": list, "echoes": list, "frames": int, "unread": int, "takers": int,
    "failed": int, "skipped": int,
}  # fmt: skip
_ITEM_FORM = {
    "frame": int, "frame_url": str, "kind": str, "label": str, "name": str, "text": str, "length": int, "part": bool,
}  # fmt: skip


def has_form(plain: object) -> bool:
    """Whether a page's answer is what `audit.js` gives: anything else tells nothing."""
    if not isinstance(plain, dict) or "editables" not in plain or not _fits(plain, _PAGE_FORM):
        return False
    items = [*plain["editables"], *plain.get("echoes", ())]
    return all(isinstance(item, dict) and "text" in item and _fits(item, _ITEM_FORM) for item in items)


def _fits(plain: Mapping[str, Any], form: Mapping[str, type]) -> bool:
    # a bool is an int to isinstance
    return all(type(plain[key]) is kind for key, kind in form.items() if key in plain)


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
    """Whether editables of the page may hold more than was read of them.

    More text than is brought over; an editor of which only the painted lines could be had; something that takes the
    keys for a text that is not known to be anywhere; an element that could not be read.
    """
    if any(plain.get(name) for name in ("skipped", "takers", "failed")):
        return True
    items = plain.get("editables", ())
    return any(item.get("part") or len(item.get("text", "")) < item.get("length", 0) for item in items)


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
    beyond = count_beyond(read_rows(listing or "", payload), find_holders(plain, payload))
    if unread and beyond.count:
        # the listing showed it where evaluate can't enter
        editables = (_listed_editable(beyond.count), *editables)
        count += beyond.count
        unread = max(0, unread - 1)
    in_part = is_read_in_part(plain) or not beyond.is_sure
    return PageRead(
        card=card,
        after_dispatch=after_dispatch,
        offset_ms=offset_ms,
        duration_ms=duration_ms,
        url=clean_text(str(plain.get("url", "")))[0][:KEPT_URL_CHARS],
        title=title[:KEPT_TEXT_CHARS],
        payload=judge_payload(count=count, frames_unread=unread, in_part=in_part),
        payload_count=count,
        editables=editables[:KEPT_EDITABLES],
        frames=int(plain.get("frames", 0)),
        frames_unread=unread,
        password_form=_seen(plain.get("password_form")),
        challenge=_seen(plain.get("challenge")),
        sanitised=sanitised or title_dirty,
        in_part=in_part,
    )


def find_holders(plain: Mapping[str, Any], payload: str) -> list[str]:
    """The names of all text boxes that hold the payload where the page could be read, also of those that only echo it.

    A listing may have a row for each of them.
    """
    items = [*plain.get("editables", ()), *plain.get("echoes", ())]
    return [str(item.get("name", "")) for item in items if count_payload(str(item.get("text", "")), payload)]


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
