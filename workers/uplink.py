"""Sending records and evidence to the farm, on a thread of its own: Redis may hang, beats must not."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from broker.errors import BrokerError
from broker.store.box_client import BeatAnswer
from workers.evidence import EvidenceStore
from workers.journal import Journal, KeptRecord
from workers.outbox import Outbox

if TYPE_CHECKING:
    from broker.publish import Publisher

log = structlog.get_logger(__name__)
_RETRY_S = 2.0


class Uplink:
    """Publishes what the journal keeps until the farm has stored it."""

    def __init__(
        self, box: str, journal_file: Path, evidence: EvidenceStore, make_publisher: Callable[[], Publisher]
    ) -> None:
        self._box = box
        self._journal_file = journal_file
        self._evidence = evidence
        # on the thread: Celery takes a second to import, and the worker's start must not wait for it
        self._make_publisher = make_publisher
        self._outbox = Outbox()
        self._guard = threading.Lock()
        self._woken = threading.Event()
        self._ending_soon = threading.Event()
        self._thread = threading.Thread(target=self._run, name="uplink", daemon=True)

    def open(self) -> None:
        """The thread runs; what an earlier supervisor left unacknowledged goes out first."""
        self._thread.start()
        self.wake()

    def wake(self) -> None:
        """There may be something to send."""
        self._woken.set()

    def take_answer(self, journal: Journal, answer: BeatAnswer) -> None:
        """What the farm has stored is acknowledged, what it misses will be sent, what it does not know is parked."""
        for sha256 in answer.stored:
            if (attempt := journal.acknowledge(sha256)) is not None:
                self._evidence.drop(attempt)
        for sha256 in answer.unknown:
            journal.park(sha256)
        with self._guard:
            self._outbox.count_beat(journal.list_unacknowledged())
            self._outbox.note_missing(answer.missing)
        self.wake()

    def close(self, timeout_s: float = 5.0) -> None:
        """The thread has ended, or hangs in Redis and ends with the process."""
        self._ending_soon.set()
        self.wake()
        self._thread.join(timeout_s)

    def _run(self) -> None:
        journal, publisher = Journal(self._journal_file), self._make_publisher()
        while not self._ending_soon.is_set():
            self._woken.wait()
            self._woken.clear()
            try:
                self._send_due(journal, publisher)
            except BrokerError as error:
                log.warning("records wait", cause=error.message)
                with self._guard:
                    self._outbox.start_anew()
                self._ending_soon.wait(_RETRY_S)
                self.wake()
            except Exception:
                # Whatever it is, the records are still in the journal, and the next ones must go out.
                log.exception("bug in the uplink")
        journal.close()

    def _send_due(self, journal: Journal, publisher: Publisher) -> None:
        kept = journal.list_kept()
        with self._guard:
            now_s = time.monotonic()
            missing = self._outbox.choose_missing(kept, now_s)
            due = self._outbox.choose_due(kept, now_s)
        for record, hashes in missing:
            self._send_evidence(publisher, record, hashes)
        for record in due:
            # Ahead of the record: it is stored only when every hash it names is there.
            self._send_evidence(publisher, record, record.evidence)
            publisher.send_record(self._box, record.attempt, record.record)
            with self._guard:
                self._outbox.mark_sent(record, time.monotonic())

    def _send_evidence(self, publisher: Publisher, record: KeptRecord, hashes: Iterable[str]) -> None:
        for sha256 in hashes:
            data = self._evidence.read(record.attempt, sha256)
            if data is None:
                log.warning("evidence is gone", sha256=sha256, attempt=record.attempt)
                continue
            publisher.send_evidence(self._box, sha256, data)
