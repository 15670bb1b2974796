"""The whole farm, as a user starts it: nothing in it is ours but the place of its data."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Farm:
    """One BV3_HOME and the commands that use it."""

    home: Path
    results: Path
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def environment(self) -> dict[str, str]:
        return os.environ | {"BV3_HOME": str(self.home), "PYTHONWARNINGS": ""}

    def command(self, module: str, *arguments: str) -> list[str]:
        return [sys.executable, "-P", "-m", module, *arguments]

    def run(self, module: str, *arguments: str, timeout_s: float = 240) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(module, *arguments),
            env=self.environment,
            cwd=self.results,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )

    def start(self, module: str, *arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            self.command(module, *arguments),
            env=self.environment,
            cwd=self.results,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.started.append(process)
        return process

    @property
    def address(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads((self.home / "farm.json").read_text())
        return document

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        url = self.address["database_url"].replace("postgresql+psycopg://", "postgresql://")
        with psycopg.connect(url) as connection:
            return connection.execute(statement).fetchall()

    def processes(self) -> list[psutil.Process]:
        """Every process that works for this farm, by what stands in its environment or command line."""
        found = []
        for process in psutil.process_iter():
            try:
                told = [*process.cmdline(), *process.environ().values()]
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue
            if process.pid != os.getpid() and any(str(self.home) in word for word in told):
                found.append(process)
        return found

    def exported(self, sweep: str) -> list[dict[str, Any]]:
        path = self.results / "results" / f"{sweep}.jsonl"
        return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


@contextmanager
def _farm() -> Iterator[Farm]:
    folder = Path(tempfile.mkdtemp(prefix="bv3-e2e-"))
    made = Farm(home=folder / "home", results=folder)
    try:
        yield made
    finally:
        left = _end(made)
        shutil.rmtree(folder)
    assert left == [], "these outlived their farm, and were killed"


def _end(farm: Farm) -> list[psutil.Process]:
    """Nothing of the farm lives any more; what would not end by itself."""
    for process in farm.started:
        process.kill()
        process.communicate()
    # one that does not come down in time is killed like the rest
    with suppress(subprocess.TimeoutExpired):
        if farm.home.exists():
            farm.run("infra.cli", "down", "--force")
    # the keeper goes last, a moment after it has said that the farm is stopped
    _, left = psutil.wait_procs(farm.processes(), timeout=10)
    for one in left:
        with suppress(psutil.NoSuchProcess):
            one.kill()
    psutil.wait_procs(left, timeout=10)
    return left


@pytest.fixture
def farm() -> Iterator[Farm]:
    """A farm of this test's own that nobody has started yet; nothing of it may live afterwards."""
    with _farm() as made:
        yield made


@pytest.fixture(scope="module")
def standing_farm() -> Iterator[Farm]:
    """A farm of three boxes that stays up for the tests of one module."""
    with _farm() as made:
        up = made.run("infra.cli", "up", "--boxes", "3")
        assert up.returncode == 0, up.stderr
        yield made
