"""The box's memory: one SQLite file that survives every crash.

Per (run, dispatch number) one row; a row only ever moves along these lines, each move conditional:

    intent ─► started ─► launching ─► recorded ─► acknowledged
       │         └───────────┴─► died
       └─► released
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from broker.errors import Bv3Error

_BUSY_TIMEOUT_S = 20.0


class RunState(StrEnum):
    """How far a handed-out run has come on this box."""

    # it is here, with the nonce it will be started by
    INTENT = "intent"
    # the farm said yes
    STARTED = "started"
    # on disk before the POST leaves: from here on the product may have acted
    LAUNCHING = "launching"
    # the record's bytes are on disk
    RECORDED = "recorded"
    # the farm has stored the record
    ACKNOWLEDGED = "acknowledged"
    # handed back before any start
    RELEASED = "released"
    # the process that ran it ended before the record was written
    DIED = "died"


class JournalError(Bv3Error):
    """A move that the row's state does not allow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One row, without the record's bytes."""

    run: int
    dispatch: int
    state: RunState
    nonce: str
    sweep: str
    name: str
    # monotonic time of the order's arrival; means nothing after a boot, when every run has died anyway
    since_s: float
    wall_limit_s: float
    attempt: int
    attempt_no: int
    # the farm knows that the attempt is finished
    told: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptRecord:
    """A record that the farm has not acknowledged yet."""

    attempt: int
    told: bool
    sha256: str
    record: bytes
    # hashes of the evidence files it names
    evidence: tuple[str, ...]

    @property
    def size(self) -> int:
        """The record's bytes; its evidence is compressed and small beside the limit."""
        return len(self.record)


_SCHEMA = """
create table if not exists runs (
    run integer not null,
    dispatch integer not null,
    state text not null check (state in
        ('intent', 'started', 'launching', 'recorded', 'acknowledged', 'released', 'died')),
    nonce text not null unique,
    sweep text not null,
    name text not null,
    since_s real not null,
    wall_limit_s real not null,
    attempt integer not null default 0,
    attempt_no integer not null default 0,
    told integer not null default 0,
    reason text not null default '',
    sha256 text unique,
    record blob,
    evidence text not null default '[]',
    parked integer not null default 0,
    primary key (run, dispatch),
    check ((state = 'recorded') = (record is not null))
) strict;
create index if not exists runs_open on runs (state) where state not in ('acknowledged', 'released', 'died');
"""

_COLUMNS = "run, dispatch, state, nonce, sweep, name, since_s, wall_limit_s, attempt, attempt_no, told"


class Journal:
    """One connection to the journal. A thread or a forked process opens its own."""

    def __init__(self, path: Path) -> None:
        # autocommit: each move is one statement, on disk when the call returns
        self._db = sqlite3.connect(path, timeout=_BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)
        self._db.execute("pragma journal_mode = wal")
        self._db.execute("pragma synchronous = full")
        self._db.executescript(_SCHEMA)
        path.chmod(0o600)

    def close(self) -> None:
        """The file is closed."""
        self._db.close()

    def intend(
        self, run: int, dispatch: int, *, nonce: str, sweep: str, name: str, since_s: float, wall_limit_s: float
    ) -> Entry:
        """The row of this dispatch: a new one in `intent`, or the one that was there, with its old nonce."""
        self._db.execute(
            "insert into runs (run, dispatch, state, nonce, sweep, name, since_s, wall_limit_s)"
            " values (?, ?, 'intent', ?, ?, ?, ?, ?)"
            " on conflict (run, dispatch) do update set since_s = excluded.since_s where state = 'intent'",
            (run, dispatch, nonce, sweep, name, since_s, wall_limit_s),
        )
        return self._entries("where run = ? and dispatch = ?", (run, dispatch))[0]

    def mark_started(self, run: int, dispatch: int, *, attempt: int, attempt_no: int) -> None:
        """The farm's yes is on disk."""
        self._move(run, dispatch, "intent", "state = 'started', attempt = ?, attempt_no = ?", (attempt, attempt_no))

    def mark_launching(self, run: int, dispatch: int) -> None:
        """It is on disk that the product may act from here on."""
        self._move(run, dispatch, "started", "state = 'launching'", ())

    def mark_recorded(self, run: int, dispatch: int, *, record: bytes, evidence: tuple[str, ...]) -> str:
        """The record's bytes are on disk until acknowledged; their SHA-256 is returned."""
        sha256 = hashlib.sha256(record).hexdigest()
        self._move(
            run,
            dispatch,
            "started,launching",
            "state = 'recorded', record = ?, sha256 = ?, evidence = ?",
            (record, sha256, json.dumps(evidence)),
        )
        return sha256

    def mark_told(self, attempt: int) -> None:
        """The farm knows that the attempt is finished, so its record may be sent."""
        self._db.execute("update runs set told = 1 where attempt = ? and attempt > 0", (attempt,))

    def release(self, run: int, dispatch: int, reason: str) -> None:
        """The run was handed back before any start."""
        self._move(run, dispatch, "intent", "state = 'released', reason = ?", (reason,))

    def acknowledge(self, sha256: str) -> int | None:
        """The record's bytes are dropped; its attempt, or None when there was no such record waiting."""
        rows = self._db.execute(
            "update runs set state = 'acknowledged', record = null where sha256 = ? and state = 'recorded'"
            " returning attempt",
            (sha256,),
        ).fetchall()
        return int(rows[0][0]) if rows else None

    def park(self, sha256: str) -> None:
        """The farm does not know this record's attempt: it is kept and not sent again."""
        self._db.execute("update runs set parked = 1 where sha256 = ?", (sha256,))

    def settle(self) -> tuple[Entry, ...]:
        """Runs whose process is gone are `died` now; they are returned.

        Only for a caller that knows that no process of this box runs one: at start, and after a worker's end.
        """
        died = self._entries("where state in ('started', 'launching')", ())
        self._db.execute("update runs set state = 'died' where state in ('started', 'launching')")
        return died

    def read_running(self) -> Entry | None:
        """The run that is between the farm's yes and its record, if there is one."""
        rows = self._entries("where state in ('started', 'launching')", ())
        return rows[0] if rows else None

    def read_arriving(self, *, since_s: float) -> Entry | None:
        """A run that arrived after `since_s` (monotonic) and has neither been started nor handed back yet."""
        rows = self._entries("where state = 'intent' and since_s >= ?", (since_s,))
        return rows[0] if rows else None

    def list_open(self) -> tuple[int, ...]:
        """Attempts that are ours: they run, or their record is not stored yet."""
        return tuple(
            entry.attempt for entry in self._entries("where state in ('started', 'launching', 'recorded')", ())
        )

    def list_untold(self) -> tuple[int, ...]:
        """Attempts whose record is safe here while the farm does not know that they are finished."""
        return tuple(entry.attempt for entry in self._entries("where state = 'recorded' and told = 0", ()))

    def list_kept(self) -> tuple[KeptRecord, ...]:
        """Records that are neither acknowledged nor parked, oldest first."""
        rows = self._db.execute(
            "select attempt, told, sha256, record, evidence from runs where state = 'recorded' and not parked"
            " order by attempt"
        )
        return tuple(
            KeptRecord(
                attempt=attempt, told=bool(told), sha256=sha256, record=record, evidence=tuple(json.loads(evidence))
            )
            for attempt, told, sha256, record, evidence in rows
        )

    def list_unacknowledged(self) -> tuple[str, ...]:
        """The hashes of all records that the farm has not acknowledged, parked ones included."""
        return tuple(row[0] for row in self._db.execute("select sha256 from runs where state = 'recorded'"))

    def _entries(self, where: str, values: tuple[Any, ...]) -> tuple[Entry, ...]:
        rows = self._db.execute(f"select {_COLUMNS} from runs {where} order by run, dispatch", values)  # our own text
        return tuple(
            Entry(
                run=row[0],
                dispatch=row[1],
                state=RunState(row[2]),
                nonce=row[3],
                sweep=row[4],
                name=row[5],
                since_s=row[6],
                wall_limit_s=row[7],
                attempt=row[8],
                attempt_no=row[9],
                told=bool(row[10]),
            )
            for row in rows
        )

    def _move(self, run: int, dispatch: int, allowed: str, change: str, values: tuple[Any, ...]) -> None:
        states = allowed.split(",")
        marks = ", ".join("?" * len(states))
        done = self._db.execute(
            f"update runs set {change} where run = ? and dispatch = ? and state in ({marks})",  # our own text
            (*values, run, dispatch, *states),
        )
        if done.rowcount != 1:
            what = change.partition(",")[0]
            raise JournalError(f"run {run}, dispatch {dispatch} is not in {allowed}: {what} refused")
