"""What preflight reads, from real processes, sockets and files."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from broker.types import Mode, Seen
from workers import machine
from workers.conditions import ProgramWords
from workers.processes import MARK

EXECUTABLE = os.path.realpath(sys.executable)
SERVE = """
import os, socket, sys, time
port = int(sys.argv[1])
line = socket.socket()
if "twin" in sys.argv:
    line.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
if "idle" not in sys.argv:
    line.bind(("127.0.0.1", port))
    line.listen()
print("up", flush=True)
time.sleep(60)
"""


@contextmanager
def running(argv: list[str], **environment: str) -> Iterator[psutil.Process]:
    """A process that has said its first word: before its exec a new one still shows its parent's face."""
    plain = {name: value for name, value in os.environ.items() if name != "OSW_SENDSCRIPT_DRYRUN"}
    process = subprocess.Popen(argv, env={**plain, **environment}, stdout=subprocess.PIPE, start_new_session=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        yield psutil.Process(process.pid)
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


@pytest.fixture
def server(tmp_path: Path) -> Path:
    """A program that only this test knows, so that no other test's processes are counted."""
    script = tmp_path / "backend.py"
    script.write_text(SERVE)
    return script


def words_of(script: Path) -> ProgramWords:
    return ProgramWords(executable=EXECUTABLE, words=(str(script), "--port", "1"))


@pytest.mark.parametrize(
    ("environment", "mode"),
    [
        ({"OSW_SENDSCRIPT_DRYRUN": "1"}, Mode.DRY),
        ({}, Mode.LIVE),
        ({"OSW_SENDSCRIPT_DRYRUN": "0"}, Mode.LIVE),
        ({"OSW_SENDSCRIPT_DRYRUN": ""}, Mode.LIVE),
    ],
)
def test_mode_is_what_the_running_process_says_and_missing_is_live(
    server: Path, free_port: Callable[[], int], environment: dict[str, str], mode: Mode
) -> None:
    argv = [sys.executable, str(server), str(free_port())]
    with running(argv, **environment) as process:
        seen = machine.view_backend(process.pid)
    assert (seen.mode, seen.executable, seen.words) == (mode, EXECUTABLE, tuple(argv[1:]))
    assert seen.folder == str(Path.cwd())


def test_listeners_of_both_families_are_counted_and_connections_are_not() -> None:
    with socket.create_server(("127.0.0.1", 0)) as first:
        port = first.getsockname()[1]
        assert len(machine.list_listeners({port})) == 1
        with socket.create_connection(("127.0.0.1", port)):
            assert len(machine.list_listeners({port})) == 1
        with socket.socket(socket.AF_INET6) as second:
            second.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            second.bind(("::1", port))
            second.listen()
            assert len(machine.list_listeners({port})) == 2
    assert machine.list_listeners({port}) == ()


def test_every_process_that_runs_the_program_is_found_and_no_shell_that_quotes_it(
    server: Path, free_port: Callable[[], int]
) -> None:
    ports = [str(free_port()), str(free_port())]
    quoting = f"echo up; read x; : {sys.executable} {server} {ports[0]}"
    as_words = ["/bin/sh", "-c", "echo up; read x", str(server), ports[0]]
    with (
        running([sys.executable, str(server), ports[0]]) as first,
        running([sys.executable, str(server), ports[1]], **{MARK: "/a/box"}) as second,
        running(["/bin/sh", "-c", quoting]),
        running(as_words),
    ):
        found = machine.find_programs(words_of(server))
    assert {(item.pid, item.box_folder, item.group) for item in found} == {
        (first.pid, None, first.pid),
        (second.pid, "/a/box", second.pid),
    }
    assert {item.parent for item in found} == {os.getpid()}


def may_unshare() -> bool:
    argv = ["unshare", "--map-root-user", "--net", "true"]
    return (
        shutil.which("unshare") is not None and subprocess.run(argv, check=False, capture_output=True).returncode == 0
    )


@pytest.mark.skipif(not may_unshare(), reason="this machine makes no network namespace for this user")
def test_program_in_another_network_namespace_is_none(server: Path) -> None:
    argv = [sys.executable, str(server), "1", "idle"]
    with running(argv) as here, running(["unshare", "--map-root-user", "--net", *argv]) as elsewhere:
        assert machine.view_backend(elsewhere.pid).words == tuple(argv[1:])
        assert [item.pid for item in machine.find_programs(words_of(server))] == [here.pid]


def test_listener_is_its_process_s_own_and_the_holder_is_named(server: Path, free_port: Callable[[], int]) -> None:
    port = free_port()
    with running([sys.executable, str(server), str(port)]) as process:
        listeners = machine.list_listeners({port})
        assert machine.choose_foreign(listeners, process.pid) == ()
        assert machine.choose_foreign(listeners, os.getpid()) == listeners
        assert machine.choose_foreign(listeners, None) == listeners
        said = machine.describe_holders(listeners)
    assert said.startswith(f"pid {process.pid} (")
    assert str(server) in said or len(said) > machine.COMMAND_CHARS


def test_twin_that_shares_the_port_is_told_from_the_backend(server: Path, free_port: Callable[[], int]) -> None:
    port = free_port()
    argv = [sys.executable, str(server), str(port), "twin"]
    with running(argv) as ours, running(argv) as twin:
        listeners = machine.list_listeners({port})
        assert len(listeners) == 2
        others = machine.choose_foreign(listeners, ours.pid)
        assert machine.describe_holders(others).startswith(f"pid {twin.pid} (")


def test_log_that_was_moved_removed_or_replaced_is_not_the_one_that_is_written(
    server: Path, free_port: Callable[[], int], tmp_path: Path, wait_until: Callable[..., None]
) -> None:
    log = tmp_path / "backend.log"
    with log.open("ab") as file:
        process = subprocess.Popen([sys.executable, str(server), str(free_port())], stdout=file, stderr=file)
    try:
        wait_until(lambda: log.read_bytes() == b"up\n", "it writes")
        assert machine.look_for_log(process.pid, str(log)) is Seen.SEEN
        log.rename(tmp_path / "backend.log.1")
        assert machine.look_for_log(process.pid, str(log)) is Seen.ABSENT
        log.write_text("another's\n")
        assert machine.look_for_log(process.pid, str(log)) is Seen.ABSENT
        (tmp_path / "backend.log.1").rename(log)
        assert machine.look_for_log(process.pid, str(log)) is Seen.SEEN
    finally:
        process.kill()
        process.wait()


def git(folder: Path, *words: str) -> str:
    named = ["-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", *named, *words], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_commit_of_a_checkout_is_read_as_git_tells_it(tmp_path: Path) -> None:
    main, tree = tmp_path / "main", tmp_path / "tree"
    main.mkdir()
    assert machine.read_head(main) is None
    git(main, "init", "-q", "-b", "eric/browser-merged")
    assert machine.read_head(main) is None
    git(main, "commit", "-q", "--allow-empty", "-m", "one")
    git(main, "worktree", "add", "-q", "-b", "side", str(tree))
    git(tree, "commit", "-q", "--allow-empty", "-m", "two")
    for folder in (main, tree):
        assert machine.read_head(folder) == git(folder, "rev-parse", "HEAD")
    git(main, "pack-refs", "--all")
    git(main, "checkout", "-q", "--detach", git(tree, "rev-parse", "HEAD"))
    for folder in (main, tree):
        assert machine.read_head(folder) == git(tree, "rev-parse", "HEAD")


def test_zombie_is_counted_until_it_is_reaped(wait_until: Callable[..., None]) -> None:
    process = subprocess.Popen(["/bin/true"])
    wait_until(lambda: psutil.Process(process.pid).status() == psutil.STATUS_ZOMBIE, "it has ended")
    assert machine.count_zombies() >= 1
    process.wait()


def test_what_is_left_of_the_machine_is_counted(tmp_path: Path) -> None:
    assert machine.count_free_mb(tmp_path) > 0
    inodes = machine.count_free_inodes(tmp_path)
    assert inodes is None or inodes > 0
    assert 0 < machine.count_available_mb() <= psutil.virtual_memory().total // 2**20
    assert machine.read_load_per_core() == pytest.approx(os.getloadavg()[0] / (os.cpu_count() or 1), abs=1.0)


def test_looking_for_programs_and_listeners_takes_milliseconds(server: Path) -> None:
    durations_s = []
    for _ in range(9):
        begun_s = time.perf_counter()
        machine.find_programs(words_of(server))
        machine.list_listeners({8326, 20128, 8324, 3000})
        durations_s.append(time.perf_counter() - begun_s)
    assert sorted(durations_s)[4] < 0.25
