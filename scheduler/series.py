"""Several sweeps of one request: followed one after the other, stopped together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from broker.errors import EXIT_INTERRUPTED, EXIT_OK
from broker.store.progress import read_progress
from broker.store.sweeps import SweepRow, find_sweep
from scheduler.course import Show, Wishes, follow_course, print_document, tell_stop
from scheduler.farm import Farm
from scheduler.follow import pause_sweeps
from scheduler.interrupts import Interrupts
from scheduler.launcher import call
from scheduler.listing import ending_document, series_document


def run_series(farm: Farm, sweep_ids: Sequence[str], wishes: Wishes, interrupts: Interrupts) -> int:
    """Each sweep is followed to its end in turn, with its scorecard; the worst of the exit codes. Raises ServiceError.

    The first Ctrl-C pauses all that are not over, and it is told how each is resumed.
    """
    left, worst, documents = list(sweep_ids), EXIT_OK, list[dict[str, Any]]()
    try:
        while left:
            sweep_id, *others = left
            if interrupts.wants_stop and _leave_unbegun(farm, sweep_id, documents.append):
                code = EXIT_INTERRUPTED
            else:
                code = follow_course(
                    farm,
                    sweep_id,
                    wishes,
                    interrupts,
                    may_pause=True,
                    known_verdict=0,
                    others=others,
                    show=documents.append,
                )
            if interrupts.is_hung_up:
                return EXIT_OK
            worst, left = max(worst, code), others
    except KeyboardInterrupt:
        with farm.begin() as connection:
            pause_sweeps(connection, left)
            open_ones = [sweep_id for sweep_id in left if not _is_over(find_sweep(connection, sweep_id))]
        tell_stop(open_ones)
        return EXIT_INTERRUPTED
    if wishes.as_json:
        print_document(series_document(documents))
    return worst


def _leave_unbegun(farm: Farm, sweep_id: str, show: Show) -> bool:
    """Whether the sweep, which starts no run any more, never started one: a scorecard of it would be empty."""
    with farm.begin() as connection:
        pause_sweeps(connection, [sweep_id])
        sweep, progress = find_sweep(connection, sweep_id), read_progress(connection, sweep_id, 0)
    if sweep.counts.attempts or _is_over(sweep):
        return False
    show(ending_document(sweep, progress, rows=None, scorecard=None))
    click.echo(f"paused; resume: {call('resume', sweep_id)}", err=True)
    return True


def _is_over(sweep: SweepRow) -> bool:
    return sweep.state in {"finished", "cancelled"}
