"""What the commands of `bv3-grade` do, once the command line is read."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from random import SystemRandom
from typing import NoReturn

import click
import sqlalchemy as sa

from broker.errors import EXIT_GATE, EXIT_OK, EXIT_USAGE, ServiceError, UsageError
from broker.queues import RESULTS
from broker.requester import name_requester
from broker.settings import load_settings, read_address
from broker.store import grading, quoting
from broker.store.engine import begin
from broker.store.sweeps import SweepRow, find_sweep
from broker.terminal import print_error
from grader import calibration, import_report
from grader.calibration import TRUTH, Witnessed, calibrate
from grader.calibration_tables import render_calibration, write_markdown
from grader.counterpart import find_known
from grader.criteria import Mark, Sample
from grader.export import Located, artifact_path, export_row, write_export, write_page
from grader.facts import AttemptRow
from grader.farm import join_store
from grader.import_findings import find_faults, summarise
from grader.importing import OldFile, name_import, read_old_file, save_old_file
from grader.markers import load_catalogue
from grader.reading import read_attempts, read_ledger, read_sample
from grader.regrade import regrade_sweep
from grader.regrade_report import quoting_line, regrade_json, regrade_lines, verdict_line
from grader.render import Line, render_attempt, render_scorecard, write_lines
from grader.scorecard import Scorecard, build_scorecard, to_json
from grader.storing import grade_pending
from grader.ticker import Ticker
from grader.verifying import read_marker_check

_RUN = re.compile(r"(?P<site>[^#]+)#(?P<trial>\d{1,9})")
_END_OF_ID = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")
_PLAIN_WIDTH = 120
_RESULTS = Path("results")


def work() -> NoReturn:
    """This process is the grader's Celery worker from here on."""
    address = read_address(load_settings())
    if address is None or address.broker_url is None:
        raise ServiceError("there is no farm to grade for", hint="set BV3_BROKER_URL and BV3_DATABASE_URL")
    environment = os.environ | {"BV3_BROKER_URL": address.broker_url, "BV3_DATABASE_URL": address.database_url}
    options = ["--queues", RESULTS, "--pool", "prefork", "--concurrency", "1", "--hostname", "grader@%h"]
    command = [sys.executable, "-P", "-m", "celery", "--app", "grader.tasks", "worker", *options]
    # heartbeats of other workers tell it nothing
    command += ["--without-gossip", "--without-mingle", "--loglevel", "INFO"]
    sys.stdout.flush()
    os.execve(command[0], command, environment)  # noqa: S606 - arguments are a list; no shell is wanted


def show_scorecard(
    reference: str,
    *,
    as_json: bool,
    gate: bool,
    rows_file: Path | None,
    baseline: str | None = None,
    known: str | None = None,
) -> int:
    """Prints the sweep's scorecard; with `gate` 1 when a criterion failed.

    `baseline` and `known` name the sweeps that criteria 6 and 8 are set against; without `known` a holdout is set
    against the last finished c7 that ran under the same conditions.

    `rows_file` then holds the very rows that it counts. Raises UsageError when that can't be written, after
    the scorecard was printed.
    """
    failure: UsageError | None = None
    with join_store() as engine:
        with begin(engine) as connection:
            sweep = find_sweep(connection, reference)
            sample = read_sample(connection, sweep)
            card = build_scorecard(
                sample.sweep,
                sample.rows,
                baseline=_read_other(connection, baseline, sweep, "--baseline"),
                known=_read_other(connection, known, sweep, "--known") or find_known(connection, sample),
                markers=read_marker_check(connection, sample.rows),
                freezes=read_ledger(connection, sweep),
            )
        if rows_file is not None:
            try:
                write_export(rows_file, sweep.id, sample.rows, lambda row: _read_log(engine, row))
            except UsageError as error:
                failure = error
    _print_scorecard(card, as_json=as_json)
    if failure is not None:
        sys.stdout.flush()
        raise failure
    return EXIT_GATE if gate and any(cell.mark is Mark.FAIL for cell in card.criteria) else EXIT_OK


def _read_other(connection: sa.Connection, reference: str | None, sweep: SweepRow, option: str) -> Sample | None:
    if reference is None:
        return None
    other = find_sweep(connection, reference)
    if other.id == sweep.id:
        raise UsageError(f"{option} names the sweep itself, {sweep.id}", hint=f"name another one: {option} SWEEP")
    return read_sample(connection, other)


def _print_scorecard(card: Scorecard, *, as_json: bool) -> None:
    if as_json:
        _print_json(to_json(card))
    else:
        width = _width()
        write_lines(render_scorecard(card, width=width, markers=len(load_catalogue().markers)), sys.stdout, width=width)


def export(reference: str, out: Path | None) -> int:
    """Writes the sweep's rows and slices; prints where."""
    with join_store() as engine:
        with begin(engine) as connection:
            sweep = find_sweep(connection, reference)
            rows, ungraded = read_attempts(connection, sweep)
        path = out or _RESULTS / f"{sweep.id}.jsonl"
        count = write_export(path, sweep.id, rows, lambda row: _read_log(engine, row))
    click.echo(f"{path}: {count} rows" + (f", {ungraded} attempts not graded yet" if ungraded else ""))
    return EXIT_OK


def show_run(reference: str, run: str, *, as_json: bool) -> int:
    """Prints the attempts of one run with what decided each. Raises UsageError for a run that is not there."""
    named = _RUN.fullmatch(run)
    if named is None:
        raise UsageError(f"{run!r} names no run", hint="SITE#TRIAL, as in youtube#7")
    with join_store() as engine, begin(engine) as connection:
        sweep = find_sweep(connection, reference)
        rows, _ = read_attempts(connection, sweep)
        found = [row for row in rows if row.site == named["site"] and row.trial == int(named["trial"])]
        given = quoting.read_given(connection, [row.attempt_id for row in found])
        adoption = quoting.read_adoption(connection, sweep.id)
    if not found:
        sites = ", ".join(sorted({row.site for row in rows})) or "none yet"
        raise UsageError(f"{sweep.id} has no graded attempt of {run}", hint=f"sites with one: {sites}")
    if as_json:
        _print_json(
            [
                export_row(sweep.id, row, artifact=_exported(sweep.id, row))
                | _details(row)
                | {"verdicts": [asdict(verdict) for verdict in given if verdict.attempt_id == row.attempt_id]}
                for row in found
            ]
        )
    else:
        width = _width()
        lines = [
            line
            for row in found
            for line in (*render_attempt(sweep.id, row, width=width), *_other_verdicts(row, given, adoption))
        ]
        write_lines(lines, sys.stdout, width=width)
    return EXIT_OK


def calibrate_sweeps(references: Sequence[str], *, as_json: bool, markdown: Path | None) -> int:
    """Prints the sweeps' verdicts against the truth; 1 when one is misgraded.

    `markdown` then holds the tables. Raises UsageError for sweeps that can't be summed, and when that can't be written.
    """
    with join_store() as engine, begin(engine) as connection:
        sweeps = [find_sweep(connection, reference) for reference in references]
        witnessed: list[Witnessed] = []
        ungraded = 0
        for sweep in sweeps:
            rows, missing = read_attempts(connection, sweep)
            ungraded += missing
            witnessed += [Witnessed(sweep=sweep.id, row=row, truth=_read_truth(connection, row)) for row in rows]
    done = calibrate([sweep.id for sweep in sweeps], witnessed, ungraded=ungraded)
    if as_json:
        _print_json(calibration.to_json(done))
    else:
        write_lines(render_calibration(done), sys.stdout, width=_width())
    if markdown is not None:
        write_page(markdown, write_markdown(done))
    return EXIT_GATE if done.misgraded else EXIT_OK


def _read_truth(connection: sa.Connection, row: AttemptRow) -> bytes | None:
    if row.record_id is None:
        return None
    try:
        return grading.read_evidence(connection, row.record_id, TRUTH)
    except ValueError:
        # what can't be unpacked is no truth either; it is counted as such
        return b""


def _other_verdicts(
    row: AttemptRow, given: Sequence[quoting.GivenVerdict], adoption: quoting.Adoption | None
) -> Iterator[Line]:
    """Why this verdict is the quoted one and what the others are; nothing where there is only one."""
    mine = [verdict for verdict in given if verdict.attempt_id == row.attempt_id]
    others = [one for one in mine if (one.record_id, one.grader_version) != (row.record_id, row.grader_version)]
    if others:
        yield Line(text=quoting_line((row.grader_version,), adoption))
        yield from (Line(text=f"  {verdict_line(one)}") for one in others)
        yield Line()


def grade_now() -> int:
    """Grades everything stored that has no verdict, records that failed before included."""
    with join_store() as engine:
        done = grade_pending(engine, max_tries=None)
    click.echo(f"graded {done.graded}, failed {done.failed}")
    return EXIT_GATE if done.failed else EXIT_OK


def regrade(reference: str, *, adopt: bool, as_json: bool) -> int:
    """Judges the sweep's evidence again and prints what flipped; 1 when something of it needs a person."""
    ticker = Ticker("judged again", sys.stderr)
    with join_store() as engine, begin(engine) as connection:
        sweep = find_sweep(connection, reference)
        done = regrade_sweep(connection, sweep, adopt_for=name_requester() if adopt else None, on_progress=ticker.show)
    if as_json:
        _print_json(regrade_json(done, lambda change: _exported(sweep.id, change)))
    else:
        lines = regrade_lines(done, lambda change: _exported(sweep.id, change))
        write_lines((Line(text=text) for text in lines), sys.stdout, width=_width())
    return EXIT_OK if done.is_sound else EXIT_GATE


def import_file(path: Path, suite: str, *, name: str | None, again: bool, as_json: bool) -> int:
    """The file's rows are a sweep, and it is printed what is wrong with them; 2 and nothing for one with a bad line."""
    if name is not None and not _END_OF_ID.fullmatch(name):
        raise UsageError(f"{name!r} can't end an id", hint="a-z, 0-9 and -, at most 32 characters")
    file = read_old_file(path, suite)
    if file.bad:
        return _refuse_import(path, file, as_json=as_json)
    sweep_id = name_import(datetime.now(UTC), SystemRandom(), name)
    with join_store() as engine, begin(engine) as connection:
        save_old_file(connection, file, sweep_id=sweep_id, requested_by=name_requester(), again=again)
    done = import_report.Imported(
        sweep=sweep_id,
        suite=suite,
        sha256=file.sha256,
        summary=summarise(file.rows),
        parts=file.parts,
        findings=find_faults(file.rows),
    )
    if as_json:
        _print_json(import_report.import_json(done))
    else:
        width = _width()
        lines = import_report.import_lines(done, width=width)
        write_lines((Line(text=text) for text in lines), sys.stdout, width=width)
    return EXIT_OK


def _refuse_import(path: Path, file: OldFile, *, as_json: bool) -> int:
    if as_json:
        _print_json(import_report.bad_json(file.bad))
    else:
        lines = import_report.bad_lines(path.name, file.bad)
        write_lines((Line(text=text) for text in lines), sys.stderr, width=_width())
    count = len(file.bad)
    print_error(f"{count} bad line{'' if count == 1 else 's'} in {path}: nothing was imported")
    return EXIT_USAGE


def _exported(sweep: str, row: Located) -> Path | None:
    """The slice's file where an export has put it without being told otherwise, if it is there."""
    path = artifact_path(_RESULTS, sweep, row)
    return path if path.is_file() else None


def _details(row: AttemptRow) -> dict[str, object]:
    facts = row.facts
    return {
        "page_url": facts.page_url,
        "page_label": facts.page_label,
        "page_count": facts.page_count,
        "surface": facts.surface.value,
        "window_end": facts.window_end,
        "lines": [asdict(line) for line in facts.lines],
    }


def _read_log(engine: sa.Engine, row: AttemptRow) -> bytes | None:
    if row.record_id is None:
        return None
    with begin(engine) as connection:
        return grading.read_evidence(connection, row.record_id, "log")


def _width() -> int:
    is_told = sys.stdout.isatty() or "COLUMNS" in os.environ
    return shutil.get_terminal_size((_PLAIN_WIDTH, 24)).columns if is_told else _PLAIN_WIDTH


def _print_json(value: object) -> None:
    click.echo(json.dumps(value, indent=2, allow_nan=False))
