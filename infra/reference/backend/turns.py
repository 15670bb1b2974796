"""What happens when a session gets a message: the classifier, then the fast path or a plain reply."""

import asyncio
import contextlib
import json
from collections import defaultdict
from urllib.parse import urlsplit

from infra.reference.backend import lines
from infra.reference.backend.agent.classifier import PREFLIGHT_SYSTEM, Brief, classify
from infra.reference.backend.agent.fastpath import run_fast_path
from infra.reference.backend.agent.wording import is_browsy, read_task
from infra.reference.backend.faulty_models import FaultyModels, is_faulty
from infra.reference.backend.injection import Case, Injection
from infra.reference.backend.models import Models, ModelUnavailableError
from infra.reference.backend.services import Services
from infra.reference.backend.sessions import Session, Status
from infra.reference.backend.stamps import now
from infra.reference.faults import choose
from infra.reference.natures import draw
from infra.reference.router import find_entry
from infra.reference.sites.catalogue import find_site

CHAT_TOKENS = 300
PREFLIGHT_TOKENS = 300
CHAT_SYSTEM = "Answer the user."


class Turns:
    """The turns under way, one a session; a message that comes during one waits for its end."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._running: dict[str, asyncio.Task[None]] = {}
        self._waiting: dict[str, list[str]] = defaultdict(list)

    @property
    def active(self) -> int:
        """How many turns are under way."""
        return len(self._running)

    async def start(self, session: Session, prompt: str) -> None:
        """Take a message: returns once the classifier has answered, while the task itself goes on."""
        if session.id in self._running:
            self._waiting[session.id].append(prompt)
            return
        classified = asyncio.Event()
        task = asyncio.create_task(self._run(session, prompt, classified))
        self._running[session.id] = task
        task.add_done_callback(lambda _: self._finish(session))
        await classified.wait()

    async def stop(self, session: Session) -> None:
        """End a session's turn, if one is under way; the session becomes ``stopped`` and its children too."""
        self._waiting.pop(session.id, None)
        task = self._running.get(session.id)
        if task is None:
            return
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        for child in self._services.sessions.children(session.id):
            if not child.ended:
                self._end(child, "stopped")
        if not session.ended:
            self._end(session, "stopped")

    async def stop_all(self) -> None:
        """End every turn, as the process does when it goes down."""
        for session in self._services.sessions.list_all():
            await self.stop(session)

    def _finish(self, session: Session) -> None:
        self._running.pop(session.id, None)
        waiting = self._waiting.pop(session.id, [])
        if waiting:
            self._waiting[session.id] = waiting[1:]
            next_turn = asyncio.create_task(self._run(session, waiting[0], asyncio.Event()))
            self._running[session.id] = next_turn
            next_turn.add_done_callback(lambda _: self._finish(session))

    async def _run(self, session: Session, prompt: str, classified: asyncio.Event) -> None:
        try:
            await self._take_turn(session, prompt, classified)
        except Exception as error:  # noqa: BLE001  # the session must end and say why, whatever went wrong
            lines.TURN_FAILED.log(session=session.id, kind=type(error).__name__, error=error)
            self._fail(session, f"Error: {type(error).__name__}: {error}")
        finally:
            classified.set()
            await self._part(session)

    async def _take_turn(self, session: Session, prompt: str, classified: asyncio.Event) -> None:
        first = not any(message["role"] == "user" for message in session.messages)
        self._services.hub.push_message(session, session.add_message("user", prompt))
        session.status = "running"
        session.closed_at = None
        self._services.hub.push_status(session)
        eligible = first and session.mode == "agent" and session.dashboard_id and is_browsy(prompt)
        if eligible:
            await self._inject(session, prompt)
        brief = await self._classify(session, prompt) if eligible else None
        if brief and brief.verdict != "NO" and brief.entry:
            lines.DISPATCHED.log(session=session.id, verdict=brief.verdict.lower())
            lines.ENTRY.log(session=session.id, url=brief.entry)
            await self._check_preflight(prompt)
            classified.set()
            await run_fast_path(self._services, session, prompt, brief, brief.entry)
        else:
            classified.set()
            await self._chat(session, prompt)
        if not session.ended:
            self._end(session, "completed")

    async def _inject(self, session: Session, prompt: str) -> None:
        """What this session meets is settled: its fault is chosen, its truth is written ahead, its page is set."""
        services, settings = self._services, self._services.settings
        host = urlsplit(find_entry(prompt) or "").hostname or ""
        site = find_site(host)
        is_open = site is not None and site.truth.not_measurable is None
        key = read_task(prompt).payload or prompt
        fault = choose(settings.seed, key, settings.mix)
        natures = tuple(nature.name for nature in draw(settings.seed, key, settings.chances)) if is_open else ()
        # a session on a page of somebody else's tries the box itself, not what is injected into runs
        if fault is not None and (site is None or (fault.needs_composer and not is_open)):
            fault = None
        case = Case(
            session_id=session.id,
            host=host,
            site=site,
            fault=fault,
            natures=natures,
            count_dispatches=lambda: len(services.sessions.children(session.id)),
            own_port=settings.port,
            list_peer_ports=services.hub.list_peer_ports,
        )
        injection = services.injections[session.id] = Injection(services.commands, case)
        if fault is not None:
            services.truth.add_ahead(session_id=session.id, host=host, fault=fault)
        if not case.pages:
            return
        failed = await services.natures.tell(host, case.pages, seed=settings.seed)
        injection.natures = () if failed else case.pages
        if fault is not None and fault.place == "page":
            injection.failed, injection.struck = failed, not failed

    async def _part(self, session: Session) -> None:
        """The session's pages are as they were before it."""
        injection = self._services.injections.get(session.id)
        if injection is not None and injection.case.pages:
            await self._services.natures.tell(injection.case.host, ())

    def _models(self, session: Session) -> Models:
        """The router, as this session finds it."""
        injection = self._services.injections.get(session.id)
        if injection is None or not is_faulty(injection.case.name):
            return self._services.models
        scale = self._services.settings.leash_scale
        return FaultyModels(injection.case.name, strike=injection.strike, scale=scale)

    async def _classify(self, session: Session, prompt: str) -> Brief | None:
        try:
            return await classify(self._models(session), prompt)
        except ModelUnavailableError as error:
            lines.UNCLASSIFIED.log(error=error)
            case = self._services.injections[session.id].case
            fault = case.fault if is_faulty(case.name) else None
            self._services.truth.add_unstarted(session_id=session.id, host=case.host, fault=fault)
            return None

    async def _check_preflight(self, prompt: str) -> None:
        """The product's tool preflight: it expects JSON, and nothing depends on it."""
        try:
            json.loads(
                await self._services.models.ask(system=PREFLIGHT_SYSTEM, user=prompt, max_tokens=PREFLIGHT_TOKENS)
            )
        except (ValueError, ModelUnavailableError) as error:
            lines.PREFLIGHT.log(error=f"{type(error).__name__}: {error}")

    async def _chat(self, session: Session, prompt: str) -> None:
        """The normal path, reduced to one model reply."""
        models = self._models(session)
        if not await models.is_up():
            why = f"Error: 9Router is not running; cannot use {session.model}. Start the router and try again."
            self._fail(session, why)
            return
        try:
            reply = await models.chat(system=CHAT_SYSTEM, user=prompt, max_tokens=CHAT_TOKENS)
        except ModelUnavailableError as error:
            self._fail(session, f"Error: {error}")
            return
        self._services.hub.push_message(session, session.add_message("assistant", reply))

    def _fail(self, session: Session, why: str) -> None:
        self._services.hub.push_message(session, session.add_message("system", why))
        self._end(session, "error")

    def _end(self, session: Session, status: Status) -> None:
        """The terminal push comes before the file: whoever hears it finds every line and row written."""
        session.status = status
        session.closed_at = now()
        self._services.hub.push_status(session)
        self._services.sessions.save(session)
