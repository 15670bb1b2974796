"""A browser card driven by hand, with no model in the loop: the audit channel, and the tool for cleaning up.

A navigation is believed only by `location.href`, read on the page by `evaluate`: a wedged card answers that it
has navigated and shows what it showed before. A card that belongs to a session is never touched.
"""

from __future__ import annotations

import base64
import binascii
import fcntl
import json
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

from broker.errors import ServiceError, UsageError
from workers.client.errors import BackendAwayError, CommandFailedError, ProductError
from workers.client.product import ProductClient
from workers.stack.facts import StackFacts

BLANK = "about:blank"
# A healthy card answers in milliseconds.
LOOK_TIMEOUT_S = 3.0
NAVIGATE_TIMEOUT_S = 20.0
LEAVE_TIMEOUT_S = 5.0
SCREENSHOT_TIMEOUT_S = 15.0
_POLL_S = 0.2
# An address that stays this long is where the page wanted to go.
REDIRECT_SETTLED_S = 2.0
# A page whose text never stands still is read after that long.
RESTLESS_S = 3.0
_LIMITS = {"chars": 2_000_000, "fields": 200, "frames": 20}
_DEFAULT_PORTS = {"http": 80, "https": 443}
_PNG = b"\x89PNG\r\n\x1a\n"

Tell = Callable[[str], None]


class CouldNotLookError(ServiceError):
    """The page could not be looked at: nothing is known of it, neither that it holds a text nor that it doesn't."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CardView:
    """A card of the dashboard, as the layout names it and as its page answers."""

    card: str
    # bv3, user, or the session that spawned it
    owner: str
    tabs: int
    # by `evaluate`; empty when it did not answer
    url: str
    answers: bool
    duration_ms: int
    error: str

    @property
    def is_a_sessions(self) -> bool:
        """Whether a session of the product works on it, or did."""
        return self.owner not in {"bv3", "user"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PageView:
    """What a card's page shows now."""

    href: str
    title: str
    # innerText of the document, of its open shadow roots and of its frames of the same origin
    text: str
    # values of visible text fields
    fields: tuple[str, ...]
    # the page holds more text than was brought over
    is_cut: bool
    # addresses of visible frames that can't be looked into
    unread: tuple[str, ...]
    is_loaded: bool
    # when this document began, by the page's clock: tells two documents at one address apart
    born: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """A card that has arrived where it was sent."""

    card: str
    asked: str
    page: PageView
    duration_ms: int


def look_at_cards(
    product: ProductClient, own: frozenset[str], *, timeout_s: float = LOOK_TIMEOUT_S
) -> tuple[CardView, ...]:
    """Every card of the layout, all asked at the same time where they are. Raises a ProductError without a layout."""
    cards: Mapping[str, Any] = product.read_layout().get("browser_cards") or {}
    if not cards:
        return ()
    with ThreadPoolExecutor(max_workers=min(len(cards), 32)) as pool:
        looks = [pool.submit(_look_at, product, str(key), card, own, timeout_s) for key, card in sorted(cards.items())]
        return tuple(look.result() for look in looks)


def _look_at(product: ProductClient, card: str, plain: Any, own: frozenset[str], timeout_s: float) -> CardView:
    begun_s = time.monotonic()
    url = error = ""
    try:
        url = product.evaluate(card, "location.href", timeout_s=timeout_s)
    except ProductError as failure:
        error = failure.message
    particulars = plain if isinstance(plain, dict) else {}
    return CardView(
        card=card,
        owner="bv3" if card in own else str(particulars.get("spawned_by") or "user"),
        tabs=max(1, len(particulars.get("tabs") or ())),
        url=url,
        answers=not error,
        duration_ms=round((time.monotonic() - begun_s) * 1000),
        error=error,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RawBrowser:
    """The cards of one booted stack, for one user at a time. `tell` hears what a person should know meanwhile."""

    product: ProductClient
    facts: StackFacts
    # the box's folder, where whoever drives a card holds a lock
    folder: Path
    tell: Tell

    @contextmanager
    def visit(
        self, url: str, *, deadline_s: float, follow: bool = False, needs_text: bool = True, may_use_audit: bool = False
    ) -> Iterator[Visit]:
        """A card that is at `url` (host and path), believed by its own `location.href`; afterwards it is back.

        `follow`: wherever the page went is right. `deadline_s` (monotonic) is for arriving. Raises CouldNotLookError,
        and UsageError for what is no address of a web page.
        """
        wanted = parse_address(url)
        begun_s = time.monotonic()
        with _only_one(self.folder / "rawbrowser.lock", deadline_s):
            card, was_at = self._choose(may_use_audit=may_use_audit)
            try:
                page = self._go(card, url, None if follow else wanted, deadline_s, needs_text=needs_text)
                if not is_same_place(wanted, page.href):
                    self.tell(f"redirected: {url} led to {page.href}")
                yield Visit(card=card, asked=url, page=page, duration_ms=round((time.monotonic() - begun_s) * 1000))
            finally:
                self._leave(card, was_at)

    def read(self, card: str, *, timeout_s: float = LOOK_TIMEOUT_S) -> PageView:
        """What the card's page shows now. Raises CouldNotLookError."""
        try:
            return read_page(self.product, card, timeout_s=timeout_s)
        except ProductError as error:
            raise CouldNotLookError(error.message) from error

    def _choose(self, *, may_use_audit: bool) -> tuple[str, str]:
        """A card that answers and nobody works on, and where it is. Wedged ones are named and passed over."""
        try:
            cards = self.product.list_cards()
        except ProductError as error:
            raise CouldNotLookError(f"the backend does not tell its cards: {error.message}") from error
        raw, audit = self.facts.raw_card, self.facts.audit_card
        candidates = order_candidates(cards, raw_card=raw, audit_card=audit, may_use_audit=may_use_audit)
        for card in candidates:
            try:
                return card, self.product.evaluate(card, "location.href", timeout_s=LOOK_TIMEOUT_S)
            except ProductError as error:
                self.tell(f"card {card} is wedged, passed over: {error.message}")
        raise CouldNotLookError(
            f"no card answers, of {len(candidates)} that may be used: {', '.join(candidates)}",
            hint="bv3-box cards shows them all; bv3-box restart renderer makes them anew",
        )

    def _go(self, card: str, url: str, wanted: SplitResult | None, deadline_s: float, *, needs_text: bool) -> PageView:
        before = self.read(card)
        self._navigate(card, url, deadline_s)
        watch = Watch(born_before=before.born, wanted=wanted, needs_text=needs_text)
        while (left_s := deadline_s - time.monotonic()) > 0:
            try:
                page = read_page(self.product, card, timeout_s=min(LOOK_TIMEOUT_S, left_s))
            except ProductError as error:
                watch.note_failure(error.message)
            else:
                if watch.believes(page, time.monotonic()):
                    return page
            time.sleep(min(_POLL_S, max(0.0, deadline_s - time.monotonic())))
        raise CouldNotLookError(f"{url} could not be looked at in time: {watch.said}")

    def _navigate(self, card: str, url: str, deadline_s: float) -> None:
        timeout_s = min(NAVIGATE_TIMEOUT_S, deadline_s - time.monotonic())
        try:
            self.product.command("navigate", card, {"url": url}, timeout_s=max(0.1, timeout_s))
        except CommandFailedError as error:
            raise CouldNotLookError(f"{url} was not loaded: {error.message}") from error
        except BackendAwayError:
            # A page may be there while something of it still loads: the page itself is asked.
            return
        except ProductError as error:
            raise CouldNotLookError(f"{url} was not loaded: {error.message}") from error

    def _leave(self, card: str, was_at: str) -> None:
        own = {self.facts.audit_card, self.facts.raw_card}
        back_to = BLANK if card in own else was_at
        try:
            self.product.command("navigate", card, {"url": back_to}, timeout_s=LEAVE_TIMEOUT_S)
            is_back = self.product.evaluate(card, "location.href", timeout_s=LOOK_TIMEOUT_S) == back_to
            said = "it is elsewhere" if not is_back else ""
        except ProductError as error:
            said = error.message
        if said:
            self.tell(f"card {card} did not go back to {back_to}: {said}")


class Watch:
    """Whether a page that is looked at again and again has arrived; `said`: why not yet."""

    def __init__(self, *, born_before: float, wanted: SplitResult | None, needs_text: bool) -> None:
        self._born_before = born_before
        self._wanted = wanted
        self._needs_text = needs_text
        self._last: PageView | None = None
        # since when the address has been the present one
        self._since_s = 0.0
        self.said = "the page did not answer"

    def note_failure(self, message: str) -> None:
        """A look that came to nothing."""
        self._last = None
        self.said = message

    def believes(self, page: PageView, now_s: float) -> bool:
        """Whether this is the page that was asked for, standing still. Raises CouldNotLookError when it can't be."""
        last, self._last = self._last, page
        if last is None or last.href != page.href or last.born != page.born:
            self._since_s = now_s
            last = None
        stood_s = now_s - self._since_s
        if page.born == self._born_before:
            self.said = f"the card stayed at {page.href}"
            return False
        if self._wanted is not None and not is_same_place(self._wanted, page.href):
            self.said = f"redirected: the page is at {page.href}"
            if page.is_loaded and stood_s >= REDIRECT_SETTLED_S:
                raise CouldNotLookError(
                    f"{self._wanted.geturl()} could not be looked at: {self.said}",
                    hint="--follow takes the page that it leads to",
                )
            return False
        if self._wanted is None and urlsplit(page.href).scheme not in _DEFAULT_PORTS:
            self.said = f"the page is at {page.href}"
            return False
        if self._needs_text and not page.text.strip():
            self.said = f"{page.href} shows no text"
            return False
        self.said = f"{page.href} still loads"
        is_still = last is not None and last.text == page.text
        return (is_still and page.is_loaded) or stood_s >= RESTLESS_S


def order_candidates(
    cards: Mapping[str, str | None], *, raw_card: str, audit_card: str, may_use_audit: bool
) -> tuple[str, ...]:
    """The cards that may be driven by hand, in order: bv3's own, then a user's. Never one that a session spawned."""
    own = (raw_card, audit_card) if may_use_audit else (raw_card,)
    others = sorted(card for card, spawner in cards.items() if not spawner and card not in {raw_card, audit_card})
    return (*(card for card in own if card in cards and not cards[card]), *others)


def read_page(product: ProductClient, card: str, *, timeout_s: float) -> PageView:
    """What the card's page shows now. Raises a ProductError."""
    text = product.evaluate(card, _EXPRESSION, timeout_s=timeout_s)
    try:
        plain = json.loads(text)
        return PageView(
            href=str(plain["href"]),
            title=str(plain["title"]),
            text=str(plain["text"]),
            fields=tuple(str(value) for value in plain["fields"]),
            is_cut=int(plain["chars"]) > len(str(plain["text"]).encode("utf-16-le", "surrogatepass")) // 2,
            unread=tuple(str(url) for url in plain["unread"]),
            is_loaded=plain["state"] == "complete",
            born=float(plain["born"]),
        )
    except (ValueError, TypeError, KeyError) as error:
        raise ProductError(f"the page's answer can't be read: {text[:100]}") from error


def take_picture(product: ProductClient, card: str) -> bytes:
    """The card's page as a PNG. Raises CouldNotLookError."""
    try:
        reply = product.command("screenshot", card, {"annotate": False}, timeout_s=SCREENSHOT_TIMEOUT_S)
        data = base64.b64decode(str(reply.get("image", "")), validate=True)
    except (ProductError, binascii.Error) as error:
        raise CouldNotLookError(f"no picture of {card}: {error}") from error
    if not data.startswith(_PNG):
        raise CouldNotLookError(f"no picture of {card}: the reply holds no PNG")
    return data


def parse_address(url: str) -> SplitResult:
    """The address in its parts. Raises UsageError for what is no http or https address."""
    try:
        parts = urlsplit(url)
        if parts.scheme in _DEFAULT_PORTS and _place_of(parts)[0]:
            return parts
    except ValueError:
        pass
    raise UsageError(f"{url!r} is no address of a web page", hint="give it whole: https://host/path")


def is_same_place(wanted: SplitResult, href: str) -> bool:
    """Whether host, port and path are the same; a move from http to https, a last slash, query and hash don't count."""
    try:
        found = urlsplit(href)
        asked_at, found_at = _place_of(wanted), _place_of(found)
    except ValueError:
        return False
    is_upgraded = (asked_at[1], found_at[1]) == (_DEFAULT_PORTS["http"], _DEFAULT_PORTS["https"])
    same_path = _path_of(found) == _path_of(wanted)
    return (
        found.scheme in _DEFAULT_PORTS
        and same_path
        and (found_at == asked_at or (is_upgraded and asked_at[0] == found_at[0]))
    )


def _place_of(parts: SplitResult) -> tuple[str, int | None]:
    """Host and port as a browser writes them. Raises ValueError for a host or a port that can't be."""
    host = (parts.hostname or "").encode("idna").decode("ascii")
    return host, parts.port or _DEFAULT_PORTS.get(parts.scheme)


def _path_of(parts: SplitResult) -> str:
    return unquote(parts.path or "/").rstrip("/")


@contextmanager
def _only_one(lock: Path, deadline_s: float) -> Iterator[None]:
    """Nobody else drives a card of this box by hand within the block."""
    with lock.open("a") as held:
        while True:
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline_s:
                    raise CouldNotLookError("another command drives this box's raw card") from None
                time.sleep(_POLL_S)
        yield


def _make_expression() -> str:
    source = resources.files("workers").joinpath("rawpage.js").read_text("utf-8")
    return f"{source.strip()}({json.dumps(_LIMITS)})"


_EXPRESSION = _make_expression()
