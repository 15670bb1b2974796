"""`bv3-grade`: verdicts, scorecards, exports.

Commands import what they need when they run, so that `--help` stays quick.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import click

from broker.terminal import run_command, verbose_option

_EXAMPLES = """\b
examples:
  bv3-grade scorecard last            the nine criteria of the newest sweep
  bv3-grade scorecard last --baseline c7-20261101   other_ms against that sweep
  bv3-grade show last instagram#4     why that run has its verdict
  bv3-grade slice be.log --site x     what one run's log says on its own
  bv3-grade calibrate last            verdicts against the truth of a reference stack
  bv3-grade regrade c7-2026           what today's rules say of that sweep's evidence
  bv3-grade import rows.jsonl --suite known     rows of the harness before bv3, as a sweep
  bv3-grade export c7-2026            rows and log slices as files; any unique beginning of an id will do

\b
exit codes:
  0 done   1 a criterion failed (--gate), a record could not be graded, or a verdict is not the truth
  2 wrong request   3 a service is away   130 interrupted
"""

_VERIFY_EXAMPLES = """\b
examples:
  bv3-grade verify --source ~/openswarm
  bv3-grade verify --source ~/openswarm --log c7_be.log --no-store
  bv3-grade verify --reference
"""


@click.group(epilog=_EXAMPLES, context_settings={"help_option_names": ["-h", "--help"]})
@verbose_option
def main_group() -> None:
    """Verdicts, scorecards and exports of sweeps."""


@main_group.command()
def work() -> int:
    """Store and grade what boxes send, until told to stop; started by the farm."""
    from grader import commands

    commands.work()


@main_group.command()
@click.argument("sweep")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document (docs/reference/scorecard-json.md).")
@click.option("--gate", is_flag=True, help="Exit 1 when a criterion fails.")
@click.option(
    "--rows",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write the rows that it counts too, as export does.",
)
@click.option("--baseline", metavar="SWEEP", help="Set criterion 6 (other_ms) against this sweep of the same suite.")
@click.option(
    "--known",
    metavar="SWEEP",
    help="Take criterion 8's gap from this sweep of the known suite.  [default: the last finished c7 like it]",
)
def scorecard(  # noqa: PLR0917 - click
    sweep: str,
    as_json: bool,  # noqa: FBT001
    gate: bool,  # noqa: FBT001
    rows: Path | None,
    baseline: str | None,
    known: str | None,
) -> int:
    """Print the nine criteria of SWEEP: an id, a unique beginning of one, or `last`.

    What PASS, proven and OPEN mean: docs/explanation/what-a-number-means.md.
    """
    from grader import commands

    return commands.show_scorecard(sweep, as_json=as_json, gate=gate, rows_file=rows, baseline=baseline, known=known)


@main_group.command()
@click.argument("sweep")
@click.option(
    "--out", type=click.Path(path_type=Path, dir_okay=False), help="File to write.  [default: results/<sweep>.jsonl]"
)
def export(sweep: str, out: Path | None) -> int:
    """Write SWEEP as JSON lines, one per attempt, each with its log slice as a file in `<sweep>/` beside it."""
    from grader import commands

    return commands.export(sweep, out)


@main_group.command()
@click.argument("sweep")
@click.argument("run", metavar="SITE#TRIAL")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array of the run's attempts.")
def show(sweep: str, run: str, as_json: bool) -> int:  # noqa: FBT001 - click
    """Show why a run has its verdict: the rule, the product's lines that decided, and what bv3 read."""
    from grader import commands

    return commands.show_run(sweep, run, as_json=as_json)


@main_group.command()
@click.argument("sweeps", metavar="SWEEP...", nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document (docs/reference/calibration.md).")
@click.option(
    "--markdown",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write the tables as a page, too.",
)
def calibrate(sweeps: tuple[str, ...], as_json: bool, markdown: Path | None) -> int:  # noqa: FBT001 - click
    """Set the verdicts of reference SWEEPs against the truth that the stack recorded; 1 when any is misgraded.

    Several sweeps are summed when all ran on one revision and were graded by one version.
    """
    from grader import commands

    return commands.calibrate_sweeps(sweeps, as_json=as_json, markdown=markdown)


@main_group.command("slice")
@click.argument("file", metavar="FILE")
@click.option("--site", metavar="SITE", help="Judge the surface too, by this site's task: x, reddit, ...")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object (docs/reference/slice-json.md).")
def explain(file: str, site: str | None, as_json: bool) -> int:  # noqa: FBT001 - click
    """Explain the log slice in FILE (- for standard input) on its own, without a farm.

    It shows the product's side: bucket, rule, the lines that decided, the claim. Without bv3's page read a
    claimed fill is product_unconfirmed at best.
    """
    from grader import slice_report

    return slice_report.show_slice(file, site=site, as_json=as_json)


@main_group.command(epilog=_VERIFY_EXAMPLES)
@click.option("--source", type=click.Path(path_type=Path), metavar="CHECKOUT", help="The product's source to look in.")
@click.option("--reference", is_flag=True, help="Look in the reference stack's source instead.")
@click.option(
    "--log",
    "logs",
    type=click.Path(path_type=Path),
    multiple=True,
    metavar="FILE",
    help="Count how often each pattern matches in this log too; may be given again.",
)
@click.option("--revision", metavar="NAME", help="The product's revision.  [default: what git says of CHECKOUT]")
@click.option("--no-store", is_flag=True, help="Only print the result; scorecards will not know of it.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document (docs/reference/verify.md).")
def verify(  # noqa: PLR0917
    source: Path | None,
    reference: bool,  # noqa: FBT001 - click
    logs: tuple[Path, ...],
    revision: str | None,
    no_store: bool,  # noqa: FBT001 - click
    as_json: bool,  # noqa: FBT001 - click
) -> int:
    """Check that the product still prints what the grader looks for; 1 when a marker is dead.

    Each literal must stand in the file that prints it, its case kept, in a string that is printed; each pattern
    must match its example. The result is stored, and a sweep of that revision says so on its scorecard.
    """
    from broker.errors import UsageError
    from grader import verifying

    if (source is None) == (not reference):
        raise UsageError("either --source CHECKOUT or --reference", hint="bv3-grade verify --help")
    request = verifying.Request(source=source, logs=logs, revision=revision, is_stored=not no_store)
    return verifying.verify_source(request, as_json=as_json)


@main_group.command()
def grade() -> int:
    """Grade every stored record that has no verdict, those on which grading failed before included."""
    from grader import commands

    return commands.grade_now()


@main_group.command()
@click.argument("sweep")
@click.option("--adopt", is_flag=True, help="Let the scorecard quote today's version from now on.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document (docs/reference/regrade-json.md).")
def regrade(sweep: str, adopt: bool, as_json: bool) -> int:  # noqa: FBT001 - click
    """Judge SWEEP's stored evidence by today's rules: new verdicts beside the old, and what flipped.

    Which version the scorecard quotes is changed by --adopt alone. Exit 1: a record could not be graded, a false
    success was found, or rules have changed under the same version (then nothing is written).
    """
    from grader import commands

    return commands.regrade(sweep, adopt=adopt, as_json=as_json)


@main_group.command("import")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False), metavar="FILE")
@click.option(
    "--suite", required=True, type=click.Choice(("known", "anon", "holdout", "shapes")), help="What it is of."
)
@click.option("--name", metavar="TEXT", help="End of the sweep's id, in place of four random characters.")
@click.option("--again", is_flag=True, help="Import the very same file a second time.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document (docs/reference/import-json.md).")
def import_(file: Path, suite: str, name: str | None, again: bool, as_json: bool) -> int:  # noqa: FBT001 - click
    """Take rows of the harness before bv3 from FILE as a finished sweep, and say what is wrong with them.

    One bad line, and nothing is taken: exit 2, with each bad line's number.
    """
    from grader import commands

    return commands.import_file(file, suite, name=name, again=again, as_json=as_json)


def run(arguments: Sequence[str]) -> int:
    """The command's exit code; its errors are on stderr as a cause and, where there is one, a hint."""
    return run_command(main_group, arguments, name="bv3-grade")


def main() -> NoReturn:
    """Runs the command and exits with its code."""
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
