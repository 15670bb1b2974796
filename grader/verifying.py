"""`bv3-grade verify`: the catalogue set against a checkout, the result printed and stored."""

from __future__ import annotations

import getpass
import json
import shutil
import socket
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import sqlalchemy as sa

from broker.errors import EXIT_GATE, EXIT_OK, Bv3Error, UsageError
from broker.markers import name_catalogue
from broker.store.engine import begin
from broker.store.marker_checks import NewMarkerCheck, find_latest, save_check
from grader.checkout import Progress, count_log, read_reference, read_reference_revision, read_revision, read_tree
from grader.facts import AttemptRow
from grader.farm import join_store
from grader.marker_check import MarkerCheck, judge_check
from grader.markers import load_catalogue
from grader.render import Line, write_lines
from grader.verify import Finding, Report, State, verify

_SCHEMA = 1
_NARROWEST = 80
_LONGEST_REVISION = 100
_UNKNOWN = "an unnamed revision"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What the command line asks for; `source` None: the reference stack."""

    source: Path | None
    logs: tuple[Path, ...]
    revision: str | None
    is_stored: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outcome:
    request: Request
    revision: str | None
    report: Report
    # per log how many lines each marker matched
    counts: Mapping[str, Mapping[str, int]]

    @property
    def check(self) -> MarkerCheck:
        findings = self.report.findings
        return judge_check(
            total=len(findings),
            alive=len(self.report.of(State.ALIVE)),
            revision=self.revision or _UNKNOWN,
            facts=_collect_facts(self),
        )


def verify_source(request: Request, *, as_json: bool) -> int:
    """Prints what became of each marker and stores it; 1 when any is dead."""
    revision = _name_revision(request)
    progress = Progress(lambda text: click.echo(text, err=True))
    catalogue = load_catalogue()
    counts = {str(path): count_log(path, catalogue, progress) for path in request.logs}
    tree = read_reference(progress) if request.source is None else read_tree(request.source, progress, catalogue)
    report = verify(catalogue, tree, _sum(counts.values()) if counts else None)
    outcome = _Outcome(request=request, revision=revision, report=report, counts=counts)
    stored: int | None = None
    failure: Bv3Error | None = None
    if request.is_stored:
        try:
            stored = _store(outcome)
        except Bv3Error as error:
            failure = error
    _print(outcome, stored, as_json=as_json)
    if failure is not None:
        sys.stdout.flush()
        raise failure
    return EXIT_GATE if report.of(State.DEAD) else EXIT_OK


def read_marker_check(connection: sa.Connection, rows: Sequence[AttemptRow]) -> MarkerCheck:
    """What the scorecard of these attempts may say of the catalogue: the latest check at their one revision."""
    total = len(load_catalogue().markers)
    revisions = {row.facts.product_revision for row in rows if row.facts.product_revision}
    if len(revisions) != 1:
        return MarkerCheck(total=total)
    found = find_latest(connection, product_revision=revisions.pop(), catalogue_sha256=name_catalogue())
    if found is None:
        return MarkerCheck(total=total)
    return judge_check(total=found.total, alive=found.alive, revision=found.product_revision, facts=found.facts)


def _name_revision(request: Request) -> str | None:
    """The revision that is checked; None when nobody can name it and nothing is stored."""
    if request.revision is not None:
        revision = request.revision.strip()
        if not revision or len(revision) > _LONGEST_REVISION or not revision.isprintable():
            raise UsageError(f"{request.revision!r} names no revision", hint="as in --revision 21a08c23")
        return revision
    if request.source is None:
        return read_reference_revision()
    if not request.source.is_dir():
        raise UsageError(f"{request.source} is no folder", hint="--source CHECKOUT, the folder that holds backend/")
    revision_of_git = read_revision(request.source)
    if revision_of_git is None and request.is_stored:
        raise UsageError(
            f"{request.source} is no git checkout, so its revision is unknown",
            hint="name it with --revision, or leave it unstored with --no-store",
        )
    return revision_of_git


def _sum(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for one in counts:
        for name, count in one.items():
            total[name] = total.get(name, 0) + count
    return total


def _collect_facts(outcome: _Outcome) -> dict[str, Any]:
    report = outcome.report
    return {
        "dead": {finding.marker: finding.detail for finding in report.of(State.DEAD)},
        "unproven": {finding.marker: finding.detail for finding in report.of(State.UNPROVEN)},
        "absent": [finding.marker for finding in report.of(State.ABSENT)],
        "unread": dict(report.unread),
        "files": report.files,
        "logs": {log: dict(counts) for log, counts in outcome.counts.items()},
    }


def _store(outcome: _Outcome) -> int:
    check = outcome.check
    new = NewMarkerCheck(
        product_revision=outcome.revision or "",
        catalogue_sha256=name_catalogue(),
        total=check.total,
        alive=check.alive or 0,
        facts=_printable(_collect_facts(outcome)),
        checked_by=f"{_name_user()}@{socket.gethostname()}",
    )
    with join_store() as engine, begin(engine) as connection:
        return save_check(connection, new)


def _name_user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        # an account without a name, as containers have
        return "unknown"


def _printable(value: Any) -> Any:
    """The facts with text that PostgreSQL and JSON take; a log's name may hold any byte."""
    if isinstance(value, Mapping):
        return {_printable(key): _printable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_printable(item) for item in value]
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8").replace("\0", "?")
    return value


def _print(outcome: _Outcome, stored: int | None, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(_printable(_to_json(outcome, stored)), indent=2, allow_nan=False))
        return
    width = max(shutil.get_terminal_size((_NARROWEST, 24)).columns, _NARROWEST)
    write_lines(_render(outcome, stored, width), sys.stdout, width=width)


def _to_json(outcome: _Outcome, stored: int | None) -> dict[str, Any]:
    check = outcome.check
    return {
        "schema": _SCHEMA,
        "source": None if outcome.request.source is None else str(outcome.request.source),
        "revision": outcome.revision,
        "product_revision": outcome.revision,
        "catalogue_sha256": name_catalogue(),
        "total": check.total,
        "alive": check.alive,
        "unproven": check.unproven,
        "state": check.state.value,
        "files": outcome.report.files,
        "markers": [_finding_to_json(finding) for finding in outcome.report.findings],
        "unread": [{"path": path, "reason": reason} for path, reason in outcome.report.unread.items()],
        "logs": [{"log": log, "matched": dict(counts)} for log, counts in outcome.counts.items()],
        "facts": _collect_facts(outcome),
        "stored": stored,
    }


def _finding_to_json(finding: Finding) -> dict[str, Any]:
    return {
        "name": finding.marker,
        "origin": finding.origin.value,
        "state": finding.state.value,
        "detail": finding.detail,
        "matched": finding.matched,
    }


def _render(outcome: _Outcome, stored: int | None, width: int) -> Iterator[Line]:
    report, request = outcome.report, outcome.request
    what = "the reference stack" if request.source is None else str(request.source)
    yield from _wrap(f"{len(report.findings)} markers against {what}, {report.files} files read", width)
    if outcome.counts:
        yield Line()
        yield from _render_counts(report, width)
    for finding in report.of(State.DEAD):
        yield Line()
        yield Line(text=f"DEAD  {finding.marker}", style="bold red")
        yield from _wrap(finding.detail, width, indent=6)
    for finding in report.of(State.UNPROVEN):
        yield Line()
        yield Line(text=f"UNPROVEN  {finding.marker}", style="yellow")
        yield from _wrap(finding.detail, width, indent=6)
    if absent := report.of(State.ABSENT):
        yield Line()
        yield Line(text=f"not printed by the reference stack: {len(absent)}")
        yield from _wrap(", ".join(finding.marker for finding in absent), width, indent=6)
    if report.unread:
        yield Line()
        yield Line(text="could not be read:", style="yellow")
        for path, reason in report.unread.items():
            yield from _wrap(f"{path}: {reason}", width, indent=6)
    yield Line()
    style = "bold red" if report.of(State.DEAD) else "green"
    yield from _wrap(outcome.check.text, width, style=style)
    yield from _wrap("not stored" if stored is None else f"stored as check {stored}", width)


def _render_counts(report: Report, width: int) -> Iterator[Line]:
    """How many lines each marker matched, and which matched none."""
    seen = [finding for finding in report.findings if finding.matched]
    for finding in seen:
        yield Line(text=f"{finding.matched:>9}  {finding.marker}")
    if never := [finding.marker for finding in report.findings if not finding.matched]:
        yield Line(text="in no line of the logs:")
        yield from _wrap(", ".join(never), width, indent=6)


def _wrap(text: str, width: int, *, indent: int = 0, style: str = "") -> Iterator[Line]:
    margin = " " * indent
    for line in textwrap.wrap(text, width, initial_indent=margin, subsequent_indent=margin, break_on_hyphens=False):
        yield Line(text=line, style=style)
