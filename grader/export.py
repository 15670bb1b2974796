"""Rows and log slices as files: one JSON line per attempt, each with its slice beside it.

The first fifteen columns are those of the harness before bv3; the others are ours.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from broker.errors import UsageError
from broker.types import Bucket
from grader.facts import AttemptRow

COLUMNS = (
    "site",
    "trial",
    "bucket",
    "wall_s",
    "detail",
    "composer",
    "submit",
    "total_ms",
    "llm_ms",
    "tools_ms",
    "other_ms",
    "prestage_ms",
    "task_ms",
    "turns",
    "artifact",
    "sweep",
    "run",
    "attempt",
    "attempt_no",
    "box",
    "started_at",
    "finished_at",
    "rule",
    "grader_version",
    "arm",
    "evidence",
    "claim",
    "page",
)


class Located(Protocol):
    """What names an attempt's files."""

    @property
    def site(self) -> str:
        """The site's id."""

    @property
    def trial(self) -> int:
        """The trial's number."""

    @property
    def attempt_id(self) -> int:
        """The attempt's id."""


def artifact_path(folder: Path, sweep: str, row: Located) -> Path:
    """Where this attempt's slice lies when the rows are a file in `folder`: relative where that is."""
    return folder / sweep / f"{row.site}_{row.trial}_a{row.attempt_id}.log"


def export_row(sweep: str, row: AttemptRow, *, artifact: Path | None) -> dict[str, Any]:
    """The row's columns, in their order. `artifact`: the file that holds its slice, as its reader finds it."""
    facts, timing = row.facts, row.facts.timing
    values: dict[str, Any] = {
        "site": row.site,
        "trial": row.trial,
        "bucket": row.bucket.value,
        "wall_s": None if facts.wall_ms is None else round(facts.wall_ms / 1000, 3),
        "detail": row.detail,
        # the old harness's word for reach
        "composer": row.bucket is Bucket.OK,
        "submit": facts.submit,
        "total_ms": timing.total_ms,
        "llm_ms": timing.llm_ms,
        "tools_ms": timing.tools_ms,
        "other_ms": timing.other_ms,
        "prestage_ms": timing.prestage_ms,
        "task_ms": timing.task_ms,
        "turns": timing.turns,
        "artifact": None if artifact is None else str(artifact),
        "sweep": sweep,
        "run": row.run_id,
        "attempt": row.attempt_id,
        "attempt_no": row.attempt_no,
        "box": row.box,
        "started_at": _utc(row.started_at),
        "finished_at": _utc(row.finished_at),
        "rule": row.rule,
        "grader_version": row.grader_version,
        "arm": row.arm,
        "evidence": facts.evidence.value if facts.evidence else None,
        "claim": facts.claim.value,
        "page": facts.page.value,
    }
    return {name: None if name in facts.unknown else values[name] for name in COLUMNS}


def _utc(time: datetime | None) -> str | None:
    return None if time is None else time.astimezone(UTC).isoformat(timespec="milliseconds")


def write_export(
    out: Path,
    sweep: str,
    rows: Iterable[AttemptRow],
    read_log: Callable[[AttemptRow], bytes | None],
) -> int:
    """`out` holds one line per attempt, `<sweep>/` beside it their slices; how many rows there are.

    Slices first, then the rows in one rename: a reader sees a whole file, and no row without its slice.
    Raises UsageError when the folder can't be written.
    """
    try:
        (out.parent / sweep).mkdir(parents=True, exist_ok=True)
        lines: list[str] = []
        for row in rows:
            log = read_log(row)
            artifact = None if log is None else artifact_path(out.parent, sweep, row)
            if artifact is not None and log is not None:
                _replace(artifact, log)
            lines.append(json.dumps(export_row(sweep, row, artifact=artifact), allow_nan=False))
        _replace(out, "".join(f"{line}\n" for line in lines).encode("ascii"))
    except OSError as error:
        raise UsageError(
            f"can't write {error.filename or out}: {error.strerror}",
            hint=f"write them elsewhere: bv3-grade export {sweep} --out FILE",
        ) from error
    return len(lines)


def write_page(path: Path, text: str) -> None:
    """The file holds this text, at once or not at all. Raises UsageError when it can't be written."""
    try:
        _replace(path, text.encode("utf-8"))
    except OSError as error:
        raise UsageError(
            f"can't write {path}: {error.strerror}", hint="name a file in a folder that is there"
        ) from error


def _replace(path: Path, data: bytes) -> None:
    handle, name = tempfile.mkstemp(prefix=f".{path.name[:40]}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
