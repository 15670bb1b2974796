"""A PostgreSQL login for each box: it may execute the five functions and read nothing."""

from __future__ import annotations

import re

import sqlalchemy as sa
from psycopg import sql

from broker.errors import UsageError

_NAME = re.compile(r"[a-z][a-z0-9-]{0,40}")


def login_of_box(box: str) -> str:
    """The login's name. Raises UsageError for a name that no box may have."""
    if not _NAME.fullmatch(box):
        raise UsageError(
            f"{box!r} can't be a box's name", hint="small letters, digits and hyphens, a letter first, 41 at most"
        )
    return "box_" + box.replace("-", "_")


def ensure_box_login(connection: sa.Connection, box: str, password: str) -> str:
    """The box has its row and a login with this password afterwards; the login's name is returned.

    Runs within the caller's transaction, as the owner of the schema.
    """
    login = login_of_box(box)
    connection.execute(
        sa.text("insert into boxes (name, login) values (:name, :login) on conflict (name) do nothing"),
        {"name": box, "login": login},
    )
    exists = connection.scalar(sa.text("select true from pg_roles where rolname = :login"), {"login": login})
    driver = connection.connection.driver_connection
    verb = sql.SQL("alter" if exists else "create")
    driver.execute(  # type: ignore[union-attr]
        sql.SQL("{} role {} login password {} connection limit 8").format(
            verb, sql.Identifier(login), sql.Literal(password)
        )
    )
    driver.execute(sql.SQL("grant bv3_box to {}").format(sql.Identifier(login)))  # type: ignore[union-attr]
    return login
