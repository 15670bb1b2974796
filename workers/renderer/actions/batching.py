"""batch: several actions of one card in a row, until one fails or leads to another page."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from playwright.async_api import Error

from workers.renderer.cards import Tab
from workers.renderer.errors import CommandError, describe
from workers.renderer.protocol import Reply

ACTIONS_MOST = 5
# A click's navigation begins a little after the click, and on a busy machine later.
SETTLE_S = 0.4
LOOK_EVERY_S = 0.02

Action = Callable[[Tab, Mapping[str, Any]], Awaitable[Reply]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One action of a batch."""

    action: str
    params: Mapping[str, Any]


def read_steps(params: Mapping[str, Any], name: str, *, most: int) -> list[Step]:
    """The steps that a parameter lists as ``{type, params}``.

    Raises:
        CommandError: it is no such list, or a longer one.
    """
    value = params.get(name)
    if not isinstance(value, list) or not value:
        raise CommandError(f"{name} parameter is required")
    if len(value) > most:
        raise CommandError(f"at most {most} {name} at once, not {len(value)}")
    steps = []
    for one in value:
        kind = one.get("type") if isinstance(one, dict) else None
        if not isinstance(kind, str):
            raise CommandError(f"each of {name} needs a type")
        given = one.get("params")
        steps.append(Step(action=kind, params=given if isinstance(given, dict) else {}))
    return steps


async def run_batch(actions: Mapping[str, Action], tab: Tab, params: Mapping[str, Any]) -> Reply:
    """Carry out up to five actions; it stops after one that fails, and after one that leads to another page."""
    steps = read_steps(params, "actions", most=ACTIONS_MOST)
    heals = {"selfheal": True} if params.get("selfheal") else {}
    return await run_steps(actions, tab, [Step(action=s.action, params={**heals, **s.params}) for s in steps])


async def run_steps(actions: Mapping[str, Action], tab: Tab, steps: Sequence[Step]) -> Reply:
    """Carry the steps out; ``aborted_at`` is the number of the one it stopped at, counted from 0, or None."""
    results: list[Reply] = []
    reason = None
    for number, step in enumerate(steps):
        before = tab.page.url
        results.append({"type": step.action, **await _run_step(actions, tab, step)})
        if "error" in results[-1]:
            reason = f"error: {results[-1]['error']}"
        elif number < len(steps) - 1 and await _is_elsewhere(tab, before):
            reason = f"url changed to {tab.page.url}"
        if reason is not None:
            break
    done = len(results) - ("error" in results[-1])
    return {
        "text": f"{done} of {len(steps)} actions done" + (f"; stopped: {reason}" if reason else ""),
        "results": results,
        "aborted_at": None if reason is None else len(results) - 1,
        "abort_reason": reason,
        "url": tab.page.url,
    }


async def _run_step(actions: Mapping[str, Action], tab: Tab, step: Step) -> Reply:
    action = actions.get(step.action)
    if action is None:
        return {"error": f"Unknown browser action: {step.action}"}
    try:
        return await action(tab, step.params)
    except CommandError as error:
        return {"error": str(error)}
    except Error as error:
        if tab.page.is_closed():
            raise  # the card has gone, and the batch with it
        return {"error": f"Browser command failed: {describe(error)}"}


async def _is_elsewhere(tab: Tab, before: str) -> bool:
    loop = asyncio.get_running_loop()
    end = loop.time() + SETTLE_S
    while True:
        if tab.page.url != before or loop.time() > end:
            return tab.page.url != before
        await asyncio.sleep(LOOK_EVERY_S)
