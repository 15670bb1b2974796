"""One dispatch: a child session that prestages a card, runs the send script, and is called a ghost for it."""

import asyncio
import time
from dataclasses import dataclass
from urllib.parse import urlsplit

from infra.reference.backend import lines
from infra.reference.backend.agent.cards import Card, drop_card
from infra.reference.backend.agent.composers import choose
from infra.reference.backend.agent.hands import Hands, Meter
from infra.reference.backend.agent.listing import View
from infra.reference.backend.agent.prestage import Stage, prestage
from infra.reference.backend.agent.sendscript import End, Script
from infra.reference.backend.agent.wording import Task, sign_task
from infra.reference.backend.metrics import TaskRow
from infra.reference.backend.services import Services
from infra.reference.backend.sessions import CHILD_MODE, Session
from infra.reference.backend.stamps import now

PRESTAGE_LIMIT_S = 35.0
SCRIPT_LIMIT_S = 75.0
REPORT_URL_CHARS = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What a dispatch is asked to do."""

    parent: Session
    task: Task
    # The child's whole prompt, the routing brief included.
    prompt: str
    # The user's own words, which the signature of the task is made of.
    request: str
    card: Card
    # An earlier dispatch of the same session opened the first thing that the task names.
    opened_first: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a dispatch ended."""

    # The child session.
    child: str
    # The card it worked on.
    card: str
    end: End | None
    # A listed element took the payload: nobody knows what may have been sent.
    typed: bool
    opened_first: bool
    # The renderer was gone at the end.
    lost: bool
    # The card showed nothing and was taken away.
    dead_card: bool


async def run_dispatch(services: Services, order: Order) -> Outcome:
    """Run one dispatch to its end: its metrics row is written before its terminal push."""
    started = time.monotonic()
    child = _start_child(services, order)
    hands = Hands(services.commands, order.card.id)
    stage = await _prestage(services, hands, order)
    prestage_ms = round((time.monotonic() - started) * 1000)
    hands.meter = Meter()
    script: Script | None = None
    end: End | None = None
    dead = await _is_dead(hands, stage.view)
    if dead:
        lines.DEAD_CARD.log(child=child.id, card=order.card.id)
        drop_card(services, order.parent, order.card)
    else:
        stage.view = await hands.look()
        script = _make_script(hands, order, stage)
        end = await _run_script(script, stage.view)
        if not hands.lost:
            await hands.screenshot()
    task_ms = round((time.monotonic() - started) * 1000)
    _close_child(services, order, child, hands.meter, prestage_ms=prestage_ms, task_ms=task_ms)
    return Outcome(
        card=order.card.id,
        child=child.id,
        end=end,
        typed=bool(script and script.typed),
        opened_first=order.opened_first or stage.opened_first,
        lost=not services.hub.connected,
        dead_card=dead,
    )


def _start_child(services: Services, order: Order) -> Session:
    child = services.sessions.add(
        Session(
            name="Browser Agent",
            mode=CHILD_MODE,
            model=order.parent.model,
            dashboard_id=order.parent.dashboard_id,
            browser_id=order.card.id,
            parent_session_id=order.parent.id,
        )
    )
    child.add_message("user", order.prompt)
    services.hub.push_status(child)
    return child


async def _prestage(services: Services, hands: Hands, order: Order) -> Stage:
    try:
        async with asyncio.timeout(PRESTAGE_LIMIT_S):
            return await prestage(hands, services.models, order.task, start_url=order.card.opened_at)
    except TimeoutError as error:
        lines.PRESTAGE_OUTER.log(error=error)
    return Stage(task=order.task, view=View())


async def _is_dead(hands: Hands, view: View) -> bool:
    """Whether the card shows nothing at all; a lost renderer is not the card's fault."""
    if view.url or view.elements or hands.lost:
        return False
    return not (await hands.read() or hands.lost)


def _make_script(hands: Hands, order: Order, stage: Stage) -> Script:
    opened = order.opened_first or stage.opened_first
    astray = order.task.first is not None and not opened
    return Script(hands=hands, task=order.task, view=stage.view, astray=astray)


async def _run_script(script: Script, before: View) -> End | None:
    """The send script within its limit, its replay check and its report; None when the limit ran out."""
    host = urlsplit(before.url).netloc
    lines.REPLAY_CHECK.log(host=host)
    lines.NO_SKILL.log(host=host)
    end: End | None = None
    try:
        async with asyncio.timeout(SCRIPT_LIMIT_S):
            end = await script.run()
    except TimeoutError as error:
        lines.SEND_OUTER.log(kind=type(error).__name__, error=error)
    choice = choose(before.elements, script.task)
    lines.DRY_REPORT.log(
        composer=choice.composer is not None,
        opener=choice.opener is not None,
        textboxes=len(before.textboxes),
        filled=end == "filled",
        url=before.url[:REPORT_URL_CHARS],
    )
    return end


def _close_child(
    services: Services, order: Order, child: Session, meter: Meter, *, prestage_ms: int, task_ms: int
) -> None:
    """The completion gate: a dry post is never confirmed, so the child ends in error."""
    row = TaskRow(
        session_id=child.id,
        browser_id=order.card.id,
        task=order.prompt,
        task_sig=sign_task(order.request),
        status="error",
        total_ms=meter.total_ms,
        tools_ms=meter.tools_ms,
        prestage_ms=prestage_ms,
        task_ms=task_ms,
        tiers=meter.tiers,
    )
    lines.GHOST.log(child=child.id)
    lines.BATCHING.log(child=child.id)
    lines.TIME.log(child=child.id, wall=row.total_ms, tools=row.tools_ms, other=max(0, row.total_ms - row.tools_ms))
    lines.OUTPUT.log(child=child.id)
    services.metrics.add(row)
    lines.TASK.log(status=row.status, ms=row.total_ms, tools=sum(row.tiers.values()))
    lines.RECORD_GATE.log()
    child.status = "error"
    child.closed_at = now()
    child.add_message("assistant", "The send was never confirmed.")
    services.hub.push_status(child)
    services.sessions.save(child)
