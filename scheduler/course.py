"""The course of a followed sweep, from the first look to the exit code."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from broker.errors import EXIT_GATE, EXIT_INTERRUPTED, EXIT_OK
from broker.store.sweeps import SweepRow, find_sweep, read_progress
from scheduler.errors import ToldError
from scheduler.farm import Farm
from scheduler.follow import Ending, Follower
from scheduler.interrupts import Interrupts
from scheduler.launcher import call
from scheduler.listing import ending_document
from scheduler.progress import default_screen, flower_line
from scheduler.results import Scorecard, export_rows, show_scorecard


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What the command line asks of a followed sweep's end."""

    as_json: bool
    gate: bool
    out: Path
    # the command itself cancelled the sweep: that it ended so is no failure
    expects_cancel: bool = False


def run_course(farm: Farm, sweep_id: str, wishes: Wishes, interrupts: Interrupts, *, may_pause: bool) -> int:
    """Follows, exports, prints the scorecard; returns the exit code. Raises ServiceError."""
    stream = sys.stderr if wishes.as_json else sys.stdout
    screen = default_screen(sweep_id, stream)
    address = farm.address
    if flower := flower_line(address.flower_url, address.flower_user, address.flower_password):
        screen.say(flower)
    follower = Follower(farm=farm, sweep_id=sweep_id, screen=screen, interrupts=interrupts, may_pause=may_pause)
    try:
        ending = follower.follow()
        if ending is Ending.DETACHED:
            return EXIT_OK
        if ending is Ending.LEFT:
            _say(stream, f"the sweep goes on; look again: {call('follow', sweep_id)}")
            return EXIT_INTERRUPTED
        return close_course(farm, sweep_id, wishes)
    except KeyboardInterrupt:
        _say(stream, "stopped now; what runs on the boxes is finished by them")
        if may_pause:
            _say(stream, f"resume: {call('resume', sweep_id)}")
        return EXIT_INTERRUPTED


def close_course(farm: Farm, sweep_id: str, wishes: Wishes) -> int:
    """The rows are exported and the scorecard is printed, even when the rows could not be; the exit code."""
    stream = sys.stderr if wishes.as_json else sys.stdout
    failure: ToldError | None = None
    rows: Path | None = None
    try:
        rows = export_rows(farm.address, sweep_id, wishes.out)
    except ToldError as error:
        failure = error
    card = show_scorecard(farm.address, sweep_id, gate=wishes.gate, as_json=wishes.as_json)
    with farm.begin() as connection:
        sweep = find_sweep(connection, sweep_id)
        progress = read_progress(connection, sweep_id, 0)
    if wishes.as_json:
        document = ending_document(sweep, progress, rows=str(rows) if rows else None, scorecard=card.document)
        _say(sys.stdout, json.dumps(document, indent=2))
    if rows is not None:
        _say(stream, f"rows: {rows}")
    if failure is not None:
        raise failure
    return _exit_code(sweep, card, wishes, stream)


def _exit_code(sweep: SweepRow, card: Scorecard, wishes: Wishes, stream: IO[str]) -> int:
    ending = Ending(sweep.state)
    if ending in {Ending.PAUSED, Ending.HALTED}:
        _say(stream, f"{ending}; resume: {call('resume', sweep.id)}")
        return EXIT_INTERRUPTED
    if ending is Ending.CANCELLED:
        _say(stream, f"cancelled: {sweep.counts.cancelled} of its {sweep.counts.total} runs will not be done")
        if not wishes.expects_cancel:
            return EXIT_INTERRUPTED
    return EXIT_GATE if card.has_failed else EXIT_OK


def _say(stream: IO[str], message: str) -> None:
    print(message, file=stream, flush=True)
