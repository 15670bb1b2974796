"""The scorecard as text for a terminal of 80 columns or more: plain words, units, counts beside every rate.

Everything is ASCII but what pages and sites are called; `write_lines` gives a narrower encoding escapes
instead of an error.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import IO

from broker.types import Evidence
from grader.criteria import Cell, Mark, Reading
from grader.facts import AttemptRow, VerdictFacts
from grader.intervals import Interval
from grader.scorecard import Exclusion, Miss, Scorecard

_NARROWEST = 80
# from here on a row has a place for the value before bv3
_WIDE = 100
_MAX_LISTED = 12
# times below this are shown in milliseconds
_SHORT_MS = 100
_DASH = "-"
_STYLES = {Mark.PASS: "green", Mark.FAIL: "bold red", Mark.OPEN: "yellow"}
_EXCLUSION_WORDS = {
    "sign_in_page": "sign-in URL",
    "password_form": "password form",
    "challenge_shown": "challenge",
    "site_retired": "retired",
    "wall_claimed": "wall",
}
# C0 and C1 controls (an escape sequence needs one) and what separates lines or turns text around
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of output; `style` is decoration, never the only sign."""

    text: str = ""
    style: str = ""


def printable(text: str) -> str:
    """The text with everything replaced that a terminal would act on."""
    return _UNPRINTABLE.sub("?", text)


def render_scorecard(card: Scorecard, *, width: int, markers: int) -> tuple[Line, ...]:
    """The whole scorecard, no line longer than `width`. `markers`: how many the catalogue holds."""
    lines = (
        *_header(card, markers, width),
        Line(),
        *_totals(card, width),
        Line(),
        *_table(card, width),
        Line(),
        *_exclusions(card.exclusions, width),
        *_listed("misses:", card.misses, width),
        *_listed("infrastructure:", card.spoilt, width),
    )
    return tuple(piece for line in lines for piece in _wrap(line, max(width, _NARROWEST)))


def _flow(parts: Iterable[str], width: int, *, gap: int = 3, style: str = "") -> Iterator[Line]:
    """The parts on as few lines as hold them whole, further lines indented."""
    text = ""
    for part in parts:
        if text and len(text) + gap + len(part) > width:
            yield Line(text=text, style=style)
            text = f"   {part}"
        else:
            text = f"{text}{' ' * gap}{part}" if text else part
    yield Line(text=text, style=style)


def _wrap(line: Line, width: int) -> Iterator[Line]:
    if len(line.text) <= width:
        yield line
        return
    for text in textwrap.wrap(line.text, width, subsequent_indent="   ", break_on_hyphens=False):
        yield Line(text=text, style=line.style)


def write_lines(lines: Iterable[Line], file: IO[str], *, width: int) -> None:
    """The lines are on `file`: styled at a terminal, plain elsewhere."""
    from rich.console import Console  # noqa: PLC0415 - 60 ms that only a printing command should pay
    from rich.text import Text  # noqa: PLC0415

    console = Console(file=file, width=width, highlight=False, soft_wrap=True)
    encoding = getattr(file, "encoding", None) or "utf-8"
    for line in lines:
        text = printable(line.text).rstrip().encode(encoding, "backslashreplace").decode(encoding)
        console.print(Text(text, style=line.style))


def _header(card: Scorecard, markers: int, width: int) -> Iterator[Line]:
    sweep = card.sweep
    revision = ", ".join(card.product_revisions) or "no product seen"
    renderer, lane = ", ".join(card.renderers) or _DASH, ", ".join(card.lanes) or _DASH
    what = f"{sweep.suite} suite x {sweep.trials}, {sweep.mode}, {revision}"
    title = f"{sweep.sweep}   {what}, renderer {renderer}, lane {lane}"
    if len(title) <= width:
        yield Line(text=title, style="bold")
    else:
        yield from _flow((sweep.sweep, what, f"renderer {renderer}, lane {lane}"), width, style="bold")
    versions = ", ".join(map(str, card.grader_versions)) or _DASH
    times: tuple[str, ...] = ()
    if sweep.started_at:
        end = f"{sweep.finished_at:%H:%M:%S}" if sweep.finished_at else "now"
        times = (f"{sweep.started_at:%Y-%m-%d %H:%M:%S} - {end} UTC",)
    boxes = _count(len(card.boxes), "box", "boxes")
    yield from _flow((boxes, f"grader {versions}", f"markers {markers}, unverified", *times), width)


def _totals(card: Scorecard, width: int) -> Iterator[Line]:
    sweep, tally = card.sweep, card.tally
    runs = f"{_count(sweep.runs, 'run')}, {_count(tally.attempts, 'attempt')}"
    families = f"ok {tally.ok}   product {tally.product}   infra {tally.infra}   not measurable {tally.not_measurable}"
    yield from _flow((f"{runs} ({_count(card.retries.attempts, 'retry', 'retries')})", families), width, gap=5)
    yield Line(
        text=f"preflight refused {_count(sweep.refusals, 'time')}, {sweep.box_minutes_lost:.1f} box-minutes lost"
    )
    if card.retries.attempts:
        first = card.first_attempts
        yield Line(text=f"first attempts alone: {first.attempts}, reach {_rate(first.reach[0])}, infra {first.infra}")
    if sweep.ungraded or sweep.runs_closed < sweep.runs:
        yield Line(
            text=f"{sweep.state}: {sweep.runs_closed} of {_count(sweep.runs, 'run')} over, "
            f"{_count(sweep.ungraded, 'attempt')} not graded yet",
            style="yellow",
        )


def _table(card: Scorecard, width: int) -> Iterator[Line]:
    is_wide = width >= _WIDE
    head = ("#", "criterion", "target", "was", "measured", "95% interval", "verdict")
    yield Line(text=_columns(*head, is_wide=is_wide), style="dim")
    for cell in card.criteria:
        row = _columns(
            str(cell.number),
            cell.name,
            cell.target,
            cell.baseline,
            _measured(cell),
            _interval(cell.interval, cell.unit),
            cell.mark.value,
            is_wide=is_wide,
        )
        remark = _remark(cell)
        if len(row) + 2 + len(remark) <= width:
            yield Line(text=f"{row}  {remark}", style=_STYLES[cell.mark])
        else:
            yield Line(text=row, style=_STYLES[cell.mark])
            if remark:
                yield Line(text=f"  {remark}", style=_STYLES[cell.mark])
        for reading in cell.also:
            measured, interval = _rate(reading), _interval(reading.interval, "share")
            yield Line(text=_columns("", "", "", "", measured, interval, "", is_wide=is_wide), style="dim")
            yield Line(text=f"  ^ {reading.label}", style="dim")


def _columns(*cells: str, is_wide: bool) -> str:
    number, name, target, was, measured, interval, mark = cells
    before = f" {was:<5}" if is_wide else ""
    return f"{number:>1} {name:<23} {target:<11}{before} {measured:<15} {interval:<13} {mark}".rstrip()


def _remark(cell: Cell) -> str:
    if cell.proven is None:
        return cell.hint
    if cell.proven:
        return "proven" if not cell.hint else f"proven: {cell.hint}"
    return f"not proven: {cell.hint}" if cell.hint else "not proven"


def _measured(cell: Cell) -> str:
    if cell.unit == "count":
        return f"{cell.numerator} of {cell.denominator} claims" if cell.denominator else _DASH
    if cell.value is None:
        return _DASH
    if cell.unit == "ms":
        return f"{_duration(cell.value)}  n={cell.denominator}"
    return f"{cell.numerator}/{cell.denominator}  {_percent(cell.value)}"


def _rate(reading: Reading) -> str:
    if reading.value is None:
        return _DASH
    return f"{reading.numerator}/{reading.denominator}  {_percent(reading.value)}"


def _percent(share: float) -> str:
    """One decimal; never rounded to 0% or 100% when it is neither."""
    tenths = round(share * 1000)
    if share < 1.0:
        tenths = min(tenths, 999)
    if share > 0.0:
        tenths = max(tenths, 1)
    return f"{tenths / 10:.1f}%"


def _duration(value_ms: float) -> str:
    return f"{value_ms / 1000:.2f} s" if value_ms >= _SHORT_MS else f"{value_ms:.0f} ms"


def _interval(interval: Interval | None, unit: str) -> str:
    if interval is None:
        return ""
    if unit == "ms":
        if interval.high < _SHORT_MS:
            return f"{interval.low:.0f} - {interval.high:.0f} ms"
        return f"{interval.low / 1000:.2f} - {interval.high / 1000:.2f} s"
    if "one-sided" in interval.method:
        return f"<= {_percent(interval.high)}"
    return f"{interval.low * 100:.1f} - {interval.high * 100:.1f}"


def _exclusions(exclusions: tuple[Exclusion, ...], width: int) -> Iterator[Line]:
    proven = [one for one in exclusions if one.evidence is Evidence.PROVEN]
    claimed = [one for one in exclusions if one.evidence is not Evidence.PROVEN]
    if proven:
        yield from _flow(("not measurable, on evidence bv3 read:", *_sites(proven)), width, gap=1)
    if claimed:
        title = "not measurable by the product's word alone (UNVERIFIED):"
        yield from _flow((title, *_sites(claimed)), width, gap=1, style="yellow")


def _sites(exclusions: Sequence[Exclusion]) -> Iterator[str]:
    for position, one in enumerate(exclusions, start=1):
        why = _EXCLUSION_WORDS.get(one.rule, one.rule.replace("_", " "))
        yield f"{one.site} {one.attempts} ({why}){',' if position < len(exclusions) else ''}"


def _listed(title: str, misses: tuple[Miss, ...], width: int) -> Iterator[Line]:
    if not misses:
        return
    yield Line(text=title)
    for miss in misses[:_MAX_LISTED]:
        retry = f" (attempt {miss.attempt_no})" if miss.attempt_no > 1 else ""
        text = f"  {miss.run}{retry}  {miss.bucket.value}: {miss.detail}"
        yield Line(text=text if len(text) <= width else text[: width - 3] + "...")
    if len(misses) > _MAX_LISTED:
        yield Line(text=f"  and {len(misses) - _MAX_LISTED} more")


def render_attempt(sweep: str, row: AttemptRow, *, width: int) -> tuple[Line, ...]:
    """One attempt: the verdict in a sentence, both sides, the lines that decided with their bytes."""
    facts, timing = row.facts, row.facts.timing
    evidence = f" {facts.evidence.value}" if facts.evidence else ""
    lines = [
        Line(text=f"{sweep} {row.name}   attempt {row.attempt_no} (id {row.attempt_id}) on {row.box}", style="bold"),
        Line(text=f"{row.bucket.value}{evidence}: {row.detail}"),
        Line(text=f"rule {row.rule}, grader {row.grader_version} (docs/reference/buckets.md)"),
        Line(),
        Line(text=f"the product claims {facts.claim.value}" + (f", into '{facts.target}'" if facts.target else "")),
        *(Line(text=f"  {line.start:>8} - {line.end:<8} {line.text}") for line in facts.lines),
        Line(text=_window(facts)),
        Line(text=f"bv3 read the payload: {facts.page.value.replace('_', ' ')}, {_count(facts.page_count, 'time')}"),
        Line(text=f"  url {facts.page_url or _DASH}   box '{facts.page_label}'   surface {facts.surface.value}"),
        Line(),
        Line(
            text="  ".join(
                f"{name} {_DASH if value is None else f'{value} ms'}"
                for name, value in (
                    ("wall", facts.wall_ms),
                    ("total", timing.total_ms),
                    ("llm", timing.llm_ms),
                    ("tools", timing.tools_ms),
                    ("other", timing.other_ms),
                    ("prestage", timing.prestage_ms),
                )
            )
        ),
        Line(text=f"payload '{facts.payload}'   {facts.product_revision or _DASH}"),
        Line(),
    ]
    return tuple(piece for line in lines for piece in _wrap(line, max(width, _NARROWEST)))


def _window(facts: VerdictFacts) -> str:
    if facts.window_end is None:
        return f"  the window is the whole slice, {facts.log_size} bytes; one dispatch"
    return f"  the window ends at byte {facts.window_end} of {facts.log_size}, where the next dispatch begins"


def _count(number: int, one: str, many: str | None = None) -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"
