"""What old rows come to, and what is wrong with them. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from broker.types import Bucket, Evidence, Family
from grader.importer import OldRow

# four printed values, each rounded to a whole millisecond
_ROUNDING_MS = 2
# the wall time is printed in tenths of a second
_WALL_ROUNDING_MS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class SameTimings:
    """Two rows with the same times and turns: one carries the other's."""

    first: OldRow
    second: OldRow
    # 0: neighbours
    rows_between: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Overwritten:
    """An artifact that more than one row names: the last one's is there, at best."""

    artifact: str
    rows: tuple[OldRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Impossible:
    """Values of one row that can't all be true."""

    row: OldRow
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What is wrong with the rows; none of it keeps them out."""

    neighbours: tuple[SameTimings, ...]
    # with one row between them, apart from those
    apart: tuple[SameTimings, ...]
    overwritten: tuple[Overwritten, ...]
    impossible: tuple[Impossible, ...]
    # exclusions that do not say on whose word
    unexplained: tuple[OldRow, ...]
    # fields that nobody reads, with how many rows have each
    unread: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The rows in numbers. A median is None where no `ok` row has the value."""

    rows: int
    buckets: Mapping[str, int]
    ok: int
    # ok and product
    measured: int
    not_measurable: int
    # of them, those that rest on a word alone
    unverified: int
    infra: int
    medians: Mapping[str, float | None]


def summarise(rows: Sequence[OldRow]) -> Summary:
    """The rows in numbers; medians over the `ok` ones that have the value."""
    families = Counter(row.bucket.family for row in rows)
    reached = [row for row in rows if row.bucket is Bucket.OK]
    values: dict[str, list[float]] = {
        "wall_s": [row.wall_s for row in reached],
        "total_ms": _known(row.timing.total_ms for row in reached),
        "llm_ms": _known(row.timing.llm_ms for row in reached),
        "tools_ms": _known(row.timing.tools_ms for row in reached),
        "other_ms": _known(row.timing.other_ms for row in reached),
    }
    return Summary(
        rows=len(rows),
        buckets=dict(sorted(Counter(row.bucket.value for row in rows).items())),
        ok=families[Family.OK],
        measured=families[Family.OK] + families[Family.PRODUCT],
        not_measurable=families[Family.NOT_MEASURABLE],
        unverified=sum(row.evidence is Evidence.UNVERIFIED for row in rows),
        infra=families[Family.INFRA],
        medians={name: median(known) if known else None for name, known in values.items()},
    )


def _known(values: Iterable[int | None]) -> list[float]:
    return [value for value in values if value is not None]


def find_faults(rows: Sequence[OldRow]) -> Findings:
    """What is wrong with these rows, in the order of their file."""
    return Findings(
        neighbours=tuple(_same_timings(rows, rows_between=0)),
        apart=tuple(_same_timings(rows, rows_between=1)),
        overwritten=tuple(_overwritten(rows)),
        impossible=tuple(Impossible(row=row, problem=problem) for row in rows for problem in _impossible(row)),
        unexplained=tuple(row for row in rows if not row.is_explained),
        unread=dict(sorted(Counter(name for row in rows for name in row.unread).items())),
    )


def _same_timings(rows: Sequence[OldRow], *, rows_between: int) -> Iterator[SameTimings]:
    for position, (first, second) in enumerate(zip(rows, rows[rows_between + 1 :], strict=False)):
        between = rows[position + 1 : position + 1 + rows_between]
        # three in a row are two pairs of neighbours
        if _are_same(first, second) and not any(_are_same(first, row) for row in between):
            yield SameTimings(first=first, second=second, rows_between=rows_between)


def _are_same(one: OldRow, other: OldRow) -> bool:
    times = _times(one)
    return None not in times and times == _times(other)


def _times(row: OldRow) -> tuple[int | None, ...]:
    timing = row.timing
    return timing.total_ms, timing.llm_ms, timing.tools_ms, timing.other_ms, timing.turns


def _overwritten(rows: Iterable[OldRow]) -> Iterator[Overwritten]:
    named: dict[str, list[OldRow]] = {}
    for row in rows:
        if row.artifact:
            named.setdefault(row.artifact, []).append(row)
    yield from (
        Overwritten(artifact=artifact, rows=tuple(members)) for artifact, members in named.items() if len(members) > 1
    )


def _impossible(row: OldRow) -> Iterator[str]:
    timing = row.timing
    total, llm, tools, other = timing.total_ms, timing.llm_ms, timing.tools_ms, timing.other_ms
    if total is not None and llm is not None and tools is not None and other is not None:
        rest = max(0, total - llm - tools)
        if abs(other - rest) > _ROUNDING_MS:
            yield f"other {other} ms is not total - llm - tools = {rest} ms"
    elif any(value is not None for value in (total, llm, tools, other)):
        yield "some of total, llm, tools and other are null and some are not"
    if total is not None and row.wall_ms + _WALL_ROUNDING_MS < total:
        yield f"wall {row.wall_s:g} s is shorter than total {total} ms"
    if row.composer is not (row.bucket is Bucket.OK):
        yield f"composer is {str(row.composer).lower()} in the bucket {row.bucket.value}"
    if row.submit and not row.composer:
        yield "submit without a composer"
