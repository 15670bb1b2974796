"""The box file (box.toml): all that a box is told, judged before anything starts."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator, model_validator

from broker.errors import ServiceError, UsageError
from workers.netns import enter

_REPOSITORY = Path(__file__).resolve().parent.parent
_JUDGE_TIMEOUT_S = 30.0


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
    # Nobody may listen here: the ports of a stack that is not ours (seed: a foreign stack on 8324).
    foreign: tuple[Annotated[int, Field(ge=1, le=65535)], ...] = ()


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
            raise ValueError('a fresh profile is signed in to nothing: set policy = "persistent"')
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
    # the run folder: everything of this box is below it
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

    @model_validator(mode="after")
    def _fits_its_stack(self) -> Self:
        problem = _find_misfit(self)
        if problem:
            raise ValueError(problem)
        return self

    @property
    def lock_name(self) -> str:
        """The host lock's scope: the whole network namespace, or, with isolation by ports, this block of ports."""
        return f"bv3-stack-{self.ports.backend}" if self.isolation == "ports" else "bv3-stack"

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


def _find_misfit(box: BoxFile) -> str:
    """Which two words of the file contradict each other; empty when none do."""
    if "reference" in box.model_fields_set and box.stack not in INJECTABLE:
        return f"faults and scaled leashes are for the stack reference, not for {box.stack}"
    misfits = {
        'isolation = "ports" is for the stack reference alone: the product shares its router and home': (
            box.isolation == "ports" and box.stack != "reference"
        ),
        'netns names the namespace of isolation = "netns", and that needs one': (
            (box.isolation == "netns") != (box.netns is not None)
        ),
        'renderer = "electron" is for the stack openswarm': box.renderer == "electron" and box.stack != "openswarm",
        'renderer = "electron" keeps one profile: set profile.policy = "persistent"': (
            box.renderer == "electron" and box.profile.policy == "fresh"
        ),
        'pages = "loopback" needs renderer = "playwright", which alone resolves names itself': (
            box.pages == "loopback" and box.renderer == "electron"
        ),
        'the stack reference shows loopback pages only: set pages = "loopback"': (
            box.stack == "reference" and box.pages == "web"
        ),
        "the stack openswarm needs checkout": box.stack == "openswarm" and box.checkout is None,
        "database_url and broker_url belong together: set both, or neither": (
            (box.database_url is None) != (box.broker_url is None)
        ),
    }
    return next((said for said, is_so in misfits.items() if is_so), "")


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
    if box.checkout is not None and not box.checkout.is_absolute():
        raise UsageError(f"{path}:{find_line(text, ('checkout',))}: checkout must be an absolute path")
    return box


def open_box(path: Path) -> BoxFile:
    """The box that the file describes, and this process is where the box is: in its network namespace, if it has one.

    For every command that touches the stack. Call it before any thread is started. Raises as `load_box` does, and
    UsageError when the namespace can't be entered.
    """
    box = load_box(path)
    if box.netns is not None:
        enter(box.netns)
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
    said = _say_unknown(where) if problem["type"] == "extra_forbidden" else problem["msg"]
    line = find_line(text, where)
    return f"{path}{f':{line}' if line else ''}: {'.'.join(where)}: {said}"


def _say_unknown(where: tuple[str, ...]) -> str:
    if where == ("mode",):
        return "is no word of the file any more: say it when the stack is booted, `bv3-box up dry` or `bv3-box up live`"
    return "unknown key"


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
