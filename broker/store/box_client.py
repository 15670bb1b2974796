"""The box's side of the five functions: typed calls, each one statement in its own transaction."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import psycopg
from psycopg.conninfo import conninfo_to_dict

from broker.codec import clean_text
from broker.errors import BoxHeldError, DatabaseError

_CONNECT_TIMEOUT_S = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Which process on which machine asks: what makes a lease somebody's."""

    machine: str
    boot: str
    namespace: str
    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """Something that keeps the box from its work. `kind`: breach, quarantined or drained."""

    id: int
    kind: str
    reason: str
    since: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BeatAnswer:
    """What the farm says back. `answer`: ok, stale, drain (and nothing else holds it) or hold.

    `stored`, `missing` and `unknown` are SHA-256s of records or evidence.
    """

    answer: str
    reason: str | None = None
    stored: frozenset[str] = frozenset()
    missing: frozenset[str] = frozenset()
    unknown: frozenset[str] = frozenset()
    # a run was sent to this box twice, and the box has not begun it
    deaf: bool = False
    # the database's clock; None where the lease is stale
    now: datetime | None = None
    # all that keep the box from its work, oldest first
    holds: tuple[Hold, ...] = ()
    # the revision and the catalogue that the box named have a check without dead markers
    verified: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StartAnswer:
    """yes: the attempt is ours, with its number and the exact payload; no: the reason."""

    won: bool
    reason: str = ""
    attempt: int = 0
    attempt_no: int = 0
    payload: str = ""


class BoxClient:
    """One connection of one box login; not shared between threads or across a fork.

    A broken connection is opened anew at the next call. Every call raises DatabaseError when PostgreSQL
    does not answer, and is safe to repeat (`start` by its nonce).
    """

    def __init__(self, database_url: str, *, application: str, statement_timeout_s: float = 10.0) -> None:
        self._arguments: dict[str, Any] = {
            # with sslmode and the like: a box that was told to check the server's certificate must do so
            **_read_address(database_url),
            "application_name": application,
            "connect_timeout": _CONNECT_TIMEOUT_S,
            "options": f"-c statement_timeout={int(statement_timeout_s * 1000)}",
            "keepalives_idle": 10,
            "keepalives_interval": 5,
            "keepalives_count": 3,
            "tcp_user_timeout": 15000,
        }
        self._connection: psycopg.Connection[Any] | None = None

    def close(self) -> None:
        """The connection is closed; the next call opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def register(self, me: Machine, *, predecessor_dead: bool = False, facts: Mapping[str, Any] | None = None) -> UUID:
        """The lease's token. Raises BoxHeldError, naming the holder, while another process beats for this box."""
        answer = self._call(
            "select box.register(%s, %s, %s, %s, %s, %s::jsonb)",
            me.machine,
            me.boot,
            me.namespace,
            me.pid,
            predecessor_dead,
            _to_json(facts or {}),
        )
        if answer["answer"] == "held":
            raise BoxHeldError(
                f"this box is already worked by host {answer['machine']}, pid {answer['pid']}, "
                f"since {answer['since']} (last beat {answer['last_beat_s']} s ago)",
                holder=answer,
                hint="stop it there, or give this box another name in box.toml",
            )
        return UUID(answer["token"])

    def beat(self, token: UUID, phase: str, facts: Mapping[str, Any]) -> BeatAnswer:
        """The box's life sign; `facts` holds open, unacknowledged, events and what else the farm should see."""
        answer = self._call("select box.beat(%s, %s, %s::jsonb)", token, phase, _to_json(facts))
        return BeatAnswer(
            answer=answer["answer"],
            reason=answer.get("reason"),
            stored=frozenset(answer.get("stored", ())),
            missing=frozenset(answer.get("missing", ())),
            unknown=frozenset(answer.get("unknown", ())),
            deaf=bool(answer.get("deaf")),
            now=_to_time(answer.get("now")),
            holds=tuple(_to_hold(plain) for plain in answer.get("holds", ())),
            verified=bool(answer.get("verified")),
        )

    def start(self, run: int, dispatch: int, token: UUID, nonce: str) -> StartAnswer:
        """Whether this box may begin the run. The same nonce gets the same answer while the attempt is open."""
        answer = self._call("select box.start(%s, %s, %s, %s)", run, dispatch, token, nonce)
        if answer["answer"] != "yes":
            return StartAnswer(won=False, reason=answer["reason"])
        return StartAnswer(
            won=True, attempt=answer["attempt"], attempt_no=answer["attempt_no"], payload=answer["payload"]
        )

    def step(self, attempt: int, token: UUID, kind: str, facts: Mapping[str, Any] | None = None) -> str:
        """ok, over (the attempt was lost or has ended) or stale; kind is phase or finished."""
        answer = self._call("select box.step(%s, %s, %s, %s::jsonb)", attempt, token, kind, _to_json(facts or {}))
        return str(answer["answer"])

    def released(
        self, run: int, dispatch: int, token: UUID, reason: str, facts: Mapping[str, Any] | None = None
    ) -> str:
        """The run is planned again and cost no attempt: ok; over or stale when it was no longer ours."""
        answer = self._call(
            "select box.released(%s, %s, %s, %s, %s::jsonb)",
            run,
            dispatch,
            token,
            reason,
            _to_json(facts or {}),
        )
        return str(answer["answer"])

    def _call(self, statement: str, *values: object) -> dict[str, Any]:
        try:
            if self._connection is None or self._connection.closed or self._connection.broken:
                self._connection = psycopg.connect(**self._arguments, autocommit=True)
            row = self._connection.execute(statement, values).fetchone()
        except psycopg.Error as error:
            self.close()
            raise DatabaseError(f"PostgreSQL did not answer the box: {str(error).strip()}") from error
        if row is None:
            raise DatabaseError(f"no answer to {statement}")
        answer: dict[str, Any] = row[0]
        return answer


def _to_hold(plain: Mapping[str, Any]) -> Hold:
    return Hold(id=plain["id"], kind=plain["kind"], reason=plain["reason"], since=_to_time(plain.get("since")))


def _to_time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def _to_json(facts: Mapping[str, Any]) -> str:
    """The facts as jsonb takes them: one NUL in a page's title would keep the box from ever beating again."""
    return json.dumps(_storable(facts), allow_nan=False)


def _storable(value: Any) -> Any:
    if isinstance(value, str):
        return clean_text(value)[0]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {_storable(str(key)): _storable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_storable(item) for item in value]
    return value


def _read_address(database_url: str) -> dict[str, Any]:
    # Without SQLAlchemy: importing it would cost every process of a box half a second and 25 MB.
    try:
        return dict(conninfo_to_dict(database_url.replace("postgresql+psycopg://", "postgresql://", 1)))
    except psycopg.ProgrammingError as error:
        raise DatabaseError(
            "the database address can't be read", hint="postgresql://user:password@host:port/name"
        ) from error
