"""Bringing a card to where the writing happens: tiers 0 and 1, then the router's steps."""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

from infra.reference.backend import lines
from infra.reference.backend.agent import scripts
from infra.reference.backend.agent.banners import find_banner_control
from infra.reference.backend.agent.composers import choose
from infra.reference.backend.agent.hands import Hands
from infra.reference.backend.agent.listing import View
from infra.reference.backend.agent.walls import find_wall
from infra.reference.backend.agent.wording import Kind, Task
from infra.reference.backend.models import Models, ModelUnavailableError

MAX_STEPS = 6
MAX_BANNERS = 2
MAX_TOKENS = 60
TEXT_CHARS = 1500
SYSTEM = (
    "You pre-stage a browser so that a later script can write on the page. "
    "Answer with one line: NAVIGATE <url>, CLICK <number> or READY <reason>."
)
_PLAN = re.compile(r"(NAVIGATE|CLICK|READY)\b\s*(.*)", re.IGNORECASE | re.DOTALL)
# Addresses that open a composer at once, as the product keeps them: by host the kind of text, the address,
# and what a path that is already there contains.
_COMPOSE_ENTRIES: dict[str, tuple[Kind, str, str]] = {
    "x.com": ("post", "https://x.com/compose/post", "/compose"),
    "twitter.com": ("post", "https://twitter.com/compose/post", "/compose"),
    "www.linkedin.com": ("post", "https://www.linkedin.com/feed/", "/feed"),
    "www.reddit.com": ("post", "https://www.reddit.com/submit", "/submit"),
    "mail.google.com": ("email", "https://mail.google.com/mail/u/0/#inbox?compose=new", "/mail"),
}


@dataclass(slots=True, kw_only=True)
class Stage:
    """How far a prestage has come."""

    task: Task
    view: View
    steps: int = 0
    # Whether the first thing that the task names has been opened.
    opened_first: bool = False


async def prestage(hands: Hands, models: Models, task: Task, *, start_url: str | None) -> Stage:
    """Lead the card to a composer or an opener, as far as that is known; logs every step.

    Without a start address the card is another dispatch's: it is looked at, and neither tier 1 nor the table
    of compose entries moves it.
    """
    started = time.monotonic()
    lines.PRESTAGE_START.log(url=start_url or "(none)")
    opens_first = bool(start_url and task.first)
    view = await _arrive(hands, lambda seen: _is_shut(seen) or _offers(seen, task, composer_only=opens_first))
    stage = Stage(task=task, view=view)
    if choose(view.elements, task).composer:
        lines.PRESTAGE_TIER0.log(ms=_ms(started))
    elif not view.error:
        # Of a page that can't be read the router knows no more.
        await _approach(hands, models, stage, start_url=start_url)
    lines.PRESTAGE_DONE.log(steps=stage.steps, url=stage.view.url, ms=_ms(started))
    return stage


async def _approach(hands: Hands, models: Models, stage: Stage, *, start_url: str | None) -> None:
    if start_url:
        await _enter_compose(hands, stage)
        await _open_first(hands, stage)
    if stage.steps and _offers(stage.view, stage.task):
        choice = choose(stage.view.elements, stage.task)
        lines.PRESTAGE_READY.log(steps=stage.steps, reason="composer visible" if choice.composer else "opener visible")
        return
    try:
        await _follow_router(hands, models, stage)
    except ModelUnavailableError as error:
        lines.PRESTAGE_SKIPPED.log(error=error)


async def _enter_compose(hands: Hands, stage: Stage) -> None:
    """Go to the host's compose address, when it has one for this kind of text and the page is elsewhere."""
    here = urlsplit(stage.view.url)
    kind, url, there = _COMPOSE_ENTRIES.get(here.netloc, (None, "", ""))
    if kind != stage.task.kind or there in here.path or stage.task.first:
        return
    await _navigate(hands, stage, url)
    if choose(stage.view.elements, stage.task).composer:
        lines.PRESTAGE_COMPOSE.log(url=url)


async def _open_first(hands: Hands, stage: Stage) -> None:
    """Tier 1: open the first thing that the task names, without asking anyone."""
    thing = stage.task.first
    if thing is None or _is_shut(stage.view):
        return
    href = await hands.evaluate(scripts.find_first_thing(thing))
    if href:
        lines.PRESTAGE_TIER1.log(thing=thing, href=href)
        stage.opened_first = await _navigate(hands, stage, href)


async def _navigate(hands: Hands, stage: Stage, url: str) -> bool:
    """Load an address and look; False when the page never got there."""
    before = stage.view.url
    await hands.navigate(url)
    stage.steps += 1
    stage.view = await _arrive(hands, lambda view: view.url != before and _offers(view, stage.task))
    settled = not stage.view.error and stage.view.url != before
    if not settled:
        lines.PRESTAGE_UNSETTLED.log(url=url)
    return settled


async def _follow_router(hands: Hands, models: Models, stage: Stage) -> None:
    """Ask for one step at a time; a READY without a composer in sight is overruled once."""
    overruled = False
    taken: set[tuple[str, str]] = set()
    while stage.steps < MAX_STEPS:
        verb, target = await _ask(hands, models, stage)
        if verb == "READY":
            if overruled or choose(stage.view.elements, stage.task).composer:
                lines.PRESTAGE_READY.log(steps=stage.steps, reason=target)
                return
            overruled = True
            continue
        if (verb, target) in taken:
            lines.PRESTAGE_REPEATED.log(verb=verb, target=target)
            return
        taken.add((verb, target))
        if verb == "NAVIGATE":
            if not await _navigate(hands, stage, target):
                return
        else:
            await hands.click(int(target))
            stage.steps += 1


async def _ask(hands: Hands, models: Models, stage: Stage) -> tuple[str, str]:
    """One planned step as verb and target; what can't be understood counts as READY."""
    started = time.monotonic()
    stage.view = await hands.look()
    perceived = time.monotonic()
    view = stage.view
    user = f"Kind of text: {stage.task.kind}\nPage: {view.url}\n{view.listing}\n{view.text[:TEXT_CHARS]}"
    reply = (await models.ask(system=SYSTEM, user=user, max_tokens=MAX_TOKENS)).strip()
    lines.PRESTAGE_STEP.log(
        step=stage.steps + 1,
        perceive=round((perceived - started) * 1000),
        aux=_ms(perceived),
        reply=reply,
    )
    plan = _PLAN.match(reply)
    verb, target = (plan.group(1).upper(), plan.group(2).strip()) if plan else ("READY", "no usable plan")
    if verb == "CLICK" and not target.isdecimal():
        return "READY", "no usable plan"
    return verb, target


async def _arrive(hands: Hands, wanted: Callable[[View], bool]) -> View:
    """Settle on a page; a cookie banner that may cover what is wanted is taken away first."""
    view = await hands.settle(wanted)
    for _ in range(MAX_BANNERS):
        control = None if wanted(view) else find_banner_control(view)
        if control is None:
            break
        await hands.click(control.index)
        view = await hands.settle(wanted)
    return view


def _is_shut(view: View) -> bool:
    wall = find_wall(view)
    return wall is not None and wall.is_certain


def _offers(view: View, task: Task, *, composer_only: bool = False) -> bool:
    choice = choose(view.elements, task)
    return bool(choice.composer or (choice.opener and not composer_only))


def _ms(since: float) -> int:
    return round((time.monotonic() - since) * 1000)
