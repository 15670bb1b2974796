"""A file of old rows becomes a sweep that is over: read, judged, and written in one transaction or not at all."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from string import ascii_lowercase, digits

import sqlalchemy as sa

from broker.codec import to_json
from broker.errors import UsageError
from broker.store.imports import ImportedRun, NewImport, find_import, has_sweep, save_import
from broker.store.sweeps import IMPORT_PLAN
from broker.suites import load_suite, suite_names
from grader.importer import (
    IMPORTED_VERSION,
    MOST_BYTES,
    RULE_IMPORTED,
    BadLine,
    OldRow,
    Part,
    collect_old_facts,
    read_file,
    split_parts,
)

_SUFFIX_LENGTH = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class OldFile:
    """A file as it was read: rows in parts, or the bad lines because of which nothing is taken."""

    name: str
    sha256: str
    suite: str
    # of the suite, by site; empty where bv3 ships no such suite
    shapes: Mapping[str, str]
    rows: tuple[OldRow, ...]
    parts: tuple[Part, ...]
    bad: tuple[BadLine, ...]


def read_old_file(path: Path, suite: str) -> OldFile:
    """The file's rows. Raises UsageError when it can't be read, is too large or holds none."""
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise UsageError(f"can't read {path}: {error.strerror}") from error
    if len(data) > MOST_BYTES:
        raise UsageError(f"{path} is larger than {MOST_BYTES >> 20} MiB", hint="import it in pieces")
    shapes = {task.site: task.editor_shape for task in load_suite(suite).tasks} if suite in suite_names() else {}
    reading = read_file(data, suite=suite, sites=shapes or None)
    bad = reading.bad if shapes else (*reading.bad, *_find_strays(reading.rows, suite))
    if not reading.rows and not bad:
        raise UsageError(f"{path} holds no rows")
    return OldFile(
        name=path.name,
        sha256=hashlib.sha256(data).hexdigest(),
        suite=suite,
        shapes=shapes,
        rows=reading.rows,
        parts=split_parts(reading.rows),
        bad=tuple(sorted(bad, key=lambda one: one.line)),
    )


def _find_strays(rows: Iterable[OldRow], suite: str) -> Iterator[BadLine]:
    """Rows of sites that stand in another suite: nobody knows this one's sites, but those are not among them."""
    others = {task.site: name for name in suite_names() if name != suite for task in load_suite(name).tasks}
    for row in rows:
        if row.site in others:
            yield BadLine(line=row.line, problem=f"site {row.site!r} is one of the suite {others[row.site]!r}")


def name_import(now: datetime, random: Random, name: str | None) -> str:
    """The sweep's id: `import-20261129T220003Z-k3f9`, or with the name in place of the random end."""
    end = name or "".join(random.choices(ascii_lowercase + digits, k=_SUFFIX_LENGTH))
    return f"{IMPORT_PLAN}-{now.astimezone(UTC):%Y%m%dT%H%M%SZ}-{end}"


def save_old_file(connection: sa.Connection, file: OldFile, *, sweep_id: str, requested_by: str, again: bool) -> None:
    """The file's rows are a sweep. Raises UsageError when it was imported before, unless `again`; or for bad lines."""
    if file.bad:
        raise UsageError(f"{file.name} has {len(file.bad)} bad lines: nothing was imported")
    known = find_import(connection, suite=file.suite, sha256=file.sha256)
    if known is not None and not again:
        raise UsageError(
            f"the very same file was imported into {file.suite} before, as {known}",
            hint=f"bv3-grade scorecard {known}, or --again for a second sweep of the same rows",
        )
    if has_sweep(connection, sweep_id):
        raise UsageError(f"there is a sweep {sweep_id} already", hint="another --name, or the next second")
    save_import(
        connection,
        NewImport(
            id=sweep_id,
            suite=file.suite,
            requested_by=requested_by,
            sha256=file.sha256,
            params={
                "file": file.name.encode("utf-8", "replace").decode("utf-8").replace("\x00", "?"),
                "rows": len(file.rows),
                "parts": len(file.parts),
                "sites": list(dict.fromkeys(row.site for row in file.rows)),
            },
            rule=RULE_IMPORTED,
            grader_version=IMPORTED_VERSION,
            runs=tuple(_to_run(file, part, row) for part in file.parts for row in part.rows),
        ),
    )


def _to_run(file: OldFile, part: Part, row: OldRow) -> ImportedRun:
    return ImportedRun(
        line=row.line,
        arm=part.name,
        site=row.site,
        trial=row.trial,
        editor_shape=file.shapes.get(row.site, ""),
        raw=row.raw,
        bucket=row.bucket,
        detail=row.detail,
        facts=to_json(collect_old_facts(row)),
    )
