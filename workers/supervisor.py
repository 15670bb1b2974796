"""`bv3-box work`: the one process that answers for a box.

It holds the lease and the host lock, boots the stack, keeps one Celery worker, beats, sends records, kills
what runs beyond its limit. It runs no order itself, so nothing that an order does can stop it.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from broker.errors import EXIT_INTERRUPTED, EXIT_OK, EXIT_SERVICE, StackError
from broker.ready import tell_ready
from broker.settings import Manifest
from broker.store.box_client import BeatAnswer, BoxClient
from broker.types import Mode
from workers.beats import Pulse, Sign
from workers.boxfile import BoxFile
from workers.crew import Crew
from workers.journal import Journal
from workers.lease import identify_machine, take_lease
from workers.lock import bind_host_lock, lock_folder
from workers.processes import ProcessBook, kill_survivors
from workers.scratch import drop_scratch, make_scratch
from workers.stack.driver import StackDriver, make_driver
from workers.uplink import Uplink
from workers.worker_process import WorkerProcess
from workers.workplace import evidence_store, journal_path

if TYPE_CHECKING:
    from broker.publish import Publisher

log = structlog.get_logger(__name__)

LOOK_EVERY_S = 1.0
SAVE_TIMEOUT_S = 15.0
ANSWER_TIMEOUT_S = 5.0
SAVE_TIMEOUT_AT_ONCE_S = 3.0


@dataclass(slots=True)
class Told:
    """What this supervisor has been told. Set by signals and by the beat's thread, read by the main loop."""

    drain: bool = False
    stop_now: bool = False
    stale: bool = False
    deaf: bool = False


class Supervisor:
    """One box at work. `run` ends everything that it started before it returns."""

    def __init__(self, box: BoxFile, box_file: Path, manifest: Manifest, *, mode: Mode = Mode.DRY) -> None:
        self._box = box
        self._mode = mode
        self._box_file = box_file
        self._manifest = manifest
        self._book = ProcessBook(folder=box.folder)
        self._told = Told()
        self._is_gone = False
        # what wakes the main loop: a signal, or the beat's thread
        self._waker, self._woken = socket.socketpair()
        for end in (self._waker, self._woken):
            end.setblocking(False)  # noqa: FBT003  # the socket module has no name for it

    def run(self) -> int:
        """The box has worked until it was told to end; the exit code.

        Raises BoxHeldError when another process works it, DatabaseError when the farm is away at the start,
        StackError when the stack does not come up.
        """
        box = self._box
        with ExitStack() as held:
            held.enter_context(lock_folder(box.folder))
            self._install_signals()
            client = BoxClient(box.farm().database_url, application=f"bv3-{box.name}")
            held.callback(client.close)
            token = take_lease(client, identify_machine(), box.folder, self._book, self._describe())
            # after the lease: the predecessor's processes are gone
            held.callback(drop_scratch, box.folder)
            make_scratch(box.folder)
            # one for the main thread, one for the beat's
            journal, self._beat_journal = Journal(journal_path(box)), Journal(journal_path(box))
            held.callback(journal.close)
            evidence = evidence_store(box)
            self._uplink = Uplink(box.name, journal_path(box), evidence, self._make_publisher)
            self._pulse = Pulse(client=client, token=token, look=self._look, hear=self._hear, folder=box.folder)
            self._crew = Crew(
                journal,
                start_worker=lambda: WorkerProcess(box, self._box_file, token, self._book),
                report=self._pulse.add_event,
                tell_of_dead=self._say_what_is_open,
            )
            self._crew.settle()
            evidence.keep_only(record.attempt for record in journal.list_kept())
            tell_ready()
            return self._work(journal)

    def _work(self, journal: Journal) -> int:
        # after settling: until then the predecessor's stack held it
        lock = bind_host_lock(self._box.lock_name)
        stack = make_driver(self._box, self._manifest, self._book, mode=self._mode, lock_fd=lock.fd)
        self._pulse.open()
        self._say_what_is_open()
        self._uplink.open()
        try:
            # Its imports take as long as the stack's boot; it consumes only when let go.
            self._crew.start()
            self._boot(stack)
            self._loop(stack)
        finally:
            self._end(stack, journal)
            lock.release()
        if self._told.stale:
            return EXIT_SERVICE
        return EXIT_INTERRUPTED if self._told.stop_now else EXIT_OK

    def _boot(self, stack: StackDriver) -> None:
        begun_s = time.monotonic()
        facts = stack.boot(give_up=lambda: self._told.drain or self._told.stale)
        log.info("stack is healthy", revision=facts.revision, seconds=round(time.monotonic() - begun_s, 1))
        self._processes = len(self._book.read())
        self._crew.let_go()

    def _loop(self, stack: StackDriver) -> None:
        while not (self._told.stale or self._told.stop_now or self._crew.has_ended):
            if self._told.drain:
                self._crew.ask_to_end()
            self._sleep()
            is_news = self._crew.listen()
            is_news = self._crew.look_after() or is_news
            if self._told.deaf:
                self._told.deaf = False
                self._crew.hear_again()
            self._notice_restarts()
            if is_news:
                self._uplink.wake()
                self._pulse.beat_now()
            if not stack.is_alive():
                self._boot_again(stack)
            else:
                self._heal(stack)

    def _sleep(self) -> None:
        """Until something happens, or it is time to look."""
        sources = [self._woken.fileno()]
        if (news := self._crew.news_fd) is not None:
            sources.append(news)
        select.select(sources, [], [], LOOK_EVERY_S)
        with suppress(BlockingIOError):
            while self._woken.recv(64):
                pass

    def _boot_again(self, stack: StackDriver) -> None:
        """Whoever watched over the parts has died: all of them are started anew, and the worker with them."""
        log.warning("the stack's supervisor died")
        self._pulse.add_event("stack_died")
        self._crew.replace()
        stack.stop()
        kill_survivors(self._book, spare=frozenset({os.getpid()}))
        self._crew.start()
        self._boot(stack)

    def _heal(self, stack: StackDriver) -> None:
        reason = self._crew.take_stuck()
        if reason is not None and (part := stack.heal(reason)) is not None:
            log.warning("part started anew", part=part, reason=reason)
            self._pulse.add_event("healed", part=part, reason=reason)

    def _notice_restarts(self) -> None:
        processes = self._book.read()
        for item in processes[self._processes :]:
            if item.name != "worker":
                log.warning("part restarted", part=item.name, pid=item.pid)
                self._pulse.add_event("part_restarted", part=item.name, pid=str(item.pid))
        self._processes = len(processes)

    def _end(self, stack: StackDriver, journal: Journal) -> None:
        """Nothing of the box is left, its records are stored if the farm is there, and it has said that it is gone."""
        self._crew.kill()
        self._pulse.beat_now()
        self._uplink.wake()
        try:
            stack.stop()
        except StackError as error:
            log.error("stack", cause=error.message)  # noqa: TRY400  # what follows ends it
        if not self._told.stale:
            self._save(journal)
        self._uplink.close()
        self._is_gone = True
        self._pulse.close()
        kill_survivors(self._book)
        self._book.clear()

    def _save(self, journal: Journal) -> None:
        """Wait until the farm has stored every record, but not for a farm that is away."""
        patience_s = SAVE_TIMEOUT_AT_ONCE_S if self._told.stop_now else SAVE_TIMEOUT_S
        deadline_s = time.monotonic() + patience_s
        while journal.list_kept() and time.monotonic() < deadline_s:
            self._uplink.wake()
            self._pulse.beat_now()
            time.sleep(0.1)
        if left := len(journal.list_kept()):
            log.warning("records stay in the journal until the next start", records=left)

    def _look(self) -> Sign:
        doing = self._crew.doing
        phase = "gone" if self._is_gone else "draining" if self._told.drain else doing.phase
        facts = {
            **self._describe(),
            "open": list(self._beat_journal.list_open()),
            "unacknowledged": list(self._beat_journal.list_unacknowledged()),
            "detail": doing.detail,
            "detail_s": round(time.monotonic() - doing.since_s, 1),
            "load": list(os.getloadavg()),
        }
        return Sign(phase=phase, facts=facts)

    def _hear(self, answer: BeatAnswer) -> None:
        if answer.answer == "stale":
            if not self._told.stale:
                log.error("the lease is gone: another process works this box")
            self._told.stale = True
            self._wake_up()
            return
        for attempt in self._beat_journal.list_untold():
            # finished, while the farm could not be told
            self._pulse.finish(attempt)
            self._beat_journal.mark_told(attempt)
        self._told.deaf = answer.deaf
        self._uplink.take_answer(self._beat_journal, answer)

    def _say_what_is_open(self) -> None:
        # An attempt that three beats in a row don't name is lost. No worker consumes at such a moment, so that
        # none can be starting just now, and the farm need not wait for three ordinary beats.
        self._pulse.beat_now(times=3)

    def _make_publisher(self) -> Publisher:
        from broker.app import make_app  # noqa: PLC0415  # a second that only the uplink's thread waits for
        from broker.publish import Publisher  # noqa: PLC0415

        # a Redis that has stopped without closing its connections must not hold the records for ever
        address = self._box.farm().broker_url
        return Publisher(app=make_app(address, box=self._box.name, answer_timeout_s=ANSWER_TIMEOUT_S))

    def _describe(self) -> dict[str, str]:
        box = self._box
        return {"mode": self._mode.value, "stack": box.stack, "renderer": box.renderer, "lane": box.lane}

    def _install_signals(self) -> None:
        signal.set_wakeup_fd(self._waker.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._take_signal)

    def _take_signal(self, *_: object) -> None:
        """The first one drains, the second one stops at once."""
        self._told.stop_now = self._told.drain
        self._told.drain = True

    def _wake_up(self) -> None:
        with suppress(BlockingIOError):
            self._waker.send(b"x")
