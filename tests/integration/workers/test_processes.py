"""Ending a box's processes: real groups, real orphans."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from broker.errors import BoxHeldError
from workers.lock import bind_host_lock, lock_folder
from workers.processes import MARK, ProcessBook, Recorded, find_survivors, kill_survivors

Wait = Callable[..., None]
_FORKS = "import os, time; os.fork(); time.sleep(600)"


@pytest.fixture
def book(tmp_path: Path) -> ProcessBook:
    return ProcessBook(folder=tmp_path)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    started: list[subprocess.Popen[bytes]] = []

    def make(program: str, *, marked: bool = False) -> subprocess.Popen[bytes]:
        environment = {**os.environ, **({MARK: str(tmp_path)} if marked else {})}
        started.append(subprocess.Popen([sys.executable, "-c", program], env=environment, start_new_session=True))
        return started[-1]

    yield make
    for process in started:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def count_group(pid: int) -> int:
    count = 0
    for process in psutil.process_iter():
        with suppress(ProcessLookupError, psutil.Error):
            if os.getpgid(process.pid) == pid and process.status() != psutil.STATUS_ZOMBIE:
                count += 1
    return count


def test_whole_group_of_a_recorded_process_is_ended(
    book: ProcessBook, start: Callable[..., subprocess.Popen[bytes]], wait_until: Wait
) -> None:
    leader = start(_FORKS)
    book.record("backend", leader.pid)
    wait_until(lambda: count_group(leader.pid) == 2, "two processes")
    assert kill_survivors(book) == 2
    assert count_group(leader.pid) == 0


def test_marked_process_is_ended_after_its_leader_died(
    book: ProcessBook, start: Callable[..., subprocess.Popen[bytes]], wait_until: Wait
) -> None:
    leader = start(_FORKS, marked=True)
    wait_until(lambda: count_group(leader.pid) == 2, "two processes")
    os.kill(leader.pid, signal.SIGKILL)
    leader.wait()
    assert count_group(leader.pid) == 1
    assert kill_survivors(book) == 1
    assert count_group(leader.pid) == 0


def test_pid_that_is_somebody_else_s_by_now_is_left_alone(
    book: ProcessBook, start: Callable[..., subprocess.Popen[bytes]]
) -> None:
    stranger = start("import time; time.sleep(600)")
    book.path.write_text(f"backend {stranger.pid} 12345.00\nhalf a li")
    assert book.read() == (Recorded(name="backend", pid=stranger.pid, started_s=12345.0),)
    assert find_survivors(book) == ()
    assert kill_survivors(book) == 0
    assert stranger.poll() is None


def test_process_to_spare_keeps_its_group(book: ProcessBook, start: Callable[..., subprocess.Popen[bytes]]) -> None:
    worker = start("import time; time.sleep(600)", marked=True)
    book.record("worker", worker.pid)
    assert kill_survivors(book, spare=frozenset({worker.pid})) == 0
    assert worker.poll() is None


def test_host_lock_is_held_by_whoever_inherited_it(start: Callable[..., subprocess.Popen[bytes]]) -> None:
    name = f"bv3-test-{os.getpid()}"
    lock = bind_host_lock(name)
    heir = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], pass_fds=[lock.fd])
    lock.release()
    try:
        with pytest.raises(BoxHeldError, match=f"bound by pid {os.getpid()}"):
            bind_host_lock(name)
    finally:
        heir.kill()
        heir.wait()
    bind_host_lock(name).release()


def test_locks_of_two_blocks_do_not_meet() -> None:
    first, second = bind_host_lock(f"bv3-test-{os.getpid()}-1"), bind_host_lock(f"bv3-test-{os.getpid()}-2")
    first.release()
    second.release()


def test_folder_has_one_supervisor(tmp_path: Path) -> None:
    with lock_folder(tmp_path), pytest.raises(BoxHeldError, match=f"pid {os.getpid()}"):
        lock_folder(tmp_path)
    lock_folder(tmp_path).close()
