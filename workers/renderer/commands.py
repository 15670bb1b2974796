"""Carrying out one command: find its card, act within the deadline, and always have an answer."""

import asyncio
import logging
import time

from playwright.async_api import Error

from workers.renderer.actions import ACTIONS, CARDLESS, LOOKING
from workers.renderer.cards import Deck
from workers.renderer.errors import CardMissing, CommandError, describe
from workers.renderer.protocol import Command, Reply, deadline_s

log = logging.getLogger(__name__)


class Gate:
    """How long a command waited before its action began."""

    def __init__(self, began_at: float) -> None:
        self._began_at = began_at
        self.ms = 0

    def open(self) -> None:
        """The action begins now."""
        self.ms = round((time.monotonic() - self._began_at) * 1000)


async def execute(deck: Deck, command: Command, cap_s: float | None = None) -> Reply:
    """Carry out one command; the whole reply, whatever fails, inside the leash and within `cap_s`."""
    began_at = time.monotonic()
    gate = Gate(began_at)
    limit_s = deadline_s(command.action, cap_s)
    try:
        async with asyncio.timeout(limit_s):
            reply = await _act(deck, command, gate)
    except TimeoutError:
        reply = {"error": describe_timeout(command.action, limit_s)}
    except CommandError as error:
        reply = {"error": str(error)}
    except Error as error:
        reply = {"error": f"Browser command failed: {describe(error)}"}
    except Exception as error:
        # Even a command that meets a bug of ours must be answered: silence would look like a dead page.
        log.exception("%s on %s met a bug", command.action, command.browser_id)
        reply = {"error": f"Browser command failed: {describe(error)}"}
    total_ms = round((time.monotonic() - began_at) * 1000)
    return {"request_id": command.request_id, **reply, "gate_ms": gate.ms, "total_ms": total_ms}


def describe_timeout(action: str, limit_s: float) -> str:
    """The error of a command whose page did not answer in time."""
    silence = f"no answer in {limit_s:g} s"
    if action == "list_interactives":
        return f"getFullAXTree failed: the page is too busy to read right now ({silence}); try again shortly"
    if action == "screenshot":
        return f"Screenshot failed after retries: {silence}"
    return f"Browser command failed: page unresponsive ({silence})"


async def _act(deck: Deck, command: Command, gate: Gate) -> Reply:
    if (cardless := CARDLESS.get(command.action)) is not None:
        gate.open()
        return await cardless(deck, command)
    action = ACTIONS.get(command.action)
    if action is None:
        raise CommandError(f"Unknown browser action: {command.action}")
    card = await deck.find(command.browser_id, command.tab_id)
    try:
        tab = await card.tab()
        if command.action in LOOKING:
            gate.open()
            return await action(tab, command.params)
        async with tab.acting:
            gate.open()
            return await action(tab, command.params)
    except Error as error:
        if card.is_closed:
            raise CardMissing(command.browser_id) from error
        raise
