"""Freezes: what a group of a suite's tasks was when it was frozen, and the committed ones in `freezes.toml`."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime, time
from importlib.resources import files
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from broker.errors import SuiteError
from broker.types import SiteTask

# A site's retirement comes later, with its evidence; everything else of a task is frozen.
UNFROZEN = frozenset({"retired"})

FrozenTask = Mapping[str, str]
# of the file's array of tables
_TABLE = "freeze"


@dataclass(frozen=True, slots=True, kw_only=True)
class Freeze:
    """A group as it was frozen. `sha256` is that of its tasks as `write_tasks` writes them."""

    suite: str
    group: str
    sha256: str
    frozen_at: datetime
    product_revision: str
    frozen_by: str
    # another harness has frozen it
    taken_over: bool
    # by site
    tasks: tuple[FrozenTask, ...]
    # why it takes the place of the group that it follows; both or neither
    reason: str | None = None
    follows: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchedSource:
    """The checkout that was searched for a suite's hosts: where it is, what it is called, in how many files."""

    path: str
    revision: str
    files: int
    # those that are no text, which were not searched
    binaries: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FreezeUse:
    """A sweep that was planned with a freeze; `number` counts the uses of this freeze from 1."""

    sweep: str
    freeze: Freeze
    number: int
    used_at: datetime
    requested_by: str
    # None: no source was searched
    source: SearchedSource | None


def freeze_tasks(tasks: Iterable[SiteTask]) -> tuple[FrozenTask, ...]:
    """What a freeze keeps of these tasks, by site.

    A field that is empty is left out: one that tasks will have one day changes no hash of today's.
    """
    kept = ({name: value for name, value in asdict(task).items() if name not in UNFROZEN and value} for task in tasks)
    return tuple(sorted(kept, key=lambda task: task["site"]))


def write_tasks(tasks: Sequence[FrozenTask]) -> str:
    """The tasks as canonical JSON, a line each: the very bytes that are hashed."""
    return "".join(json.dumps(dict(task), sort_keys=True, separators=(",", ":")) + "\n" for task in tasks)


def hash_tasks(tasks: Sequence[FrozenTask]) -> str:
    """The SHA-256 of the tasks: one character changed anywhere is another hash."""
    return hashlib.sha256(write_tasks(tasks).encode("ascii")).hexdigest()


def has_freeze(suite: str, freezes: Iterable[Freeze]) -> bool:
    """Whether the suite of this name is a frozen one by its freezes, whatever its file says of itself."""
    return any(freeze.suite == suite for freeze in freezes)


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid")

    suite: str = Field(min_length=1)
    group: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,31}$")
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    frozen_at: datetime | date
    product_revision: str = Field(min_length=1)
    frozen_by: str = Field(min_length=1)
    taken_over: bool = False
    reason: str | None = Field(default=None, min_length=1)
    follows: str | None = Field(default=None, min_length=1)
    tasks: str


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")

    freeze: list[_Entry] = Field(default_factory=list)


def load_freezes() -> tuple[Freeze, ...]:
    """The freezes that ship with bv3, each behind the one it follows. Raises SuiteError when the file is broken."""
    return load_freezes_file(Path(str(files("broker") / "freezes.toml")))


def load_freezes_file(path: Path) -> tuple[Freeze, ...]:
    """The freezes in this file. Raises SuiteError naming the file, and the group where it can."""
    try:
        plain = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise SuiteError(f"can't be read: {error.strerror}", file=str(path), line=0) from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SuiteError(str(error), file=str(path), line=0) from error
    try:
        entries = _File.model_validate(plain).freeze
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise SuiteError(f"{where}: {first['msg']}", file=str(path), line=0) from error
    known: dict[tuple[str, str], Freeze] = {}
    for entry in entries:
        freeze = _to_freeze(entry, path)
        _refuse_stray(freeze, known, path)
        known[freeze.suite, freeze.group] = freeze
    return tuple(known.values())


def _to_freeze(entry: _Entry, path: Path) -> Freeze:
    tasks = _parse_tasks(entry, path)
    if hash_tasks(tasks) != entry.sha256:
        raise _broken(entry, f"its tasks hash to {hash_tasks(tasks)}, and sha256 says {entry.sha256}", path)
    values: dict[str, Any] = entry.model_dump(exclude={"tasks", "frozen_at"})
    return Freeze(**values, frozen_at=_to_moment(entry, path), tasks=tasks)


def _parse_tasks(entry: _Entry, path: Path) -> tuple[FrozenTask, ...]:
    try:
        tasks = tuple(json.loads(line) for line in entry.tasks.splitlines())
    except json.JSONDecodeError as error:
        raise _broken(entry, f"tasks: {error}", path) from error
    if not all(isinstance(task, dict) and isinstance(task.get("site"), str) for task in tasks):
        raise _broken(entry, "tasks: each line must be a JSON object with a site", path)
    return tasks


def _to_moment(entry: _Entry, path: Path) -> datetime:
    """Of a freeze of which the day alone is known, that day's beginning in UTC."""
    if not isinstance(entry.frozen_at, datetime):
        return datetime.combine(entry.frozen_at, time(), UTC)
    if entry.frozen_at.tzinfo is None:
        raise _broken(entry, "frozen_at must be a date, or a time with its offset from UTC", path)
    return entry.frozen_at.astimezone(UTC)


def _refuse_stray(freeze: Freeze, known: Mapping[tuple[str, str], Freeze], path: Path) -> None:
    if (freeze.suite, freeze.group) in known:
        raise _broken(freeze, "stands twice", path)
    if (freeze.follows is None) is not (freeze.reason is None):
        raise _broken(freeze, "one that follows another has a reason, and no other has one", path)
    if freeze.follows is not None and (freeze.suite, freeze.follows) not in known:
        raise _broken(freeze, f"follows {freeze.follows!r}, which does not stand before it", path)
    if any((one.suite, one.follows) == (freeze.suite, freeze.follows) for one in known.values() if one.follows):
        raise _broken(freeze, f"{freeze.follows!r} is followed by another already", path)


def _broken(freeze: Freeze | _Entry, message: str, path: Path) -> SuiteError:
    return SuiteError(f"freeze of {freeze.suite!r}, group {freeze.group!r}: {message}", file=str(path), line=0)


def describe(freeze: Freeze) -> str:
    """When, at which product and by whom: `frozen 2026-08-02 at 1508e03c, taken over from the old harness`."""
    when = f"{freeze.frozen_at.astimezone(UTC):{'%Y-%m-%d' if _is_day(freeze) else '%Y-%m-%d %H:%M:%S UTC'}}"
    by = f", taken over from {freeze.frozen_by}" if freeze.taken_over else f" by {freeze.frozen_by}"
    follows = f", in place of {freeze.follows}: {freeze.reason}" if freeze.follows else ""
    return f"frozen {when} at {freeze.product_revision}{by}{follows}"


def count_files(source: SearchedSource) -> str:
    """How much of it was searched: `1203 files read, 1 that is no text not searched`."""
    read = f"{source.files} file{'' if source.files == 1 else 's'} read"
    if not source.binaries:
        return read
    return f"{read}, {source.binaries} that {'is' if source.binaries == 1 else 'are'} no text not searched"


def _is_day(freeze: Freeze) -> bool:
    """Whether no more than the day is known."""
    return freeze.taken_over and freeze.frozen_at.astimezone(UTC).time() == time()


def write_entry(freeze: Freeze) -> str:
    """The freeze as a block of `freezes.toml`, which reads back as this very freeze."""
    optional = [(name, value) for name in ("reason", "follows") if (value := getattr(freeze, name)) is not None]
    texts = [
        ("suite", freeze.suite),
        ("group", freeze.group),
        *optional,
        ("sha256", freeze.sha256),
        ("product_revision", freeze.product_revision),
        ("frozen_by", freeze.frozen_by),
    ]
    moment = freeze.frozen_at.astimezone(UTC)
    lines = [
        f"[[{_TABLE}]]",
        *(f"{name} = {_quote(value)}" for name, value in texts),
        f"frozen_at = {(moment.date() if _is_day(freeze) else moment).isoformat()}",
        *(["taken_over = true"] if freeze.taken_over else []),
        f"tasks = {_quote_lines(write_tasks(freeze.tasks))}",
    ]
    return "\n".join(lines) + "\n"


def _quote(text: str) -> str:
    # a JSON string is a TOML string, but for DEL, which JSON leaves as it is
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _quote_lines(text: str) -> str:
    is_plain = "'''" not in text and "\x7f" not in text
    return f"'''\n{text}'''" if is_plain else _quote(text)
