"""`bv3-schedule`: plan sweeps, follow them, order them about.

Commands import what they need when they run, so that `--help` stays quick.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from broker.errors import UsageError
from broker.terminal import run_command, verbose_option
from scheduler.options import BOXES, DETACH, SWEEP, ending_options
from scheduler.plan_commands import PLAN_NAMES, add_plan_commands

if TYPE_CHECKING:
    from scheduler.course import Wishes

_EXAMPLES = """\b
examples:
  bv3-schedule c7 --n 12              the known suite, twelve times each site
  bv3-schedule c7 --n 1 --site x      one run on one site
  bv3-schedule c8 --n 2               the frozen holdout
  bv3-schedule c7 --boxes 3 --detach  three boxes; don't wait for the end
  bv3-schedule overnight --boxes 3    c7 with 630 runs, then c8, anon, shapes
  bv3-schedule follow last            look at it again
  bv3-schedule resume c7-2026         any unique beginning of an id will do

\b
exit codes:
  0 complete   1 a criterion failed (--gate)   2 wrong request
  3 a service is away   130 interrupted, paused or cancelled
"""


_PLAN_EXAMPLES = """\b
examples:
  bv3-schedule plan c7 --prove flake=1% --power 0.8
  bv3-schedule plan c8 --prove reach=80% --boxes 3
  bv3-schedule plan overnight --n 34
"""


class _Commands(click.Group):
    """A group that answers an unknown name with the close match and all that exist."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command; raises UsageError when there is none of that name."""
        if self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            from scheduler.plan import name_choices

            commands = [name for name in self.list_commands(ctx) if name not in PLAN_NAMES]
            visible = [name for name in commands if not self.commands[name].hidden]
            hint = name_choices(args[0], [*PLAN_NAMES, *visible], kind="plans and commands")
            raise UsageError(f"there is no plan or command {args[0]!r}", hint=hint)
        return super().resolve_command(ctx, args)


@click.group(cls=_Commands, epilog=_EXAMPLES, context_settings={"help_option_names": ["-h", "--help"]})
@verbose_option
def main_group() -> None:
    """Plan sweeps, follow them, order them about."""


def _start_plan(
    plan: str,
    *,
    n: int | None,
    boxes: int | None,
    detach: bool,
    dry_run: bool,
    unverified: bool,
    as_json: bool,
    gate: bool,
    out: Path,
    sites: tuple[str, ...] = (),
    source: Path | None = None,
) -> int:
    from scheduler import commands
    from scheduler.request import Request

    request = Request(plan=plan, n=n, sites=sites, boxes=boxes, unverified=unverified, source=source)
    return commands.start_plan(request, _wishes(as_json, gate, out), detach=detach, dry_run=dry_run)


add_plan_commands(main_group, _start_plan)


@main_group.command(epilog=_PLAN_EXAMPLES)
@click.argument("name")
@click.option("--n", type=int, metavar="N", help="Trials per site, to be weighed.  [default: the plan's own]")
@click.option(
    "--prove",
    multiple=True,
    metavar="WHAT",
    help="flake=1% or reach=90%: how many runs show it at 95%; may be repeated.",
)
@click.option("--power", default="80%", show_default=True, metavar="SHARE", help="The chance that they do.")
@click.option(
    "--assume",
    metavar="SHARE",
    help="What is true of the farm or the product.  [default: a fifth of the flake; for reach, half way to 100%]",
)
@click.option("--boxes", type=int, metavar="K", help="Reckon with so many boxes.  [default: those that are here]")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def plan(  # noqa: PLR0917 - click passes all by name
    name: str,
    n: int | None,
    prove: tuple[str, ...],
    power: str,
    assume: str | None,
    boxes: int | None,
    as_json: bool,  # noqa: FBT001 - click
) -> int:
    """Say how many runs the plan NAME and its proofs need.

    And what they cost in hours on the boxes there are. Nothing is written.

    Proven is what the scorecard calls so: the bound of the interval at 95%, not the rate alone. Hours are reckoned
    from what runs of the same suite took on this farm, from start to start.
    """
    from scheduler import inquiries

    question = inquiries.Question(plan=name, n=n, prove=prove, power=power, assume=assume, boxes=boxes)
    return inquiries.show_plan(question, as_json=as_json)


@main_group.command()
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def suites(name: str | None, as_json: bool) -> int:  # noqa: FBT001 - click
    """List the suites, or the tasks of the suite NAME.

    And which editor shapes they cover.

    Of each shape: its sites, and how many runs on them could be measured on this farm. Shapes without are named.
    """
    from scheduler import inquiries

    return inquiries.show_suites(name, as_json=as_json)


@main_group.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
@click.option("--limit", type=click.IntRange(min=1), default=100, show_default=True, help="At most so many.")
def list_sweeps(as_json: bool, limit: int) -> int:  # noqa: FBT001 - click
    """List the sweeps, newest first."""
    from scheduler import commands

    return commands.show_list(limit, as_json=as_json)


@main_group.command()
@SWEEP
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def status(sweep: str, as_json: bool) -> int:  # noqa: FBT001 - click
    """Show how far SWEEP is.

    SWEEP is an id, a unique beginning of one, or `last`.
    """
    from scheduler import commands

    return commands.show_status(sweep, as_json=as_json)


@main_group.command()
@SWEEP
@ending_options
def follow(sweep: str, as_json: bool, gate: bool, out: Path) -> int:  # noqa: FBT001 - click
    """Look at SWEEP until it is over, then print its scorecard. Ctrl-C stops the looking, not the sweep."""
    from scheduler import commands

    return commands.follow_sweep(sweep, _wishes(as_json, gate, out))


@main_group.command()
@SWEEP
@BOXES
@DETACH
@click.option(
    "--after-breach", is_flag=True, help="Lift what false successes of this sweep hold: you have looked at each."
)
@ending_options
def resume(  # noqa: PLR0917 - click passes all by name
    sweep: str,
    boxes: int | None,
    detach: bool,  # noqa: FBT001 - click
    after_breach: bool,  # noqa: FBT001 - click
    as_json: bool,  # noqa: FBT001 - click
    gate: bool,  # noqa: FBT001 - click
    out: Path,
) -> int:
    """Go on with SWEEP where it was interrupted.

    Nothing that was done is done again.

    A farm on this machine that has fewer boxes than the sweep was planned with is grown to as many,
    or to K. Boxes that are there already stay.

    A false success halts its sweep and holds its box. Both stay so, and each false success is named, until
    --after-breach says that you have looked. It goes for a sweep that is over, too.
    """
    from scheduler import commands

    return commands.resume_sweep(sweep, boxes, _wishes(as_json, gate, out), detach=detach, after_breach=after_breach)


@main_group.command()
@SWEEP
@click.option("--detach", is_flag=True, help="Don't wait for the runs that boxes are at.")
@ending_options
def cancel(sweep: str, detach: bool, as_json: bool, gate: bool, out: Path) -> int:  # noqa: FBT001 - click
    """Cancel SWEEP for good.

    No further run starts, those that boxes are at finish. It can't be resumed.
    """
    from scheduler import commands

    return commands.cancel_sweep(sweep, _wishes(as_json, gate, out), detach=detach)


@main_group.command()
@click.argument("suite")
@click.option("--reason", metavar="TEXT", help="Why a group that changed is frozen anew, as a new group.")
@click.option("--product-revision", "revision", metavar="REV", help="The product revision that it is frozen at.")
@click.option(
    "--source",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="CHECKOUT",
    help="A git checkout of the product: its revision is taken, and its source must name none of the suite's hosts.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def freeze(suite: str, reason: str | None, revision: str | None, source: Path | None, as_json: bool) -> int:  # noqa: FBT001 - click
    """Freeze each group of SUITE that is not frozen yet.

    On record are its tasks, the date, the product's revision, and by whom.

    A group that is frozen as it stands is left so. One that changed is refused, unless a --reason is given: then a new
    group is begun in its place, `first-2` for `first`, whose uses are counted from 1. Nothing frozen is forgotten.

    Prints what to commit in broker/freezes.toml, so that every other farm knows of it.
    """
    from scheduler import freeze_commands

    return freeze_commands.freeze_suite(suite, reason=reason, revision=revision, source=source, as_json=as_json)


@main_group.command()
@click.argument("suite", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def freezes(suite: str | None, as_json: bool) -> int:  # noqa: FBT001 - click
    """List what was frozen, and every sweep that has used it.

    Of SUITE, or of all.
    """
    from scheduler import freeze_commands

    return freeze_commands.show_freezes(suite, as_json=as_json)


@main_group.command(hidden=True)
def dispatcher() -> int:
    """Hand runs to boxes until told to stop; started by the farm."""
    from broker.log import configure_log
    from broker.settings import load_settings
    from scheduler.dispatcher import run as run_dispatcher

    configure_log(service="dispatcher")
    return run_dispatcher(load_settings())


def _wishes(as_json: bool, gate: bool, out: Path) -> Wishes:  # noqa: FBT001 - straight from click
    from scheduler.course import Wishes

    return Wishes(as_json=as_json, gate=gate, out=out)


def run(arguments: Sequence[str]) -> int:
    """The command's exit code; its errors are on stderr as a cause and, where there is one, a hint."""
    return run_command(main_group, arguments, name="bv3-schedule")


def main() -> NoReturn:
    """Runs the command and exits with its code."""
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
