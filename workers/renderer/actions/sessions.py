"""What needs no card but a browser session: get_session_cookies, import_session, perform_action."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from playwright.async_api import BrowserContext

from workers.renderer.actions.batching import Action, read_steps, run_steps
from workers.renderer.cards import Deck
from workers.renderer.errors import CommandError
from workers.renderer.params import read_text, require_text
from workers.renderer.protocol import Command, Reply

STEPS_MOST = 20
_SAME_SITE = {"lax": "Lax", "strict": "Strict", "none": "None", "no_restriction": "None"}


async def get_session_cookies(deck: Deck, command: Command) -> Reply:
    """The cookies of a domain and its subdomains."""
    domain = _require_domain(command.params)
    cookies = await (await _find_context(deck, command)).cookies()
    own = [dict(one) for one in cookies if _is_within(one.get("domain", ""), domain)]
    return {"text": f"{len(own)} cookies of {domain}", "cookies": own, "domain": domain}


async def import_session(deck: Deck, command: Command) -> Reply:
    """Put cookies of a domain into the session; those of other domains are left out."""
    domain = _require_domain(command.params)
    given = command.params.get("cookies")
    if not isinstance(given, list):
        raise CommandError("cookies parameter is required")
    read: list[Any] = [cookie for one in given if (cookie := read_cookie(one, domain)) is not None]
    await (await _find_context(deck, command)).add_cookies(read)
    return {
        "text": f"Imported {len(read)} of {len(given)} cookies of {domain}",
        "imported": len(read),
        "domain": domain,
    }


async def perform_action(actions: Mapping[str, Action], deck: Deck, command: Command) -> Reply:
    """Carry out steps on a page of the domain that nobody sees, in the session of the card or of bv3."""
    domain = _require_domain(command.params)
    steps = read_steps(command.params, "steps", most=STEPS_MOST)
    context = await _find_context(deck, command)
    async with deck.borrow(context) as tab:
        await tab.page.goto(f"https://{domain}/", wait_until="domcontentloaded", timeout=0)
        return await run_steps(actions, tab, steps)


def read_cookie(value: object, domain: str) -> dict[str, Any] | None:
    """A cookie as Electron or Playwright tells it, for the domain; None when it is none or another's."""
    if not isinstance(value, dict) or not isinstance(value.get("name"), str) or not isinstance(value.get("value"), str):
        return None
    own = value.get("domain") or domain
    if not isinstance(own, str) or not _is_within(own, domain):
        return None
    cookie: dict[str, Any] = {"name": value["name"], "value": value["value"], "domain": own}
    cookie["path"] = value["path"] if isinstance(value.get("path"), str) and value["path"] else "/"
    until = value.get("expires", value.get("expirationDate"))
    if isinstance(until, int | float) and until > 0:
        cookie["expires"] = float(until)
    cookie |= {name: value[name] for name in ("httpOnly", "secure") if isinstance(value.get(name), bool)}
    if same_site := _SAME_SITE.get(str(value.get("sameSite", "")).lower()):
        cookie["sameSite"] = same_site
    return cookie


def _require_domain(params: Mapping[str, Any]) -> str:
    """The domain of a command, from a bare name or an address.

    Raises:
        CommandError: there is none.
    """
    given = require_text(params, "domain").strip().lstrip(".").lower()
    host = (urlsplit(given if "://" in given else f"//{given}")).netloc
    if not host or "@" in host:
        raise CommandError(f"{read_text(params, 'domain')!r} is no domain")
    return host


def _is_within(own: str, domain: str) -> bool:
    own, host = own.lstrip(".").lower(), domain.partition(":")[0]
    return own == host or own.endswith(f".{host}")


async def _find_context(deck: Deck, command: Command) -> BrowserContext:
    """The session of the command's card; without a card, the one session that there is.

    Raises:
        CommandError: there is none, or several: a cookie must not reach a run that it is not for.
    """
    if (context := await deck.find_context(command.browser_id)) is None:
        raise CommandError(f"No browser session for {command.action}: name one of its cards")
    return context
