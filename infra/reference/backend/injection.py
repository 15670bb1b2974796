"""What one session meets: at most one fault, which strikes at its own moment and then says so, and a set of natures."""

import logging
import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import httpx

from infra.reference.backend.commands import TIMED_OUT, Commands, Reply
from infra.reference.backend.metrics import TaskRow
from infra.reference.backend.peers import NoPeerError, find_peer, kill_engine, signal_group
from infra.reference.faults import Fault
from infra.reference.sites.catalogue import Site

log = logging.getLogger("reference.faults")
NATURE_LIMIT_S = 2.0
_BLIND = frozenset({"evaluate", "list_interactives", "get_text"})
_BLINDED = "Execution context was destroyed"
_FILL_FAILED = "the element was detached while it was filled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What an injection knows of its session."""

    session_id: str
    host: str
    site: Site | None
    fault: Fault | None
    # The natures that its pages have beside what a fault makes of them.
    natures: tuple[str, ...] = ()
    # How many dispatches the session has begun.
    count_dispatches: Callable[[], int]
    # Our port, and the port of each dashboard socket's other end.
    own_port: int
    list_peer_ports: Callable[[], list[int]]

    @property
    def name(self) -> str:
        """The fault's name; empty without one."""
        return self.fault.name if self.fault else ""

    @property
    def pages(self) -> tuple[str, ...]:
        """All natures of its pages, the fault's own among them."""
        own = (self.name,) if self.fault and self.fault.place == "page" else ()
        return tuple(dict.fromkeys((*self.natures, *own)))

    @property
    def is_open(self) -> bool:
        """Whether something can be written on the site."""
        return self.site is not None and self.site.truth.not_measurable is None


class Injection:
    """The agent's way to the renderer, with the session's fault in it."""

    def __init__(self, commands: Commands, case: Case) -> None:
        self.case = case
        # The fault has happened.
        self.struck = False
        # Why it could not.
        self.failed = ""
        # The natures that the site server has set.
        self.natures: tuple[str, ...] = ()
        # How many commands of the first dispatch had no answer within their leash, since it began to fill a box.
        self.unanswered = 0
        self._commands = commands

    def strike(self, name: str) -> bool:
        """Whether this is the session's fault; it counts as happened from then on."""
        if self.case.name != name:
            return False
        self.struck = True
        return True

    async def run(self, action: str, browser_id: str, params: dict[str, Any] | None = None) -> Reply:
        """The command's result, or what the fault makes of it."""
        is_fill = _is_fill(action, params or {})
        is_first = self.case.count_dispatches() == 1
        self._hurt_processes(action, is_fill=is_fill, is_first=is_first)
        answers = self._answers(action, is_first=is_first)
        if is_fill and is_first:
            self.unanswered = 0
        reply = await self._commands.run(action, browser_id, params, relayed=answers)
        if is_first and action != "screenshot" and reply.get("error") == TIMED_OUT:
            self.unanswered += 1
        if is_fill and is_first and "error" not in reply and self.strike("no_claim"):
            # What it did is done; what it says of it is not true.
            return {"error": _FILL_FAILED} if action == "click_index" else {**reply, "filled": False}
        return reply

    def _answers(self, action: str, *, is_first: bool) -> bool:
        """Whether the renderer hears of a command at all."""
        if action in {"click_index", "find_composer"} and is_first and self.strike("command_hang"):
            return False
        return not (action in {"list_interactives", "get_text"} and self.strike("reads_hang"))

    def _hurt_processes(self, action: str, *, is_fill: bool, is_first: bool) -> None:
        """Kill or stop what this fault is about, once: in mid fill, or behind a wall at the first look."""
        if self.struck or self.failed or not is_first:
            return
        look = action == "list_interactives"
        deed = _DEEDS.get(self.case.name)
        if deed is None or not (look if self.case.name == "renderer_stopped" or not self.case.is_open else is_fill):
            return
        try:
            deed(self.case)
        except NoPeerError as error:
            self.failed = str(error)
            log.warning("%s could not happen: %s", self.case.name, error)
        else:
            self.struck = True

    def leak(self, row: TaskRow) -> list[TaskRow]:
        """The rows that stand in the metrics where this one should stand alone."""
        if not self.strike("metrics_leak"):
            return [row]
        return [_make_foreign(row, 1, "a"), row, _make_foreign(row, 2, "b")]

    def blinds(self, action: str) -> Reply | None:
        """What a command of somebody else's for a card of this session is answered; None: what the renderer says."""
        if action in _BLIND and self.struck and self.case.name == "audit_blind":
            return {"error": _BLINDED}
        return None


def _is_fill(action: str, params: dict[str, Any]) -> bool:
    return (action == "click_index" and "text" in params) or (action == "find_composer" and "fill" in params)


def _make_foreign(row: TaskRow, number: int, letter: str) -> TaskRow:
    return replace(
        row,
        session_id=letter * 32,
        browser_id=f"browser-{letter * 8}",
        total_ms=row.total_ms * 3 + 1000 * number,
        tools_ms=row.tools_ms * 3 + 900 * number,
        task_ms=row.task_ms * 3 + 1000 * number,
    )


def _kill_renderer(case: Case) -> None:
    for port in _ports(case):
        signal_group(find_peer(own_port=case.own_port, peer_port=port), signal.SIGKILL)


def _stop_renderer(case: Case) -> None:
    for port in _ports(case):
        signal_group(find_peer(own_port=case.own_port, peer_port=port), signal.SIGSTOP)


def _kill_engine(case: Case) -> None:
    for port in _ports(case):
        kill_engine(find_peer(own_port=case.own_port, peer_port=port))


def _kill_ourselves(_case: Case) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _ports(case: Case) -> list[int]:
    ports = case.list_peer_ports()
    if not ports:
        raise NoPeerError("no dashboard is connected")
    return ports


_DEEDS: dict[str, Callable[[Case], None]] = {
    "renderer_killed": _kill_renderer,
    "renderer_stopped": _stop_renderer,
    "engine_killed": _kill_engine,
    "backend_restarted": _kill_ourselves,
}


class Natures:
    """Tells the site server which natures a host's pages have."""

    def __init__(self, url: str | None) -> None:
        self._url = url
        self._client = httpx.AsyncClient(timeout=NATURE_LIMIT_S, trust_env=False)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def tell(self, host: str, natures: Sequence[str], *, seed: int = 0) -> str:
        """The host's pages have these natures and no other; why not, when the site server did not take them."""
        if self._url is None:
            return "there is no site server"
        wish = {"host": host, "natures": list(natures), "seed": seed}
        try:
            answer = await self._client.post(f"{self._url}/__nature", json=wish)
        except httpx.HTTPError as error:
            return f"the site server did not answer: {type(error).__name__}"
        return "" if answer.is_success else f"the site server answered {answer.status_code}"
