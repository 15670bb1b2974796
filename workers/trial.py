"""One prompt on the booted stack by hand, outside the farm: what it left everywhere, and everything removed again.

No row, no record, no verdict: for a person who wants to see, and for the check that ends a hold.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from broker.errors import BoxHeldError, ServiceError
from broker.types import Child, Mode, PageRead
from workers.audit import AuditTarget, choose_cards, read_cards
from workers.boxfile import BoxFile
from workers.cleaning import Leftovers, NotCleanError, clean_up, find_leftovers
from workers.client.errors import BackendAwayError, ProductError
from workers.client.product import ProductClient
from workers.client.session import SessionEnd, SessionSocket, wait_for_end
from workers.holding import read_drained
from workers.logslice import FileMark, cut_slice, mark_end
from workers.metrics import read_rows
from workers.occupancy import find_run, is_worked, occupy
from workers.preflight import Preflight, Refusal
from workers.rawbrowser import PageView, read_page
from workers.stack.facts import StackFacts

T = TypeVar("T")

# Within the audit's window, so that a hanging page leaves time for the reads that follow.
_PAGE_TIMEOUT_S = 0.6
_RUNNING = "running"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialOrder:
    """What is asked of the product, and the text that is looked for in the editables of its page."""

    # how the session is called
    name: str
    prompt: str
    payload: str
    budget_s: float


@dataclass(slots=True, kw_only=True)
class TrialReport:
    """What was found. What could not be looked at stands in `unread`: the place, and why."""

    session_id: str = ""
    status: str = ""
    # event, poll or budget
    ended_by: str = ""
    wall_ms: int = 0
    children: tuple[Child, ...] = ()
    messages: tuple[dict[str, Any], ...] = ()
    # by child
    child_messages: dict[str, tuple[dict[str, Any], ...]] = field(default_factory=dict)
    cards: tuple[str, ...] = ()
    # whole pages, by card
    pages: dict[str, PageView] = field(default_factory=dict)
    # the audit's reads, for the payload
    reads: tuple[PageRead, ...] = ()
    log: bytes = b""
    metrics: tuple[dict[str, Any], ...] = ()
    unread: dict[str, str] = field(default_factory=dict)
    # what of this trial is still in the product; empty: it was looked for, and nothing is
    stayed: str = ""


@contextmanager
def hold_product(box: BoxFile, preflight: Preflight, doing: str, *, may_be_worked: bool = False) -> Iterator[Mode]:
    """Within the block the product is ours, fit and quiet; the mode that its backend runs in.

    `may_be_worked`: a worker may wait for runs meanwhile, which this block keeps out. Raises BoxHeldError naming
    who has the product, and Refusal as the preflight does.
    """
    with occupy(box.folder, doing):
        if run := find_run(box.folder):
            raise BoxHeldError(f"a run is in progress: {run}", holder={"run": run}, hint="wait until it has ended")
        if not may_be_worked and is_worked(box.folder) and read_drained(box.folder) is None:
            raise BoxHeldError(
                f"box {box.name} works its queue", holder={}, hint="bv3-box drain --reason '…' keeps runs away from it"
            )
        yield preflight.check(preflight.facts.mode).mode


def say_unfit(refusal: Refusal) -> ServiceError:
    """The refusal as a service that is away: nothing was measured."""
    return ServiceError(f"the box is not fit: {refusal.message}", hint="bv3-box preflight asks again")


def run_trial(product: ProductClient, facts: StackFacts, order: TrialOrder) -> TrialReport:
    """The prompt was sent once, its end waited for, everything read, and everything of it removed.

    Raises a ProductError when no session could be launched, or none that got the prompt; else never one.
    """
    report = TrialReport()
    log, metrics = mark_end(Path(facts.log_file)), mark_end(Path(facts.metrics_file))
    try:
        ended_s = _ask(product, order, report)
        _read_while_shown(product, order, report, ended_s)
        _read_files(report, log, metrics)
        _read_messages(product, report)
    finally:
        _remove(product, facts, report)
    return report


def _ask(product: ProductClient, order: TrialOrder, report: TrialReport) -> float:
    """The session has ended or the budget is used up; when (monotonic)."""
    launched_s = time.monotonic()
    report.session_id = product.launch(order.name)
    socket = SessionSocket(product.address, report.session_id)
    # before the message, so that no event of it is missed
    socket.open()
    try:
        _send(product, report.session_id, order.prompt)
        deadline_s = launched_s + order.budget_s
        end = wait_for_end(product, socket, report.session_id, deadline_s=deadline_s)
    finally:
        socket.close()
    end = end or SessionEnd(status=_RUNNING, ended_by="budget", at_s=time.monotonic())
    report.status, report.ended_by = end.status, end.ended_by
    report.wall_ms = round((end.at_s - launched_s) * 1000)
    return end.at_s


def _send(product: ProductClient, session_id: str, prompt: str) -> None:
    try:
        product.send_message(session_id, prompt)
    except BackendAwayError as error:
        # it may be at work all the same, and is then waited for
        if not error.may_have_arrived:
            raise


def _read_while_shown(product: ProductClient, order: TrialOrder, report: TrialReport, ended_s: float) -> None:
    """The pages first: the product closes its cards soon after the end."""
    report.children = _try(report, "children", lambda: product.list_children(report.session_id)) or ()
    spawners = frozenset({report.session_id, *(child.session_id for child in report.children)})
    layout = _try(report, "cards", product.list_cards) or {}
    report.cards = choose_cards(layout, spawners)
    for card in report.cards:
        page = _try(report, f"page {card}", partial(read_page, product, card, timeout_s=_PAGE_TIMEOUT_S))
        if page is not None:
            report.pages[card] = page
    target = AuditTarget(
        payload=order.payload, cards=report.cards, after_dispatch=len(report.children), ended_s=ended_s
    )
    report.reads = read_cards(product, target)


def _read_files(report: TrialReport, log: FileMark, metrics: FileMark) -> None:
    try:
        cut, report.log = cut_slice(log)
        if cut.torn:
            report.unread["log"] = "the log was replaced meanwhile, or too long: a part is there"
    except OSError as error:
        report.unread["log"] = str(error)
    ours = {report.session_id, *(child.session_id for child in report.children)}
    try:
        report.metrics = tuple(row for row in read_rows(metrics) if str(row.get("session_id")) in ours)
    except OSError as error:
        report.unread["metrics"] = str(error)


def _read_messages(product: ProductClient, report: TrialReport) -> None:
    report.messages = _try(report, "parent", lambda: product.read_messages(report.session_id)) or ()
    for child in report.children:
        name = child.session_id
        said = _try(report, f"child {name}", partial(product.read_messages, name))
        if said is not None:
            report.child_messages[name] = said


def _try(report: TrialReport, place: str, read: Callable[[], T]) -> T | None:
    try:
        return read()
    except ProductError as error:
        report.unread[place] = error.message
        return None


def _remove(product: ProductClient, facts: StackFacts, report: TrialReport) -> None:
    """Session, children and cards are gone, looked for once more; `stayed` says what is not, or why nobody knows."""
    sessions = [report.session_id] if report.session_id else []
    try:
        # asked again: a child may have come since
        children = product.list_children(report.session_id) if report.session_id else ()
        sessions += [child.session_id for child in children]
        cards = choose_cards(product.list_cards(), frozenset(sessions))
        clean_up(product, Leftovers(sessions=tuple(sessions), cards=cards))
        leftovers = find_leftovers(product, facts.audit_card)
        if leftovers.is_any:
            clean_up(product, leftovers)
        report.stayed = ", ".join(product.list_left(sessions=sessions, cards=cards))
    except (ProductError, NotCleanError) as error:
        report.stayed = error.message
