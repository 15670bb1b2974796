"""Engines. Make one after a fork, never before: a shared connection mixes answers (faults.md 23)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.pool import NullPool

from broker.errors import DatabaseError

_CONNECT_TIMEOUT_S = 4


def with_driver(database_url: str) -> sa.URL:
    """The address with psycopg 3 named as its driver. Raises DatabaseError for what is no address."""
    try:
        url = sa.make_url(database_url)
    except sa.exc.ArgumentError as error:
        raise DatabaseError(
            "the database address can't be read", hint="postgresql://user:password@host:port/name"
        ) from error
    return url.set(drivername="postgresql+psycopg")


def make_engine(database_url: str, *, application: str, pooled: bool = True) -> sa.Engine:
    """An engine whose sessions think in UTC and name themselves `application`."""
    pool: dict[str, object] = {"pool_pre_ping": True} if pooled else {"poolclass": NullPool}
    return sa.create_engine(
        with_driver(database_url),
        connect_args={
            "connect_timeout": _CONNECT_TIMEOUT_S,
            "application_name": application,
            "options": "-c timezone=UTC",
            "keepalives_idle": 10,
            "keepalives_interval": 5,
            "keepalives_count": 3,
        },
        **pool,
    )


@contextmanager
def begin(engine: sa.Engine) -> Iterator[sa.Connection]:
    """A connection in one transaction; committed at the end. Raises DatabaseError when PostgreSQL is away."""
    try:
        connection = engine.connect()
    except OperationalError as error:
        raise unreachable(engine.url, error) from error
    with connection:
        try:
            with connection.begin():
                yield connection
        except DBAPIError as error:
            if error.connection_invalidated:
                raise unreachable(engine.url, error) from error
            raise


def unreachable(url: sa.URL, error: DBAPIError) -> DatabaseError:
    """The error a person reads: which server, and what it said, without the password."""
    where = f"{url.host or 'socket'}:{url.port or 5432}/{url.database}"
    said = str(error.orig).strip().splitlines()
    return DatabaseError(
        f"PostgreSQL at {where} can't be used: {said[0] if said else error}",
        hint="check BV3_DATABASE_URL, or `bv3-farm status` for the embedded farm",
    )
