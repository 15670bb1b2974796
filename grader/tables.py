"""The tables of a scorecard as text: the nine criteria, what they were set against, and who had which bucket."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from broker.types import Bucket, Claim, Seen
from grader.criteria import Cell, Comparison, Mark, Reading
from grader.intervals import Interval
from grader.lines import DASH, SHORT_MS, Line, duration, percent
from grader.scorecard import Breakdown, ClaimByPage, Scorecard, Tally

# from here on a row has a place for the value before bv3
_WIDE = 100
_STYLES = {Mark.PASS: "green", Mark.FAIL: "bold red", Mark.OPEN: "yellow"}
_LEAST_KEY, _WIDEST_KEY = 23, 58
# what stands in a breakdown between its key and what failed
_GROUP_WIDTH = 2 + 8 + 2 + 14 + 2 + 8 + 2
# the longest bucket's name with its count
_FAILED_WIDTH = 19
_KEPT_BUCKETS = frozenset({Bucket.OK.value, Bucket.NOT_MEASURABLE.value})


def tabulate_criteria(card: Scorecard, width: int) -> Iterator[Line]:
    """The nine criteria with their values before bv3, which stand in the row where there is room."""
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
        yield from _with_remarks(row, cell, width, is_wide=is_wide)
        for reading in cell.also:
            measured, interval = _rate(reading), _interval(reading.interval, "share")
            yield Line(text=_columns("", "", "", "", measured, interval, "", is_wide=is_wide), style="dim")
            yield Line(text=f"  ^ {reading.label}", style="dim")


def _with_remarks(row: str, cell: Cell, width: int, *, is_wide: bool) -> Iterator[Line]:
    style = _STYLES[cell.mark]
    remarks = [part for part in (_remark(cell), *cell.notes) if part]
    if not is_wide:
        remarks.insert(0, f"was {cell.baseline}")
    elif remarks and len(row) + 2 + len(remarks[0]) <= width:
        row = f"{row}  {remarks.pop(0)}"
    yield Line(text=row, style=style)
    if remarks:
        yield Line(text=f"  {'; '.join(remarks)}", style=style)


def _columns(*cells: str, is_wide: bool) -> str:
    number, name, target, was, measured, interval, mark = cells
    before = f" {was:<14}" if is_wide else ""
    return f"{number:>1} {name:<23} {target:<13}{before} {measured:<15} {interval:<13} {mark}".rstrip()


def _remark(cell: Cell) -> str:
    if cell.proven is None:
        return cell.hint
    if cell.proven:
        return "proven" if not cell.hint else f"proven: {cell.hint}"
    return f"not proven: {cell.hint}" if cell.hint else "not proven"


def _measured(cell: Cell) -> str:
    if cell.unit == "count":
        return _claims(cell)
    if cell.value is None:
        return DASH
    if cell.unit == "ms":
        return f"{duration(cell.value)}  n={cell.denominator}"
    if cell.unit == "change":
        return f"{_signed(cell.value)}  n={cell.denominator}"
    return f"{cell.numerator}/{cell.denominator}  {percent(cell.value)}"


def _claims(cell: Cell) -> str:
    if cell.value is None:
        return DASH
    # of how many is a rate, which unlike attempts do not have
    return f"{cell.numerator} of {cell.denominator} claims" if cell.denominator else f"{cell.numerator}"


def reach(tally: Tally) -> str:
    """The tally's first reading; a dash where rates are not pooled or nothing was measurable."""
    return _rate(tally.reach[0]) if tally.reach else DASH


def _rate(reading: Reading) -> str:
    if reading.value is None:
        return DASH
    return f"{reading.numerator}/{reading.denominator}  {percent(reading.value)}"


def _signed(change: float) -> str:
    return f"{change * 100:+.1f}%"


def _interval(interval: Interval | None, unit: str) -> str:
    if interval is None:
        return ""
    if unit == "ms":
        if interval.high < SHORT_MS:
            return f"{interval.low:.0f} - {interval.high:.0f} ms"
        return f"{interval.low / 1000:.2f} - {interval.high / 1000:.2f} s"
    if unit == "change":
        return f"{interval.low * 100:+.1f}, {interval.high * 100:+.1f}"
    if "one-sided" in interval.method:
        return f"<= {percent(interval.high)}"
    return f"{interval.low * 100:.1f} - {interval.high * 100:.1f}"


def tabulate_comparisons(cells: Sequence[Cell]) -> Iterator[Line]:
    """The measures of each cell that was set against another sweep, side by side."""
    for cell in cells:
        if cell.compared:
            yield Line()
            yield Line(text=f"{cell.number} {cell.name}, against {cell.against}:")
            head = ("", "there", "here", "change", "95% interval")
            yield Line(text=_side_by_side(*head), style="dim")
            yield from (Line(text=_compare(one)) for one in cell.compared)


def _side_by_side(*cells: str) -> str:
    label, there, here, change, interval = cells
    return f"  {label:<24} {there:>8} {here:>8} {change:>12}  {interval}".rstrip()


def _compare(one: Comparison) -> str:
    if one.unit == "ms":
        change = DASH if one.change is None else _signed(one.change)
        return _side_by_side(one.label, _time(one.other), _time(one.value), change, _interval(one.interval, "change"))
    change = DASH if one.change is None else f"{one.change * 100:+.1f} points"
    interval = _interval(one.interval, "change")
    there, here = (DASH if share is None else percent(share) for share in (one.other, one.value))
    return _side_by_side(one.label, there, here, change, interval)


def _time(value_ms: float | None) -> str:
    return DASH if value_ms is None else duration(value_ms)


def tabulate_claims(claims: Sequence[ClaimByPage]) -> Iterator[Line]:
    """What the product claimed against what bv3 read."""
    counts = {(one.claim, one.page): one.attempts for one in claims}
    if not any(counts.values()):
        return
    yield Line()
    yield Line(text="claim / page  " + "  ".join(f"{page.value.replace('_', ' '):>14}" for page in Seen), style="dim")
    for claim in Claim:
        numbers = (counts[claim, page] for page in Seen)
        yield Line(text=f"{claim.value:<12}  " + "  ".join(f"{number or DASH:>14}" for number in numbers))


def tabulate_breakdowns(card: Scorecard, width: int) -> Iterator[Line]:
    """Attempts per site, per editor shape and per box."""
    tables = (("site", card.by_site), ("editor shape", card.by_shape), ("box", card.by_box))
    longest = max(len(key) for title, groups in tables for key in (title, *map(_key, groups)))
    pad = min(longest, max(_LEAST_KEY, min(_WIDEST_KEY, width - _GROUP_WIDTH - _FAILED_WIDTH)))
    for position, (title, groups) in enumerate(tables):
        if groups:
            if position:
                yield Line()
            yield Line(text=_group(title, "attempts", "reach", "excluded", "failed", pad=pad), style="dim")
        for group in groups:
            cells = (str(group.tally.attempts), reach(group.tally), str(group.tally.not_measurable or DASH))
            start = _group(_key(group), *cells, "", pad=pad)
            yield from _hang(start, _failed(group), width, column=pad + _GROUP_WIDTH)


def _group(*cells: str, pad: int) -> str:
    key, attempts, reach, excluded, failed = cells
    if len(key) > pad:
        key = f"{key[: pad - 3]}..."
    return f"{key:<{pad}}  {attempts:>8}  {reach:<14}  {excluded:>8}  {failed}".rstrip()


def _hang(start: str, text: str, width: int, *, column: int) -> Iterator[Line]:
    """`start`, then `text` from its column on, on as many lines as it takes."""
    # a number stays beside its name
    joined = text.replace(" ", "~").replace(",~", ", ")
    pieces = textwrap.wrap(joined, max(width - column, 1), break_long_words=False, break_on_hyphens=False) or [""]
    for piece in pieces:
        yield Line(text=f"{start:<{column}}{piece.replace('~', ' ')}".rstrip())
        start = ""


def _key(group: Breakdown) -> str:
    return group.key or DASH


def _failed(group: Breakdown) -> str:
    return ", ".join(
        f"{name.removeprefix('product_')} {times}" for name, times in group.buckets.items() if name not in _KEPT_BUCKETS
    )
