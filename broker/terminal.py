"""How every bv3 command ends: an exit code, and for a person a cause and a hint instead of a traceback."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from dataclasses import dataclass

import click

from broker.errors import EXIT_INTERRUPTED, EXIT_OK, EXIT_USAGE, Bv3Error


@dataclass(slots=True)
class Wanted:
    """What an error's printer must know of the command line; a group finds it as click's `obj`."""

    traceback: bool = False


def _note(context: click.Context, _option: click.Parameter, value: bool) -> None:  # noqa: FBT001 - click's order
    if value and isinstance(context.obj, Wanted):
        context.obj.traceback = True


verbose_option = click.option(
    "-v",
    "--verbose",
    is_flag=True,
    expose_value=False,
    callback=_note,
    help="On an error, print where in bv3 it came up.",
)


def run_command(group: click.Group, arguments: Sequence[str], *, name: str) -> int:
    """The command's exit code; its errors are on stderr, said once, by whoever knew first."""
    wanted = Wanted()
    try:
        code = group.main(list(arguments), prog_name=name, standalone_mode=False, obj=wanted)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return EXIT_USAGE
    except click.ClickException as error:
        print_error(error.format_message())
        return EXIT_USAGE
    except Bv3Error as error:
        if wanted.traceback:
            traceback.print_exception(error)
        if not error.is_told:
            print_error(error.message, hint=error.hint)
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        print_error("interrupted")
        return EXIT_INTERRUPTED
    return int(code or EXIT_OK)


def print_error(message: str, *, hint: str | None = None) -> None:
    """Cause and hint are on stderr."""
    click.echo(f"error: {message}", err=True)
    if hint:
        click.echo(f"hint: {hint}", err=True)
