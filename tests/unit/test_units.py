"""The units that start a box at boot name commands that there are, and leave a running run the time that it has."""

from __future__ import annotations

import plistlib
import shlex
from configparser import RawConfigParser
from pathlib import Path

import click
import pytest

from broker.types import WALL_LIMIT_S
from workers.cli import box

ROOT = Path(__file__).resolve().parents[2]
UNITS = ROOT / "infra" / "units"


@pytest.fixture
def service() -> RawConfigParser:
    # RawConfigParser: a % is systemd's
    parser = RawConfigParser(strict=True, comment_prefixes=("#",), delimiters=("=",))
    parser.optionxform = str  # type: ignore[method-assign,assignment]  # its keys have capitals
    parser.read_string((UNITS / "bv3-box@.service").read_text("ascii"))
    return parser


def parse(words: list[str]) -> click.Context:
    """The words behind `bv3 box`, as the command takes them; UsageError when it does not."""
    command = box.commands[words[0]]
    return command.make_context(words[0], words[1:], resilient_parsing=False)


def test_systemd_starts_and_ends_a_box_by_commands_that_there_are(service: RawConfigParser) -> None:
    assert set(service.sections()) == {"Unit", "Service", "Install"}
    for key, command in (("ExecStart", "work"), ("ExecStopPost", "down")):
        program, word, *words = shlex.split(service["Service"][key])
        assert (Path(program).name, word, words[0]) == ("bv3", "box", command)
        assert parse(words).params["box_file"] == Path("/etc/bv3/%i.toml")


def test_systemd_waits_for_the_running_run_and_starts_no_broken_file_again(service: RawConfigParser) -> None:
    told = service["Service"]
    assert int(told["TimeoutStopSec"]) > WALL_LIMIT_S + 60
    assert (told["Restart"], told["RestartPreventExitStatus"]) == ("on-failure", "2 130")
    assert (told["KillSignal"], told["KillMode"]) == ("SIGTERM", "mixed")
    assert Path(told["WorkingDirectory"]) == Path(shlex.split(told["ExecStart"])[0]).parent


def test_launchd_starts_a_box_by_a_command_that_there_is() -> None:
    plain = plistlib.loads((UNITS / "bv3-box.plist").read_bytes())
    program, word, *words = plain["ProgramArguments"]
    assert (Path(program).name, word, words[0]) == ("bv3", "box", "work")
    assert parse(words).params["box_file"] == Path("/Users/me/box.toml")
    assert plain["ExitTimeOut"] > WALL_LIMIT_S + 60
    assert plain["KeepAlive"] == {"SuccessfulExit": False}
    assert plain["WorkingDirectory"] == str(Path(program).parent)
