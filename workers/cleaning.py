"""A clean start: no card, session or child of an earlier run is left in the product (contract 2.3)."""

from __future__ import annotations

import time
from dataclasses import dataclass

from broker.errors import Bv3Error
from workers.client.errors import CommandFailedError
from workers.client.product import ProductClient

# The renderer reads the layout every 0.25 s while it holds a card of an ended session, and closes by itself at 3 s.
UNMOUNT_TIMEOUT_S = 5.0
QUIET_TIMEOUT_S = 10.0
_POLL_S = 0.02
_LOOK_TIMEOUT_S = 3.0


class NotCleanError(Bv3Error):
    """Something of a run is still there after its teardown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftovers:
    """What of our runs is in the product now."""

    sessions: tuple[str, ...]
    cards: tuple[str, ...]

    @property
    def is_any(self) -> bool:
        """Whether there is anything to remove."""
        return bool(self.sessions or self.cards)


def find_leftovers(product: ProductClient, audit_card: str) -> Leftovers:
    """Our sessions, children without a parent, and every card that is not the audit card."""
    sessions = tuple(line.session_id for line in product.list_sessions() if line.is_ours)
    cards = tuple(card for card, spawner in product.list_cards().items() if card != audit_card and spawner)
    return Leftovers(sessions=sessions, cards=cards)


def clean_up(product: ProductClient, leftovers: Leftovers) -> None:
    """Sessions are stopped and gone, cards are out of the layout and unmounted, the product is quiet.

    Raises NotCleanError naming what stayed, or a ProductError.
    """
    for session_id in leftovers.sessions:
        product.delete_session(session_id)
    if leftovers.cards:
        product.remove_cards(frozenset(leftovers.cards))
    for card in leftovers.cards:
        _wait_until_unmounted(product, card)
    _wait_until_quiet(product)


def _wait_until_unmounted(product: ProductClient, card: str) -> None:
    deadline_s = time.monotonic() + UNMOUNT_TIMEOUT_S
    while _answers(product, card):
        if time.monotonic() > deadline_s:
            raise NotCleanError(f"card {card} is still shown {UNMOUNT_TIMEOUT_S:.0f} s after it left the layout")
        time.sleep(_POLL_S)


def _answers(product: ProductClient, card: str) -> bool:
    try:
        product.evaluate(card, "1", timeout_s=_LOOK_TIMEOUT_S)
    except CommandFailedError:
        return False
    return True


def _wait_until_quiet(product: ProductClient) -> None:
    deadline_s = time.monotonic() + QUIET_TIMEOUT_S
    while active := product.count_active():
        if time.monotonic() > deadline_s:
            raise NotCleanError(f"the product still works on {active} sessions")
        time.sleep(_POLL_S)
