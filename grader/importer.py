"""Rows of the harness before bv3, read strictly: a file of which one line is bad is not taken at all. Pure.

Their evidence is gone, so no rule of ours can judge them: each is a verdict of rule `imported`, the old
harness's word. A site's trial that comes again starts the next part; the rows from there on belong to it.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from broker.codec import clean_text
from broker.types import Bucket, Evidence
from grader.evidence import Timing
from grader.facts import VerdictFacts

RULE_IMPORTED = "imported"
# no version of ours has judged them
IMPORTED_VERSION = 0
MOST_BYTES = 64 * 1024 * 1024
# What a row does not say of its case, by the names of the facts.
UNKNOWN_FACTS = (
    "claim",
    "page",
    "surface",
    "dispatches",
    "payload",
    "mode",
    "lane",
    "renderer",
    "product_revision",
    "leash_scale",
)

_SITE = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")
_MOST_TRIALS = 100_000
# eleven days: beyond any run
_MOST_MS = 10**9
_MOST_TEXT = 2_000
# names in one line's problem
_MOST_NAMED = 12
_REQUIRED = (
    "site",
    "trial",
    "bucket",
    "wall_s",
    "detail",
    "composer",
    "submit",
    "total_ms",
    "llm_ms",
    "tools_ms",
    "other_ms",
    "turns",
    "artifact",
)
_TIMES = ("total_ms", "llm_ms", "tools_ms", "other_ms")
# rows of the old harness's later versions have these
_LATER = ("prestage_ms", "task_ms")
# a column that only an export of ours has
_OWN_COLUMN = "grader_version"
# What the old harness could say; it knew no more.
_BUCKETS = {
    bucket.value: bucket
    for bucket in (
        Bucket.OK,
        Bucket.PRODUCT_NO_COMPOSER,
        Bucket.PRODUCT_WRONG_SURFACE,
        Bucket.PRODUCT_FILL_DIED,
        Bucket.PRODUCT_COMMAND_TIMEOUT,
        Bucket.INFRA_BACKEND,
        Bucket.INFRA_ROUTER,
        Bucket.INFRA_BROWSER,
        Bucket.INFRA_NO_RENDERER,
        Bucket.INFRA_HARNESS,
        Bucket.NOT_MEASURABLE,
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class OldRow:
    """One row as it stood in its file, and where."""

    # counted from 1
    line: int
    raw: bytes
    site: str
    trial: int
    bucket: Bucket
    # of an exclusion: on whose word it rests
    evidence: Evidence | None
    # False: an exclusion that does not say on whose word, taken as UNVERIFIED
    is_explained: bool
    detail: str
    composer: bool
    submit: bool
    wall_s: float
    timing: Timing
    artifact: str | None
    # fields that nobody reads
    unread: tuple[str, ...]

    @property
    def run(self) -> str:
        """The row's run as it is said: `x 1`."""
        return f"{self.site} {self.trial}"

    @property
    def wall_ms(self) -> int:
        """Its wall time, to the millisecond."""
        return round(self.wall_s * 1000)


@dataclass(frozen=True, slots=True, kw_only=True)
class BadLine:
    """A line that is no row, and why."""

    line: int
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Rows in which each site's trial comes once."""

    name: str
    rows: tuple[OldRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A file as it was read: its rows, or the lines because of which there are none to be taken."""

    rows: tuple[OldRow, ...]
    bad: tuple[BadLine, ...]


class _NoRowError(ValueError):
    """The line's problem, in words."""


def read_file(data: bytes, *, suite: str, sites: Collection[str] | None) -> Reading:
    """Every line of the file as a row or as a bad line; empty lines are neither.

    `sites`: those of the suite, any other is a bad line; None: nobody knows them.
    """
    rows: list[OldRow] = []
    bad: list[BadLine] = []
    # at b"\n" alone: a U+2028 or a form feed within a text ends no line
    for number, raw in enumerate(data.split(b"\n"), start=1):
        if not raw.strip():
            continue
        try:
            rows.append(_read_row(number, raw, suite, sites))
        except _NoRowError as problem:
            bad.append(BadLine(line=number, problem=clean_text(str(problem))[0]))
    return Reading(rows=tuple(rows), bad=tuple(bad))


def _read_row(number: int, raw: bytes, suite: str, sites: Collection[str] | None) -> OldRow:
    fields = _read_object(raw)
    if _OWN_COLUMN in fields:
        raise _NoRowError("a row that bv3 itself has exported: its verdict stands in the sweep that it names")
    missing = [name for name in _REQUIRED if name not in fields]
    if missing:
        raise _NoRowError(f"missing: {', '.join(missing)}")
    problems = [problem for problem in _judge_fields(fields, suite, sites) if problem]
    if problems:
        raise _NoRowError("; ".join(problems))
    bucket = _BUCKETS[fields["bucket"]]
    evidence = _find_evidence(fields["detail"]) if bucket is Bucket.NOT_MEASURABLE else None
    is_excluded = bucket is Bucket.NOT_MEASURABLE
    return OldRow(
        line=number,
        raw=raw.rstrip(b"\r"),
        site=fields["site"],
        trial=fields["trial"],
        bucket=bucket,
        evidence=evidence or Evidence.UNVERIFIED if is_excluded else None,
        is_explained=evidence is not None or not is_excluded,
        detail=clean_text(fields["detail"][:_MOST_TEXT])[0],
        composer=fields["composer"],
        submit=fields["submit"],
        wall_s=float(fields["wall_s"]),
        timing=Timing(turns=fields["turns"], **{name: fields.get(name) for name in (*_TIMES, *_LATER)}),
        artifact=None if fields["artifact"] is None else clean_text(fields["artifact"][:_MOST_TEXT])[0],
        unread=tuple(sorted(clean_text(name[:80])[0] for name in fields if name not in {*_REQUIRED, *_LATER})),
    )


def _read_object(raw: bytes) -> Mapping[str, Any]:
    try:
        value = json.loads(raw.decode("utf-8"), object_pairs_hook=_refuse_twins, parse_constant=_refuse_constant)
    except UnicodeDecodeError as error:
        raise _NoRowError(f"not UTF-8 at byte {error.start}") from error
    except json.JSONDecodeError as error:
        raise _NoRowError(f"not JSON: {error.msg} at column {error.colno}") from error
    except _NoRowError:
        raise
    except (ValueError, RecursionError) as error:
        # a number of thousands of digits, or brackets as deep
        raise _NoRowError("not JSON that anybody could have meant") from error
    if not isinstance(value, dict):
        raise _NoRowError("not an object")
    return value


def _refuse_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        times = Counter(name for name, _ in pairs)
        twins = sorted({name[:80] for name in times if times[name] > 1})[:_MOST_NAMED]
        raise _NoRowError(f"says twice: {', '.join(twins)}")
    return fields


def _refuse_constant(name: str) -> None:
    raise _NoRowError(f"{name} is no value")


def _judge_fields(fields: Mapping[str, Any], suite: str, sites: Collection[str] | None) -> Iterable[str | None]:
    yield _judge_site(fields["site"], suite, sites)
    yield _judge_count("trial", fields["trial"], low=1, high=_MOST_TRIALS)
    yield _judge_bucket(fields["bucket"])
    yield _judge_wall(fields["wall_s"])
    for name in (*_TIMES, *(name for name in _LATER if name in fields)):
        if fields[name] is not None:
            yield _judge_count(name, fields[name], low=0, high=_MOST_MS)
    if fields["turns"] is not None:
        yield _judge_count("turns", fields["turns"], low=0, high=_MOST_MS)
    for name in ("composer", "submit"):
        yield None if isinstance(fields[name], bool) else f"{name} must be true or false"
    yield None if isinstance(fields["detail"], str) else "detail must be a text"
    yield None if isinstance(fields["artifact"], str | None) else "artifact must be a text or null"


def _judge_site(site: object, suite: str, sites: Collection[str] | None) -> str | None:
    if not isinstance(site, str) or not _SITE.fullmatch(site):
        return "site must be a site's id, as in `x`"
    if sites is not None and site not in sites:
        return f"site {site!r} is not in the suite {suite!r}"
    return None


def _judge_bucket(bucket: object) -> str | None:
    if isinstance(bucket, str) and bucket in _BUCKETS:
        return None
    return f"bucket {str(bucket)[:40]!r} is none of the old harness's"


def _judge_count(name: str, value: object, *, low: int, high: int) -> str | None:
    if isinstance(value, bool) or not isinstance(value, int):
        return f"{name} must be a whole number"
    if not low <= value <= high:
        return f"{name} must be {low} to {high}"
    return None


def _judge_wall(value: object) -> str | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "wall_s must be a number"
    # an integer of hundreds of digits is no float
    if not 0 <= value <= _MOST_MS / 1000 or not math.isfinite(value):
        return f"wall_s must be 0 to {_MOST_MS // 1000}"
    return None


def _find_evidence(detail: str) -> Evidence | None:
    """The word before the detail's own evidence, which quotes pages and could hold any."""
    words = set(re.findall(r"\w+", detail.partition("(")[0]))
    return next((one for one in (Evidence.UNVERIFIED, Evidence.PROVEN) if one.value in words), None)


def split_parts(rows: Iterable[OldRow]) -> tuple[Part, ...]:
    """The rows in their order as parts `part-1`, `part-2`, …: a site's trial that comes again starts the next."""
    parts: list[list[OldRow]] = []
    seen: set[tuple[str, int]] = set()
    for row in rows:
        if not parts or (row.site, row.trial) in seen:
            parts.append([])
            seen.clear()
        seen.add((row.site, row.trial))
        parts[-1].append(row)
    return tuple(Part(name=f"part-{number}", rows=tuple(part)) for number, part in enumerate(parts, start=1))


def collect_old_facts(row: OldRow) -> VerdictFacts:
    """What the row says of its case, and by name what it does not."""
    return VerdictFacts(
        evidence=row.evidence, submit=row.submit, wall_ms=row.wall_ms, timing=row.timing, unknown=UNKNOWN_FACTS
    )
