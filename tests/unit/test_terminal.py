"""Help and hints name commands as this user can type them, and a wrong command is answered with the right ones."""

from __future__ import annotations

import click
import pytest

from broker.errors import UsageError
from broker.terminal import LAUNCHED_AS, as_typed, inert, run_command
from infra.cli import main_group


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LAUNCHED_AS, "./bv3")


@pytest.mark.usefixtures("launched")
@pytest.mark.parametrize(
    ("text", "typed"),
    [
        ("see `bv3-farm status` and `bv3-farm logs`", "see `./bv3 farm status` and `./bv3 farm logs`"),
        ("bv3-schedule", "./bv3 schedule"),
        ("/opt/bin/bv3-farm", "/opt/bin/bv3-farm"),
        ("bv3-farm-2 and bv3-keeper", "bv3-farm-2 and bv3-keeper"),
    ],
)
def test_commands_are_named_by_how_bv3_was_launched(text: str, typed: str) -> None:
    assert as_typed(text) == typed


def test_without_a_launcher_commands_keep_their_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(LAUNCHED_AS, raising=False)
    assert as_typed("bv3-farm status") == "bv3-farm status"


@pytest.mark.usefixtures("launched")
@pytest.mark.parametrize("arguments", [["--help"], ["up", "--help"]])
def test_help_names_no_command_that_this_user_does_not_have(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(main_group, arguments, name="bv3-farm") == 0
    shown = capsys.readouterr().out
    assert shown.startswith("Usage: ./bv3 farm ")
    assert "bv3-" not in shown
    assert "\b" not in shown
    assert "\\b" not in shown


@pytest.mark.usefixtures("launched")
def test_hints_name_commands_as_they_are_typed(capsys: pytest.CaptureFixture[str]) -> None:
    @click.group
    def group() -> None:
        """A group."""

    @group.command
    def fail() -> None:
        raise UsageError("no", hint="bv3-grade show last")

    assert run_command(group, ["fail"], name="bv3-x") == 2
    assert capsys.readouterr().err == "error: no\nhint: ./bv3 grade show last\n"


def test_an_unknown_command_is_answered_with_the_close_one_and_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(main_group, ["statsu"], name="bv3-farm") == 2
    cause, hint = capsys.readouterr().err.splitlines()
    assert cause == "error: there is no command 'statsu'"
    assert hint == "hint: did you mean 'status'? commands: admit, down, ensure, logs, migrate, status, up"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("two\nlines\tand a tab, umlaut \u00fc", "two\nlines\tand a tab, umlaut \u00fc"),
        ("a\r\nb", "a\nb"),
        ("\x1b]0;title\x07", r"\x1b]0;title\x07"),
        ("over\rwritten", r"over\rwritten"),
        ("\x9b31m\x7f", r"\x9b31m\x7f"),
        ("\u202eturned\u2066\u2028", r"\u202eturned\u2066\u2028"),
        ("half a pair \ud83d", r"half a pair \ud83d"),
    ],
)
def test_nothing_that_a_terminal_acts_on_is_shown_as_it_is(text: str, shown: str) -> None:
    assert inert(text) == shown


def test_what_the_terminal_can_t_show_is_escaped() -> None:
    assert inert("caf\u00e9 \u2661", encoding="ascii") == r"caf\xe9 \u2661"


def test_cause_that_quotes_a_page_is_printed_inert(capsys: pytest.CaptureFixture[str]) -> None:
    @click.group
    def group() -> None:
        """A group."""

    @group.command
    def fail() -> None:
        raise UsageError("the page said \x1b[2J")

    assert run_command(group, ["fail"], name="bv3-x") == 2
    assert capsys.readouterr().err == "error: the page said \\x1b[2J\n"
