"""The keeper's lock: one keeper at most, and the kernel knows whether it lives."""

from __future__ import annotations

import fcntl
from typing import IO

from infra.embedded.files import FarmFiles


def take_keeper_lock(files: FarmFiles) -> IO[bytes] | None:
    """The lock of the one living keeper, held until the file is closed; None when there is one already.

    Take it within the gate: who only asks whether it is free has it for a moment too.
    """
    file = files.keeper_lock.open("ab")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    return file


def is_kept(files: FarmFiles) -> bool:
    """Whether a keeper lives. Ask it within the gate, or the answer is stale."""
    if not files.home.farm.exists():
        return False
    lock = take_keeper_lock(files)
    if lock is None:
        return True
    lock.close()
    return False
