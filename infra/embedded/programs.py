"""The table of programs: which parts a farm has, in which order they stop, with which addresses."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from broker.errors import UsageError
from infra.embedded.boxes import Box, name_box
from infra.embedded.credentials import Credentials, load_credentials
from infra.embedded.files import FarmFiles
from infra.embedded.flower import Flower
from infra.embedded.ports import PortBook
from infra.embedded.postgres import Postgres
from infra.embedded.services import PythonProgram, Say, Service, python_module
from infra.embedded.valkey import Valkey

# A TOML file with other command lines, for trying a part of one's own in a farm. Each makes the file
# that BV3_READY_FILE names when it serves.
PROGRAMS_VARIABLE = "BV3_FARM_PROGRAMS"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandLines:
    """How the programs are started that are Python's."""

    dispatcher: tuple[str, ...] = field(default_factory=lambda: python_module("scheduler.cli", "dispatcher"))
    grader: tuple[str, ...] = field(default_factory=lambda: python_module("grader.cli", "work"))
    box: tuple[str, ...] = field(default_factory=lambda: python_module("workers.cli", "work", "--box", "{box}"))
    flower: tuple[str, ...] = field(
        default_factory=lambda: python_module("celery", "-A", "broker.app", "flower", "--conf={configuration}")
    )


def read_command_lines() -> CommandLines:
    """The command lines of this farm. Raises UsageError for a file that can't be used."""
    path = os.environ.get(PROGRAMS_VARIABLE)
    if not path:
        return CommandLines()
    try:
        plain = tomllib.loads(Path(path).read_text("utf-8"))
        return CommandLines(**{name: tuple(map(str, argv)) for name, argv in plain.items()})
    except (OSError, ValueError, TypeError) as error:
        raise UsageError(f"{PROGRAMS_VARIABLE}: {path} can't be used: {error}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Programs:
    """All parts that this farm can have."""

    files: FarmFiles
    credentials: Credentials
    ports: PortBook
    postgres: Postgres
    valkey: Valkey
    flower: Flower
    dispatcher: PythonProgram
    grader: PythonProgram
    lines: CommandLines

    def box(self, index: int) -> Box:
        """The box with this index."""
        return Box(
            name=name_box(index),
            files=self.files,
            ports=self.ports,
            postgres=self.postgres,
            valkey=self.valkey,
            argv=self.lines.box,
        )

    def wanted(self, *, boxes: int, full: bool) -> list[Service]:
        """The parts of a farm with so many boxes, or of one that is only to be read, in starting order."""
        if not full:
            return [self.postgres]
        central: list[Service] = [self.postgres, self.valkey, self.dispatcher, self.grader, self.flower]
        return central + [self.box(index) for index in range(boxes)]


def stopping_order(parts: Iterable[str]) -> list[list[str]]:
    """`parts` in groups; one group is gone before the next is asked (DELIVERY, "The embedded farm").

    The dispatcher first, so that nothing more is handed out; then the boxes, which finish their
    runs; the grader has then stored what they sent; nobody needs the servers after that.
    """
    groups: dict[int, list[str]] = {}
    order = {"dispatcher": 0, "grader": 2, "flower": 3, "postgres": 4, "valkey": 5}
    for part in parts:
        groups.setdefault(order.get(part, 1), []).append(part)
    return [groups[place] for place in sorted(groups)]


def build_programs(files: FarmFiles, say: Say) -> Programs:
    """The farm's parts, with its credentials made when they were not there; `say` hears what takes seconds."""
    credentials = load_credentials(files.credentials)
    ports = PortBook(path=files.ports)
    postgres = Postgres(files=files, credentials=credentials, ports=ports, say=say)
    valkey = Valkey(files=files, credentials=credentials, ports=ports)
    lines = read_command_lines()

    def tell_addresses() -> dict[str, str]:
        # Asked at each start: only then are the ports chosen.
        return {
            "BV3_HOME": str(files.home.root),
            "BV3_BROKER_URL": valkey.url,
            "BV3_DATABASE_URL": postgres.url,
        }

    def program(name: str, argv: tuple[str, ...], *needs: str) -> PythonProgram:
        return PythonProgram(name=name, argv=argv, needs=needs, ready=files.ready(name), addresses=tell_addresses)

    return Programs(
        files=files,
        credentials=credentials,
        ports=ports,
        postgres=postgres,
        valkey=valkey,
        lines=lines,
        flower=Flower(files=files, credentials=credentials, ports=ports, addresses=tell_addresses, argv=lines.flower),
        dispatcher=program("dispatcher", lines.dispatcher, "valkey", "schema"),
        # It takes longest to import, and asks for tables only when a record comes.
        grader=program("grader", lines.grader, "valkey", "postgres"),
    )
