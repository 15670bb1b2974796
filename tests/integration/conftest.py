"""A farm's rows without a farm: one sweep, boxes with their own logins, and the calls they make."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from uuid import UUID

import pytest
import sqlalchemy as sa

from broker.store.box_client import BoxClient, Machine
from broker.store.engine import begin, make_engine
from broker.store.logins import ensure_box_login
from broker.store.sweeps import NewRun, NewSweep, create_sweep
from broker.suites import load_suite


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    name: str
    client: BoxClient
    token: UUID
    url: str


@pytest.fixture
def engine(database: str) -> sa.Engine:
    return make_engine(database, application="test", pooled=False)


@pytest.fixture
def sweep(engine: sa.Engine) -> str:
    """A sweep of three runs, x, reddit and gmail."""
    suite = load_suite("known")
    tasks = [task for task in suite.tasks if task.site in {"x", "reddit", "gmail"}]
    new = NewSweep(
        id="c7-20261129T220003Z-k3f9",
        plan="c7",
        suite=suite.name,
        suite_sha256=suite.sha256,
        mode="dry",
        trials=1,
        priority=0,
        retries=2,
        requested_by="test",
        # stub boxes check no markers
        params={"n": 1, "unverified": True},
        runs=tuple(
            NewRun(arm="default", site=task.site, trial=1, order_key=10_000 + index, task=task)
            for index, task in enumerate(tasks)
        ),
    )
    with begin(engine) as connection:
        create_sweep(connection, new)
    return new.id


@pytest.fixture
def make_box(engine: sa.Engine, database: str) -> Iterator[Callable[[str], Box]]:
    """A registered box that has beaten once and is ready."""
    made: list[Box] = []

    def make(name: str) -> Box:
        with begin(engine) as connection:
            login = ensure_box_login(connection, name, "secret")
        url = sa.make_url(database).set(username=login, password="secret").render_as_string(hide_password=False)
        client = BoxClient(url, application=f"box {name}")
        token = client.register(
            Machine(machine="m", boot="b", namespace="n", pid=1), facts={"mode": "dry"}, predecessor_dead=True
        )
        client.beat(token, "ready", {})
        made.append(Box(name=name, client=client, token=token, url=url))
        return made[-1]

    yield make
    for box in made:
        box.client.close()
