"""What a box has of its farm: the lease, the beats, the uplink, and, while it works its queue, one worker."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog

from broker.errors import BoxHeldError
from broker.store.box_client import BeatAnswer, BoxClient
from workers.beats import Pulse, Sign
from workers.boxfile import BoxFile
from workers.crew import Crew, Doing
from workers.events import EventLog
from workers.evidence import EvidenceStore
from workers.holding import Holding
from workers.journal import Entry, Journal
from workers.lease import identify_machine, take_lease
from workers.processes import ProcessBook
from workers.uplink import Uplink
from workers.worker_process import WorkerProcess
from workers.workplace import evidence_store, journal_path

if TYPE_CHECKING:
    from broker.publish import Publisher

log = structlog.get_logger(__name__)

ANSWER_TIMEOUT_S = 5.0
SAVE_TIMEOUT_S = 15.0
SAVE_TIMEOUT_AT_ONCE_S = 3.0


class FarmSide:
    """One lease from its taking to its end. `name_phase` and `describe` say what beats tell of the box beside this."""

    def __init__(
        self,
        box: BoxFile,
        box_file: Path,
        book: ProcessBook,
        events: EventLog,
        holding: Holding,
        *,
        name_phase: Callable[[], str],
        describe: Callable[[], dict[str, Any]],
        wake: Callable[[], None],
    ) -> None:
        self._box = box
        self._box_file = box_file
        self._book = book
        self._events = events
        self._holding = holding
        self._name_phase = name_phase
        self._describe = describe
        self._wake = wake
        self._crew: Crew | None = None
        self._wants_work = False
        # set by the beat's thread
        self.is_stale = False
        # of the revision that a beat has named; None: no answer says anything of it yet
        self.is_verified: bool | None = None
        self.answered_s: float | None = None
        self.leased_at_s = 0.0
        self._deaf = False
        self._verify: dict[str, Any] | None = None
        # what the beat carried that is being answered
        self._said_verify: dict[str, Any] | None = None
        self._said_revision = False

    def open(self, held: ExitStack) -> None:
        """The lease is ours, what a predecessor left in the journal is settled.

        Raises BoxHeldError when another process has the lease, DatabaseError when the farm is away.
        """
        box = self._box
        client = BoxClient(box.farm().database_url, application=f"bv3-{box.name}")
        held.callback(client.close)
        try:
            self._token = take_lease(client, identify_machine(), box.folder, self._describe())
        except BoxHeldError:
            log.warning("the lease is another's")
            raise
        self.leased_at_s = time.time()
        # one for the main thread, one for the beat's
        self._journal, self._beat_journal = Journal(journal_path(box)), Journal(journal_path(box))
        held.callback(self._journal.close)
        self._evidence: EvidenceStore = evidence_store(box)
        self._uplink = Uplink(box.name, journal_path(box), self._evidence, self._make_publisher)
        self._pulse = Pulse(client=client, token=self._token, look=self._look, hear=self._hear, folder=box.folder)
        self._events.forward = self._pulse.add_event
        self._make_crew().settle()
        self._evidence.keep_only(record.attempt for record in self._journal.list_kept())

    def begin(self) -> None:
        """Beats go out; what is in the journal is sent."""
        self._pulse.open()
        self._say_what_is_open()
        self._uplink.open()

    def describe_lease(self) -> dict[str, Any]:
        """Who holds it as far as this box knows, since when, and how long ago the farm last said so."""
        answered_s = self.answered_s
        return {
            "holder": f"{socket.gethostname()}, pid {os.getpid()}",
            "since_s": self.leased_at_s,
            "answered_s_ago": None if answered_s is None else round(time.monotonic() - answered_s, 1),
        }

    @property
    def wants_work(self) -> bool:
        """Whether it shall work its queue."""
        return self._wants_work

    @property
    def doing(self) -> Doing | None:
        """What the worker does; None: there is none."""
        crew = self._crew
        return crew.doing if crew else None

    @property
    def is_resting(self) -> bool:
        """Whether no order can be begun and none runs."""
        return self._crew is None

    @property
    def news_fd(self) -> int | None:
        """Readable when the worker has said something or has ended."""
        return self._crew.news_fd if self._crew else None

    def read_running(self) -> Entry | None:
        """The run that is between the farm's yes and its record."""
        return self._journal.read_running()

    def work(self, *, is_stack_healthy: bool) -> None:
        """The queue is worked, from when the stack is healthy. A worker that was asked to end is replaced after it."""
        self._wants_work = True
        if self._crew is None:
            self._crew = self._make_crew()
            # Its imports take as long as the stack's boot; it consumes only when let go.
            self._crew.start()
        if is_stack_healthy:
            self._crew.let_go()

    def rest(self) -> None:
        """No order is begun from here on; the one that runs is finished."""
        self._wants_work = False
        if self._crew is not None:
            self._crew.ask_to_end()

    def look_after(self, *, is_stack_healthy: bool) -> None:
        """The worker's news are taken in, and it is ended, settled or replaced as it must be."""
        crew = self._crew
        if crew is None:
            if self._wants_work:
                self.work(is_stack_healthy=is_stack_healthy)
            return
        is_news = crew.listen()
        is_news = crew.look_after() or is_news
        if self._deaf:
            self._deaf = False
            crew.hear_again()
        if crew.has_ended:
            self._crew = None
            is_news = True
        if is_news:
            self._uplink.wake()
            self._pulse.beat_now()

    def take_stuck(self) -> str | None:
        """The reason that the worker has been refused for again and again; asked once."""
        return self._crew.take_stuck() if self._crew else None

    def replace_worker(self) -> None:
        """The worker's group is gone and its run is settled; its successor waits for the stack."""
        if self._crew is not None:
            self._crew.replace()
            self._crew.start()

    def tell_verified(self, found: dict[str, Any]) -> None:
        """The next beat that is answered carries the result of the markers' check."""
        self._verify = found
        self._pulse.beat_now()

    def beat_now(self) -> None:
        """A beat goes out as soon as may be."""
        self._pulse.beat_now()

    def kill_worker(self) -> None:
        """The worker's whole group is gone and its run is settled."""
        self._wants_work = False
        if self._crew is not None:
            self._crew.kill()
            self._crew = None
        self._pulse.beat_now()
        self._uplink.wake()

    def save(self, *, at_once: bool) -> None:
        """The farm has stored every record, unless it is away."""
        if self.is_stale:
            return
        deadline_s = time.monotonic() + (SAVE_TIMEOUT_AT_ONCE_S if at_once else SAVE_TIMEOUT_S)
        while self._journal.list_kept() and time.monotonic() < deadline_s:
            self._uplink.wake()
            self._pulse.beat_now()
            time.sleep(0.1)
        if left := len(self._journal.list_kept()):
            log.warning("records stay in the journal until the next start", records=left)

    def close(self) -> None:
        """The last beat has been tried."""
        self._uplink.close()
        self._pulse.close()

    def _make_crew(self) -> Crew:
        return Crew(
            self._journal,
            start_worker=lambda: WorkerProcess(self._box, self._box_file, self._token, self._book),
            report=self._events.add,
            tell_of_dead=self._say_what_is_open,
        )

    def _look(self) -> Sign:
        doing = self.doing
        facts = {
            **self._describe(),
            **self._holding.describe(),
            "open": list(self._beat_journal.list_open()),
            "unacknowledged": list(self._beat_journal.list_unacknowledged()),
            "load": list(os.getloadavg()),
        }
        if doing is not None:
            # How long the consumer has said nothing, and how long its phase has lasted, tell a box that stands still
            # from one that is busy and one that is dead.
            now_s = time.monotonic()
            facts["detail"] = doing.detail
            facts["detail_s"] = facts["phase_age_s"] = round(now_s - doing.since_s, 1)
            facts["consumer_age_s"] = round(now_s - doing.heard_s, 1)
        self._said_revision = "revision" in facts
        self._said_verify = self._verify
        if self._said_verify is not None:
            facts["verify"] = self._said_verify
        return Sign(phase=self._name_phase(), facts=facts)

    def _hear(self, answer: BeatAnswer) -> None:
        if answer.answer == "stale":
            if not self.is_stale:
                log.error("the lease is gone: another process works this box")
            self.is_stale = True
            self._wake()
            return
        self._holding.take(answer)
        self.answered_s = time.monotonic()
        self.is_verified = answer.verified if self._said_revision else None
        said, self._said_verify = self._said_verify, None
        if said is not None and said is self._verify:
            # said once: each time it is said, it is a row. Another may have come since it was said.
            self._verify = None
        for attempt in self._beat_journal.list_untold():
            # finished, while the farm could not be told
            self._pulse.finish(attempt)
            self._beat_journal.mark_told(attempt)
        self._deaf = answer.deaf
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
