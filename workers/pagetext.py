"""How often a text is on a page that is looked at by hand: seen, absent, or could not look."""

from __future__ import annotations

import time
from dataclasses import dataclass

from broker.types import Seen
from workers.pagewords import count_payload
from workers.rawbrowser import CouldNotLookError, PageView, RawBrowser, Visit, is_same_place, parse_address

_POLL_S = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class TextFound:
    """The answer, and what it rests on."""

    answer: Seen
    # in the page's text
    count: int
    # in visible text fields: written, and not sent
    in_fields: int
    href: str
    card: str
    # why nothing is known; empty otherwise
    reason: str

    def describe(self) -> str:
        """In a line."""
        if self.answer is Seen.SEEN:
            fields = f", {self.in_fields} in text fields" if self.in_fields else ""
            return f"seen {self.count} {'time' if self.count == 1 else 'times'}{fields} at {self.href}"
        if self.answer is Seen.ABSENT:
            return f"absent at {self.href}"
        return f"could not look: {self.reason}"


def look_for(browser: RawBrowser, visit: Visit, text: str, *, wait_s: float, skip_frames: bool = False) -> TextFound:
    """Whether the page that was arrived at holds the text, which may still appear for `wait_s`.

    Never raises for a page that stops answering or moves on: nothing is known of it then.
    """
    deadline_s = time.monotonic() + wait_s
    page = visit.page
    while True:
        found = judge(page, text, visit, skip_frames=skip_frames)
        if found.answer is Seen.SEEN or time.monotonic() >= deadline_s:
            return found
        time.sleep(_POLL_S)
        try:
            page = browser.read(visit.card)
        except CouldNotLookError as error:
            return _unknown(visit, error.message)
        if not is_same_place(parse_address(visit.page.href), page.href):
            return _unknown(visit, f"the page moved on to {page.href}")


def judge(page: PageView, text: str, visit: Visit, *, skip_frames: bool) -> TextFound:
    """The answer for the page as it was read."""
    count = count_payload(page.text, text)
    in_fields = sum(count_payload(value, text) for value in page.fields)
    reason = ""
    if not count and not in_fields:
        if page.is_cut:
            reason = "the page holds more text than can be read at once"
        elif page.unread and not skip_frames:
            reason = f"a frame of another origin can't be read: {page.unread[0]} (--skip-frames passes it over)"
    seen = Seen.SEEN if count or in_fields else Seen.COULD_NOT_LOOK if reason else Seen.ABSENT
    return TextFound(answer=seen, count=count, in_fields=in_fields, href=page.href, card=visit.card, reason=reason)


def _unknown(visit: Visit, reason: str) -> TextFound:
    return TextFound(
        answer=Seen.COULD_NOT_LOOK, count=0, in_fields=0, href=visit.page.href, card=visit.card, reason=reason
    )
