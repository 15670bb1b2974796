"""How every bv3 command ends: an exit code, and for a person a cause and a hint instead of a traceback."""

from __future__ import annotations

import os
import re
import sys
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

import click

from broker.errors import EXIT_INTERRUPTED, EXIT_OK, EXIT_USAGE, Bv3Error

# Set by `./bv3`, as it was typed, for the command that it becomes and for all that this one starts.
LAUNCHED_AS = "BV3_LAUNCHED_AS"
# What a terminal acts on (an escape sequence needs a C0 or C1 control) and what turns text around.
# Line feed and tab are neither.
_ACTED_ON = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_OWN_COMMAND = re.compile(r"(?<![\w/.-])bv3-(schedule|box|grade|farm)(?![\w-])")


def as_typed(text: str) -> str:
    """`text` with bv3's own commands as this user can type them: `./bv3 farm` for `bv3-farm`, say."""
    launcher = os.environ.get(LAUNCHED_AS)
    return _OWN_COMMAND.sub(lambda found: f"{launcher} {found[1]}", text) if launcher else text


class _HelpFormatter(click.HelpFormatter):
    """Help names commands as this user can type them; replaced before lines are broken at hyphens."""

    def write_text(self, text: str) -> None:
        """A paragraph."""
        super().write_text(as_typed(text))

    def write_dl(self, rows: Iterable[tuple[str, str | None]], col_max: int = 30, col_spacing: int = 2) -> None:
        """A table of options or commands."""
        super().write_dl([(term, as_typed(text or "")) for term, text in rows], col_max, col_spacing)


click.Context.formatter_class = _HelpFormatter


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
        code = group.main(list(arguments), prog_name=as_typed(name), standalone_mode=False, obj=wanted)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return EXIT_USAGE
    except click.exceptions.NoSuchCommand as error:
        print_error(f"there is no command {error.command_name!r}", hint=_name_commands(error))
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


def _name_commands(error: click.exceptions.NoSuchCommand) -> str:
    group = error.ctx.command if error.ctx else None
    known = [name for name, each in group.commands.items() if not each.hidden] if isinstance(group, click.Group) else []
    close = get_close_matches(error.command_name, known, n=1)
    guess = f"did you mean {close[0]!r}? " if close else ""
    return f"{guess}commands: {', '.join(sorted(known))}"


def inert(text: str, *, encoding: str | None = None) -> str:
    """The text with everything that a terminal would act on, or could not show, written as its escape.

    For whatever a page may have written: also where the output goes to a file, which ends at a terminal some day.
    """
    plain = _ACTED_ON.sub(lambda found: ascii(found[0])[1:-1], text.replace("\r\n", "\n"))
    wanted = encoding or "utf-8"
    return plain.encode(wanted, "backslashreplace").decode(wanted)


def print_inert(text: str, *, err: bool = False) -> None:
    """The text is on stdout, or on stderr, as `inert` makes it."""
    stream = sys.stderr if err else sys.stdout
    click.echo(inert(text, encoding=stream.encoding), err=err)


def print_error(message: str, *, hint: str | None = None) -> None:
    """Cause and hint are on stderr, the commands in the hint as this user can type them.

    A cause may quote a page or the product.
    """
    print_inert(f"error: {message}", err=True)
    if hint:
        click.echo(f"hint: {as_typed(hint)}", err=True)
