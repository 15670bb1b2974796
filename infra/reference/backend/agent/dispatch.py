"""One dispatch: a child session that prestages a card, runs the send script, and is called a ghost for it."""

import asyncio
import time
from collections.abc import Callable
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
from infra.reference.backend.injection import Injection
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
    # What its metrics row says.
    total_ms: int


async def run_dispatch(services: Services, order: Order) -> Outcome:
    """Run one dispatch to its end: its metrics row is written before its terminal push."""
    started = time.monotonic()
    child = _start_child(services, order)
    injection = services.injections[order.parent.id]
    scale = services.settings.leash_scale
    hands = Hands(injection, order.card.id, scale=scale)
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
        script = _make_script(hands, order, stage, lambda: injection.strike("claims_sent"))
        _log_skills(injection, child, stage.view)
        end = await _run_script(script, stage.view, limit_s=SCRIPT_LIMIT_S * scale)
        if not hands.lost:
            await hands.screenshot()
    task_ms = round((time.monotonic() - started) * 1000)
    row = TaskRow(
        session_id=child.id,
        browser_id=order.card.id,
        task=order.prompt,
        task_sig=sign_task(order.request),
        status="completed" if end == "sent" else "error",
        total_ms=hands.meter.total_ms,
        tools_ms=hands.meter.tools_ms,
        prestage_ms=prestage_ms,
        task_ms=task_ms,
        tiers=hands.meter.tiers,
    )
    _close_child(services, injection, child, row)
    return Outcome(
        card=order.card.id,
        child=child.id,
        end=end,
        typed=bool(script and script.typed),
        opened_first=order.opened_first or stage.opened_first,
        lost=not services.hub.connected,
        dead_card=dead,
        total_ms=row.total_ms,
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
        async with asyncio.timeout(PRESTAGE_LIMIT_S * services.settings.leash_scale):
            return await prestage(hands, services.models, order.task, start_url=order.card.opened_at)
    except TimeoutError as error:
        lines.PRESTAGE_OUTER.log(error=error)
    return Stage(task=order.task, view=View())


async def _is_dead(hands: Hands, view: View) -> bool:
    """Whether the card shows nothing at all; a lost renderer is not the card's fault."""
    if view.url or view.elements or hands.lost:
        return False
    return not (await hands.read() or hands.lost)


def _make_script(hands: Hands, order: Order, stage: Stage, claims: Callable[[], bool]) -> Script:
    opened = order.opened_first or stage.opened_first
    astray = order.task.first is not None and not opened
    return Script(hands=hands, task=order.task, view=stage.view, astray=astray, claims=claims)


def _log_skills(injection: Injection, child: Session, view: View) -> None:
    host = urlsplit(view.url).netloc
    lines.REPLAY_CHECK.log(host=host)
    if injection.strike("stale_skill"):
        lines.ROUTE_HINT.log(child=child.id, host=host)
        lines.STALE_SKILL.log(host=host)
    else:
        lines.NO_SKILL.log(host=host)


async def _run_script(script: Script, before: View, *, limit_s: float) -> End:
    """The send script within its limit, and its report."""
    try:
        async with asyncio.timeout(limit_s):
            end = await script.run()
    except TimeoutError as error:
        lines.SEND_OUTER.log(kind=type(error).__name__, error=error)
        end = "overrun"
    choice = choose(before.elements, script.task)
    lines.DRY_REPORT.log(
        composer=choice.composer is not None,
        opener=choice.opener is not None,
        textboxes=len(before.textboxes),
        filled=end in {"filled", "sent"},
        url=before.url[:REPORT_URL_CHARS],
    )
    return end


def _close_child(services: Services, injection: Injection, child: Session, row: TaskRow) -> None:
    """The completion gate: a dry post is never confirmed, so the child ends in error."""
    if row.status == "error":
        lines.GHOST.log(child=child.id)
    lines.BATCHING.log(child=child.id)
    lines.TIME.log(child=child.id, wall=row.total_ms, tools=row.tools_ms, other=max(0, row.total_ms - row.tools_ms))
    lines.OUTPUT.log(child=child.id)
    for each in injection.leak(row):
        services.metrics.add(each)
    lines.TASK.log(status=row.status, ms=row.total_ms, tools=sum(row.tiers.values()))
    lines.RECORD_GATE.log()
    child.status = "completed" if row.status == "completed" else "error"
    child.closed_at = now()
    said = "Sent." if row.status == "completed" else "The send was never confirmed."
    child.add_message("assistant", said)
    services.hub.push_status(child)
    services.sessions.save(child)
