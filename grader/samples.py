"""What a printed string looks like on a log line, and whether a marker's pattern can fit it. Pure.

A string may hold a template's literal parts and more beside them, and the pattern, which fits whole lines, then
never matches: the very line that the grader looks for, one field longer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice, product

from grader.markers import Catalogue, Marker
from grader.printed import Printed

# what values look like: a number, a word, a quoted one, a truth, an address, an entry of a dictionary, nothing
_VALUES = ("1", "x", "'x'", "True", "None", "https://x.example/", "{'error': 'x'}", "")
_MOST_TRIES = 20_000


def can_match(catalogue: Catalogue, marker: Marker, parts: Sequence[str], printed: Printed) -> bool:
    """Whether the marker's own pattern fits this string with some values in its holes.

    A string that does not hold the template's parts by itself is not judged: others stand in its holes.
    """
    if not _holds(parts, printed):
        return True
    return any(_fits(catalogue, marker, sample) for sample in islice(_fill(marker, parts, printed), _MOST_TRIES))


def _holds(parts: Sequence[str], printed: Printed) -> bool:
    text, offset = "\0".join(printed.runs), 0
    for part in parts:
        offset = text.find(part, offset)
        if offset < 0:
            return False
        offset += len(part)
    return True


def _fill(marker: Marker, parts: Sequence[str], printed: Printed) -> Iterator[str]:
    """The string with values in its holes: those of the marker's example first, then whatever values look like."""
    holes = len(printed.runs) - 1
    known = _values_of(marker, parts)
    if len(known) == holes:
        yield _put(printed.runs, known)
    for values in product(dict.fromkeys((*known, *_VALUES)), repeat=holes):
        yield _put(printed.runs, values)


def _put(runs: Sequence[str], values: Sequence[str]) -> str:
    return runs[0] + "".join(value + run for value, run in zip(values, runs[1:], strict=True))


def _values_of(marker: Marker, parts: Sequence[str]) -> tuple[str, ...]:
    """What stands between the template's literal parts in its example."""
    between = "(.*?)".join(map(re.escape, parts))
    found = re.search(f"{between}(.*)$" if marker.template.endswith("}") else between, marker.example)
    return found.groups() if found else ()


def _fits(catalogue: Catalogue, marker: Marker, sample: str) -> bool:
    if marker.is_value:
        return marker.name in catalogue.replies_in(sample)
    prefix = f"00:00:00 {marker.level} a.b: " if marker.level else ""
    line = f"{prefix}{sample}".encode()
    return any((hit.start, hit.end) == (0, len(line)) for hit in catalogue.scan(line).find(marker.name))
