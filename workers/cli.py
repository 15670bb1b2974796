"""bv3-box: prepare a box, look at it, and work its queue."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import click

from broker.terminal import run_command, verbose_option
from workers import box_commands, lifecycle_commands, page_commands, trial_commands
from workers.options import box_option


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@verbose_option
def box() -> None:
    """A box: one stack of the product under test, worked by one supervisor."""


@box.command()
@box_option
@click.option("--json", "as_json", is_flag=True, help="print it as JSON")
def preflight(box_file: Path, as_json: bool) -> None:  # noqa: FBT001  # click passes it by name
    r"""Look at every condition under which a run may begin, and change nothing.

    Ends with 0 when the box is fit, 1 when a condition refuses, 3 when no stack is booted.

    \b
    bv3-box preflight --box box.toml
    bv3-box preflight --box box.toml --json | jq .refused
    """
    import time

    from workers import preflight_report
    from workers.boxfile import open_box
    from workers.stack.driver import facts_path
    from workers.stack.facts import read_facts
    from workers.workplace import find_running, make_preflight

    loaded = open_box(box_file)
    facts = read_facts(facts_path(loaded))
    begun_s = time.monotonic()
    with make_preflight(loaded, facts) as looker:
        found = looker.list_conditions(facts.mode, running=find_running(loaded))
    duration_ms = round((time.monotonic() - begun_s) * 1000)
    if as_json:
        click.echo(preflight_report.format_json(loaded.name, found, duration_ms=duration_ms))
    else:
        click.echo("\n".join(preflight_report.format_lines(loaded.name, found, duration_ms=duration_ms)))
    sys.exit(1 if preflight_report.list_refusals(found) else 0)


@box.command()
@box_option
@click.option("--reason", required=True, metavar="TEXT", help="why; others read it in bv3-schedule follow")
def drain(box_file: Path, reason: str) -> None:
    r"""Finish the running run and begin none, until `bv3-box resume`.

    The word is kept in the box's folder: it holds whether or not the box is up, and after a reboot.

    \b
    bv3-box drain --box box.toml --reason "new disk on Monday"
    """
    from workers import holding
    from workers.boxfile import load_box

    loaded = load_box(box_file)
    holding.drain(loaded.folder, reason)
    click.echo(f"{loaded.name}: drained, a running run is finished and none begins; ended by bv3-box resume")


@box.command()
@box_option
def resume(box_file: Path) -> None:
    r"""End what `bv3-box drain` began.

    A box that is held for something else stays so: the command ends with 2 and says what ends it.

    \b
    bv3-box resume --box box.toml
    """
    from workers import holding
    from workers.boxfile import load_box

    loaded = load_box(box_file)
    was_drained = holding.resume(loaded.folder)
    click.echo(f"{loaded.name}: " + ("takes runs again" if was_drained else "was not drained"))


_GROUPS = (lifecycle_commands, box_commands, page_commands, trial_commands)
for _command in (command for group in _GROUPS for command in group.COMMANDS):
    box.add_command(_command)
for _command in box.commands.values():
    # click keeps the lines of a paragraph that begins with a backspace; a docstring has it spelt out
    _command.help = (_command.help or "").replace("\\b\n", "\b\n")


def run(arguments: Sequence[str]) -> int:
    """The command's exit code; its errors are on stderr as a cause and, where there is one, a hint."""
    return run_command(box, arguments, name="bv3-box")


def main() -> NoReturn:
    """Runs the command and exits with its code."""
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
