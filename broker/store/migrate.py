"""Bring a database to the newest schema; one process migrates, the others wait (faults.md 22)."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

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
    """The database has the newest schema afterwards; its revision is returned. Safe for many at once."""
    engine = make_engine(database_url, application="bv3-migrate", pooled=False)
    config = _config()
    head = ScriptDirectory.from_config(config).get_current_head()
    try:
        with engine.connect() as connection:
            connection.execute(sa.text("select pg_advisory_lock(:a, :b)"), {"a": _LOCK[0], "b": _LOCK[1]})
            connection.commit()
            try:
                if MigrationContext.configure(connection).get_current_revision() != head:
                    connection.commit()
                    config.attributes["connection"] = connection
                    command.upgrade(config, "head")
                connection.commit()
            finally:
                connection.execute(sa.text("select pg_advisory_unlock(:a, :b)"), {"a": _LOCK[0], "b": _LOCK[1]})
                connection.commit()
    except sa.exc.OperationalError as error:
        raise unreachable(engine.url, error) from error
    return str(head)
