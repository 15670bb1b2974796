"""Read a suite file and judge it; a broken one is named with its line."""

from __future__ import annotations

import hashlib
import re
import tomllib
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import re2
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from broker.errors import SuiteError, UsageError
from broker.suites.vocabulary import EditorShape, Flow
from broker.types import Retirement, SiteTask

_DISTINCT_PREFIX = 24
_NONCE_LENGTH = 5
# what is wrong with a pattern is told by us, once, with file and line
_QUIET = re2.Options()
_QUIET.log_errors = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """A suite as it was read: `sha256` is over the file's bytes, so that a changed task is another suite."""

    name: str
    version: int
    sha256: str
    tasks: tuple[SiteTask, ...]
    # planned only as it was frozen, and never live
    is_frozen: bool = False

    def task(self, site: str) -> SiteTask | None:
        """The task of that site, or None."""
        return next((task for task in self.tasks if task.site == site), None)


class _Retired(BaseModel):
    model_config = ConfigDict(extra="forbid")

    date: str
    evidence: str


class _Task(BaseModel):
    model_config = ConfigDict(extra="forbid")

    site: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,31}$")
    prompt: str
    payload: str = Field(min_length=4, max_length=300)
    entry: str
    host: str = Field(pattern=r"^[a-z0-9.-]+$")
    path_rule: str
    visibility: Literal["public", "private", "chat"]
    kind: str
    editor_shape: EditorShape
    flow: Flow
    editor: str = Field(min_length=1)
    other_boxes: str = ""
    origin: str = Field(min_length=1)
    group: str = Field(default="", pattern=r"^([a-z0-9][a-z0-9-]{0,31})?$")
    retired: _Retired | None = None

    @field_validator("prompt")
    @classmethod
    def _has_one_quoted_payload(cls, value: str) -> str:
        if value.count('"') != len('""') or '"{payload}"' not in value:
            raise ValueError('must hold exactly one double-quoted span, "{payload}"')
        return value

    @field_validator("payload")
    @classmethod
    def _has_an_early_nonce(cls, value: str) -> str:
        at = value.find("{nonce}")
        if at < 0 or value.count("{nonce}") > 1 or '"' in value:
            raise ValueError("must hold {nonce} once and no double quote")
        if at + _NONCE_LENGTH > _DISTINCT_PREFIX:
            raise ValueError(f"the nonce must end within the first {_DISTINCT_PREFIX} characters")
        return value

    @field_validator("path_rule", "other_boxes")
    @classmethod
    def _is_a_pattern(cls, value: str) -> str:
        try:
            re2.compile(value, _QUIET)
        except re2.error as error:
            (cause,) = error.args
            raise ValueError(f"no regular expression: {cause.decode('utf-8', 'replace')}") from error
        return value

    @field_validator("editor_shape", mode="before")
    @classmethod
    def _is_a_word(cls, value: object) -> object:
        words = [shape.value for shape in EditorShape]
        if value not in words:
            close = get_close_matches(str(value), words, n=1)
            hint = f"did you mean {close[0]!r}?" if close else "docs/reference/suite-file.md lists those there are"
            raise ValueError(f"{value!r} is no word for an editor; {hint}")
        return value

    @model_validator(mode="after")
    def _enters_its_own_host(self) -> _Task:
        entered = urlsplit(self.entry).hostname or ""
        if not self.entry.startswith(("http://", "https://")):
            raise ValueError("entry must be an http or https address")
        if entered != self.host and not entered.endswith("." + self.host):
            raise ValueError(f"entry leads to {entered or 'nowhere'}, not to {self.host} or a subdomain")
        if self.host not in self.prompt:
            raise ValueError(f"the prompt does not name {self.host}")
        return self


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str
    version: int = Field(ge=1)
    frozen: bool = False
    task: list[_Task] = Field(min_length=1)


def suite_names() -> tuple[str, ...]:
    """The suites that ship with bv3."""
    found = (entry.name for entry in files("broker.suites").iterdir())
    return tuple(sorted(name.removesuffix(".toml") for name in found if name.endswith(".toml")))


def load_suite(name: str) -> Suite:
    """The shipped suite of that name. Raises UsageError when there is none, SuiteError when it is broken."""
    if name not in suite_names():
        raise UsageError(f"there is no suite {name!r}", hint=f"suites: {', '.join(suite_names())}")
    return load_suite_file(Path(str(files("broker.suites") / f"{name}.toml")))


def load_suite_file(path: Path) -> Suite:
    """The suite in this file. Raises SuiteError naming file and line."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise SuiteError(f"can't be read: {error.strerror}", file=str(path), line=0) from error
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise SuiteError("not UTF-8", file=str(path), line=line) from error
    try:
        plain = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SuiteError(str(error), file=str(path), line=_line_of_toml_error(str(error), text)) from error
    try:
        parsed = _File.model_validate(plain)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        message = f"{field}: {first['msg'].removeprefix('Value error, ')}"
        raise SuiteError(message, file=str(path), line=_line_of_field(text, first["loc"])) from error
    _refuse_twins(parsed, text, path)
    _refuse_groupless(parsed, text, path)
    return Suite(
        name=parsed.name,
        version=parsed.version,
        sha256=hashlib.sha256(data).hexdigest(),
        tasks=tuple(_to_task(task) for task in parsed.task),
        is_frozen=parsed.frozen,
    )


def _to_task(task: _Task) -> SiteTask:
    plain: dict[str, Any] = task.model_dump(mode="json", exclude={"retired"})
    retired = Retirement(date=task.retired.date, evidence=task.retired.evidence) if task.retired else None
    return SiteTask(**plain, retired=retired)


def _refuse_twins(parsed: _File, text: str, path: Path) -> None:
    seen: dict[str, int] = {}
    for index, task in enumerate(parsed.task):
        if task.site in seen:
            raise SuiteError(
                f"site {task.site!r} stands twice",
                file=str(path),
                line=_line_of_field(text, ("task", index, "site")),
            )
        seen[task.site] = index


def _refuse_groupless(parsed: _File, text: str, path: Path) -> None:
    """A frozen suite freezes group by group; elsewhere a group would promise what nothing holds."""
    for index, task in enumerate(parsed.task):
        if bool(task.group) is not parsed.frozen:
            wrong = "has a group, and the suite is not frozen" if task.group else "of a frozen suite has no group"
            line = _line_of_field(text, ("task", index, "group" if task.group else "site"))
            raise SuiteError(f"site {task.site!r} {wrong}", file=str(path), line=line)


def _line_of_toml_error(message: str, text: str) -> int:
    found = re.search(r"at line (\d+)", message)
    return int(found.group(1)) if found else text.count("\n") + 1


def _line_of_field(text: str, where: tuple[int | str, ...]) -> int:
    """The line of the field that pydantic names, or of its table when the field is missing; else 0."""
    lines = text.splitlines()
    start = 0
    if len(where) > 1 and where[0] == "task" and isinstance(where[1], int):
        headers = [number for number, line in enumerate(lines) if line.strip() == "[[task]]"]
        if where[1] >= len(headers):
            return 0
        start = headers[where[1]]
    key = re.compile(rf"\s*{re.escape(str(where[-1]))}\s*=")
    for number in range(start, len(lines)):
        if number > start and lines[number].lstrip().startswith("[["):
            break
        if key.match(lines[number]):
            return number + 1
    return start + 1
