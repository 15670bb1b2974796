"""What a follower looks at: a block of lines that is drawn again at a terminal, plain lines elsewhere."""

from __future__ import annotations

import os
import textwrap
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Protocol

from rich.console import Console
from rich.live import Live
from rich.text import Text

from broker.store.progress import BoxLine, FinishedRun, HoldLine, Progress
from broker.types import Family
from scheduler.pace import Estimate, Pace, describe_left
from scheduler.verified import is_away, say_waiting
from scheduler.wording import clean

_SILENT_S = 15.0
_MINUTE_S, _HOUR_S = 60.0, 3600.0
_SUMMARY_EVERY_S = 60.0
_STILL_SUMMARY_EVERY_S = 10.0
# header, counts, bar, interim, and a line for the cursor
_LINES_BESIDE_BOXES = 6
# Where the names of the boxes end.
_INDENT = 10
_MOST_REASON_LINES = 3
_FAMILY_STYLES = {Family.PRODUCT: "yellow", Family.INFRA: "red"}


class Screen(Protocol):
    """Where progress is shown."""

    # how often it is worth asking for progress
    interval_s: float

    def show(self, progress: Progress) -> None:
        """The reader sees this progress."""

    def say(self, message: str) -> None:
        """The reader has this message on a line of its own."""

    def close(self) -> None:
        """The terminal is as it was, what was done still standing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Symbols:
    """The signs that not every terminal can show."""

    full: str
    empty: str
    more: str


UNICODE = Symbols(full="█", empty="░", more="…")
ASCII = Symbols(full="#", empty=".", more="...")


def choose_symbols(environment: Mapping[str, str]) -> Symbols:
    """By the locale's name: Python itself speaks UTF-8 even where LC_ALL=C says that the terminal does not."""
    names = (environment.get(name) for name in ("LC_ALL", "LC_CTYPE", "LANG"))
    locale = next((name for name in names if name), "C")
    return UNICODE if "utf-8" in locale.lower() or "utf8" in locale.lower() else ASCII


def open_screen(
    sweep_id: str, stream: IO[str], environment: Mapping[str, str], known_verdict: int | None = None
) -> Screen:
    """A live screen on a terminal that can move its cursor, plain lines elsewhere."""
    if stream.isatty() and environment.get("TERM", "dumb") not in {"", "dumb", "unknown"}:
        return LiveScreen(sweep_id, Console(file=stream, highlight=False), choose_symbols(environment))
    return PlainScreen(sweep_id, stream, known_verdict=known_verdict)


class PlainScreen:
    """A line for each verdict after `known_verdict` (None: after the first look), and a summary each minute.

    A sweep that starts nothing any more is summed up more often: what it waits for may take long.
    """

    interval_s = 0.5

    def __init__(
        self,
        sweep_id: str,
        stream: IO[str],
        clock: Callable[[], float] = time.monotonic,
        known_verdict: int | None = None,
    ) -> None:
        self._sweep_id = sweep_id
        self._stream = stream
        self._known_verdict = known_verdict
        self._clock = clock
        self._pace = Pace()
        self._judged: set[str] = set()
        self._summary_due_s: float | None = None
        self._waiting: str | None = None

    def show(self, progress: Progress) -> None:
        """Prints what is new."""
        now_s = self._clock()
        self._pace.note(now_s, progress.over)
        if self._known_verdict is None:
            self._known_verdict = max((run.verdict_id for run in progress.fresh), default=0)
        for run in sorted(progress.fresh, key=lambda run: run.verdict_id):
            self._judged.add(run.run_name)
            # what was over before this command began is told by the summary, not line by line
            if run.verdict_id > self._known_verdict:
                self.say(finished_line(run, len(self._judged), progress.total))
        waiting = say_waiting(progress)
        if waiting is not None and waiting != self._waiting and not waiting.startswith("waiting"):
            self.say(clean(waiting))
        self._waiting = waiting
        if self._summary_due_s is None or now_s >= self._summary_due_s:
            self.say(summary_line(self._sweep_id, progress, self._pace.estimate(now_s, progress.total)))
            self._summary_due_s = now_s + (_SUMMARY_EVERY_S if progress.state == "active" else _STILL_SUMMARY_EVERY_S)

    def say(self, message: str) -> None:
        """Prints the message at once."""
        print(message, file=self._stream, flush=True)

    def close(self) -> None:
        """Nothing to put back."""


class LiveScreen:
    """One block of lines, drawn again in place."""

    interval_s = 0.25

    def __init__(
        self, sweep_id: str, console: Console, symbols: Symbols, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._sweep_id = sweep_id
        self._console = console
        self._symbols = symbols
        self._clock = clock
        self._pace = Pace()
        self._live: Live | None = None
        self._lines: list[Text] = []

    def show(self, progress: Progress) -> None:
        """Draws the block anew."""
        now_s = self._clock()
        self._pace.note(now_s, progress.over)
        self._lines = draw(
            self._sweep_id,
            progress,
            self._pace.estimate(now_s, progress.total),
            width=self._console.width,
            height=self._console.height,
            symbols=self._symbols,
        )
        if self._live is None:
            # No thread of its own: a frame that is drawn during a signal's message would tear it.
            self._live = Live(console=self._console, auto_refresh=False)
            self._live.start()
        self._live.update(_block(self._lines), refresh=True)

    def say(self, message: str) -> None:
        """Prints the message above the block."""
        self._console.print(message, markup=False, highlight=False, soft_wrap=True)

    def close(self) -> None:
        """The cursor is back, below the last block, whose interim numbers are gone."""
        if self._live is not None:
            self._live.update(_block(self._lines[:-1]), refresh=True)
            self._live.stop()
            self._live = None


def _block(lines: Sequence[Text]) -> Text:
    return Text("\n", no_wrap=True, overflow="crop").join(lines)


def draw(
    sweep_id: str, progress: Progress, estimate: Estimate | None, *, width: int, height: int, symbols: Symbols
) -> list[Text]:
    """The block's lines, the interim numbers last; none wider than `width` cells, nor more than `height`."""
    boxes = present_boxes(progress.boxes)
    waiting = _wrap(say_waiting(progress) or "", width, indent=1)
    shown, hidden = _fit(boxes, width, room=max(1, height - _LINES_BESIDE_BOXES - len(waiting)))
    lines = [
        Text(_headline(sweep_id, progress, estimate)),
        _families_text(progress.families),
        Text(_bar(progress, min(width, 72), symbols)),
        *(Text(line) for line in waiting),
        *(Text(line) for line in shown),
        *([Text(f" and {hidden} more boxes")] if hidden else []),
        *([] if boxes else [Text(" no box is up yet")]),
        Text(_interim(progress)),
    ]
    for line in lines:
        if line.cell_len > width:
            line.truncate(width - len(symbols.more), overflow="crop")
            line.append(symbols.more)
    return lines


def _headline(sweep_id: str, progress: Progress, estimate: Estimate | None) -> str:
    parts = [sweep_id, f"{progress.over} of {progress.total}"]
    if progress.state != "active":
        parts.append(progress.state)
    if estimate is not None and progress.state == "active":
        parts += [f"{estimate.runs_per_min:.1f} runs/min", describe_left(estimate)]
    return "   ".join(parts)


def _families_text(families: Mapping[Family, int]) -> Text:
    text = Text()
    for family in Family:
        count = families.get(family, 0)
        style = _FAMILY_STYLES.get(family, "") if count else ""
        text.append(("  " if len(text) else "") + f"{family.replace('_', ' ')} ", style="")
        text.append(str(count), style=style)
    return text


def _bar(progress: Progress, cells: int, symbols: Symbols) -> str:
    full = cells * progress.over // max(1, progress.total)
    return symbols.full * full + symbols.empty * (cells - full)


def present_boxes(boxes: Sequence[BoxLine]) -> tuple[BoxLine, ...]:
    """Those that matter to the sweep: with a share in it, or alive; a farm remembers every box it ever had."""
    return tuple(box for box in boxes if box.done or box.run_name or not is_away(box))


def _fit(boxes: Sequence[BoxLine], width: int, *, room: int) -> tuple[list[str], int]:
    """The lines of as many boxes as there is room for, one at least, and how many boxes are left out."""
    lines: list[str] = []
    for number, box in enumerate(boxes):
        fresh = box_lines(box, width)
        if lines and len(lines) + len(fresh) > room:
            return lines, len(boxes) - number
        lines += fresh
    return lines, 0


def box_lines(box: BoxLine, width: int = 80) -> list[str]:
    """What one box does: `box-a  running  youtube#7  audit  2.1 s  31 done  0 infra`.

    Of a held one also why, and what ends it.
    """
    state, middle = box.phase, ""
    details: list[str] = []
    if box.phase != "gone" and box.last_beat_s is not None and box.last_beat_s > _SILENT_S:
        state, middle = "silent", f"no beat for {box.last_beat_s:.0f} s"
    elif box.holds:
        state = "held"
        middle = ", ".join(hold.kind for hold in box.holds)
        # what the box is still at, it finishes
        middle += f" ({clean(box.run_name)} finishes)" if box.run_name else ""
        details = [line for hold in box.holds for line in _hold_lines(hold, width)]
    elif box.run_name:
        since = f"{box.phase_s:6.1f} s" if box.phase_s is not None else ""
        middle = f"{box.run_name:<14} {clean(box.run_phase or ''):<9}{since}"
    return [f" {box.name:<8} {state:<9} {middle:<34} {box.done:>5} done {box.infra:>4} infra", *details]


def _hold_lines(hold: HoldLine, width: int) -> list[str]:
    since = f" for {say_age(hold.held_s)}" if hold.held_s is not None else ""
    reason = _wrap(f"{hold.kind}{since}: {clean(hold.reason)}", width, indent=_INDENT)
    return [*reason[:_MOST_REASON_LINES], *_wrap(f"ends by {hold.ends_by}", width, indent=_INDENT)]


def say_age(seconds: float) -> str:
    """`40 s`, `12 min`, `3 h`."""
    if seconds < 2 * _MINUTE_S:
        return f"{max(0.0, seconds):.0f} s"
    return f"{seconds / _MINUTE_S:.0f} min" if seconds < 2 * _HOUR_S else f"{seconds / _HOUR_S:.0f} h"


def _wrap(text: str, width: int, *, indent: int) -> list[str]:
    margin = " " * indent
    return textwrap.wrap(
        clean(text), max(width, 2 * indent), initial_indent=margin, subsequent_indent=margin, break_on_hyphens=False
    )


def tally_line(box: BoxLine) -> str:
    """What one box has done, whatever it does now: `box-a  31 done  0 infra`."""
    return f" {box.name:<8} {box.done:>5} done {box.infra:>4} infra"


def _interim(progress: Progress) -> str:
    ok, judged = progress.reach
    attempts = sum(progress.families.values())
    return f"interim: reach {ok}/{judged}, flake {progress.families.get(Family.INFRA, 0)}/{attempts}"


def finished_line(run: FinishedRun, position: int, total: int) -> str:
    """One verdict in plain words: `61/108 youtube#7 ok 2.9 s box-a`.

    The time is the attempt's, from its start on the box to its finish there.
    """
    wall = f" {run.wall_s:.1f} s" if run.wall_s is not None else ""
    again = f" attempt {run.attempt_no}" if run.attempt_no > 1 else ""
    return f"{position}/{total} {run.run_name} {run.bucket}{wall} {run.box}{again}"


def summary_line(sweep_id: str, progress: Progress, estimate: Estimate | None) -> str:
    """The whole sweep in one line: counts, pace, what each box does."""
    boxes = ", ".join(_say_box(box) for box in present_boxes(progress.boxes))
    return "; ".join(
        part
        for part in (
            _headline(sweep_id, progress, estimate).replace("   ", "  "),
            _families_text(progress.families).plain.replace("  ", ", "),
            boxes or "no box is up yet",
            clean(say_waiting(progress) or ""),
        )
        if part
    )


def _say_box(box: BoxLine) -> str:
    if box.holds:
        hold = box.holds[0]
        return f"{box.name} held ({hold.kind}: {clean(hold.reason)}; ends by {hold.ends_by})"
    if box.run_name:
        return f"{box.name} {box.run_name} {box.run_phase or ''}".rstrip()
    return f"{box.name} {box.phase}"


def flower_line(url: str | None, user: str | None, password: str | None) -> str | None:
    """Where Flower is and how to log in, or None when the farm has none of its own."""
    return f"Flower {url} ({user} / {password})" if url and user and password else None


def default_screen(sweep_id: str, stream: IO[str], known_verdict: int | None) -> Screen:
    """The screen that fits this process's stream and environment."""
    return open_screen(sweep_id, stream, os.environ, known_verdict)
