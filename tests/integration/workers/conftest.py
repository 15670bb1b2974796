"""A farm around one real box: PostgreSQL, Valkey, dispatcher, a storekeeper for `results`, and `bv3-box work`."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
import threading
import time
import tomllib
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest
import redis
import sqlalchemy as sa

from broker.codec import decode
from broker.store import grading
from broker.store.engine import begin, make_engine
from broker.store.logins import ensure_box_login
from broker.store.sweeps import NewRun, NewSweep, create_sweep, order
from broker.suites import load_suite
from broker.types import RunRecord
from workers.processes import MARK, ProcessBook, Recorded
from workers.scratch import drop_scratch

ROOT = Path(__file__).resolve().parents[3]


@dataclass(slots=True)
class Storekeeper:
    """Takes what boxes publish and stores it, as the grader does before it grades."""

    broker_url: str
    engine: sa.Engine
    records: list[RunRecord] = field(default_factory=list)
    ending: bool = False

    def run(self) -> None:
        with redis.Redis.from_url(self.broker_url) as line:
            while not self.ending:
                popped: Any = line.brpop(["results"], timeout=0.2)
                if popped is not None:
                    self.store(json.loads(popped[1]))

    def store(self, message: dict[str, Any]) -> None:
        task = message["headers"]["task"]
        kwargs = json.loads(base64.b64decode(message["body"]))[1]
        if task == "bv3.grade":
            return
        data = base64.b64decode(kwargs.pop("data"))
        with begin(self.engine) as connection:
            if task == "bv3.store_evidence":
                grading.save_chunk(connection, data=data, **kwargs)
                return
            record = decode(RunRecord, data)
            saved = grading.save_record(connection, raw=data, record=record, **kwargs)
        if saved.status == "stored":
            self.records.append(record)


@dataclass(slots=True)
class BoxUnderTest:
    """One box: its file, and the supervisor when it runs."""

    name: str
    folder: Path
    file: Path
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> subprocess.Popen[bytes]:
        with (self.folder / "box.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "workers.cli", "work", "--box", str(self.file)],
                stdout=log,
                stderr=log,
                cwd=ROOT,
                start_new_session=True,
            )
        return self.process

    @property
    def log(self) -> str:
        return (self.folder / "box.log").read_text()

    def wait_until(self, condition: Callable[[], bool], what: str, timeout_s: float = 60.0) -> None:
        """Wait for the condition, as long as the box lives."""
        deadline = time.monotonic() + timeout_s
        while not condition():
            assert self.process is not None
            assert self.process.poll() is None, f"{what}: the box has ended: {self.log[-2000:]}"
            assert time.monotonic() < deadline, f"{what}: not within {timeout_s} s: {self.log[-2000:]}"
            time.sleep(0.02)

    def read_port(self, part: str) -> int:
        return int(tomllib.loads(self.file.read_text())["ports"][part])

    def find_part(self, name: str) -> Recorded:
        """The part's newest process."""
        last = ProcessBook(folder=self.folder).last(name)
        assert last is not None
        return last

    def list_processes(self) -> list[psutil.Process]:
        """Every process that carries the box's mark."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get(MARK) == str(self.folder) and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
            except (psutil.Error, OSError):
                continue
        return found

    def stop(self, timeout_s: float = 40.0) -> int:
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout_s)


@dataclass(slots=True)
class Farm:
    """The services around the boxes, and what their rows say."""

    engine: sa.Engine
    database_url: str
    broker_url: str
    keeper: Storekeeper
    folder: Path
    free_port: Callable[[], int]
    boxes: list[BoxUnderTest] = field(default_factory=list)
    helpers: list[subprocess.Popen[bytes]] = field(default_factory=list)
    sweeps: int = 0

    def ask(self, statement: str, **values: Any) -> list[Any]:
        with begin(self.engine) as connection:
            return list(connection.execute(sa.text(statement), values))

    def add_box(self, name: str, *, reference: str = "", foreign: tuple[int, ...] = ()) -> BoxUnderTest:
        """A box of this farm; `reference`: the lines of its table of that name; `foreign`: ports of other stacks."""
        ports = {part: self.free_port() for part in ("backend", "router", "https", "http")}
        return self._write_box(
            name,
            'stack = "reference"\nisolation = "ports"\n',
            ports,
            f"foreign = {list(foreign)}\n\n[reference]\n{reference}\n",
        )

    def add_product_box(self, name: str, *, checkout: Path, ports: dict[str, int]) -> BoxUnderTest:
        """A box of this farm that runs the product of a checkout, without a model, on loopback pages."""
        return self._write_box(name, f'stack = "openswarm"\nisolation = "host"\ncheckout = "{checkout}"\n', ports, "")

    def _write_box(self, name: str, stack: str, ports: dict[str, int], rest: str) -> BoxUnderTest:
        with begin(self.engine) as connection:
            login = ensure_box_login(connection, name, "secret")
        url = sa.make_url(self.database_url).set(username=login, password="secret")
        folder = self.folder / name
        folder.mkdir()
        file = folder / "box.toml"
        told = "".join(f"{part} = {port}\n" for part, port in ports.items())
        file.write_text(
            f'name = "{name}"\n{stack}renderer = "playwright"\nlane = "stub"\nfolder = "{folder}"\n'
            f'database_url = "{url.render_as_string(hide_password=False)}"\nbroker_url = "{self.broker_url}"\n\n'
            f"[ports]\n{told}{rest}"
        )
        self.boxes.append(BoxUnderTest(name=name, folder=folder, file=file))
        return self.boxes[-1]

    def add_sweep(self, *sites: str, trials: int = 1) -> str:
        """A sweep of these sites, planned; its id."""
        suite = load_suite("known")
        tasks = [task for task in suite.tasks if task.site in sites]
        runs = [
            NewRun(arm="default", site=task.site, trial=trial, order_key=trial * 100 + index, task=task)
            for trial in range(1, trials + 1)
            for index, task in enumerate(tasks)
        ]
        self.sweeps += 1
        new = NewSweep(
            id=f"c7-20261129T220003Z-{self.sweeps:04}",
            plan="c7",
            suite=suite.name,
            suite_sha256=suite.sha256,
            mode="dry",
            trials=trials,
            priority=0,
            retries=2,
            requested_by="test",
            params={"unverified": True},
            runs=tuple(runs),
        )
        with begin(self.engine) as connection:
            create_sweep(connection, new)
        return new.id

    def records_of(self, sweep: str) -> list[RunRecord]:
        return [record for record in self.keeper.records if record.sweep == sweep]

    def cancel(self, sweep: str) -> None:
        with begin(self.engine) as connection:
            order(connection, sweep, "cancel", reason="the test is over")

    def events_of(self, box: str, kind: str) -> list[Any]:
        return self.ask("select * from box_events where box = :box and kind = :kind order by id", box=box, kind=kind)

    def phase_of(self, box: str) -> str:
        return str(self.ask("select phase from boxes where name = :box", box=box)[0].phase)

    def dispatch(self) -> None:
        """A dispatcher runs from now on."""
        environment = {**os.environ, "BV3_BROKER_URL": self.broker_url, "BV3_DATABASE_URL": self.database_url}
        with (self.folder / "dispatcher.log").open("ab") as log:
            self.helpers.append(
                subprocess.Popen(
                    [sys.executable, "-m", "scheduler.cli", "dispatcher"],
                    stdout=log,
                    stderr=log,
                    cwd=ROOT,
                    env=environment,
                    start_new_session=True,
                )
            )

    @contextmanager
    def stopped_dispatcher(self) -> Iterator[None]:
        """Within the block nobody hands out runs but the test."""
        [dispatcher] = self.helpers
        os.kill(dispatcher.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(dispatcher.pid, signal.SIGCONT)

    def close(self) -> None:
        for helper in self.helpers:
            helper.kill()
            helper.wait()
        for box in self.boxes:
            if box.process is not None and box.process.poll() is None:
                box.process.kill()
                box.process.wait()
            for process in box.list_processes():
                process.kill()
            # a supervisor that was killed has left it
            drop_scratch(box.folder)


@pytest.fixture(scope="module")
def farm(
    postgres: sa.URL, _template: str, _valkey_server: str, tmp_path_factory: pytest.TempPathFactory, free_port: Any
) -> Iterator[Farm]:
    """One farm for all tests of a module: booting a stack takes seconds, and a box is there to work on and on."""
    url = _clone(postgres, _template)
    with redis.Redis.from_url(_valkey_server) as line:
        line.flushall()
    engine = make_engine(url, application="test", pooled=False)
    keeper = Storekeeper(broker_url=_valkey_server, engine=engine)
    thread = threading.Thread(target=keeper.run)
    thread.start()
    made = Farm(
        engine=engine,
        database_url=url,
        broker_url=_valkey_server,
        keeper=keeper,
        folder=tmp_path_factory.mktemp("farm"),
        free_port=free_port,
    )
    try:
        yield made
    finally:
        made.close()
        keeper.ending = True
        thread.join()
        engine.dispose()


def _clone(postgres: sa.URL, template: str) -> str:
    name = f"test_{uuid.uuid4().hex[:8]}"
    maintenance = sa.create_engine(postgres, poolclass=sa.NullPool)
    with maintenance.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(sa.text(f"create database {name} template {template}"))
    return postgres.set(database=name).render_as_string(hide_password=False)
