"""The embedded boxes: their names, folders and files. Each has the reference stack on its own ports."""

from __future__ import annotations

import json
import secrets
import signal
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from string import ascii_lowercase

from broker.ready import READY_VARIABLE
from broker.types import WALL_LIMIT_S
from infra.embedded.database import set_box_login
from infra.embedded.documents import write_private
from infra.embedded.files import FarmFiles
from infra.embedded.orders import Conditions, read_orders
from infra.embedded.ports import PortBook
from infra.embedded.postgres import Postgres
from infra.embedded.processes import Launch
from infra.embedded.services import PYTHON_START_LIMIT_S, REPOSITORY, USUAL_ATTEMPTS, plain_environment
from infra.embedded.valkey import Valkey

# Of one farm; each box has processes of its own, four ports, and connections to PostgreSQL.
BOXES_LIMIT = 200

STACK_PORTS = ("backend", "router", "https", "http")


def name_box(index: int) -> str:
    """`box-a` for 0, `box-z` for 25, `box-aa` for 26, as columns of a sheet are named."""
    letters = ""
    index += 1
    while index:
        index, digit = divmod(index - 1, len(ascii_lowercase))
        letters = ascii_lowercase[digit] + letters
    return f"box-{letters}"


def index_of_box(name: str) -> int:
    """The index that `name_box` has this name for."""
    index = 0
    for letter in name.removeprefix("box-"):
        index = index * len(ascii_lowercase) + ascii_lowercase.index(letter) + 1
    return index - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """One embedded box."""

    name: str
    files: FarmFiles
    ports: PortBook
    postgres: Postgres
    valkey: Valkey
    # The box file's path is put in the place of `{box}`.
    argv: tuple[str, ...]

    needs: tuple[str, ...] = ("valkey", "schema")
    start_timeout_s: float = PYTHON_START_LIMIT_S
    attempts: int = USUAL_ATTEMPTS
    stop_signal: int = signal.SIGTERM
    # The live view calls a box ready when its stack is healthy, and that takes longer.
    came_up: str = "started"
    remark: str = ""
    # Its run may go on to the wall limit, and is saved and torn down after that.
    stop_timeout_s: float = WALL_LIMIT_S + 60

    @property
    def folder(self) -> Path:
        """The box's own folder."""
        return self.files.home.boxes / self.name

    @property
    def ready(self) -> Path:
        """Made by the box when it is registered."""
        return self.files.ready(self.name)

    @property
    def file(self) -> Path:
        """The box file: all that the box is told."""
        return self.folder / "box.toml"

    def prepare(self, *, may_move: bool) -> Launch:
        """The box has a login of its own, ports, and its file."""
        self.ready.unlink(missing_ok=True)
        password = secrets.token_urlsafe(24)
        login = set_box_login(self.postgres.url, self.name, password)
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private(self.file, self._describe(self.postgres.url_for(login, password), may_move=may_move))
        return Launch(
            argv=tuple(word.replace("{box}", str(self.file)) for word in self.argv),
            environment={**plain_environment(), READY_VARIABLE: str(self.ready)},
            folder=REPOSITORY,
        )

    def is_ready(self) -> bool:
        """Whether it is registered; its stack comes up behind that."""
        return self.ready.exists()

    def _describe(self, database_url: str, *, may_move: bool) -> str:
        parts = {name: f"{self.name}.{name}" for name in STACK_PORTS}
        chosen = self._choose_ports(tuple(parts.values()), may_move=may_move)
        return as_toml(
            {
                "name": self.name,
                "stack": "reference",
                "isolation": "ports",
                "renderer": "playwright",
                "lane": "stub",
                "folder": str(self.folder),
                "database_url": database_url,
                "broker_url": self.valkey.url,
            },
            {
                "ports": {name: chosen[part] for name, part in parts.items()},
                "reference": asdict(read_orders(self.files.orders).conditions or Conditions()),
            },
        )

    def _choose_ports(self, parts: tuple[str, ...], *, may_move: bool) -> Mapping[str, int]:
        kept = {part: port for part in parts if (port := self.ports.kept(part)) is not None}
        if not may_move and len(kept) == len(parts):
            return kept
        return self.ports.assign_block(parts)


def as_toml(plain: Mapping[str, str], tables: Mapping[str, Mapping[str, str | int | float]]) -> str:
    """TOML of strings, and tables of strings and numbers."""
    # A JSON string without escapes beyond ASCII is a TOML basic string, and so is a JSON number.
    lines = [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in plain.items()]
    for table, rows in tables.items():
        lines += ["", f"[{table}]"]
        lines += [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in rows.items()]
    return "\n".join(lines) + "\n"
