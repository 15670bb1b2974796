"""A farm in a home folder of its own: real servers, stand-ins for the programs that need a box's stack."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any

import psutil
import pytest

from broker.home import FarmHome
from infra import cli
from infra.embedded.commands import bring_down, bring_up
from infra.embedded.credentials import load_credentials
from infra.embedded.orders import Orders
from infra.embedded.postgres import outside_folder
from infra.embedded.processes import end_marked, find_marked
from infra.embedded.status import look

REPOSITORY = Path(__file__).resolve().parents[3]

STAND_IN = """
import os, signal, sys
from pathlib import Path
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
print("stand-in at work", flush=True)
Path(os.environ["BV3_READY_FILE"]).touch()
while True:
    signal.pause()
"""

# Flower takes a second to start and one to stop; most tests are not about it.
FLOWER_STAND_IN = """
import http.server, sys
class Healthy(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Healthy).serve_forever()
"""

# A command that uses the farm: holds the user lock, asks for the farm, works until its input closes.
USER = """
import subprocess, sys
from pathlib import Path
from broker.home import FarmHome, hold_user_lock
with hold_user_lock(FarmHome(root=Path(sys.argv[1]))):
    subprocess.run([sys.executable, "-m", "infra.cli", "ensure", *sys.argv[2:]], check=True)
    print("ready", flush=True)
    sys.stdin.read()
"""


@dataclass(slots=True, kw_only=True)
class FarmUnderTest:
    """One home folder and the command bv3-farm on it."""

    home: Path
    environment: dict[str, str]
    users: list[subprocess.Popen[str]] = field(default_factory=list)

    def start(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """The command as a person starts it: a process of its own."""
        done = subprocess.run(
            [sys.executable, "-m", "infra.cli", *arguments],
            cwd=REPOSITORY,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=90,
        )
        assert done.returncode == 0, done.stderr
        return done

    # The commands' own code within this process: a process for each would cost half of the suite's time.

    def run(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        out, err = StringIO(), StringIO()
        with self._environment(**environment), redirect_stdout(out), redirect_stderr(err):
            try:
                code = cli.run(arguments)
            except SystemExit as ended:
                code = int(ended.code or 0)
        return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())

    def done(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        result = self.run(*arguments, **environment)
        assert result.returncode == 0, result.stderr
        return result

    @contextmanager
    def _environment(self, **changes: str) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in (self.environment | changes).items():
                patch.setenv(name, value)
            yield

    def up(self, *, boxes: int = 1) -> dict[str, Any]:
        with self._environment():
            return bring_up(FarmHome(root=self.home), Orders(boxes=boxes, full=True, stays=True), print)

    def up_store(self) -> dict[str, Any]:
        """PostgreSQL alone, where the other parts would only take time."""
        with self._environment():
            return bring_up(FarmHome(root=self.home), Orders(stays=True), print)

    def down(self, *, force: bool = False) -> list[str]:
        """The steps that it reported."""
        said: list[str] = []
        with self._environment():
            bring_down(FarmHome(root=self.home), said.append, force=force)
        return said

    def status(self) -> dict[str, Any]:
        return look(FarmHome(root=self.home))

    def pids(self) -> dict[str, int]:
        document = json.loads((self.home / "farm" / "processes.json").read_text())
        return {name: row["pid"] for name, row in document.items()}

    def keeper_pid(self) -> int:
        return int(json.loads((self.home / "farm" / "state.json").read_text())["keeper"]["pid"])

    def marked(self) -> list[psutil.Process]:
        credentials = self.home / "farm" / "credentials.json"
        return find_marked(load_credentials(credentials).farm_id) if credentials.exists() else []

    def join(self, *arguments: str) -> subprocess.Popen[str]:
        """A command that uses the farm and has been told that it is ready."""
        user = self.begin_joining(*arguments)
        assert user.stdout is not None
        assert user.stdout.read(1), "the farm did not come up for it"
        while user.stdout.readline() not in ("ready\n", ""):
            pass
        return user

    def begin_joining(self, *arguments: str, stderr: int | None = None) -> subprocess.Popen[str]:
        user = subprocess.Popen(
            [sys.executable, "-c", USER, str(self.home), *arguments],
            cwd=REPOSITORY,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )
        self.users.append(user)
        return user

    def marked_environment(self, part: str) -> dict[str, str]:
        return dict(psutil.Process(self.pids()[part]).environ())

    def folder_outside(self) -> Path:
        """Where root's farm has its database."""
        return outside_folder(self.home, load_credentials(self.home / "farm" / "credentials.json").farm_id)

    def is_ready(self) -> bool:
        return bool(json.loads((self.home / "farm" / "state.json").read_text())["phase"] == "ready") and all(
            part["state"] == "ready" for part in self.status()["parts"].values()
        )

    def wait_for_half_a_cluster(self) -> None:
        """initdb is at work: the folder beside the final one has files, and there is no final one."""

        def has_begun() -> bool:
            credentials = self.home / "farm" / "credentials.json"
            if not credentials.exists():
                return False
            folders = (
                self.home / "farm" / "postgres",
                outside_folder(self.home, load_credentials(credentials).farm_id),
            )
            return any(list(folder.glob("data.new-*/PG_VERSION")) for folder in folders)

        wait_for(has_begun)

    def is_gone(self) -> bool:
        return not (self.home / "farm.json").exists() and not self.marked() and not self.status()["running"]

    def dismiss_users(self) -> None:
        for user in self.users:
            user.kill()
            with user:  # closes its pipes
                user.wait()
        self.users.clear()

    def clean(self) -> None:
        self.dismiss_users()
        self.down(force=True)
        credentials = self.home / "farm" / "credentials.json"
        if credentials.exists():
            farm_id = load_credentials(credentials).farm_id
            end_marked(farm_id)
            shutil.rmtree(outside_folder(self.home, farm_id), ignore_errors=True)


def kill(pid: int) -> None:
    """The process is killed and, as far as anybody can see, gone."""
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)


def wait_for(condition: Callable[[], bool], within_s: float = 20.0) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.05)


@pytest.fixture(scope="session")
def workbench() -> Iterator[Path]:
    # Not pytest's own folder: that is closed to the unprivileged user whom some tests become.
    folder = Path(tempfile.mkdtemp(prefix="bv3-embedded-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def make_farm(workbench: Path) -> Iterator[Callable[[str], FarmUnderTest]]:
    """Makes a farm with its own home, not started."""
    (workbench / "stand_in.py").write_text(STAND_IN)
    stand_in = f'["{sys.executable}", "{workbench}/stand_in.py"]'
    programs = workbench / "programs.toml"
    lines = [f"{name} = {stand_in}\n" for name in ("dispatcher", "grader", "box")]
    (workbench / "with_flower.toml").write_text("".join(lines))
    (workbench / "flower.py").write_text(FLOWER_STAND_IN)
    programs.write_text("".join(lines) + f'flower = ["{sys.executable}", "{workbench}/flower.py", "{{port}}"]\n')
    farms: list[FarmUnderTest] = []

    def make(name: str) -> FarmUnderTest:
        environment = {key: value for key, value in os.environ.items() if not key.startswith("BV3_")}
        environment |= {
            "BV3_HOME": str(workbench / name),
            "BV3_FARM_PROGRAMS": str(programs),
            "PYTHONPATH": str(REPOSITORY),
        }
        farms.append(FarmUnderTest(home=workbench / name, environment=environment))
        return farms[-1]

    yield make
    for farm in farms:
        farm.clean()


@pytest.fixture(scope="session")
def shared_farm(make_farm: Callable[[str], FarmUnderTest], workbench: Path) -> FarmUnderTest:
    # Nobody else may enter, and every server's configuration has quoting rules of its own.
    (workbench / "private").mkdir(mode=0o700)
    return make_farm("""private/sha;red 'ho"me' 100% é #""")


@pytest.fixture
def farm(shared_farm: FarmUnderTest) -> Iterator[FarmUnderTest]:
    """A farm that runs or does not, as the test before left it; its database is made once."""
    yield shared_farm
    shared_farm.dismiss_users()


@pytest.fixture
def stopped(farm: FarmUnderTest) -> FarmUnderTest:
    farm.down(force=True)
    return farm


@pytest.fixture(scope="session")
def other_farm(make_farm: Callable[[str], FarmUnderTest]) -> FarmUnderTest:
    """One with a home that nobody has used yet."""
    return make_farm("other")


@pytest.fixture
def kill_process() -> Callable[[int], None]:
    return kill
