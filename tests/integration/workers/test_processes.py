"""Ending a box's processes: real groups, real orphans."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from broker.errors import BoxHeldError
from workers.lock import bind_host_lock, lock_folder
from workers.processes import MARK, ProcessBook, find_survivors, kill_survivors

Wait = Callable[..., None]
_FORKS = "import os, time; os.fork(); time.sleep(600)"


@pytest.fixture
def book(tmp_path: Path) -> ProcessBook:
    return ProcessBook(folder=tmp_path)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    started: list[subprocess.Popen[bytes]] = []

    def make(program: str, *, marked: bool = False, argv: list[str] | None = None) -> subprocess.Popen[bytes]:
        environment = {**os.environ, **({MARK: str(tmp_path)} if marked else {})}
        words = argv or [sys.executable, "-c", program]
        started.append(subprocess.Popen(words, env=environment, stdin=subprocess.PIPE, start_new_session=True))
        return started[-1]

    yield make
    for process in started:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


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


def rewrite(book: ProcessBook, **changes: Any) -> None:
    """The book's one line says something else now."""
    plain = json.loads(book.path.read_text().splitlines()[0])
    book.path.write_text(json.dumps({**plain, **changes}) + "\nhalf a li")


@pytest.mark.parametrize(
    "changes",
    [
        {"start": "12345"},
        {"boot": "00000000-0000-0000-0000-000000000000"},
        {"command": ["/usr/bin/node", "server.js"]},
    ],
)
def test_pid_that_is_somebody_else_s_by_now_is_left_alone(
    book: ProcessBook, start: Callable[..., subprocess.Popen[bytes]], changes: dict[str, Any]
) -> None:
    """A later process with the pid, one of another boot, or one that runs something else."""
    stranger = start("import time; time.sleep(600)")
    book.record("backend", stranger.pid)
    assert [item.pid for item in book.read() if item.is_alive()] == [stranger.pid]
    rewrite(book, **changes)
    assert [item.pid for item in book.read()] == [stranger.pid]
    assert find_survivors(book) == ()
    assert kill_survivors(book) == 0
    assert stranger.poll() is None


def test_shell_whose_command_line_quotes_a_part_is_left_alone(
    book: ProcessBook, start: Callable[..., subprocess.Popen[bytes]]
) -> None:
    backend = start("import time; time.sleep(600)")
    book.record("backend", backend.pid)
    quoted = shlex.join(book.read()[0].command)
    shells = [
        start("", argv=["/bin/sh", "-c", f"sleep 600 # {text}"])
        for text in ("python -m uvicorn backend.main:app", quoted, f"{MARK}={book.folder}")
    ]
    assert [process.pid for process in find_survivors(book)] == [backend.pid]
    assert kill_survivors(book) == 1
    assert [shell.poll() for shell in shells] == [None, None, None]


def test_script_records_itself_and_stays_the_recorded_process_when_it_becomes_the_part(
    book: ProcessBook, start: Callable[..., subprocess.Popen[bytes]], tmp_path: Path, wait_until: Wait
) -> None:
    command = [sys.executable, "-c", "import time; 'it\\'s 100% %s\\n'; time.sleep(600)"]
    script = tmp_path / "a part.sh"
    script.write_text(f"{book.say_in_shell('part', command, script)}\nread go\nexec {shlex.join(command)}\n")
    first = subprocess.run(["/bin/sh", "-c", book.tells_in_shell("part")], check=False).returncode
    process = start("", argv=["/bin/sh", str(script)])
    wait_until(lambda: book.last("part") is not None, "the record")
    part = book.last("part")
    assert part is not None
    assert (part.pid, part.command) == (process.pid, tuple(command))
    assert part.is_alive()
    assert process.stdin is not None
    process.stdin.write(b"\n")
    process.stdin.flush()
    wait_until(lambda: psutil.Process(process.pid).cmdline() == command, "the part")
    assert part.is_alive()
    assert kill_survivors(book) == 1
    assert not part.is_alive()
    asked = [subprocess.run(["/bin/sh", "-c", book.tells_in_shell(name)], check=False) for name in ("part", "par")]
    assert (first, *(answer.returncode for answer in asked)) == (2, 0, 1)


def test_process_that_retitles_itself_is_known_by_its_executable(
    book: ProcessBook, start: Callable[..., subprocess.Popen[bytes]], tmp_path: Path, wait_until: Wait
) -> None:
    program = tmp_path / "webpack"
    # what a process title is: the words of the command line, written over
    program.write_text(
        f"#!/usr/bin/env {sys.executable}\nimport ctypes, time\n"
        "libc = ctypes.CDLL(None)\n"
        "start = int(open('/proc/self/stat').read().rpartition(')')[2].split()[45])\n"
        "ctypes.memset(start, ord('w'), 6)\ntime.sleep(600)\n"
    )
    program.chmod(0o700)
    process = start("", argv=[str(program)])
    wait_until(lambda: "wwwwww" in "".join(psutil.Process(process.pid).cmdline()), "the title")
    book.record("frontend", process.pid)
    rewrite(book, command=[str(program)])
    assert [item.is_alive() for item in book.read()] == [True]
    rewrite(book, command=["/bin/sh"])
    assert [item.is_alive() for item in book.read()] == [False]


def test_two_folders_beside_each_other_do_not_meet(
    tmp_path: Path, start: Callable[..., subprocess.Popen[bytes]]
) -> None:
    """The other one's folder begins with the same letters."""
    ours, theirs = ProcessBook(folder=tmp_path), ProcessBook(folder=Path(f"{tmp_path}-2"))
    process = start("import time; time.sleep(600)", marked=True)
    assert find_survivors(theirs) == ()
    assert kill_survivors(theirs) == 0
    assert [found.pid for found in find_survivors(ours)] == [process.pid]


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
        with pytest.raises(BoxHeldError, match=f"pid {heir.pid}, host {socket.gethostname()}"):
            bind_host_lock(name)
    finally:
        heir.kill()
        heir.wait()
    bind_host_lock(name).release()


def test_locks_of_two_blocks_do_not_meet() -> None:
    names = [f"bv3-test-{os.getpid()}-{number}" for number in (1, 2)]
    first, second = [bind_host_lock(name) for name in names]
    for name in names:
        with pytest.raises(BoxHeldError):
            bind_host_lock(name)
    first.release()
    bind_host_lock(names[0]).release()
    with pytest.raises(BoxHeldError):
        bind_host_lock(names[1])
    second.release()


def test_folder_has_one_supervisor(tmp_path: Path) -> None:
    with lock_folder(tmp_path), pytest.raises(BoxHeldError, match=f"pid {os.getpid()}"):
        lock_folder(tmp_path)
    lock_folder(tmp_path).close()
