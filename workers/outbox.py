"""Which records and evidence are to be sent now: decided from what was sent and what the farm answered. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from workers.journal import KeptRecord

FIRST_BACKOFF_S = 5.0
MOST_BACKOFF_S = 300.0
BEATS_BEFORE_AGAIN = 2
# At most this much of one box waits unstored in `results`.
UNSTORED_BYTES = 2 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """When a record was last sent, by the monotonic clock and by the count of answered beats."""

    at_s: float
    beat: int
    tries: int
    size: int


@dataclass(slots=True, kw_only=True)
class Outbox:
    """The memory of one supervisor: gone with it, and then everything unacknowledged is sent again."""

    _sent: dict[str, Sent] = field(default_factory=dict)
    _beats: int = 0
    _missing: set[str] = field(default_factory=set)
    # when the evidence was last sent because it was missing
    _sent_again_s: dict[str, float] = field(default_factory=dict)

    def count_beat(self, kept: Iterable[str]) -> None:
        """A beat was answered; `kept` is what the farm has not stored. Everything else is forgotten."""
        self._beats += 1
        still = set(kept)
        self._sent = {sha256: sent for sha256, sent in self._sent.items() if sha256 in still}

    def choose_due(self, kept: Iterable[KeptRecord], now_s: float) -> tuple[KeptRecord, ...]:
        """The records to send now, oldest first, as far as the space in `results` goes."""
        due = []
        unstored = sum(sent.size for sent in self._sent.values())
        for record in kept:
            if not record.told or not self._is_due(record.sha256, now_s):
                continue
            fresh = 0 if record.sha256 in self._sent else record.size
            # One that is larger than the whole limit goes when nothing else waits.
            if unstored and unstored + fresh > UNSTORED_BYTES:
                break
            unstored += fresh
            due.append(record)
        return tuple(due)

    def note_missing(self, hashes: Iterable[str]) -> None:
        """The farm waits for these pieces of evidence, and for no others."""
        self._missing = set(hashes)
        self._sent_again_s = {name: at for name, at in self._sent_again_s.items() if name in self._missing}

    def choose_missing(
        self, kept: Iterable[KeptRecord], now_s: float
    ) -> tuple[tuple[KeptRecord, tuple[str, ...]], ...]:
        """The pieces of evidence to send once more, with a record that names each."""
        chosen = []
        for record in kept:
            names = tuple(name for name in record.evidence if name in self._missing and self._may_repeat(name, now_s))
            if names:
                self._sent_again_s |= dict.fromkeys(names, now_s)
                chosen.append((record, names))
        return tuple(chosen)

    def mark_sent(self, record: KeptRecord, now_s: float) -> None:
        """The record went out."""
        before = self._sent.get(record.sha256)
        tries = before.tries + 1 if before else 1
        self._sent[record.sha256] = Sent(at_s=now_s, beat=self._beats, tries=tries, size=record.size)

    def start_anew(self) -> None:
        """Nothing counts as sent: after an outage, and at shutdown."""
        self._sent.clear()

    def _may_repeat(self, name: str, now_s: float) -> bool:
        before_s = self._sent_again_s.get(name)
        return before_s is None or now_s - before_s >= FIRST_BACKOFF_S

    def _is_due(self, sha256: str, now_s: float) -> bool:
        sent = self._sent.get(sha256)
        if sent is None:
            return True
        backoff_s = min(MOST_BACKOFF_S, FIRST_BACKOFF_S * 2 ** (sent.tries - 1))
        return self._beats - sent.beat >= BEATS_BEFORE_AGAIN and now_s - sent.at_s >= backoff_s
