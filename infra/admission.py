"""Admit a box to a farm elsewhere: it gets a login of its own and the file that is all a box is told."""

from __future__ import annotations

import secrets
from pathlib import Path

import sqlalchemy as sa

from broker.errors import UsageError
from broker.settings import Settings
from broker.store.engine import begin, make_engine
from broker.store.logins import ensure_box_login
from infra.embedded.boxes import STACK_PORTS, as_toml
from infra.embedded.documents import write_private
from infra.embedded.ports import find_free_block


def admit_box(settings: Settings, name: str, *, folder: Path, out: Path) -> None:
    """The box has its login, with a new password, and `out` is its file for the reference stack, 0600.

    Raises UsageError without addresses or for a file that is there, DatabaseError when PostgreSQL is away.
    """
    if settings.database_url is None or settings.broker_url is None:
        raise UsageError(
            "BV3_BROKER_URL and BV3_DATABASE_URL are not set",
            hint="the embedded farm makes its own boxes: bv3-farm up --boxes K",
        )
    if out.exists():
        raise UsageError(f"{out} is there already", hint="move it away, or name another --out")
    database = settings.database_url.get_secret_value()
    password = secrets.token_urlsafe(24)
    with begin(make_engine(database, application="bv3-farm", pooled=False)) as connection:
        login = ensure_box_login(connection, name, password)
    url = sa.make_url(database).set(drivername="postgresql", username=login, password=password)
    write_private(
        out,
        as_toml(
            {
                "name": name,
                "stack": "reference",
                "isolation": "ports",
                "renderer": "playwright",
                "lane": "stub",
                "folder": str(folder.absolute()),
                "database_url": url.render_as_string(hide_password=False),
                "broker_url": settings.broker_url.get_secret_value(),
            },
            {"ports": dict(zip(STACK_PORTS, find_free_block(len(STACK_PORTS)), strict=True))},
        ),
    )
