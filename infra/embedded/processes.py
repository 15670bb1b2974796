"""Processes that outlive the one that started them: named so that no other is ever taken for them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import psutil

from infra.embedded.documents import read_document, write_document

# In the environment of every process of a farm, and so of all that those start: "<farm id>/<part>".
MARK = "BV3_FARM_PART"

_POLL_S = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """An unprivileged user to run a program as; None where the keeper's own is meant."""

    uid: int
    gid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """How to start one program."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    folder: Path
    account: Account | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """A process, told apart from a later one with the same pid, and from one of before a reboot."""

    pid: int
    start: str


@cache
def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return str(int(psutil.boot_time()))


def identify(pid: int) -> Identity | None:
    """The living process with this pid; None when there is none, or only its unreaped rest."""
    if sys.platform == "linux":
        # psutil's create_time moves with the wall clock; the kernel's tick count does not.
        try:
            fields = Path(f"/proc/{pid}/stat").read_text("ascii", errors="replace").rpartition(")")[2].split()
        except OSError:
            return None
        if fields[0] in "ZX":
            return None
        return Identity(pid=pid, start=f"{_boot()}:{fields[19]}")
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        return Identity(pid=pid, start=f"{_boot()}:{process.create_time()}")
    except psutil.Error:
        return None


def is_alive(identity: Identity) -> bool:
    """Whether exactly this process still runs."""
    return identify(identity.pid) == identity


@dataclass(slots=True, kw_only=True)
class Child:
    """One program's process: started by us, or by a keeper before us."""

    identity: Identity
    argv: tuple[str, ...]
    # Seconds since the epoch.
    since: float
    _popen: subprocess.Popen[bytes] | None = None

    def is_alive(self) -> bool:
        """Whether it still runs; reaps it when it was ours."""
        if self._popen is not None:
            return self._popen.poll() is None
        return is_alive(self.identity)

    @property
    def outcome(self) -> str:
        """How it ended, as far as can be known."""
        code = None if self._popen is None else self._popen.poll()
        if code is None:
            return "ended"
        return f"exit code {code}" if code >= 0 else f"killed by signal {-code}"

    def end(self, *, by: int, within_s: float) -> bool:
        """Asks with signal `by`, kills after `within_s`; gone afterwards. False: it had to be killed."""
        send(self.identity, by)
        if wait_until(lambda: not self.is_alive(), within_s):
            return True
        send(self.identity, signal.SIGKILL)
        wait_until(lambda: not self.is_alive(), 10)
        return False


def start(launch: Launch, *, mark: str, log: Path) -> Child:
    """A child in its own session, writing straight into `log`, so that it needs none of us to live.

    Raises OSError when the program can't be started.
    """
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        popen = subprocess.Popen(
            launch.argv,
            env={**launch.environment, MARK: mark},
            cwd=launch.folder,
            stdin=subprocess.DEVNULL,
            stdout=descriptor,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            user=launch.account.uid if launch.account else None,
            group=launch.account.gid if launch.account else None,
            extra_groups=[] if launch.account else None,
        )
    finally:
        os.close(descriptor)
    identity = identify(popen.pid) or Identity(pid=popen.pid, start="gone at once")
    return Child(identity=identity, argv=launch.argv, since=time.time(), _popen=popen)


def send(identity: Identity, number: int) -> None:
    """The signal is sent, unless the process is gone."""
    if is_alive(identity):
        try:
            os.kill(identity.pid, number)
        except ProcessLookupError:
            return


def wait_until(condition: Callable[[], bool], within_s: float) -> bool:
    """Whether `condition` became true in time."""
    deadline = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessTable:
    """Which process is which part, on disk: what a keeper killed by -9 leaves to the next one."""

    path: Path

    def living(self) -> dict[str, Child]:
        """The recorded processes that still run, by part."""
        children = {part: _read_child(row) for part, row in (read_document(self.path) or {}).items()}
        return {part: child for part, child in children.items() if child.is_alive()}

    def write(self, children: Mapping[str, Child]) -> None:
        """Exactly `children` are recorded."""
        rows = {
            part: {"argv": list(child.argv), "since": child.since, **asdict(child.identity)}
            for part, child in children.items()
        }
        write_document(self.path, rows)


def _read_child(row: dict[str, Any]) -> Child:
    identity = Identity(pid=int(row["pid"]), start=str(row["start"]))
    return Child(identity=identity, argv=tuple(row["argv"]), since=float(row["since"]))


def find_marked(farm_id: str, *, but: Iterable[str] = ()) -> list[psutil.Process]:
    """Every process of the farm, children of children included, except those of the parts in `but`."""
    spared = set(but)
    found = []
    for process in psutil.process_iter():
        try:
            mark = process.environ().get(MARK, "")
        except (psutil.Error, OSError):
            continue  # another user's: none of ours
        farm, _, part = mark.partition("/")
        if farm == farm_id and part not in spared:
            found.append(process)
    return found


def end_marked(farm_id: str, *, but: Iterable[str] = (), grace_s: float = 3.0) -> int:
    """None of those processes is left; how many there were."""
    strays = find_marked(farm_id, but=but)
    for process in strays:
        _quietly(process.terminate)
    _, left = psutil.wait_procs(strays, timeout=grace_s)
    for process in left:
        _quietly(process.kill)
    psutil.wait_procs(left, timeout=grace_s)
    return len(strays)


def _quietly(act: Callable[[], None]) -> None:
    try:
        act()
    except psutil.NoSuchProcess:
        return
