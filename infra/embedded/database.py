"""What the keeper asks of the farm's database. SQLAlchemy and Alembic are imported on first use."""

# ruff: noqa: PLC0415 - a second of imports that only the keeper pays, and only when it must

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import sqlalchemy as sa


T = TypeVar("T")


def warm_up() -> None:
    """The heavy imports are under way in the background, while the servers start."""
    threading.Thread(target=_import_store, daemon=True).start()


def _import_store() -> None:
    import broker.store.logins
    import broker.store.migrate  # noqa: F401 - imported for its weight


def migrate(url: str) -> None:
    """The database has the newest schema. Raises DatabaseError."""
    from broker.store.migrate import migrate as upgrade

    upgrade(url)


def set_box_login(url: str, box: str, password: str) -> str:
    """The box's login exists with this password; its name is returned. Raises DatabaseError."""
    from broker.store.logins import ensure_box_login

    return _within(url, lambda connection: ensure_box_login(connection, box, password))


def has_active_sweep(url: str) -> bool:
    """Whether any sweep still wants its runs to be done. Raises DatabaseError: could not look."""
    from broker.store.sweeps import has_active_sweep as ask

    return _within(url, ask)


def _within(url: str, act: Callable[[sa.Connection], T]) -> T:
    from broker.store.engine import begin, make_engine

    engine = make_engine(url, application="bv3-keeper", pooled=False)
    with begin(engine) as connection:
        return act(connection)
