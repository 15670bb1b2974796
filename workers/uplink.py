"""Sending records and evidence to the farm, on a thread of its own: Redis may hang, beats must not."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from pathlib import Path

import structlog

from broker.errors import BrokerError
from broker.publish import Publisher
from broker.store.box_client import BeatAnswer
from workers.journal import EvidenceStore, Journal, KeptRecord
from workers.outbox import Outbox

log = structlog.get_logger(__name__)
_RETRY_S = 2.0


class Uplink:
    """Publishes what the journal keeps until the farm has stored it."""

    def __init__(self, box: str, journal_file: Path, evidence: EvidenceStore, publisher: Publisher) -> None:
        self._box = box
        self._journal_file = journal_file
        self._evidence = evidence
        self._publisher = publisher
        self._outbox = Outbox()
        self._guard = threading.Lock()
        self._woken = threading.Event()
        self._missing: set[str] = set()
        self._ending = False
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
            for name in journal.acknowledge(sha256):
                self._evidence.drop(name)
        for sha256 in answer.unknown:
            journal.park(sha256)
        with self._guard:
            self._outbox.count_beat(journal.list_unacknowledged())
            self._missing |= answer.missing
        self.wake()

    def close(self, timeout_s: float = 5.0) -> None:
        """The thread has ended, or hangs in Redis and ends with the process."""
        self._ending = True
        self.wake()
        self._thread.join(timeout_s)

    def _run(self) -> None:
        journal = Journal(self._journal_file)
        while not self._ending:
            self._woken.wait()
            self._woken.clear()
            try:
                self._send_evidence(self._take_missing())
                self._send_due(journal)
            except BrokerError as error:
                log.warning("records wait", cause=error.message)
                with self._guard:
                    self._outbox.start_anew()
                time.sleep(_RETRY_S)
                self.wake()
        journal.close()

    def _take_missing(self) -> tuple[str, ...]:
        with self._guard:
            missing = tuple(sorted(self._missing))
            self._missing.clear()
        return missing

    def _send_due(self, journal: Journal) -> None:
        with self._guard:
            due = self._outbox.choose_due(journal.list_kept(), time.monotonic())
        for record in due:
            self._send(record)

    def _send(self, record: KeptRecord) -> None:
        # Ahead of the record: it is stored only when every hash it names is there.
        self._send_evidence(record.evidence)
        self._publisher.send_record(self._box, record.attempt, record.record)
        with self._guard:
            self._outbox.mark_sent(record, time.monotonic())

    def _send_evidence(self, hashes: Iterable[str]) -> None:
        for sha256 in hashes:
            data = self._evidence.read(sha256)
            if data is None:
                log.error("evidence is gone", sha256=sha256)
                continue
            self._publisher.send_evidence(self._box, sha256, data)
