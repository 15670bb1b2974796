"""Browser cards: reuse of one on the same host, or a new one that is waited for until it shows a page."""

import asyncio
import secrets
import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from infra.reference.backend import lines
from infra.reference.backend.agent.hands import LOOK_PAUSE_S
from infra.reference.backend.commands import RECONNECT_WAIT_S, Relay
from infra.reference.backend.services import Services
from infra.reference.backend.sessions import Session
from infra.reference.backend.stamps import new_id, now

#: A page with more text than this has mounted.
MOUNTED_CHARS = 200
MOUNT_WAIT_S = 2.5
SECOND_MOUNT_WAIT_S = 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """The card a dispatch works on."""

    id: str
    # What the dispatch opened it at; None when it was there before, and then it has not been moved.
    opened_at: str | None


async def take_card(services: Services, parent: Session, entry: str) -> Card | None:
    """A card for a dispatch; None when no renderer is connected, after the product's 8 s.

    A card of the entry's host is reused, wherever its page stands by now, when an agent's session spawned it
    and that session is this one or has ended.
    """
    scale = services.settings.leash_scale
    if not await services.hub.wait_connected(RECONNECT_WAIT_S * scale):
        lines.REFUSED.log()
        return None
    dashboard_id = str(parent.dashboard_id)
    for browser_id, card in services.dashboards.cards(dashboard_id).items():
        if _is_reusable(services, parent, card, entry):
            lines.CARD_REUSED.log(card=browser_id)
            return Card(id=browser_id, opened_at=None)
    return await _open_card(services, parent, dashboard_id, entry)


def drop_card(services: Services, parent: Session, card: Card) -> None:
    """Take a dead card away, from the layout and from the renderer."""
    dashboard_id = str(parent.dashboard_id)
    services.dashboards.drop_card(dashboard_id, card.id)
    services.hub.broadcast("dashboard:browser_card_evict", {"dashboard_id": dashboard_id, "browser_id": card.id})


def _is_reusable(services: Services, parent: Session, card: dict[str, Any], entry: str) -> bool:
    spawner = card.get("spawned_by")
    if not spawner or urlsplit(str(card.get("url"))).netloc != urlsplit(entry).netloc:
        return False
    owner = services.sessions.find(str(spawner))
    return spawner == parent.id or owner is None or owner.ended


async def _open_card(services: Services, parent: Session, dashboard_id: str, entry: str) -> Card:
    card = _make_card(dashboard_id, parent.id, entry)
    services.dashboards.add_card(dashboard_id, card)
    added = {"dashboard_id": dashboard_id, "browser_card": card, "parent_session_id": parent.id}
    browser_id = card["browser_id"]
    lines.CARD_OPENED.log(card=browser_id, url=entry)
    services.hub.broadcast("dashboard:browser_card_added", added)
    started = time.monotonic()
    relay, scale = services.injections[parent.id], services.settings.leash_scale
    if not await _shows_page(relay, browser_id, MOUNT_WAIT_S * scale):
        services.hub.broadcast("dashboard:browser_card_added", added)
        alive = await _shows_page(relay, browser_id, SECOND_MOUNT_WAIT_S * scale)
        lines.SPAWN_ACK.log(card=browser_id, alive=alive)
    lines.MOUNTED.log(ms=round((time.monotonic() - started) * 1000), card=browser_id)
    return Card(id=browser_id, opened_at=entry)


async def plant_card(services: Services, parent: Session, entry: str) -> None:
    """A card of the entry's host stands there and shows a page, as a session that is gone would have left it."""
    address = urlsplit(entry)
    card = _make_card(str(parent.dashboard_id), new_id(), f"{address.scheme}://{address.netloc}/")
    services.dashboards.add_card(str(parent.dashboard_id), card)
    added = {"dashboard_id": parent.dashboard_id, "browser_card": card, "parent_session_id": card["spawned_by"]}
    services.hub.broadcast("dashboard:browser_card_added", added)
    await _shows_page(services.commands, card["browser_id"], MOUNT_WAIT_S + SECOND_MOUNT_WAIT_S)


async def _shows_page(relay: Relay, browser_id: str, limit_s: float) -> bool:
    try:
        async with asyncio.timeout(limit_s):
            while True:
                reply = await relay.run("get_text", browser_id)
                if len(str(reply.get("text", ""))) > MOUNTED_CHARS:
                    return True
                await asyncio.sleep(LOOK_PAUSE_S)
    except TimeoutError:
        return False


def _make_card(dashboard_id: str, spawned_by: str, url: str) -> dict[str, Any]:
    tab = new_id()
    return {
        "browser_id": f"browser-{secrets.token_hex(4)}",
        "url": url,
        "tabs": [{"id": tab, "url": url, "title": "", "favicon": ""}],
        "activeTabId": tab,
        "x": 0,
        "y": 0,
        "width": 1280,
        "height": 800,
        "spawned_by": spawned_by,
        "keep_open": False,
        "dashboard_id": dashboard_id,
        "docked_to": None,
        "created_at": now(),
    }
