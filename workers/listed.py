"""What an accessibility listing says of text boxes that the page's own world can't reach. Pure.

It serves for one thing: a copy of the payload in a frame of another origin. Its rows say nothing of where they stand,
its values are cut, and it leaves out what has no role. So a row is taken for a frame's only if nothing that was read
on the page itself can be what it shows; and that it shows no copy proves nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
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

    # in small letters and without spaces
    name: str
    # as far as the value shows it
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Beyond:
    """Copies that nothing read on the page can be; `is_sure`: no row was taken for a box of another name."""

    count: int
    is_sure: bool


def read_rows(listing: str, payload: str) -> tuple[ListedBox, ...]:
    """The rows of text boxes that hold the payload, as far as the listing shows values."""
    wanted = _listed(payload)
    found = []
    for row in _ROW.finditer(listing) if wanted else ():
        name = _NAME.search(row[0])
        if count := _count(_listed(row["value"]), wanted):
            found.append(ListedBox(name=_name(name[1]) if name else "", count=count))
    return tuple(found)


def count_beyond(rows: Sequence[ListedBox], names: Sequence[str]) -> Beyond:
    """What the rows show beyond the text boxes of these names, each of which may be one row.

    A page's styles change names: paint in capitals, a star before what is required. A row whose name is like none of
    theirs may still be one of theirs, as long as one of theirs has no row: it is taken for that one, and not for sure.
    """
    # first those that can be only one
    left = sorted((_name(name) for name in names), key=lambda name: not name)
    unmatched = sorted(rows, key=lambda row: not row.name)
    for is_alike in (_is_same, _may_be):
        unmatched = [row for row in unmatched if not _take(left, row.name, is_alike)]
    unmatched.sort(key=lambda row: row.count)
    beyond = unmatched[len(left) :]
    return Beyond(count=sum(row.count for row in beyond), is_sure=len(beyond) == len(unmatched))


def _take(left: list[str], name: str, is_alike: Callable[[str, str], bool]) -> bool:
    found = next((one for one in left if is_alike(one, name)), None)
    if found is None:
        return False
    left.remove(found)
    return True


def _is_same(one: str, other: str) -> bool:
    return bool(one) and one == other


def _may_be(one: str, other: str) -> bool:
    return one in other or other in one


def _name(text: str) -> str:
    """As it is compared: paint decides on capitals, and on the space between two lines of a label."""
    return _listed(text).casefold().replace(" ", "")


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
