"""Reading the page ourselves, at once after the session's end and before the product closes the card."""

from __future__ import annotations

import base64
import binascii
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

from broker.types import PageRead
from workers.client.errors import ProductError
from workers.client.product import ProductClient
from workers.page import blind_read, has_form, interpret

# The product closes the card 3 s after the session's end (contract 3.3, rule 6).
AUDIT_WINDOW_S = 2.5
# An editor may take a text back, or show it late: most have made up their mind by then.
SETTLED_S = 0.7
# What fails sooner was answered: a page on its way elsewhere can't be read, and can soon after.
_AT_ONCE_MS = 500
# All that a page may bring over: an answer of some hundred kB still comes in time.
_LIMITS = {"chars": 400_000, "full": 500, "empty": 20, "echoes": 40, "echo": 1_000}


def make_expression() -> str:
    """The expression that reads a page: `audit.js` applied to its limits."""
    source = resources.files("workers").joinpath("audit.js").read_text("utf-8")
    return f"{source.strip()}({json.dumps(_LIMITS)})"


_EXPRESSION = make_expression()


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditTarget:
    """Which pages are read, for what, and until when."""

    payload: str
    # cards that this run's session spawned, and no others
    cards: tuple[str, ...]
    after_dispatch: int
    # monotonic: the terminal push
    ended_s: float

    @property
    def deadline_s(self) -> float:
        """Until then the cards are surely there (monotonic)."""
        return self.ended_s + AUDIT_WINDOW_S


def choose_cards(cards: Mapping[str, str | None], spawners: frozenset[str]) -> tuple[str, ...]:
    """The cards that one of these sessions spawned: no other card is evidence for the run."""
    return tuple(sorted(card for card, spawner in cards.items() if spawner in spawners))


def read_cards(product: ProductClient, target: AuditTarget) -> tuple[PageRead, ...]:
    """One read per card at once, and another of each that may tell more once its editors have settled.

    A card whose read failed at once is read again while the window lasts. One that could not be done in time says so.
    Frames that can't be entered are asked about with the settled read alone: a listing of a page with a hundred of
    them takes as long as the rest of the window, and the settled read must not wait for it.
    """
    reads = _read_each(product, target.cards, target, with_listing=False)
    again = [read.card for read in reads if read.editables or read.frames_unread or _may_recover(read)]
    at_s = max(target.ended_s + SETTLED_S, time.monotonic())
    while again and at_s < target.deadline_s:
        time.sleep(max(0.0, at_s - time.monotonic()))
        later = _read_each(product, again, target, with_listing=True)
        reads += later
        again = [read.card for read in later if _may_recover(read)]
        at_s = time.monotonic() + SETTLED_S
    return reads


def _read_each(
    product: ProductClient, cards: Sequence[str], target: AuditTarget, *, with_listing: bool
) -> tuple[PageRead, ...]:
    """One read per card, each with an equal part of the time that is left: one that hangs costs no other its read."""
    reads = []
    for left, card in zip(range(len(cards), 0, -1), cards, strict=True):
        now_s = time.monotonic()
        until_s = now_s + (target.deadline_s - now_s) / left
        reads.append(_read_card(product, card, target, until_s=until_s, with_listing=with_listing))
    return tuple(reads)


def _may_recover(read: PageRead) -> bool:
    return bool(read.error) and read.duration_ms < _AT_ONCE_MS


def _read_card(
    product: ProductClient, card: str, target: AuditTarget, *, until_s: float, with_listing: bool
) -> PageRead:
    """What the card's page shows now. Never raises a ProductError: the read itself says what went wrong."""
    begun_s = time.monotonic()
    offset_ms = round((begun_s - target.ended_s) * 1000)
    listing = None
    try:
        plain = _read_page(product, card, until_s - begun_s)
        if with_listing and plain.get("unread"):
            listing = _list_elements(product, card, until_s - time.monotonic())
    except ProductError as error:
        return blind_read(
            card=card,
            after_dispatch=target.after_dispatch,
            offset_ms=offset_ms,
            duration_ms=round((time.monotonic() - begun_s) * 1000),
            error=error.message,
        )
    return interpret(
        plain,
        card=card,
        payload=target.payload,
        listing=listing,
        after_dispatch=target.after_dispatch,
        offset_ms=offset_ms,
        duration_ms=round((time.monotonic() - begun_s) * 1000),
    )


def take_screenshot(product: ProductClient, card: str, *, deadline_s: float) -> bytes | None:
    """The card's page as a PNG; None when it could not be had in time."""
    left_s = deadline_s - time.monotonic()
    if left_s <= 0:
        return None
    try:
        reply = product.command("screenshot", card, {"annotate": False}, timeout_s=left_s)
        return base64.b64decode(str(reply.get("image", "")), validate=True) or None
    except (ProductError, binascii.Error):
        # a picture is for people; nothing is decided by it
        return None


def _read_page(product: ProductClient, card: str, left_s: float) -> dict[str, Any]:
    if left_s <= 0:
        raise ProductError("the time to read the page was over")
    text = product.evaluate(card, _EXPRESSION, timeout_s=left_s)
    try:
        plain: dict[str, Any] = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ProductError(f"the page's answer is no JSON: {text[:100]}") from error
    if not has_form(plain):
        raise ProductError(f"the page's answer has no such form: {text[:100]}")
    return plain


def _list_elements(product: ProductClient, card: str, left_s: float) -> str | None:
    if left_s <= 0:
        return None
    try:
        return str(product.command("list_interactives", card, {"docOrder": True}, timeout_s=left_s).get("text", ""))
    except ProductError:
        # the frames stay unread, which the read says
        return None
