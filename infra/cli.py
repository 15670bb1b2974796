"""bv3-farm: the embedded farm of this user, by hand."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from broker.errors import EXIT_SERVICE, UsageError
from broker.terminal import run_command, verbose_option

if TYPE_CHECKING:
    from broker.home import FarmHome

_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON on standard output")


def _home() -> FarmHome:
    from broker.settings import load_settings

    return load_settings().farm_home


def _say(step: str) -> None:
    click.echo(step, err=True)


_EXAMPLES = """\b
examples:
  bv3-farm up --boxes 3      a farm that stays, with three boxes
  bv3-farm status            its parts, its boxes, who uses it, where Flower is
  bv3-farm logs postgres -f  what PostgreSQL writes, as it writes it
  bv3-farm down              stop it in order

\b
exit codes:
  0 done   2 wrong request   3 the farm does not run or can't   130 interrupted
"""


@click.group(
    epilog=_EXAMPLES,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@verbose_option
def main_group() -> None:
    """Start, stop and look at the embedded farm: Valkey, PostgreSQL, dispatcher, grader, Flower, boxes.

    `bv3-schedule` starts a farm by itself and stops it when nobody needs it any more. Use `up` for
    one that stays.
    """


@main_group.command()
@click.option(
    "--boxes",
    type=click.IntRange(0),
    default=1,
    show_default=True,
    help="Boxes to have at least; 0: those that are admitted alone",
)
@_json_option
def up(boxes: int, *, as_json: bool) -> None:
    """Start the farm, or grow the one that runs; it stays until `bv3-farm down`."""
    from infra.embedded.commands import bring_up, read_conditions, refuse_foreign_farm
    from infra.embedded.orders import Orders

    refuse_foreign_farm()
    home = _home()
    conditions = read_conditions() if boxes else None
    address = bring_up(home, Orders(boxes=boxes, full=True, stays=True, conditions=conditions), _say)
    _print_address(address, as_json=as_json)


@main_group.command()
@click.option("--force", is_flag=True, help="Even while a sweep is active or a command uses it")
@_json_option
def down(*, force: bool, as_json: bool) -> None:
    """Stop the farm in order: runs under way are finished, records stored, servers ended last."""
    from infra.embedded.commands import bring_down, refuse_foreign_farm

    refuse_foreign_farm()
    stopped = bring_down(_home(), _say, force=force)
    if as_json:
        click.echo(json.dumps({"stopped": stopped}))
    else:
        click.echo("the farm is stopped" if stopped else "no farm was running")


@main_group.command()
@click.option("--boxes", type=click.IntRange(0), default=0, show_default=True, help="Boxes to have at least")
@click.option("--store-only", is_flag=True, help="PostgreSQL alone, for commands that only read")
@_json_option
def ensure(boxes: int, *, store_only: bool, as_json: bool) -> None:
    """Make the farm serve the command that calls this; it stops when no command uses it any more.

    The caller holds the user lock of the farm's home. Steps go to standard error.
    """
    from broker.home import hold_user_lock
    from infra.embedded.commands import bring_up, read_conditions, refuse_foreign_farm
    from infra.embedded.orders import Orders

    refuse_foreign_farm()
    if store_only and boxes:
        raise UsageError("--store-only has no boxes", hint="leave out --boxes")
    home = _home()
    conditions = read_conditions() if boxes else None
    with hold_user_lock(home):
        address = bring_up(home, Orders(boxes=boxes, full=not store_only, conditions=conditions), _say)
    _print_address(address, as_json=as_json)


@main_group.command()
@_json_option
def status(*, as_json: bool) -> None:
    """Show each part of the farm, its boxes and users, and where Flower is; exit 3 when none runs."""
    from infra.embedded.commands import refuse_foreign_farm
    from infra.embedded.status import as_text, look

    refuse_foreign_farm()
    seen = look(_home())
    click.echo(json.dumps(seen, indent=2) if as_json else as_text(seen))
    if not seen["running"]:
        sys.exit(EXIT_SERVICE)


@main_group.command()
@click.argument("part", required=False)
@click.option("-f", "--follow", is_flag=True, help="Go on as lines are written")
@click.option("-n", "--lines", type=click.IntRange(0), default=50, show_default=True, help="Lines from the end")
def logs(part: str | None, lines: int, *, follow: bool) -> None:
    """Print the log of one PART (postgres, valkey, dispatcher, grader, flower, box-a, keeper) or of all."""
    from infra.embedded.logs import choose_logs, print_logs

    chosen = choose_logs(_home().logs, part)
    print_logs(chosen, lines=lines, follow=follow, write=click.echo)


@main_group.command()
@click.argument("name")
@click.option("--folder", type=click.Path(path_type=Path), help="The box's own folder.  [default: as bv3-box init]")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), default="box.toml", show_default=True)
@click.option("--stack", help="openswarm or reference.  [default: openswarm with --checkout, else reference]")
@click.option("--isolation", help="host, container, netns or ports.  [default: as bv3-box init]")
@click.option("--netns", help="The network namespace that the box lives in; it reaches this farm by Unix sockets")
@click.option("--checkout", type=click.Path(path_type=Path, file_okay=False), help="The product's checkout")
@click.option("--renderer", help="electron or playwright.  [default: playwright]")
@click.option("--pages", help="web or loopback.  [default: loopback]")
@click.option("--lane", help="The model route.  [default: as bv3-box init]")
def admit(name: str, out: Path, **words: Any) -> None:
    """Admit the box NAME to the farm: make its login and write its box file.

    The farm is the one at BV3_DATABASE_URL and BV3_BROKER_URL, else the embedded one that runs. The login's password
    is new each time. On the box: bv3-box check --box box.toml, then bv3-box work --box box.toml
    """
    from broker.settings import load_settings
    from infra.admission import admit_box

    if words["stack"] is None and words["checkout"] is None:
        words["stack"] = "reference"
    admit_box(load_settings(), name, out=out, words=words)
    click.echo(f"{out}: all that the box is told; keep it private")


@main_group.command()
def migrate() -> None:
    """Bring the tables of the farm at BV3_DATABASE_URL to the newest schema.

    Safe for many at once; a second time changes nothing. The embedded farm does it by itself.
    """
    from broker.settings import load_settings
    from broker.store.migrate import migrate as upgrade

    url = load_settings().database_url
    if url is None:
        raise UsageError("BV3_DATABASE_URL is not set", hint="the embedded farm migrates by itself, at its start")
    click.echo(f"schema {upgrade(url.get_secret_value())}")


def _print_address(address: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(address, indent=2))
        return
    click.echo(f"boxes   {', '.join(address['boxes']) or 'none'}")
    if "flower_url" in address:
        click.echo(f"flower  {address['flower_url']}  login {address['flower_user']} {address['flower_password']}")


def run(arguments: Sequence[str]) -> int:
    """The command's exit code; its errors are on stderr as a cause and, where there is one, a hint."""
    return run_command(main_group, arguments, name="bv3-farm")


def main() -> NoReturn:
    """Runs the command and exits with its code."""
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
