"""The box file (box.toml): all that a box is told, judged before anything starts."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator, model_validator

from broker.errors import ServiceError, UsageError
from broker.types import Mode

_REPOSITORY = Path(__file__).resolve().parent.parent
_JUDGE_TIMEOUT_S = 30.0
Port = Field(ge=1, le=65535)


class Ports(BaseModel):
    """The loopback ports of one box's stack."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    backend: int = Port
    router: int = Port
    https: int = Port
    http: int = Port
    # Nobody may listen here: the port of a stack that is not ours (seed: a foreign stack on 8324).
    foreign: int | None = Field(None, ge=1, le=65535)


class Reference(BaseModel):
    """What a box's reference stack injects, and how long its leashes are."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    faults: str = "none"
    seed: int = Field(0, ge=0)
    leash_scale: float = Field(1.0, gt=0, le=1)

    @field_validator("faults")
    @classmethod
    def _strip(cls, value: str) -> str:
        return value.strip()

    @property
    def told(self) -> str:
        """The faults as a record names them; empty without any."""
        return "" if self.faults == "none" else f"{self.faults} seed {self.seed}"


# The stacks that can be told to go wrong: stand-ins. The product itself never is.
INJECTABLE = frozenset({"reference"})


class BoxFile(BaseModel):
    """One box: its name, its stack, its ports, and its logins at the farm."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=r"^[a-z][a-z0-9-]{0,40}$")
    stack: Literal["reference"]
    isolation: Literal["ports", "host", "container", "netns"]
    renderer: Literal["playwright"]
    # the model route; rates of different lanes are never pooled
    lane: str = Field(min_length=1)
    mode: Mode
    folder: Path
    database_url: SecretStr
    broker_url: SecretStr
    ports: Ports
    reference: Reference = Reference()

    @model_validator(mode="after")
    def _is_injectable(self) -> Self:
        if "reference" in self.model_fields_set and self.stack not in INJECTABLE:
            raise ValueError(f"faults and scaled leashes are for the stack reference, not for {self.stack}")
        return self

    @property
    def lock_name(self) -> str:
        """The host lock's scope: the whole host, or, with isolation by ports, this block of ports."""
        return f"bv3-stack-{self.ports.backend}" if self.isolation == "ports" else "bv3-stack"


def load_box(path: Path) -> BoxFile:
    """The box that the file describes.

    Raises UsageError naming file, line and field, or ServiceError when its faults could not be judged in time.
    """
    try:
        text = path.read_text("utf-8")
        plain = tomllib.loads(text)
    except OSError as error:
        raise UsageError(f"{path} can't be read: {error.strerror}", hint="name a box file with --box") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: no TOML: {error}") from error
    try:
        box = BoxFile.model_validate(plain)
    except ValidationError as error:
        problems = "; ".join(_describe(path, text, problem) for problem in error.errors(include_input=False))
        raise UsageError(problems, hint="see docs/reference/box-file.md") from error
    if box.reference.faults != "none" and (why := _judge_mix(box.reference.faults)):
        raise UsageError(f"{path}:{find_line(text, ('reference', 'faults'))}: reference.faults: {why}")
    if not box.folder.is_absolute():
        raise UsageError(f"{path}:{find_line(text, ('folder',))}: folder must be an absolute path")
    return box


def _judge_mix(mix: str) -> str:
    """What is wrong with a mix of faults; empty when nothing is. Asked of the stack, which alone knows its faults."""
    command = [sys.executable, "-m", "infra.reference", "faults", "--mix", mix]
    try:
        done = subprocess.run(
            command, cwd=_REPOSITORY, capture_output=True, text=True, timeout=_JUDGE_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise ServiceError(
            f"whether the stack knows the faults {mix!r} could not be told within {_JUDGE_TIMEOUT_S:g} s",
            hint="start it again when the machine is less busy, or set faults to none",
        ) from error
    return " ".join(done.stderr.removeprefix("error: ").split()) if done.returncode else ""


def _describe(path: Path, text: str, problem: Any) -> str:
    where = tuple(str(part) for part in problem["loc"])
    said = "unknown key" if problem["type"] == "extra_forbidden" else problem["msg"]
    line = find_line(text, where)
    return f"{path}{f':{line}' if line else ''}: {'.'.join(where)}: {said}"


def find_line(text: str, where: tuple[str, ...]) -> int:
    """The 1-based line on which the key stands, within its table; 0 when it stands nowhere."""
    *tables, key = where or ("",)
    wanted = ".".join(tables)
    table = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if header := re.match(r"\s*\[\s*([^\[\]]+?)\s*\]", line):
            table = header.group(1)
            if not wanted and table == key:
                return number
        elif table == wanted and re.match(rf"\s*[\"']?{re.escape(key)}[\"']?\s*=", line):
            return number
    return 0
