"""Becoming the one supervisor of a box: the folder's lock, the dead predecessor's processes, the lease."""

from __future__ import annotations

import json
import os
import socket
import sys
import uuid
from dataclasses import asdict
from pathlib import Path
from typing import Any
from uuid import UUID

import structlog

from broker.errors import BoxHeldError
from broker.store.box_client import BoxClient, Machine
from workers.processes import SUPERVISOR, ProcessBook, kill_survivors, read_boot

log = structlog.get_logger(__name__)


def identify_machine() -> Machine:
    """This process, this boot, this network namespace, this machine."""
    return Machine(machine=_read_machine_id(), boot=read_boot(), namespace=_read_namespace(), pid=os.getpid())


def end_predecessor(book: ProcessBook) -> None:
    """No process of a dead predecessor is left, and the book begins with this one.

    Call it with the folder's lock held: whoever is named in the folder is dead then.
    """
    if killed := kill_survivors(book):
        log.warning("ended what a dead predecessor left", processes=killed)
    book.clear()
    book.record(SUPERVISOR, os.getpid())


def take_lease(client: BoxClient, me: Machine, folder: Path, facts: dict[str, Any]) -> UUID:
    """The lease's token. Raises BoxHeldError when the box beats elsewhere, naming host and pid."""
    before = _read_predecessor(folder)
    try:
        token = client.register(me, facts=facts)
    except BoxHeldError as error:
        if not _is_same(before, error.holder):
            raise
        # Its beats are younger than it is dead.
        token = client.register(me, predecessor_dead=True, facts=facts)
    # not before: a process that did not get the lease is nobody's predecessor
    (folder / "supervisor.json").write_text(json.dumps(asdict(me)), encoding="utf-8")
    return token


def _is_same(before: dict[str, Any] | None, holder: dict[str, object]) -> bool:
    """Whether the lease's holder is the supervisor that last worked in this folder, which is dead."""
    names = ("machine", "boot", "namespace", "pid")
    return before is not None and all(before.get(name) == holder.get(name) for name in names)


def _read_predecessor(folder: Path) -> dict[str, Any] | None:
    try:
        plain = json.loads((folder / "supervisor.json").read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return plain if isinstance(plain, dict) else None


def _read_machine_id() -> str:
    host = socket.gethostname()
    for path in ("/etc/machine-id", "/var/lib/dbus/machine-id"):
        try:
            return f"{host}/{Path(path).read_text('ascii').strip()}"
        except OSError:
            continue
    return f"{host}/{uuid.getnode():012x}"


def _read_namespace() -> str:
    return str(Path("/proc/self/ns/net").readlink()) if sys.platform == "linux" else "host"
