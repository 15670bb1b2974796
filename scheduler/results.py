"""What is left of a sweep: its rows in a file and its scorecard, made by the grader's own command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from broker.errors import EXIT_GATE, EXIT_OK, ServiceError, UsageError
from broker.settings import FarmAddress
from scheduler.errors import ToldError


@dataclass(frozen=True, slots=True, kw_only=True)
class Scorecard:
    """What `bv3-grade scorecard` said: its document with `--json`, else printed already; and the gate."""

    document: Any
    has_failed: bool


def refuse_unwritable(out: Path) -> None:
    """Raises UsageError when `out` can't hold files; makes nothing."""
    there = out.absolute()
    while not there.exists():
        there = there.parent
    if not there.is_dir():
        raise UsageError(f"--out {out}: {there} is a file")
    if not os.access(there, os.W_OK | os.X_OK):
        raise UsageError(f"--out {out}: {there} can't be written", hint="name another folder with --out")


def export_rows(address: FarmAddress, sweep_id: str, out: Path) -> Path:
    """`<out>/<sweep>.jsonl` holds a row per attempt, the log slices beside it. Raises ServiceError."""
    path = out / f"{sweep_id}.jsonl"
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ServiceError(f"can't make {out}: {error.strerror}", hint="name another folder with --out") from error
    done = _grade(address, "export", sweep_id, "--out", str(path), stdout=subprocess.DEVNULL)
    if done.returncode:
        raise ToldError(f"{path} was not written", done.returncode)
    return path


def show_scorecard(address: FarmAddress, sweep_id: str, *, gate: bool, as_json: bool) -> Scorecard:
    """The scorecard is on stdout, or with `as_json` in the value. Raises ServiceError."""
    options = [*(["--gate"] if gate else []), *(["--json"] if as_json else [])]
    sys.stdout.flush()
    done = _grade(address, "scorecard", sweep_id, *options, stdout=subprocess.PIPE if as_json else None)
    if done.returncode not in {EXIT_OK, EXIT_GATE} or (done.returncode == EXIT_GATE and not gate):
        raise ToldError("the scorecard could not be made", done.returncode)
    try:
        document = json.loads(done.stdout) if as_json else None
    except ValueError as error:
        raise ServiceError("the scorecard is no JSON", hint=f"bv3-grade scorecard {sweep_id} --json") from error
    return Scorecard(document=document, has_failed=done.returncode == EXIT_GATE)


def _grade(address: FarmAddress, *arguments: str, stdout: int | None) -> subprocess.CompletedProcess[bytes]:
    environment = dict(os.environ)
    if address.broker_url:
        # the addresses are known: no second look for the farm
        environment |= {"BV3_DATABASE_URL": address.database_url, "BV3_BROKER_URL": address.broker_url}
    command = [sys.executable, "-P", "-m", "grader.cli", *arguments]
    # a group of its own: the first Ctrl-C must not tear the rows of what it has ended
    return subprocess.run(command, stdout=stdout, env=environment, check=False, process_group=0)
