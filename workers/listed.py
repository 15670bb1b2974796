"""What an accessibility listing says of text boxes that the page's own world can't reach. Pure.

It serves for one thing: a copy of the payload in a frame of another origin. Its rows say nothing of where they stand,
its values are cut, and it leaves out what has no role. So a row is taken for a frame's only if nothing that was read
on the page itself can be what it shows; and that it shows no copy proves nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from broker.markers import read_pattern
from workers.pagewords import normalise

# A text box in the accessibility listing (contract section 4), with its value.
_ROW = re.compile(read_pattern("reply_listed_value"), re.MULTILINE)
_NAME = re.compile(r'<\w+ "([^"\n]*)"')
# The listing cuts values; a payload's first 24 characters tell it from any other.
_VALUE_CHARS = 60
_DISTINCT_CHARS = 24
# A value that was cut may end within a second copy: so many of its characters are no chance.
_SECOND_CHARS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedBox:
    """A row of a text box that holds the payload."""

    name: str
    # as far as the value shows it
    count: int


def read_rows(listing: str, payload: str) -> tuple[ListedBox, ...]:
    """The rows of text boxes that hold the payload, as far as the listing shows values."""
    wanted = _listed(payload)
    found = []
    for row in _ROW.finditer(listing) if wanted else ():
        name = _NAME.search(row[0])
        if count := _count(_listed(row["value"]), wanted):
            found.append(ListedBox(name=_listed(name[1]) if name else "", count=count))
    return tuple(found)


def count_beyond(rows: Sequence[ListedBox], names: Sequence[str]) -> int:
    """How many copies the rows show beyond the text boxes of these names, each of which may be one row.

    A row is one of theirs when the names are the same, or when one of the two has none.
    """
    left = [_listed(name) for name in names]
    unmatched = []
    # first those that can be only one
    for row in sorted(rows, key=lambda row: not row.name):
        name = next((name for name in left if name == row.name), None)
        if name is None:
            unmatched.append(row)
        else:
            left.remove(name)
    beyond = 0
    for row in unmatched:
        name = next((name for name in left if _may_be(name, row.name)), None)
        if name is None:
            beyond += row.count
        else:
            left.remove(name)
    return beyond


def _may_be(one: str, other: str) -> bool:
    return not one or not other or one.startswith(other) or other.startswith(one)


def _listed(text: str) -> str:
    """As a listing writes it, which makes every quote a single one."""
    return normalise(text).replace('"', "'")


def _count(value: str, wanted: str) -> int:
    if len(wanted) > _VALUE_CHARS - 2:
        return int(wanted[:_DISTINCT_CHARS] in value)
    count = value.count(wanted)
    tail = value.rpartition(wanted)[2].strip() if count else ""
    is_cut = len(value) >= _VALUE_CHARS - 1
    return count + (is_cut and len(tail) >= _SECOND_CHARS and wanted.startswith(tail))
