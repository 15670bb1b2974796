"""The box reaches PostgreSQL as its address says, with all that the address says."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from broker.errors import DatabaseError
from broker.store.box_client import BoxClient, Machine


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        (
            "postgresql://box_a:pw@db.example:5433/bv3?sslmode=verify-full&sslrootcert=/ca.pem",
            {"host": "db.example", "port": "5433", "sslmode": "verify-full", "sslrootcert": "/ca.pem"},
        ),
        ("postgresql://box_a:pw@/bv3?host=/run/postgresql", {"host": "/run/postgresql", "dbname": "bv3"}),
    ],
)
def test_what_stands_behind_the_question_mark_is_not_dropped(
    monkeypatch: pytest.MonkeyPatch, url: str, expected: dict[str, Any]
) -> None:
    seen: dict[str, Any] = {}

    def connect(**arguments: Any) -> None:
        seen.update(arguments)
        raise psycopg.OperationalError("not here")

    monkeypatch.setattr(psycopg, "connect", connect)
    with pytest.raises(DatabaseError, match="not here"):
        BoxClient(url, application="test").register(Machine(machine="m", boot="b", namespace="n", pid=1))
    assert expected.items() <= {key: str(value) for key, value in seen.items()}.items()
