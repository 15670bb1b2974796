"""Options that several commands of `bv3-schedule` have in common. Imports nothing heavy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

_Command = TypeVar("_Command", bound=Callable[..., Any])

JSON_ENDING = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document on stdout, in place of the scorecard."
)
GATE = click.option("--gate", is_flag=True, help="Exit 1 when a criterion fails.")
OUT = click.option(
    "--out",
    type=click.Path(path_type=Path),
    default="results",
    show_default=True,
    help="Folder for <sweep>.jsonl, written at the end.",
)
BOXES = click.option(
    "--boxes",
    type=int,
    metavar="K",
    help="Boxes of the embedded farm, at least; 0: those that were admitted alone.  [default: 1, or as many as run]",
)
DETACH = click.option("--detach", is_flag=True, help="Print the sweep's id and leave; the sweep goes on.")
SWEEP = click.argument("sweep")


def ending_options(command: _Command) -> _Command:
    """The command says how a followed sweep ends: `--out`, `--gate`, `--json`."""
    for option in (JSON_ENDING, GATE, OUT):
        command = option(command)
    return command
