"""The renderer's life: a browser, the dashboard socket, and the commands between them."""

import asyncio
import contextlib
import json
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.async_api import Error

from workers.renderer.browser import RECORD_TIMEOUT_S, Chromium, open_rooms
from workers.renderer.cards import Deck
from workers.renderer.closing import Closer
from workers.renderer.commands import execute
from workers.renderer.dashboard import Backend, DashboardSocket, Layouts
from workers.renderer.errors import BackendError, CardMissing, RendererError
from workers.renderer.protocol import (
    CardSpec,
    Command,
    Event,
    Replies,
    Reply,
    parse_card,
    parse_command,
    parse_status,
)
from workers.renderer.recording import Record, Recorder

log = logging.getLogger(__name__)

STOP_TIMEOUT_S = 1.6


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How one renderer is run."""

    backend: Backend
    chromium: Chromium
    close_after_s: float = 3.0
    # At most this long for any command; None leaves it at the action's leash.
    command_deadline_s: float | None = None
    ready_file: Path | None = None
    record: Record = Record.NONE
    record_folder: Path | None = None

    @property
    def stop_timeout_s(self) -> float:
        """How long ending may take: recordings under way are written first."""
        return STOP_TIMEOUT_S + (RECORD_TIMEOUT_S if self.record is not Record.NONE else 0)


class Renderer:
    """One browser that serves one dashboard."""

    def __init__(self, options: Options, deck: Deck, layouts: Layouts) -> None:
        self._options = options
        self._deck = deck
        self._layouts = layouts
        self._closer = Closer(deck, layouts, options.close_after_s)
        self._replies = Replies()
        self._running: set[asyncio.Task[None]] = set()
        self._is_ready = False
        self._socket = DashboardSocket(backend=options.backend, on_open=self._mount_layout, on_event=self._take)

    async def run(self) -> None:
        """Serve the dashboard until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._closer.run())
            tasks.create_task(self._socket.run())

    async def _mount_layout(self) -> None:
        """Mount the layout's cards, and unmount those that left it while there was no connection."""
        before = frozenset(self._deck.specs)
        there = await self._read_layout()
        if there is None:
            return
        shown = [self._deck.mount(spec) for key, spec in there.items() if key not in self._closer.leaving]
        for browser_id in before - there.keys():
            self._deck.unmount(browser_id)
        for card in shown:
            with contextlib.suppress(CardMissing, Error):
                await card.tab()
        log.info("connected; %d card(s) mounted", len(shown))
        self._write_ready_file(sorted(there))

    async def _read_layout(self) -> Mapping[str, CardSpec] | None:
        try:
            return await self._layouts.read_cards()
        except RendererError as error:
            log.warning("can't read the layout: %s", error)
            return None

    def _write_ready_file(self, cards: list[str]) -> None:
        path = self._options.ready_file
        if path is None or self._is_ready:
            return
        part = path.with_name(f"{path.name}.{os.getpid()}.part")
        part.write_text(json.dumps({"pid": os.getpid(), "cards": cards}) + "\n", encoding="utf-8")
        part.replace(path)
        self._is_ready = True

    def _take(self, event: Event) -> None:
        match event.name:
            case "browser:command":
                self._take_command(parse_command(event.data))
            case "dashboard:browser_card_added":
                if self._is_ours(event) and (spec := parse_card(event.data.get("browser_card"))):
                    self._deck.mount(spec)
            case "dashboard:browser_card_evict":
                self._deck.unmount(str(event.data.get("browser_id", "")))
            case "dashboard:browser_card_keep":
                self._deck.keep(str(event.data.get("browser_id", "")))
            case "agent:status":
                if status := parse_status(event):
                    self._closer.note(status)

    def _is_ours(self, event: Event) -> bool:
        return event.data.get("dashboard_id") in {None, "", self._options.backend.dashboard_id}

    def _take_command(self, command: Command | None) -> None:
        if command is None:
            log.warning("a command without request_id was ignored")
        elif (reply := self._replies.answer_again(command.request_id)) is not None:
            self._spawn(self._answer(reply))
        elif self._replies.begin(command.request_id):
            self._spawn(self._obey(command))

    async def _obey(self, command: Command) -> None:
        reply = await execute(self._deck, command, self._options.command_deadline_s)
        self._replies.finish(command.request_id, reply)
        await self._answer(reply)

    async def _answer(self, reply: Reply) -> None:
        await self._socket.send("browser:result", reply)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)


async def serve(options: Options) -> None:
    """Run the renderer until SIGTERM or SIGINT.

    Raises:
        RendererError: the browser did not start or has gone, or the backend will never let us in.
    """
    loop = asyncio.get_running_loop()
    # Why it ends: an empty reason is somebody's wish, any other a fault.
    end: asyncio.Future[str] = loop.create_future()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _settle, end, "")
    work = asyncio.create_task(_show(options, lambda reason: _settle(end, reason)))
    either: set[asyncio.Future[Any]] = {work, end}
    await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    work.cancel()
    if (await asyncio.wait({work}, timeout=options.stop_timeout_s))[1]:
        # Only the death of this process, whose pipe keeps it alive, ends a browser that closes so slowly.
        os._exit(1 if end.done() and end.result() else 0)
    if not end.done():
        work.result()
    elif reason := end.result():
        raise RendererError(reason, hint="start the renderer again")


async def check_door(layouts: Layouts) -> None:
    """Make sure that the backend, if it answers at all, knows our token and our dashboard.

    Raises:
        RendererError: it does not.
    """
    try:
        await layouts.read_cards()
    except BackendError as error:
        if error.status is not None:
            raise
        log.warning("%s", error)


async def _show(options: Options, fail: Callable[[str], None]) -> None:
    if options.ready_file is not None:
        # One that an earlier renderer left would speak for us before we are ready.
        options.ready_file.unlink(missing_ok=True)
    async with contextlib.aclosing(Layouts(options.backend)) as layouts:
        await check_door(layouts)
        recorder = Recorder(kind=options.record, folder=options.record_folder)
        async with open_rooms(options.chromium, recorder, on_gone=fail) as rooms:
            deck = Deck(rooms, on_crash=lambda card: fail(f"the page process of {card} is gone"))
            await Renderer(options, deck, layouts).run()


def _settle(end: "asyncio.Future[str]", reason: str) -> None:
    if not end.done():
        end.set_result(reason)


def run(options: Options) -> int:
    """Run the renderer in this process; the exit code: 0 after a signal, 1 when it can't go on."""
    try:
        with asyncio.Runner() as runner:
            runner.get_loop().set_exception_handler(_log_stray)
            runner.run(serve(options))
    except RendererError as error:
        print(f"workers.renderer: {error}", file=sys.stderr)  # noqa: T201 - one line for whoever started us
        if error.hint:
            print(f"hint: {error.hint}", file=sys.stderr)  # noqa: T201 - as above
        return 1
    return 0


def _log_stray(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    error = context.get("exception")
    # Playwright's late answers to calls that nobody waits for any more are no news.
    level = logging.DEBUG if isinstance(error, Error | None) else logging.ERROR
    log.log(level, "%s", context.get("message"), exc_info=error)
