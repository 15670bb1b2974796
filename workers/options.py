"""Options that the commands of `bv3-box` share."""

from __future__ import annotations

from pathlib import Path

import click

box_option = click.option(
    "--box",
    "box_file",
    default=Path("box.toml"),
    show_default=True,
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The box file.",
)
