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
from broker.types import Mode
from workers.boxfile import BoxFile
from workers.processes import ProcessBook
from workers.stack.healing import choose_part, is_due
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
            "folder": tmp_path,
            "database_url": "postgresql://nobody@127.0.0.1/none",
            "broker_url": "redis://127.0.0.1:1/0",
            "ports": {"backend": 1, "router": listener.getsockname()[1], "https": 2, "http": 3},
        }
    )
    (tmp_path / "stack").mkdir()
    manifest = Manifest(chromium="/bin/false", editors=str(tmp_path))
    return ReferenceDriver(box, manifest, ProcessBook(folder=tmp_path), mode=Mode.DRY, lock_fd=-1)


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
    monkeypatch.setattr(driver, "boot_timeout_s", 0.0)
    assert driver.heal("renderer") == "renderer"
    assert part.wait(10) == -9


def test_a_part_that_was_killed_is_not_killed_again_until_it_had_its_time(
    driver: ReferenceDriver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = ProcessBook(folder=tmp_path)
    with subprocess.Popen(SLEEP, start_new_session=True) as first:
        book.record("router", first.pid)
        assert driver.heal("router") == "router"
    with subprocess.Popen(SLEEP, start_new_session=True) as second:
        book.record("router", second.pid)
        assert driver.heal("router") is None, "it holds its port, and has just been started"
        assert second.poll() is None
        monkeypatch.setattr(driver, "boot_timeout_s", 0.0)
        assert driver.heal("router") == "router"
        assert second.wait(10) == -9


@pytest.mark.parametrize(
    ("reason", "renderer_answers", "part"),
    [
        ("clean_start", True, "backend"),
        ("clean_start", False, "renderer"),
        ("renderer", True, "renderer"),
        ("router", False, "router"),
        ("backend", False, "backend"),
        ("mode", False, None),
        ("space", True, None),
    ],
)
def test_the_part_that_is_started_anew_is_the_one_that_the_reason_speaks_of(
    reason: str, renderer_answers: bool, part: str | None
) -> None:
    assert choose_part(reason, renderer_answers=renderer_answers) == part


@pytest.mark.parametrize(
    ("age_s", "has_come_up", "was_killed", "due"),
    [
        (1.0, True, False, True),
        (1.0, True, True, False),
        (59.9, True, True, False),
        (60.0, True, True, True),
        (59.9, False, False, False),
        (60.0, False, False, True),
        (60.0, False, True, True),
    ],
)
def test_a_part_has_its_time_to_come_up_and_to_help(
    age_s: float, has_come_up: bool, was_killed: bool, due: bool
) -> None:
    assert is_due(age_s=age_s, patience_s=60.0, has_come_up=has_come_up, was_killed=was_killed) == due


def test_a_stack_whose_renderer_answers_loses_its_backend_for_what_would_not_go(
    driver: ReferenceDriver, part: subprocess.Popen[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The backend of this box never held its port, so it has its time first."""
    (tmp_path / "stack" / "renderer.ready").touch()
    ProcessBook(folder=tmp_path).record("backend", part.pid)
    monkeypatch.setattr(driver, "boot_timeout_s", 0.0)
    assert driver.heal("clean_start") is None, "before a boot nothing is known of a renderer, and there is none"
    monkeypatch.setattr(driver, "_facts", object())
    monkeypatch.setattr(driver, "_audit_card_answers", lambda _facts: True)
    assert driver.heal("clean_start") == "backend"
    assert part.wait(10) == -9
