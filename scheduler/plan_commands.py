"""A command for each plan, all of one make. Imports nothing heavy; `scheduler.plan` says what each plans."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from scheduler.options import BOXES, DETACH, ending_options

_FARM = """
With no farm configured, an embedded one is started with K boxes, the sweep is followed to its end,
and what was started is stopped. With BV3_BROKER_URL and BV3_DATABASE_URL it is planned on that farm.

A box gets its runs once the catalogue of markers was checked against the product that it runs, and no marker was
found dead; it makes that check right after booting. With --unverified any box does.

Ctrl-C: no new runs, running ones finish; Ctrl-C again: stop now. A hang-up of the terminal detaches.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """What the help of a plan's command says; `trials` is its default, which a test compares with the plan's."""

    name: str
    trials: int
    short: str
    text: str
    examples: str
    # a suite that is frozen is searched for in the product's source
    has_source: bool = False
    # several sweeps: no site is in all of their suites
    is_series: bool = False


_WORDS = (
    Words(
        name="c7",
        trials=12,
        short="Plan the known suite: the nine sites, dry, for criteria 1, 5 and 7.",
        text="Plan the known suite: its nine sites, N trials each, in dry mode (nothing is ever sent).",
        examples="""
  bv3-schedule c7 --n 12              108 site-runs
  bv3-schedule c7 --n 1 --site x      one run on one site""",
    ),
    Words(
        name="c8",
        trials=2,
        short="Plan the frozen holdout, dry, for criterion 8: its reach, and its gap to the last c7.",
        text="""Plan the frozen holdout: sites that the product was never built against, in dry mode alone.

Its scorecard sets reach against the last finished c7 of the same product revision. Retired sites are not planned, and
are named with their evidence. A holdout that is not frozen, or not as it was frozen, is refused.""",
        examples="""
  bv3-schedule c8 --n 2               30 site-runs
  bv3-schedule c8 --source ~/openswarm""",
        has_source=True,
    ),
    Words(
        name="anon",
        trials=3,
        short="Plan the anonymous suite: sites that need no account, dry.",
        text="Plan the anonymous suite: sites that take text without an account, in dry mode.",
        examples="""
  bv3-schedule anon --site deepl      three runs on one site""",
    ),
    Words(
        name="shapes",
        trials=3,
        short="Plan the shapes suite: one site for each editor library, dry.",
        text="""Plan the shapes suite: one site for each editor library, in dry mode.

Its scorecard's table by editor shape says which libraries are reached. They are sites of the reference stack.""",
        examples="""
  bv3-schedule shapes --n 1 --site shape-quill""",
    ),
    Words(
        name="known",
        trials=3,
        short="Plan a quick look at the known suite, dry: too few runs for a mark.",
        text="Plan a quick look at the known suite, in dry mode. What judges criterion 1 is c7, with more trials.",
        examples="""
  bv3-schedule known --boxes 3        27 site-runs""",
    ),
    Words(
        name="overnight",
        trials=70,
        short="Plan a night: c7 with 630 runs for the proof of criterion 7, then c8, anon and shapes.",
        text="""Plan a night: c7 with N trials, then c8, anon and shapes, all of them or none, in dry mode.

70 trials are 630 runs: two of them may be spoilt by the infrastructure, and flake of at most 1% is proven all the same.
Boxes take the runs of earlier sweeps first. Each sweep is followed in turn and has its scorecard at its end; the exit
code is the worst of theirs. Ctrl-C pauses all that are not over, and says how each is resumed.""",
        examples="""
  bv3-schedule overnight --source ~/openswarm --detach
  bv3-schedule overnight --n 34       306 runs of c7: none may be spoilt""",
        has_source=True,
        is_series=True,
    ),
)
PLAN_NAMES = tuple(words.name for words in _WORDS)
_SITE = click.option(
    "--site", "sites", multiple=True, metavar="SITE", help="Only this site; may be repeated.  [default: all]"
)
_SOURCE = click.option(
    "--source",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="CHECKOUT",
    help="A git checkout of the product, whose source must name none of the frozen suite's hosts.",
)


Start = Callable[..., int]


def add_plan_commands(group: click.Group, start: Start) -> None:
    """The group has a command for every plan; each calls `start` with the plan's name and what was asked."""
    for words in _WORDS:
        group.add_command(_make_command(words, start))


def _make_command(words: Words, start: Start) -> click.Command:
    def plan(**given: Any) -> int:
        return start(words.name, **given)

    whose = "Trials per site of c7" if words.is_series else "Trials per site"
    options = [
        click.option("--n", type=int, metavar="N", help=f"{whose}.  [default: {words.trials}]"),
        BOXES,
        *([] if words.is_series else [_SITE]),
        *([_SOURCE] if words.has_source else []),
        DETACH,
        click.option("--dry-run", is_flag=True, help="Print what would be planned; write nothing, start no box."),
        click.option(
            "--unverified",
            is_flag=True,
            help="Also on boxes whose product's lines were not found to be what is looked for.",
        ),
        ending_options,
    ]
    for option in reversed(options):
        plan = option(plan)
    text, examples = f"{words.text}\n{_FARM}", f"\b\nexamples:{words.examples}"
    return click.command(words.name, short_help=words.short, help=text, epilog=examples)(plan)
