"""The tables of a scorecard as text: the nine criteria, what they were set against, and who had which bucket."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import zip_longest

from broker.types import Bucket, Claim, Seen
from grader.criteria import Cell, Comparison, Mark, Reading
from grader.intervals import Interval
from grader.lines import DASH, SHORT_MS, Line, duration, flow, percent
from grader.scorecard import Breakdown, ClaimByPage, Scorecard, Tally

# from here on a row has a place for the value before bv3
_WIDE = 100
_STYLES = {Mark.PASS: "green", Mark.FAIL: "bold red", Mark.OPEN: "yellow"}
# the narrowest places for what was measured, its interval and a group's reach: a large sample has longer ones
_MEASURED_WIDTH, _INTERVAL_WIDTH, _REACH_WIDTH = 15, 13, 14
_COUNT_WIDTH, _GAP = 8, 2
_SHARE_NOTE = "the gap is the known suite's reach less the holdout's: above 0 the holdout does worse"
_SHAPE = "editor shape"
_KEPT_BUCKETS = frozenset({Bucket.OK.value, Bucket.NOT_MEASURABLE.value})


def tabulate_criteria(card: Scorecard, width: int) -> Iterator[Line]:
    """The nine criteria with their values before bv3, which stand in the row where there is room."""
    is_wide = width >= _WIDE
    columns = partial(_columns, pads=_pad_numbers(card.criteria, width, is_wide=is_wide), is_wide=is_wide)
    yield Line(
        text=columns("#", "criterion", "target", "was", "measured", "95% interval", "verdict"),
        style="dim",
    )
    for cell in card.criteria:
        numbers = _measured(cell), _interval(cell.interval, cell.unit)
        row = columns(str(cell.number), cell.name, cell.target, cell.baseline, *numbers, cell.mark.value)
        yield from _with_remarks(row, cell, width, is_wide=is_wide)
        for reading in cell.also:
            numbers = _rate(reading), _interval(reading.interval, "share")
            yield Line(text=columns("", "", "", "", *numbers, ""), style="dim")
            yield Line(text=f"  ^ {reading.label}", style="dim")


def _pad_numbers(cells: Sequence[Cell], width: int, *, is_wide: bool) -> tuple[int, int]:
    """How wide the places for what was measured and for its interval must be, and for the interval can be."""
    readings = [reading for cell in cells for reading in cell.also]
    measured = [*map(_measured, cells), *map(_rate, readings)]
    ends = [_interval(cell.interval, cell.unit) for cell in cells]
    ends += [_interval(reading.interval, "share") for reading in readings]
    measured_pad = max([_MEASURED_WIDTH, *map(len, measured)])
    others = _columns(*[""] * 6, "verdict", pads=(measured_pad, 0), is_wide=is_wide)
    return measured_pad, max(_INTERVAL_WIDTH, min(max(map(len, ends)), width - len(others)))


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


def _columns(*cells: str, pads: tuple[int, int], is_wide: bool) -> str:
    number, name, target, was, measured, interval, mark = cells
    before = f" {was:<14}" if is_wide else ""
    numbers = f"{measured:<{pads[0]}} {interval:<{pads[1]}}"
    return f"{number:>1} {name:<23} {target:<13}{before} {numbers} {mark}".rstrip()


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
    if not cell.denominator:
        # of how many is a rate, which unlike attempts do not have
        return f"{cell.numerator}"
    text = f"{cell.numerator} of {cell.denominator}"
    return f"{text} claims" if len(f"{text} claims") <= _MEASURED_WIDTH else text


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
            is_gap = cell.compared[0].unit == "share"
            heads = ("known", "holdout", "gap, points") if is_gap else ("there", "here", "change")
            yield Line(text=_side_by_side("", *heads, "95% interval"), style="dim")
            yield from (Line(text=_compare(one)) for one in cell.compared)
            if is_gap:
                yield Line(text=f"  {_SHARE_NOTE}", style="dim")


def _side_by_side(*cells: str) -> str:
    label, there, here, change, interval = cells
    return f"  {label:<24} {there:>9} {here:>9} {change:>12}  {interval}".rstrip()


def _compare(one: Comparison) -> str:
    interval = _interval(one.interval, "change")
    if one.unit == "ms":
        change = DASH if one.change is None else _signed(one.change)
        return _side_by_side(one.label, _time(one.other), _time(one.value), change, interval)
    change = DASH if one.change is None else f"{one.change * 100:+.1f}"
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
    tables = (("site", card.by_site), (_SHAPE, card.by_shape), ("box", card.by_box))
    groups = [group for _, members in tables for group in members]
    reach_pad = max([_REACH_WIDTH, *(len(reach(group.tally)) for group in groups)])
    pads = (_pad_key(groups, width - _GAP * 4 - _COUNT_WIDTH * 2 - reach_pad), reach_pad)
    for position, (title, members) in enumerate(tables):
        if members:
            if position:
                yield Line()
            yield Line(text=_group(title, "attempts", "reach", "excluded", "failed", pads=pads), style="dim")
        for group in members:
            # an editor that is never reached must not hide among those that are
            is_unreached = title == _SHAPE and group.key in card.shapes_unreached
            style = _STYLES[Mark.FAIL] if is_unreached else ""
            yield from (replace(line, style=style) for line in _group_lines(group, width, pads))
        if title == _SHAPE:
            yield from _shape_remarks(card, width)


def _shape_remarks(card: Scorecard, width: int) -> Iterator[Line]:
    for words, shapes, mark in (
        ("never reached:", card.shapes_unreached, Mark.FAIL),
        ("without a measurable run:", card.shapes_empty, Mark.OPEN),
    ):
        if shapes:
            names = (f"{name or DASH}{',' if name != shapes[-1] else ''}" for name in shapes)
            yield from flow((words, *names), width, gap=1, style=_STYLES[mark])


def _pad_key(groups: Sequence[Breakdown], free: int) -> int:
    """How much of the `free` columns the keys get: all that they need, or what their failures leave, or half."""
    failures = [_failed(group) for group in groups]
    longest_key = max([len(_SHAPE), *(len(_key(group)) for group in groups)])
    longest_list = max([len("failed"), *map(len, failures)])
    longest_piece = max([0, *(len(piece) for text in failures for piece in text.split(", "))])
    # a piece has its comma
    return min(longest_key, max(free // 2, free - longest_list), free - longest_piece - 1)


def _group_lines(group: Breakdown, width: int, pads: tuple[int, int]) -> Iterator[Line]:
    """The group's row; a key or a list of failures that is too long for its column goes on in the next lines."""
    key_pad, reach_pad = pads
    keys = textwrap.wrap(_key(group), key_pad, subsequent_indent="  ", break_on_hyphens=False) or [DASH]
    # a number stays beside its name
    joined = _failed(group).replace(" ", "~").replace(",~", ", ")
    room = width - key_pad - reach_pad - _GAP * 4 - _COUNT_WIDTH * 2
    failures = textwrap.wrap(joined, room, break_long_words=False, break_on_hyphens=False)
    cells = (str(group.tally.attempts), reach(group.tally), str(group.tally.not_measurable or DASH))
    for key, failed in zip_longest(keys, failures, fillvalue=""):
        yield Line(text=_group(key, *cells, failed.replace("~", " "), pads=pads))
        cells = ("", "", "")


def _group(*cells: str, pads: tuple[int, int]) -> str:
    key, attempts, reached, excluded, failed = cells
    numbers = f"{attempts:>{_COUNT_WIDTH}}  {reached:<{pads[1]}}  {excluded:>{_COUNT_WIDTH}}"
    return f"{key:<{pads[0]}}  {numbers}  {failed}".rstrip()


def _key(group: Breakdown) -> str:
    return group.key or DASH


def _failed(group: Breakdown) -> str:
    return ", ".join(
        f"{name.removeprefix('product_')} {times}" for name, times in group.buckets.items() if name not in _KEPT_BUCKETS
    )
