"""The heads of all line templates as one regular expression, so that a slice is looked through once. Pure.

Python's own `re`: RE2's binding costs more per line than all of the rest. It stays linear, since nothing in the
expression can be tried in two ways: prefix and rest are possessive, the heads are a tree of literals.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

# `HH:MM:SS L logger: `, by the two of its bytes that are always the same and the first ": " after the level
_PREFIX = rb"(..:.{5} ..(?>[^\n:]*+(?::(?! )[^\n:]*+)*+): )"


class Line(NamedTuple):
    """One line of a slice, without its end: bytes `start` to `end`; after the logger's prefix comes its message."""

    start: int
    message: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Heads:
    """Compiled heads."""

    _first: re.Pattern[bytes]
    _others: re.Pattern[bytes]
    # per group that a match can end with: the names that the line may belong to
    _names: tuple[tuple[str, ...], ...]

    def sort_lines(self, log: bytes) -> dict[str, list[Line]]:
        """By name, the lines whose message begins with its head, in the order of the log."""
        found: dict[str, list[Line]] = {}
        names = self._names
        # an expression that begins with a literal is looked for faster than one that begins with `^`
        first = self._first.match(log)
        for match in chain((first,) if first else (), self._others.finditer(log)):
            start = match.start(1)
            line = Line(start, max(start, match.end(2)), match.end())
            # an empty group stands after each head, so the last one to take part says which it was
            for name in names[match.lastindex or 0]:
                if name in found:
                    found[name].append(line)
                else:
                    found[name] = [line]
        return found


def compile_heads(*, logged: Mapping[str, bytes], raw: Mapping[str, bytes]) -> Heads:
    """Heads by name, ready to sort lines: those of lines with the logger's prefix, and those of lines without.

    Neither are heads of the other kind of line. No head is empty.
    """
    # group 1 is the line's start, 2 the prefix, which decides; there is no group 0
    names: list[tuple[str, ...]] = [(), (), ()]
    trees = [_express(_plant(heads.values()), b"", heads, names) for heads in (logged, raw)]
    body = b"()" + _PREFIX + b"?+(?(2)" + b"|".join(trees) + b").*+"
    return Heads(_first=re.compile(body), _others=re.compile(b"\n" + body), _names=tuple(names))


def _plant(heads: Iterable[bytes]) -> dict[int, Any]:
    """The heads as a tree of bytes."""
    tree: dict[int, Any] = {}
    for head in heads:
        node = tree
        for byte in head:
            node = node.setdefault(byte, {})
    return tree


def _express(node: dict[int, Any], sofar: bytes, heads: Mapping[str, bytes], names: list[tuple[str, ...]]) -> bytes:
    """The tree below `sofar`; at the end of each head stands an empty group, so that a match says which it was."""
    branches = [
        re.escape(bytes([byte])) + _express(below, sofar + bytes([byte]), heads, names) for byte, below in node.items()
    ]
    if sofar in heads.values():
        # last, so that a longer head comes first: its line belongs to the shorter one, too
        names.append(tuple(name for name, head in heads.items() if sofar.startswith(head)))
        branches.append(b"()")
    return branches[0] if len(branches) == 1 else b"(?:" + b"|".join(branches) + b")"
