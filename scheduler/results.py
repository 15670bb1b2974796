"""What is left of a sweep: its rows in a file and its scorecard, made by the grader's own command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from broker.errors import EXIT_GATE, EXIT_OK, EXIT_USAGE, ServiceError, UsageError
from broker.settings import FarmAddress
from scheduler.errors import ToldError


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """The file of rows, None when it could not be written; the scorecard's document with `--json`; the gate."""

    rows: Path | None
    document: Any
    has_failed: bool


def refuse_unwritable(out: Path) -> None:
    """The folder `out` is there and takes files, tried just now. Raises UsageError."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=out):
            pass
    except OSError as error:
        is_file = isinstance(error, (FileExistsError, NotADirectoryError))
        why = "it, or a part of its path, is a file" if is_file else error.strerror
        raise UsageError(f"--out {out} can't be written: {why}", hint="name another folder with --out") from error


def write_results(address: FarmAddress, sweep_id: str, out: Path, *, gate: bool, as_json: bool) -> Results:
    """`<out>/<sweep>.jsonl` holds a row per attempt, and the scorecard is on stdout, or with `as_json` in the value.

    Rows that could not be written are told on stderr. Raises ServiceError when there is no scorecard.
    """
    path = out / f"{sweep_id}.jsonl"
    options = ["--rows", str(path), *(["--gate"] if gate else []), *(["--json"] if as_json else [])]
    sys.stdout.flush()
    done = _grade(address, "scorecard", sweep_id, *options, stdout=subprocess.PIPE if as_json else None)
    if done.returncode not in {EXIT_OK, EXIT_GATE, EXIT_USAGE} or (done.returncode == EXIT_GATE and not gate):
        raise ToldError("the scorecard could not be made", done.returncode)
    try:
        document = json.loads(done.stdout) if as_json else None
    except ValueError as error:
        raise ServiceError("the scorecard is no JSON", hint=f"bv3-grade scorecard {sweep_id} --json") from error
    return Results(
        rows=None if done.returncode == EXIT_USAGE else path,
        document=document,
        has_failed=done.returncode == EXIT_GATE,
    )


def _grade(address: FarmAddress, *arguments: str, stdout: int | None) -> subprocess.CompletedProcess[bytes]:
    environment = dict(os.environ)
    if address.broker_url:
        # the addresses are known: no second look for the farm
        environment |= {"BV3_DATABASE_URL": address.database_url, "BV3_BROKER_URL": address.broker_url}
    command = [sys.executable, "-P", "-m", "grader.cli", *arguments]
    # a group of its own: the first Ctrl-C must not tear the rows of what it has ended
    return subprocess.run(command, stdout=stdout, env=environment, check=False, process_group=0)
