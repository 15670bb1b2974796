"""Bring a database to the newest schema; one process migrates, the others wait (faults.md 22)."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError

from broker.errors import DatabaseError
from broker.store.engine import make_engine, unreachable

# "bv3 migrate" in two numbers; pg_advisory_lock has no names
_LOCK = (0x6276, 0x6D)


def _config() -> Config:
    # Data, found by name: broker imports nothing of infra.
    spec = find_spec("infra")
    if spec is None or not spec.submodule_search_locations:
        raise DatabaseError("the folder infra/migrations is missing from this installation")
    config = Config()
    config.set_main_option(
        "script_location", str(Path(spec.submodule_search_locations[0]) / "migrations").replace("%", "%%")
    )
    return config


def migrate(database_url: str) -> str:
    """The database has the newest schema afterwards; its revision is returned. Safe for many at once.

    Raises DatabaseError when PostgreSQL is away or refuses it, or when a newer bv3 made the tables.
    """
    engine = make_engine(database_url, application="bv3-migrate", pooled=False)
    config = _config()
    head = ScriptDirectory.from_config(config).get_current_head()
    try:
        with engine.connect() as connection:
            connection.execute(sa.text("select pg_advisory_lock(:a, :b)"), {"a": _LOCK[0], "b": _LOCK[1]})
            connection.commit()
            # The lock goes with the connection, which is not pooled.
            if MigrationContext.configure(connection).get_current_revision() != head:
                connection.commit()
                config.attributes["connection"] = connection
                command.upgrade(config, "head")
            connection.commit()
    except sa.exc.DBAPIError as error:
        raise unreachable(engine.url, error) from error
    except CommandError as error:
        raise DatabaseError(
            f"the tables of {engine.url.database} are not of this bv3: {error}",
            hint="a newer bv3 has worked with this database: use that one",
        ) from error
    return str(head)
