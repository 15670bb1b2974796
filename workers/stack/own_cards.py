"""The one dashboard that is used, and bv3's own cards on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from broker.errors import StackError
from workers.client.product import ProductClient
from workers.stack.driver import AUDIT_CARD, RAW_CARD


def pin_dashboard(open_product: Callable[[str], ProductClient]) -> str:
    """The id of the one dashboard, which holds bv3's own cards and nothing else now.

    A renderer reads a layout when it mounts, and hears of no change to it: so this comes before the renderer.
    """
    with open_product("") as product:
        found = product.list_dashboards()
    if len(found) != 1:
        raise StackError(f"a fresh data root has {len(found)} dashboards instead of one")
    with open_product(found[0]) as product:
        cards = {card: _describe_card(card, found[0]) for card in (AUDIT_CARD, RAW_CARD)}
        product.write_layout({**product.read_layout(), "browser_cards": cards})
    return found[0]


def _describe_card(browser_id: str, dashboard_id: str) -> dict[str, Any]:
    """A user's card, which the product never reuses and never closes."""
    return {
        "browser_id": browser_id,
        "url": "about:blank",
        "tabs": [],
        "activeTabId": "",
        "spawned_by": None,
        "keep_open": True,
        "dashboard_id": dashboard_id,
        "x": 0,
        "y": 0,
        "width": 400,
        "height": 300,
    }
