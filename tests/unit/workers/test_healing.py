"""A part that hangs is killed to be started anew; one that is coming up is left alone."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.settings import Manifest
from workers.boxfile import BoxFile
from workers.processes import ProcessBook
from workers.stack.reference import ReferenceDriver

SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]


@pytest.fixture
def part() -> Iterator[subprocess.Popen[bytes]]:
    """A process that leads a group of its own, as a part of a stack does."""
    process = subprocess.Popen(SLEEP, start_new_session=True)
    yield process
    process.kill()
    process.wait()


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """A socket that listens and answers nobody."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


@pytest.fixture
def driver(tmp_path: Path, listener: socket.socket) -> ReferenceDriver:
    """The driver of a box whose router holds its port and whose backend does not."""
    box = BoxFile.model_validate(
        {
            "name": "box-a",
            "stack": "reference",
            "isolation": "ports",
            "renderer": "playwright",
            "lane": "stub",
            "mode": "dry",
            "folder": tmp_path,
            "database_url": "postgresql://nobody@127.0.0.1/none",
            "broker_url": "redis://127.0.0.1:1/0",
            "ports": {"backend": 1, "router": listener.getsockname()[1], "https": 2, "http": 3},
        }
    )
    (tmp_path / "stack").mkdir()
    manifest = Manifest(chromium="/bin/false", editors=str(tmp_path))
    return ReferenceDriver(box, manifest, ProcessBook(folder=tmp_path), lock_fd=-1)


def test_a_renderer_that_is_coming_up_is_left_to_it_and_one_that_was_ready_is_killed(
    driver: ReferenceDriver, part: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    ready = tmp_path / "stack" / "renderer.ready"
    ready.touch()
    ProcessBook(folder=tmp_path).record("renderer", part.pid)
    started_s = ProcessBook(folder=tmp_path).read()[-1].started_s
    os.utime(ready, (started_s - 10, started_s - 10))
    assert driver.heal("renderer") is None, "the file is its predecessor's"
    assert part.poll() is None
    os.utime(ready, (started_s + 1, started_s + 1))
    assert driver.heal("renderer") == "renderer"
    assert part.wait(10) == -9


def test_a_router_that_holds_its_port_is_killed_and_a_backend_that_does_not_yet_is_not(
    driver: ReferenceDriver, part: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    ProcessBook(folder=tmp_path).record("backend", part.pid)
    assert driver.heal("backend") is None
    ProcessBook(folder=tmp_path).record("router", part.pid)
    assert driver.heal("router") == "router"
    assert part.wait(10) == -9


def test_a_part_that_does_not_come_up_at_all_is_killed(
    driver: ReferenceDriver, part: subprocess.Popen[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ProcessBook(folder=tmp_path).record("renderer", part.pid)
    assert driver.heal("renderer") is None
    monkeypatch.setattr("workers.stack.reference.BOOT_TIMEOUT_S", 0.0)
    assert driver.heal("renderer") == "renderer"
    assert part.wait(10) == -9
