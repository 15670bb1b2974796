"""What `bv3-farm status` shows: the keeper's word, checked against the processes themselves."""

from __future__ import annotations

import time
from typing import Any

import psutil

from broker.errors import DatabaseError
from broker.home import FarmHome, hold_gate
from broker.terminal import as_typed
from infra.embedded.commands import name_users
from infra.embedded.database import has_active_sweep
from infra.embedded.documents import read_document
from infra.embedded.files import FarmFiles
from infra.embedded.lock import is_kept
from infra.embedded.parts import PartState
from infra.embedded.processes import Child, ProcessTable


def look(home: FarmHome) -> dict[str, Any]:
    """The farm as it is now; `running` is false when nothing of it lives."""
    files = FarmFiles(home=home)
    if not home.farm.exists():
        return _nothing(home)
    with hold_gate(home):
        kept = is_kept(files)
    living = ProcessTable(path=files.processes).living()
    state = read_document(files.state) or {}
    address = read_document(home.farm_json) or {}
    if not kept and not living:
        return _nothing(home)
    return {
        "running": True,
        "home": str(home.root),
        # Without a keeper the parts run on; the next command starts one that goes on with them.
        "phase": state.get("phase") if kept else "unattended",
        "keeper_pid": state["keeper"]["pid"] if kept and "keeper" in state else None,
        "stays": bool(state.get("stays")),
        "parts": _look_at_parts(state.get("parts", {}), living, kept=kept),
        "boxes": address.get("boxes", []),
        "users": name_users(home),
        "active_sweep": _ask_for_sweeps(address.get("database_url")),
        "flower": {key: address.get(f"flower_{key}") for key in ("url", "user", "password")},
        "failure": state.get("failure"),
    }


def _nothing(home: FarmHome) -> dict[str, Any]:
    return {"running": False, "home": str(home.root), "parts": {}, "boxes": [], "users": []}


def _look_at_parts(told: dict[str, Any], living: dict[str, Child], *, kept: bool) -> dict[str, Any]:
    parts = {}
    for name in told | living:
        row = told.get(name, {})
        child = living.get(name)
        parts[name] = {
            "state": row.get("state") if kept or child is None else "unattended",
            "pid": child.identity.pid if child else None,
            "age_s": round(time.time() - child.since, 1) if child else None,
            "memory_mb": _memory_mb(child.identity.pid) if child else None,
            "port": row.get("port"),
            "restarts": row.get("restarts", 0),
            "failure": row.get("failure"),
        }
    return parts


def _memory_mb(pid: int) -> float:
    """Of the process and all its descendants; pages that they share are counted once each."""
    try:
        process = psutil.Process(pid)
        family = [process, *process.children(recursive=True)]
    except psutil.Error:
        return 0.0
    total = 0
    for member in family:
        try:
            total += member.memory_info().rss
        except psutil.Error:
            continue  # it has just ended
    return round(total / 1e6, 1)


def _ask_for_sweeps(database_url: str | None) -> bool | None:
    """None: could not look."""
    if database_url is None:
        return None
    try:
        return has_active_sweep(database_url)
    except DatabaseError:
        return None


def as_text(seen: dict[str, Any]) -> str:
    """The same for a person."""
    if not seen["running"]:
        return f"no farm runs in {seen['home']}"
    stays = "stays until `bv3-farm down`" if seen["stays"] else "stops when nobody uses it"
    lines = [f"{seen['phase']}, {as_typed(stays)}, home {seen['home']}", ""]
    lines.append(f"{'part':<12} {'state':<10} {'pid':>8} {'age':>9} {'memory':>9} {'port':>6} {'restarts':>9}")
    lines += [_part_line(name, part) for name, part in seen["parts"].items()]
    lines += [
        "",
        f"boxes         {', '.join(seen['boxes']) or 'none'}",
        f"users         {'; '.join(seen['users']) or 'none'}",
        f"active sweep  {_TRI_STATE[seen['active_sweep']]}",
    ]
    if seen["flower"]["url"]:
        lines.append("flower        {url}  login {user} {password}".format(**seen["flower"]))
    lines += [f"{name}: {part['failure']['message']}" for name, part in seen["parts"].items() if part["failure"]]
    return "\n".join(lines)


_TRI_STATE = {True: "yes", False: "no", None: "the database can't be asked"}


def _part_line(name: str, part: dict[str, Any]) -> str:
    def cell(value: object, width: int, unit: str = "") -> str:
        return f"{'-' if value is None else f'{value}{unit}':>{width}}"

    # Whether its stack is healthy is the box's own word, and not known here.
    state = "started" if name.startswith("box-") and part["state"] == PartState.READY else part["state"] or "-"
    return " ".join(
        [
            f"{name:<12}",
            f"{state:<10}",
            cell(part["pid"], 8),
            cell(part["age_s"], 9, " s"),
            cell(part["memory_mb"], 9, " MB"),
            cell(part["port"], 6),
            cell(part["restarts"], 9),
        ]
    )
