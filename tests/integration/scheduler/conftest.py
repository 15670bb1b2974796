"""A farm that is elsewhere, worked by hand, and `bv3-schedule` as a process that uses it."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import socket
import subprocess
import sys
import termios
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from broker.markers import name_catalogue
from broker.store import dispatching
from broker.store.breaches import halt_after_breach
from broker.store.engine import begin
from broker.store.grading import NewVerdict, save_verdict
from broker.types import Bucket
from scheduler import cli

ROOT = Path(__file__).parents[3]


@dataclass(slots=True, kw_only=True)
class Command:
    """A running `bv3-schedule`, its output in files."""

    process: subprocess.Popen[bytes]
    folder: Path

    @property
    def out(self) -> str:
        """What it printed on stdout so far."""
        return (self.folder / "out").read_text("utf-8")

    @property
    def err(self) -> str:
        """What it printed on stderr so far."""
        return (self.folder / "err").read_text("utf-8")

    def end(self, timeout_s: float = 60.0) -> int:
        """Its exit code, once it has ended."""
        return self.process.wait(timeout_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a command that has ended returned and printed."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The JSON that it printed."""
        assert self.code == 0, self.err
        return json.loads(self.out)


@dataclass(slots=True, kw_only=True)
class Terminal:
    """A running `bv3-schedule` on a terminal of its own."""

    process: subprocess.Popen[bytes]
    master: int
    text: str = field(default="")

    def press_ctrl_c(self) -> None:
        """The terminal sends its foreground process an interrupt, as a person's Ctrl-C does."""
        os.write(self.master, b"\x03")

    def hang_up(self) -> None:
        """The terminal is gone."""
        os.close(self.master)
        self.master = -1

    def shows(self, words: str) -> bool:
        """Whether the terminal has been sent these words so far."""
        os.set_blocking(self.master, False)
        with contextlib.suppress(OSError):
            while data := os.read(self.master, 65536):
                self.text += data.decode("utf-8", "replace")
        return words in self.text


@pytest.fixture
def environment(database: str, valkey: str, tmp_path: Path) -> dict[str, str]:
    """The environment of a person whose farm is elsewhere."""
    return {
        **os.environ,
        "BV3_DATABASE_URL": database,
        "BV3_BROKER_URL": valkey,
        "BV3_HOME": str(tmp_path / "home"),
        "PYTHONPATH": str(ROOT),
    }


@pytest.fixture
def do(
    environment: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Answer]:
    """Run `bv3-schedule` with these arguments in this process, to its end."""
    monkeypatch.chdir(tmp_path)
    for name in ("BV3_DATABASE_URL", "BV3_BROKER_URL", "BV3_HOME"):
        monkeypatch.setenv(name, environment[name])

    def run(*arguments: str) -> Answer:
        capsys.readouterr()
        code = cli.run(arguments)
        out, err = capsys.readouterr()
        return Answer(code=code, out=out, err=err)

    return run


@pytest.fixture
def start(environment: dict[str, str], tmp_path: Path) -> Iterator[Callable[..., Command]]:
    """Start `bv3-schedule` with these arguments; ended with the test."""
    started: list[Command] = []

    def run(*arguments: str, **changes: str) -> Command:
        folder = tmp_path / f"command-{len(started)}"
        folder.mkdir()
        with (folder / "out").open("wb") as out, (folder / "err").open("wb") as err:
            process = subprocess.Popen(
                [sys.executable, "-m", "scheduler.cli", *arguments],
                stdout=out,
                stderr=err,
                cwd=tmp_path,
                env=environment | changes,
            )
        started.append(Command(process=process, folder=folder))
        return started[-1]

    yield run
    for command in started:
        command.process.kill()
        command.process.wait()


@pytest.fixture
def start_on_terminal(environment: dict[str, str], tmp_path: Path) -> Iterator[Callable[..., Terminal]]:
    """Start `bv3-schedule` as the foreground process of a terminal of 80 columns."""
    started: list[Terminal] = []

    def run(*arguments: str, **changes: str) -> Terminal:
        master, slave = pty.openpty()
        termios.tcsetwinsize(slave, (24, 80))
        process = subprocess.Popen(
            [sys.executable, "-m", "scheduler.cli", *arguments],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=tmp_path,
            env=environment | {"TERM": "xterm", "LC_ALL": "C.UTF-8"} | changes,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - one call, takes no lock
        )
        os.close(slave)
        started.append(Terminal(process=process, master=master))
        return started[-1]

    yield run
    for terminal in started:
        terminal.process.kill()
        terminal.process.wait()
        if terminal.master >= 0:
            terminal.hang_up()


@dataclass(slots=True, kw_only=True)
class Road:
    """A TCP road to PostgreSQL that can be cut and mended; `url` leads over it."""

    url: str
    _target: tuple[str, int]
    _port: int
    _server: socket.socket | None = None
    _ends: list[socket.socket] = field(default_factory=list)

    def mend(self) -> None:
        """Connections are taken."""
        self._server = socket.create_server(("127.0.0.1", self._port))
        threading.Thread(target=self._serve, args=(self._server,), daemon=True).start()

    def cut(self) -> None:
        """Connections are broken and refused."""
        if self._server is not None:
            self._server.shutdown(socket.SHUT_RDWR)
            self._server.close()
            self._server = None
        while self._ends:
            with contextlib.suppress(OSError):
                self._ends.pop().shutdown(socket.SHUT_RDWR)

    def _serve(self, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = server.accept()
                far = socket.create_connection(self._target)
                self._ends += [near, far]
                for source, sink in ((near, far), (far, near)):
                    threading.Thread(target=_carry, args=(source, sink), daemon=True).start()


def _carry(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
    for end in (source, sink):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()


@pytest.fixture
def road(database: str, free_port: Callable[[], int]) -> Iterator[Road]:
    """An open road to this test's database."""
    url, port = sa.make_url(database), free_port()
    assert url.host is not None
    assert url.port is not None
    road = Road(url=url.set(port=port).render_as_string(hide_password=False), _target=(url.host, url.port), _port=port)
    road.mend()
    yield road
    road.cut()


@dataclass(frozen=True, slots=True, kw_only=True)
class Farm:
    """Does by hand, in rows, what dispatcher, box and grader do."""

    engine: sa.Engine
    box: Any

    def begin_run(self) -> int:
        """The next planned run is started on the box; its attempt."""
        with begin(self.engine) as connection:
            planned = dispatching.read_board(connection, planned_limit=1).planned[0]
            handed = dispatching.hand_out(connection, run_id=planned.id, box=self.box.name, slot=1)
        assert handed is not None
        order = handed.order
        answer = self.box.client.start(
            order.run, order.dispatch, self.box.token, f"nonce-{order.run:016}-{order.dispatch}"
        )
        assert answer.won, answer.reason
        return int(answer.attempt)

    def end_run(self, attempt: int, bucket: Bucket = Bucket.OK, **facts: Any) -> None:
        """The attempt is finished, reported and graded, its run closed, and the sweep too when it was the last."""
        self.box.client.step(attempt, self.box.token, "finished")
        with begin(self.engine) as connection:
            connection.execute(
                sa.text("update attempts set state = 'reported', reported_at = clock_timestamp() where id = :id"),
                {"id": attempt},
            )
            connection.execute(
                sa.text(
                    "update dispatches d set state = 'done' from attempts a where a.id = :id and dispatch_id = d.id"
                ),
                {"id": attempt},
            )
            verdict = NewVerdict(
                attempt_id=attempt,
                record_id=None,
                grader_version=1,
                bucket=bucket,
                rule="by_hand",
                detail="",
                facts=facts,
                counts=True,
            )
            assert save_verdict(connection, verdict)
            dispatching.settle_graded(connection)
            dispatching.finish_sweeps(connection)

    def find_breach(self, attempt: int, said: str = "claimed: sent") -> None:
        """The grader has found a false success in the attempt."""
        with begin(self.engine) as connection:
            halt_after_breach(connection, attempt, said)

    @property
    def hold(self) -> str | None:
        """Why the box gets no runs, as its next beat is told."""
        answer = self.box.client.beat(self.box.token, "ready", {})
        reason = self.scalar("select reason from box_holds where lifted_at is null order by held_at, id limit 1")
        assert (answer.answer in {"hold", "drain"}) == (reason is not None)
        return str(reason) if reason else None

    def scalar(self, statement: str) -> Any:
        """One value from the database."""
        with begin(self.engine) as connection:
            return connection.scalar(sa.text(statement))


@pytest.fixture
def farm(engine: sa.Engine, make_box: Callable[[str], Any]) -> Farm:
    """A farm of one box, worked by hand, whose revision is verified."""
    box = make_box("box-a")
    check: dict[str, Any] = {"product_revision": "21a08c23", "catalogue_sha256": name_catalogue(), "checked_by": "test"}
    check |= {"total": 1, "alive": 1, "facts": {"dead": {}}}
    facts = {"revision": "21a08c23", "catalogue_sha256": name_catalogue(), "verify": check}
    assert box.client.beat(box.token, "ready", facts).verified
    return Farm(engine=engine, box=box)
