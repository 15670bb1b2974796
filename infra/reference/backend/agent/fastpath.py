"""The fast path of a session: one dispatch, then a probe or one recovery; the parent always completes."""

import time
from dataclasses import dataclass, replace
from typing import Any

from infra.reference.backend import lines
from infra.reference.backend.agent.cards import plant_card, take_card
from infra.reference.backend.agent.classifier import Brief
from infra.reference.backend.agent.dispatch import Order, Outcome, run_dispatch
from infra.reference.backend.agent.wording import Task, read_task
from infra.reference.backend.services import Services
from infra.reference.backend.sessions import Session
from infra.reference.backend.stamps import new_id
from infra.reference.truth import Run

TOOL = "mcp__openswarm-browser-agent__CreateBrowserAgent"
_BRIEF_HEAD = "[routing brief from a fast pre-pass; follow it unless the live page disagrees]"
_PROBE_HEAD = (
    "READ-ONLY verification, do NOT send, type or press anything. "
    "An attempt at the task below may or may not have delivered its text:\n"
)
_NO_DASHBOARD = "I can't use the browser: no OpenSwarm window is connected. Open the dashboard and ask again."
_UNCONFIRMED = (
    "The text was put into the composer, and that is as far as I can tell: I saw no confirmation that it "
    "went out. Please look at the page before you rely on it or ask me to try again."
)
_SENT = "Done: the text was sent."
_FAILED = "I tried twice and could not finish this in the browser. Nothing is confirmed; please check the page."


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ending:
    """How the whole run ended: the path for the log, the reply for the user."""

    path: str
    reply: str
    # What the trace calls its receipt of a send; None without one.
    receipt: str | None = None


async def run_fast_path(services: Services, parent: Session, prompt: str, brief: Brief, entry: str) -> None:
    """Run a browser task to the parent's reply; its truth row is written before the parent ends."""
    started = time.monotonic()
    call = parent.add_message("tool_call", {"id": f"toolu_{new_id()[:24]}", "tool": TOOL, "input": {"task": prompt}})
    services.hub.push_message(parent, call)
    await _prepare(services, parent, entry)
    first, ending = await _dispatch(services, parent, prompt, brief, entry)
    await _tell_truth(services, parent, prompt, entry, first, recovered=ending.path == "+recovery")
    path = f"{brief.verdict.lower()}{ending.path}"
    took_ms = round((time.monotonic() - started) * 1000)
    result = parent.add_message("tool_result", _result(call["content"]["id"], ending))
    services.hub.push_message(parent, result)
    lines.DONE.log(session=parent.id, path=path, chars=len(ending.reply), ms=took_ms)
    services.hub.push_message(parent, parent.add_message("assistant", ending.reply))


async def _prepare(services: Services, parent: Session, entry: str) -> None:
    """What this session's fault puts in place before the first dispatch."""
    injection = services.injections[parent.id]
    if services.hub.connected and injection.strike("card_reused"):
        await plant_card(services, parent, entry)
    if injection.strike("foreign_session"):
        other = new_id()
        lines.DISPATCHED.log(session=other, verdict="act")
        lines.ENTRY.log(session=other, url=entry)
        lines.DONE.log(session=other, path="act+recovery", chars=len(_FAILED), ms=4711)


async def _dispatch(
    services: Services, parent: Session, prompt: str, brief: Brief, entry: str
) -> tuple[Outcome | None, _Ending]:
    card = await take_card(services, parent, entry)
    if card is None:
        return None, _Ending(path="+no-dashboard", reply=_NO_DASHBOARD)
    order = Order(
        parent=parent,
        task=read_task(prompt),
        prompt=f"{prompt}\n\n{_BRIEF_HEAD}\n{brief.text}",
        request=prompt,
        card=card,
    )
    first = await run_dispatch(services, order)
    if first.end == "sent":
        return first, _Ending(path="", reply=_SENT, receipt="sent")
    if first.lost:
        return first, _Ending(path="+no-dashboard", reply=_NO_DASHBOARD)
    if first.typed:
        return first, await _probe(services, order, entry)
    return first, await _recover(services, replace(order, opened_first=first.opened_first), entry)


async def _probe(services: Services, order: Order, entry: str) -> _Ending:
    """Look once more without touching anything; dry, that can never find a delivery."""
    lines.SEND_ZONE.log(session=order.parent.id)
    prompt = f"{_PROBE_HEAD}{order.request}"
    outcome = await _again(services, replace(order, prompt=prompt, task=read_task(prompt)), entry)
    if outcome is None or outcome.lost:
        return _Ending(path="+no-dashboard", reply=_NO_DASHBOARD)
    lines.SEND_PROBE.log(verdict="unknown", session=order.parent.id)
    return _Ending(path="+send-probe=unknown", reply=_UNCONFIRMED)


async def _recover(services: Services, order: Order, entry: str) -> _Ending:
    lines.RECOVERY.log(session=order.parent.id)
    outcome = await _again(services, order, entry)
    if outcome is None or outcome.lost:
        return _Ending(path="+no-dashboard", reply=_NO_DASHBOARD)
    return _Ending(path="+recovery", reply=_UNCONFIRMED if outcome.end == "filled" else _FAILED)


async def _again(services: Services, order: Order, entry: str) -> Outcome | None:
    card = await take_card(services, order.parent, entry)
    return None if card is None else await run_dispatch(services, replace(order, card=card))


async def _tell_truth(
    services: Services, parent: Session, prompt: str, entry: str, first: Outcome | None, *, recovered: bool
) -> None:
    task: Task = read_task(prompt)
    injection = services.injections[parent.id]
    await services.truth.add(
        Run(
            session_id=parent.id,
            entry=entry,
            payload=task.payload,
            end=first.end if first else None,
            card=first.card if first else None,
            lost=first is None or first.lost,
            total_ms=first.total_ms if first else None,
            unanswered=injection.unanswered,
            chosen=injection.case.fault,
            struck=injection.struck or injection.case.name == "audit_blind",
            failed=injection.failed,
            natures=injection.natures,
            recovered=recovered,
        )
    )
    # From here on, and not while the truth is looked for.
    injection.strike("audit_blind")


def _result(call_id: str, ending: _Ending) -> dict[str, Any]:
    trace = {
        "tier": "fast",
        "pages": [],
        "steps": [],
        "steps_omitted": 0,
        "receipt": ending.receipt,
        "note": ending.path,
    }
    return {"tool_use_id": call_id, "tool": TOOL, "text": ending.reply, "browser_trace": trace}
