"""The embedded farm's home folder: where things lie, and the two kernel locks that decide who is a user.

A kernel lock goes with its process, so a command that was killed or hung up neither orphans
nor ends a farm (DELIVERY, "The embedded farm").
"""

from __future__ import annotations

import fcntl
import os
import pwd
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from broker.errors import ServiceError


@dataclass(frozen=True, slots=True, kw_only=True)
class FarmHome:
    """Paths under one BV3_HOME. Nothing is made by asking for a path."""

    root: Path

    @property
    def farm(self) -> Path:
        """The keeper's folder."""
        return self.root / "farm"

    @property
    def farm_json(self) -> Path:
        """Addresses of the running farm; there only while it runs."""
        return self.root / "farm.json"

    @property
    def users_lock(self) -> Path:
        """Held shared by every command that uses the farm."""
        return self.farm / "users.lock"

    @property
    def gate_lock(self) -> Path:
        """Held exclusively while somebody joins or the keeper decides to stop."""
        return self.farm / "gate.lock"

    @property
    def logs(self) -> Path:
        """One log file per service."""
        return self.farm / "logs"

    @property
    def boxes(self) -> Path:
        """One folder per embedded box."""
        return self.root / "boxes"

    def make(self) -> None:
        """The folders exist afterwards, open to this user alone; a ServiceError says why they can't."""
        try:
            for folder in (self.root, self.farm, self.logs, self.boxes):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise ServiceError(
                f"can't use the data folder {self.root}: {error.strerror}",
                hint="set BV3_HOME to a folder of yours that can be written",
            ) from error


def default_root() -> Path:
    """BV3_HOME, else the XDG state folder; a variable that is empty counts as unset."""
    if named := os.environ.get("BV3_HOME"):
        return Path(named).absolute()
    state = os.environ.get("XDG_STATE_HOME")
    # The XDG specification has a relative folder ignored: it would be another one in each working folder.
    return (Path(state) if state and Path(state).is_absolute() else _user_folder() / ".local" / "state") / "bv3"


def _user_folder() -> Path:
    # Path.home() takes an empty HOME for the root folder.
    if home := os.environ.get("HOME"):
        return Path(home).absolute()
    try:
        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError as error:
        raise ServiceError(
            f"user {os.getuid()} has no home folder", hint="set BV3_HOME to a folder of yours that can be written"
        ) from error


@contextmanager
def _locked(path: Path, operation: int) -> Iterator[IO[bytes]]:
    try:
        file = path.open("ab")  # close-on-exec: a child must not go on holding our lock
    except OSError as error:
        raise ServiceError(
            f"can't write {path}: {error.strerror}",
            hint="set BV3_HOME to a folder of yours that can be written",
        ) from error
    with file:
        fcntl.flock(file, operation)
        yield file


@contextmanager
def hold_gate(home: FarmHome) -> Iterator[None]:
    """Within the block nobody else joins, leaves or stops the farm."""
    with _locked(home.gate_lock, fcntl.LOCK_EX):
        yield


@contextmanager
def hold_user_lock(home: FarmHome) -> Iterator[None]:
    """Within the block this process is a user: the keeper does not stop the farm."""
    home.make()
    with hold_gate(home):
        held = _locked(home.users_lock, fcntl.LOCK_SH)
        held.__enter__()
    try:
        yield
    finally:
        held.__exit__(None, None, None)


def has_users(home: FarmHome) -> bool:
    """Whether any command holds the user lock. Ask it within `hold_gate`, or the answer is stale."""
    with home.users_lock.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
