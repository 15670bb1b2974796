"""The course of a followed sweep, from the first look to the exit code."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from broker.errors import EXIT_GATE, EXIT_INTERRUPTED, EXIT_OK, EXIT_USAGE
from broker.store.breaches import open_breaches
from broker.store.progress import read_progress
from broker.store.sweeps import SweepRow, find_sweep
from scheduler.farm import Farm
from scheduler.follow import Ending, Follower
from scheduler.interrupts import Interrupts
from scheduler.launcher import call
from scheduler.listing import count, ending_document
from scheduler.progress import default_screen, flower_line
from scheduler.results import write_results


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What the command line asks of a followed sweep's end."""

    as_json: bool
    gate: bool
    out: Path
    # the command itself cancelled the sweep: that it ended so is no failure
    expects_cancel: bool = False


Show = Callable[[dict[str, Any]], None]


def print_document(document: Any) -> None:
    """The document is on stdout."""
    print(json.dumps(document, indent=2), flush=True)  # noqa: T201 - a command prints


def print_answer(lines: Sequence[str], document: Any, *, as_json: bool) -> int:
    """The lines or the document are on stdout; the exit code of a command that has answered."""
    if as_json:
        print_document(document)
    else:
        print("\n".join(lines), flush=True)  # noqa: T201 - a command prints
    return EXIT_OK


def run_course(
    farm: Farm,
    sweep_id: str,
    wishes: Wishes,
    interrupts: Interrupts,
    *,
    may_pause: bool,
    known_verdict: int | None = None,
) -> int:
    """Follows, writes the rows, prints the scorecard; returns the exit code. Raises ServiceError.

    Verdicts after `known_verdict` are told one by one; without it those that come after the first look.
    """
    try:
        return follow_course(farm, sweep_id, wishes, interrupts, may_pause=may_pause, known_verdict=known_verdict)
    except KeyboardInterrupt:
        tell_stop([sweep_id] if may_pause else [])
        return EXIT_INTERRUPTED


def follow_course(
    farm: Farm,
    sweep_id: str,
    wishes: Wishes,
    interrupts: Interrupts,
    *,
    may_pause: bool,
    known_verdict: int | None = None,
    others: Sequence[str] = (),
    show: Show = print_document,
) -> int:
    """The same; a second Ctrl-C raises KeyboardInterrupt, and the first pauses the `others`, too."""
    screen = default_screen(sweep_id, sys.stderr, known_verdict)
    address = farm.address
    if flower := flower_line(address.flower_url, address.flower_user, address.flower_password):
        screen.say(flower)
    follower = Follower(
        farm=farm,
        sweep_id=sweep_id,
        screen=screen,
        interrupts=interrupts,
        may_pause=may_pause,
        others=tuple(others),
    )
    ending = follower.follow()
    if ending is Ending.DETACHED:
        return EXIT_OK
    if ending is Ending.LEFT:
        _note(f"the sweep goes on; look again: {call('follow', sweep_id)}")
        return EXIT_INTERRUPTED
    return close_course(farm, sweep_id, wishes, show=show)


def tell_stop(sweep_ids: Sequence[str]) -> None:
    """It is told that we stop now, and how each of these sweeps goes on."""
    _note("stopping now; what boxes are at, they finish")
    for sweep_id in sweep_ids:
        _note(f"resume: {call('resume', sweep_id)}")


def close_course(farm: Farm, sweep_id: str, wishes: Wishes, *, show: Show = print_document) -> int:
    """The rows are written and the scorecard is printed, even when the rows could not be; the exit code."""
    if sys.stderr.isatty():
        _note("writing rows and scorecard ...")
    results = write_results(farm.address, sweep_id, wishes.out, gate=wishes.gate, as_json=wishes.as_json)
    with farm.begin() as connection:
        sweep = find_sweep(connection, sweep_id)
        progress = read_progress(connection, sweep_id, 0)
        breaches = open_breaches(connection, sweep_id)
    rows = str(results.rows) if results.rows else None
    if wishes.as_json:
        show(ending_document(sweep, progress, rows=rows, scorecard=results.document))
    elif rows:
        print(f"rows: {rows}", flush=True)  # noqa: T201 - a command prints
    if breaches or sweep.state == "halted":
        # a sweep that is over holds its box all the same
        boxes = ", ".join(sorted({breach.box for breach in breaches}))
        held = f"; {boxes} gets no runs" if boxes else ""
        _note(f"held for a false success{held}: {call('resume', sweep_id)} says which, and how to go on")
    code = _exit_code(sweep, wishes, has_failed=results.has_failed)
    return code if rows else EXIT_USAGE


def _exit_code(sweep: SweepRow, wishes: Wishes, *, has_failed: bool) -> int:
    ending = Ending(sweep.state)
    if ending is Ending.HALTED:
        return EXIT_INTERRUPTED
    if ending is Ending.PAUSED:
        _note(f"paused; resume: {call('resume', sweep.id)}")
        return EXIT_INTERRUPTED
    if ending is Ending.CANCELLED:
        _note(f"cancelled: {sweep.counts.cancelled} of {count(sweep.counts.total, 'run')} are dropped")
        if not wishes.expects_cancel:
            return EXIT_INTERRUPTED
    return EXIT_GATE if has_failed else EXIT_OK


def _note(message: str) -> None:
    click.echo(message, err=True)
