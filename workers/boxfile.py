"""The box file (box.toml): all that a box is told, judged before anything starts."""

from __future__ import annotations

import difflib
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self, cast

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator, model_validator

from broker.errors import ServiceError, UsageError
from workers.boxrules import USUAL_FOREIGN_PORTS, MisfitError, find_misfit
from workers.netns import enter, is_namespace

_REPOSITORY = Path(__file__).resolve().parent.parent
_JUDGE_TIMEOUT_S = 30.0

# Names the run folder when the file does not, as it did for the scripts before bv3.
FOLDER_VARIABLE = "OSW_BENCH_DIR"


class Ports(BaseModel):
    """The loopback ports of one box's stack."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    backend: int = Field(8326, ge=1, le=65535)
    router: int = Field(20128, ge=1, le=65535)
    # webpack's, for the renderer electron
    frontend: int = Field(3026, ge=1, le=65535)
    # where bv3's own loopback pages listen
    https: int = Field(18443, ge=1, le=65535)
    http: int = Field(18080, ge=1, le=65535)
    # Nobody may listen here: the ports of a stack that is not ours. With the stack openswarm, unless said otherwise,
    # the product's usual ones.
    foreign: tuple[Annotated[int, Field(ge=1, le=65535)], ...] = ()

    def listened(self, *, electron: bool, router: bool = True, pages: bool = True) -> dict[str, int]:
        """Where the box's own parts listen, by name: those that it has."""
        names = [
            "backend",
            *(["router"] if router else []),
            *(["frontend"] if electron else []),
            *(["https", "http"] if pages else []),
        ]
        return {name: getattr(self, name) for name in names}


class Profile(BaseModel):
    """The browser profile that the product's cards are shown in."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    # fresh: cookies, storage and cache of one run are gone before the next; persistent: kept in the run folder
    policy: Literal["fresh", "persistent"] = "fresh"
    # sites of a suite that a person has signed this profile in to
    signed_in: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _keeps_what_it_is_signed_in_to(self) -> Self:
        if self.policy == "fresh" and self.signed_in:
            said = 'a fresh profile is signed in to nothing: set policy = "persistent"'
            raise MisfitError(said, ("profile", "signed_in"))
        return self


class Limits(BaseModel):
    """What must be left of the machine before a run may begin. None: not looked at."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    # the one-minute load average over the number of cores
    load_per_core: float | None = Field(None, gt=0)
    free_mb: int = Field(64, ge=1)
    free_inodes: int = Field(1000, ge=1)
    # of /dev/shm, which Chromium draws in
    shm_mb: int | None = Field(None, ge=1)
    memory_mb: int | None = Field(None, ge=1)
    # ended processes of the whole machine that nobody has reaped
    zombies: int | None = Field(None, ge=0)
    # between this machine's clock and the farm's database
    clock_offset_s: float = Field(2.0, gt=0)


class Product(BaseModel):
    """How the real product is started from its checkout. Everything has a default that fits its repository."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    # the interpreter of the checkout's own environment; a relative path is one in the checkout
    python: Path | None = None
    # model of each session, as the product names it; empty: the product's own default
    model: str = ""
    # renderer electron: the commands that serve the front end and show it, where the checkout's own scripts don't
    # fit; {backend_port}, {frontend_port} and {profile} stand for this box's
    frontend: tuple[str, ...] = ()
    electron: tuple[str, ...] = ()

    @field_validator("electron")
    @classmethod
    def _has_its_own_profile(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if value and not any("{profile}" in word for word in value):
            raise ValueError('must hold {profile}, as in "--user-data-dir={profile}": it never shares a person\'s own')
        return value


class Reference(BaseModel):
    """What a box's reference stack injects, what its pages are like, and how long its leashes are."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    faults: str = "none"
    natures: str = "none"
    seed: int = Field(0, ge=0)
    leash_scale: float = Field(1.0, gt=0, le=1)

    @field_validator("faults", "natures")
    @classmethod
    def _strip(cls, value: str) -> str:
        return value.strip()

    @property
    def told(self) -> str:
        """The faults and natures as a record names them; empty without any."""
        faults = () if self.faults == "none" else (self.faults,)
        natures = () if self.natures == "none" else (f"natures {self.natures}",)
        words = (*faults, *natures)
        return f"{', '.join(words)} seed {self.seed}" if words else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FarmLogin:
    """A box's two addresses at its farm, with the passwords in them."""

    database_url: str
    broker_url: str


class BoxFile(BaseModel):
    """One box: its name, its stack, its ports, and its logins at the farm.

    Whether the stack is dry or live is no word of the file: it is said when the stack is booted (`bv3-box up`).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=r"^[a-z][a-z0-9-]{0,40}$")
    stack: Literal["openswarm", "reference"]
    isolation: Literal["host", "container", "netns", "ports"]
    # isolation netns: the network namespace that the box lives in
    netns: str | None = Field(None, pattern=r"^[a-z][a-z0-9-]{0,30}$")
    renderer: Literal["electron", "playwright"]
    # the model route; rates of different lanes are never pooled. stub: fixed answers of bv3's own router
    lane: str = Field(min_length=1)
    # web: the real sites; loopback: bv3's own sites under the real host names, which nothing can leave
    pages: Literal["web", "loopback"] = "loopback"
    # the run folder: everything of this box is below it. OSW_BENCH_DIR tells it when the file does not
    folder: Path
    # the product's checkout; bv3 changes and installs nothing there
    checkout: Path | None = None
    # both or neither: a box without a farm can be prepared and looked at, and works no queue
    database_url: SecretStr | None = None
    broker_url: SecretStr | None = None
    # a picture of how each run went, beside the screenshot: costs time and space
    record: Literal["none", "trace", "video"] = "none"
    ports: Ports = Ports()
    profile: Profile = Profile()
    limits: Limits = Limits()
    product: Product = Product()
    # site: the variable of the operator's environment that names the account
    accounts: dict[str, Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9_]*$")]] = {}
    reference: Reference = Reference()

    @field_validator("database_url")
    @classmethod
    def _is_postgresql(cls, value: SecretStr | None) -> SecretStr | None:
        if value and not value.get_secret_value().startswith(("postgresql://", "postgresql+psycopg://")):
            raise ValueError("must begin with postgresql://")
        return value

    @field_validator("broker_url")
    @classmethod
    def _is_redis(cls, value: SecretStr | None) -> SecretStr | None:
        if value and not value.get_secret_value().startswith(("redis://", "rediss://", "redis+socket://")):
            raise ValueError("must begin with redis://, rediss:// or redis+socket://")
        return value

    @model_validator(mode="before")
    @classmethod
    def _know_the_usual_foreigners(cls, plain: Any) -> Any:
        if not (isinstance(plain, dict) and plain.get("stack") == "openswarm"):
            return plain
        ports = plain.get("ports", {})
        if not isinstance(ports, dict):
            return plain
        # of the usual ones, those that the file does not give to a part of the box
        usual = [port for port in USUAL_FOREIGN_PORTS if port not in ports.values()]
        return {**plain, "ports": {"foreign": usual, **ports}}

    @model_validator(mode="after")
    def _contradicts_itself_nowhere(self) -> Self:
        if (misfit := find_misfit(self)) is not None:
            raise misfit
        return self

    def find_bad_places(self) -> Iterator[tuple[str, str]]:
        """The keys whose paths can't be, and why."""
        if not self.folder.is_absolute():
            yield "folder", "folder must be an absolute path"
        if self.checkout is None:
            return
        if not self.checkout.is_absolute():
            yield "checkout", "checkout must be an absolute path"
        # As the system sees them: a symbolic link leads into the checkout too.
        elif self.folder.resolve().is_relative_to(self.checkout.resolve()):
            yield "folder", "folder must lie outside of the checkout, in which bv3 writes nothing"

    @property
    def lock_name(self) -> str:
        """The host lock's scope: the whole network namespace, or, with isolation by ports, this block of ports."""
        return f"bv3-stack-{self.ports.backend}" if self.isolation == "ports" else "bv3-stack"

    @property
    def python(self) -> Path | None:
        """The interpreter that the file names, as an absolute path; None: the checkout's usual one."""
        if self.product.python is None or self.checkout is None:
            return None
        return self.checkout / self.product.python

    def list_own_ports(self) -> dict[str, int]:
        """Where what this box starts will listen, by name; the lane's own router is none of it."""
        return self.ports.listened(
            electron=self.renderer == "electron",
            router=self.stack == "reference" or self.lane == "stub",
            pages=self.pages == "loopback",
        )

    @property
    def has_farm(self) -> bool:
        """Whether the box belongs to a farm."""
        return self.database_url is not None and self.broker_url is not None

    def farm(self) -> FarmLogin:
        """The box's logins at its farm. Raises UsageError for a box that has none."""
        if self.database_url is None or self.broker_url is None:
            raise UsageError(
                f"box {self.name} belongs to no farm: database_url and broker_url are not in its file",
                hint="bv3-farm admit NAME gives a box its logins",
            )
        return FarmLogin(
            database_url=self.database_url.get_secret_value(), broker_url=self.broker_url.get_secret_value()
        )


def load_box(path: Path) -> BoxFile:
    """The box that the file describes. Its folder may be told by OSW_BENCH_DIR instead of by the file.

    Raises UsageError naming file, line and field, or ServiceError when its faults or natures could not be judged in
    time.
    """
    text, plain = _read_toml(path)
    if "folder" not in plain:
        plain["folder"] = _told_folder(path)
    try:
        box = BoxFile.model_validate(plain)
    except ValidationError as error:
        found = [f"{_place(path, text, where)}: {'.'.join(where)}: {said}" for where, said in find_problems(error)]
        raise UsageError("; ".join(found), hint="see docs/reference/box-file.md") from error
    for kind, mix in (("faults", box.reference.faults), ("natures", box.reference.natures)):
        if mix != "none" and (why := _judge_mix(kind, mix)):
            raise UsageError(f"{path}:{find_line(text, ('reference', kind))}: reference.{kind}: {why}")
    for name, said in box.find_bad_places():
        raise UsageError(f"{_place(path, text, (name,))}: {said}")
    return box


def _read_toml(path: Path) -> tuple[str, dict[str, Any]]:
    try:
        text = path.read_text("utf-8")
        return text, tomllib.loads(text)
    except OSError as error:
        raise UsageError(
            f"{path} can't be read: {error.strerror}", hint="bv3-box init writes one; --box FILE names another"
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: no TOML: {error}") from error


def _told_folder(path: Path) -> str:
    folder = os.environ.get(FOLDER_VARIABLE, "")
    if not folder:
        raise UsageError(
            f"{path}: folder: the box has no run folder",
            hint=f"write folder into the file, or set {FOLDER_VARIABLE}, each to an absolute path",
        )
    if not Path(folder).is_absolute():
        raise UsageError(f"{FOLDER_VARIABLE}: the run folder must be an absolute path")
    return folder


def open_box(path: Path, *, may_be_gone: bool = False) -> BoxFile:
    """The box that the file describes, and this process is where the box is: in its network namespace, if it has one.

    For every command that touches the stack. Call it before any thread is started. Raises as `load_box` does, and
    UsageError when the namespace can't be entered; with `may_be_gone` not for one that is not there, as after a
    reboot: who ends or shows a box must be able to say that nothing of it is left.
    """
    box = load_box(path)
    if box.netns is not None and (is_namespace(box.netns) or not may_be_gone):
        enter(box.netns)
    return box


def _judge_mix(kind: str, mix: str) -> str:
    """What is wrong with a mix of faults or natures; empty when nothing is. Asked of the stack, which alone knows."""
    command = [sys.executable, "-m", "infra.reference", kind, "--mix", mix]
    try:
        done = subprocess.run(
            command, cwd=_REPOSITORY, capture_output=True, text=True, timeout=_JUDGE_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise ServiceError(
            f"whether the stack knows the {kind} {mix!r} could not be told within {_JUDGE_TIMEOUT_S:g} s",
            hint=f"start it again when the machine is less busy, or set {kind} to none",
        ) from error
    return " ".join(done.stderr.removeprefix("error: ").split()) if done.returncode else ""


def find_problems(error: ValidationError) -> Iterator[tuple[tuple[str, ...], str]]:
    """The keys that can't be as they are, and why. No value is repeated: it may be a password."""
    for problem in error.errors(include_input=False):
        where = tuple(str(part) for part in problem["loc"])
        if problem["type"] == "extra_forbidden":
            yield where, _say_unknown(where)
        elif problem["type"] == "value_error":
            cause = problem["ctx"]["error"]
            yield cause.where if isinstance(cause, MisfitError) else where, str(cause)
        else:
            yield where, problem["msg"]


def _place(path: Path, text: str, where: tuple[str, ...]) -> str:
    """The file, and the line of the key or of the nearest table around it."""
    lines = (find_line(text, where[:length]) for length in range(len(where), 0, -1))
    line = next((line for line in lines if line), 0)
    return f"{path}:{line}" if line else f"{path}"


def _say_unknown(where: tuple[str, ...]) -> str:
    if where == ("mode",):
        return "is no word of the file any more: say it when the stack is booted, `bv3-box up dry` or `bv3-box up live`"
    table: type[BaseModel] = BoxFile
    for name in where[:-1]:
        table = cast("type[BaseModel]", table.model_fields[name].annotation)
    near = difflib.get_close_matches(where[-1], table.model_fields, n=1)
    return f"unknown key{f', did you mean {near[0]}?' if near else ''}"


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
