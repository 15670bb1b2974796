"""Where the keeper's own files lie, under one BV3_HOME."""

from __future__ import annotations

import os
import pwd
import shutil
from dataclasses import dataclass
from pathlib import Path

from broker.errors import ServiceError
from broker.home import FarmHome

# A new database takes about 40 MB and its write-ahead log up to 256 MB.
SPACE_NEEDED_BYTES = 400_000_000
SPACE_NEEDED_AGAIN_BYTES = 100_000_000

ANOTHER_HOME = "set BV3_HOME to a folder of yours on a disk with space"


@dataclass(frozen=True, slots=True, kw_only=True)
class FarmFiles:
    """Paths of the keeper's documents and of its services' data."""

    home: FarmHome

    @property
    def keeper_lock(self) -> Path:
        """Held exclusively by the living keeper."""
        return self.home.farm / "keeper.lock"

    @property
    def orders(self) -> Path:
        """What the commands want of the keeper."""
        return self.home.farm / "orders.json"

    @property
    def state(self) -> Path:
        """What the keeper last saw of its parts."""
        return self.home.farm / "state.json"

    @property
    def processes(self) -> Path:
        """Which process is which part; outlives the keeper."""
        return self.home.farm / "processes.json"

    @property
    def credentials(self) -> Path:
        """Passwords of the services and the farm's own id."""
        return self.home.farm / "credentials.json"

    @property
    def ports(self) -> Path:
        """Which part listens where; kept from one start to the next."""
        return self.home.farm / "ports.json"

    def log(self, part: str) -> Path:
        """The log file of one part; the keeper's own is `keeper`."""
        return self.home.logs / f"{part}.log"

    def ready(self, part: str) -> Path:
        """Made by a part that serves; it is told of it by `BV3_READY_FILE`."""
        return self.home.farm / f"{part}.ready"

    def data(self, service: str) -> Path:
        """The data folder of one service."""
        return self.home.farm / service


def prepare_home(home: FarmHome) -> FarmFiles:
    """The home's folders exist, are ours, can be written and have space; else a ServiceError says what not."""
    _refuse_foreign(home.root)
    home.make()
    files = FarmFiles(home=home)
    probe = home.farm / f".write-test.{os.getpid()}"
    try:
        probe.write_bytes(b"bv3" * 1000)
        probe.unlink()
    except OSError as error:
        raise ServiceError(f"can't write to {home.farm}: {error.strerror}", hint=ANOTHER_HOME) from error
    needed = SPACE_NEEDED_AGAIN_BYTES if files.credentials.exists() else SPACE_NEEDED_BYTES
    check_space(home.farm, needed)
    return files


def check_space(folder: Path, needed_bytes: int) -> None:
    """`folder`'s disk has `needed_bytes` free, else a ServiceError says how much is missing."""
    free = shutil.disk_usage(folder).free
    if free < needed_bytes:
        raise ServiceError(
            f"{folder} has {free // 1_000_000} MB left, the farm needs {needed_bytes // 1_000_000} MB",
            hint=ANOTHER_HOME,
        )


def _refuse_foreign(root: Path) -> None:
    # Files of two users in one home end in a farm that neither can start again.
    try:
        owner = root.stat().st_uid
    except FileNotFoundError:
        return
    except OSError as error:
        raise ServiceError(f"can't use the data folder {root}: {error.strerror}", hint=ANOTHER_HOME) from error
    if owner != os.geteuid():
        raise ServiceError(
            f"the data folder {root} belongs to {_user_name(owner)}, this is {_user_name(os.geteuid())}",
            hint="run as its owner, or set BV3_HOME to a folder of yours",
        )


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"
