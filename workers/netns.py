"""Network namespaces: a box of its own on a machine that has others (Linux)."""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

from broker.errors import UsageError

# Where iproute2 keeps the names.
NAMES = Path("/run/netns")
_OWN = Path("/proc/self/ns/net")
_CLONE_NEWNET = 0x40000000


def enter(name: str) -> None:
    """This process, and whatever it starts from now on, is in the network namespace `name`.

    Nothing happens when it is in there already. Call it before any thread is started: the kernel moves the
    calling thread alone. Raises UsageError where that can't be.
    """
    refuse_elsewhere()
    try:
        handle = os.open(NAMES / name, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise UsageError(
            f"there is no network namespace {name}: {error.strerror}", hint=f"sudo bv3-box netns create {name}"
        ) from error
    try:
        if not _is_own(handle):
            refuse_unprivileged("entering a network namespace")
            _move(handle, name)
    finally:
        os.close(handle)


def is_namespace(name: str) -> bool:
    """Whether there is such a network namespace: a name alone outlives it when a container starts anew."""
    try:
        return (NAMES / name).stat().st_dev == _OWN.stat().st_dev
    except OSError:
        return False


def refuse_elsewhere() -> None:
    """Raises UsageError where the system has no network namespaces."""
    if sys.platform != "linux":
        raise UsageError(
            f"network namespaces are Linux's, this is {sys.platform}",
            hint='set isolation = "host": one box on this machine',
        )


def refuse_unprivileged(doing: str) -> None:
    """Raises UsageError for anybody but root."""
    if os.geteuid() != 0:
        raise UsageError(f"{doing} needs root", hint="run the same command with sudo")


def _is_own(handle: int) -> bool:
    there, here = os.fstat(handle), _OWN.stat()
    return (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino)


def _move(handle: int, name: str) -> None:
    if len(list(Path("/proc/self/task").iterdir())) > 1:
        raise RuntimeError("a network namespace is entered before any thread is started")
    if ctypes.CDLL(None, use_errno=True).setns(handle, _CLONE_NEWNET) != 0:
        why = os.strerror(ctypes.get_errno())
        raise UsageError(
            f"the network namespace {name} can't be entered: {why}",
            hint=f"sudo bv3-box netns delete {name}, then create it anew; in a container it needs CAP_SYS_ADMIN",
        )
