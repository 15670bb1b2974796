"""The heads of all line templates as one regular expression: a slice is looked through once for lines worth more. Pure.

Python's own `re`: RE2's binding costs more per line than all of the rest. It stays linear, since nothing in the
expression can match in two ways: each run of the prefix ends where a colon or the line does, and the heads are a tree
of literals. Possessive quantifiers would say so, but match nothing in Python 3.11.2.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

# `HH:MM:SS L logger: `, by the bytes of it that are always the same; a logger's name has no space and no colon
_PREFIX = rb"(..:.{5} . [^\s:]*: )"


# One line of a slice, without its end: where it starts, where its message comes after the logger's prefix, its end.
Line = tuple[int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Heads:
    """Compiled heads."""

    _first: re.Pattern[bytes]
    _others: re.Pattern[bytes]

    def find_lines(self, log: bytes) -> Iterator[Line]:
        """The lines whose message begins with a head of its kind, in the order of the log."""
        # an expression that begins with a literal is looked for faster than one that begins with `^`
        first = self._first.match(log)
        for match in chain((first,) if first else (), self._others.finditer(log)):
            start, message = match.start(1), match.end(2)
            yield start, start if message < 0 else message, match.end()


def compile_heads(*, logged: Collection[bytes], raw: Collection[bytes]) -> Heads:
    """Heads of lines with the logger's prefix, and of lines without; neither are heads of the other kind of line."""
    # group 1 is the line's start, 2 the prefix, which decides
    body = b"()(?:" + _PREFIX + _express(_plant(logged)) + b"|" + _express(_plant(raw)) + b").*"
    return Heads(_first=re.compile(body), _others=re.compile(b"\n" + body))


def _plant(heads: Collection[bytes]) -> dict[int, Any]:
    """The heads as a tree of bytes; a head that begins with another one adds nothing to it."""
    tree: dict[int, Any] = {}
    for head in sorted(heads, key=len, reverse=True):
        node = tree
        for byte in head:
            node = node.setdefault(byte, {})
        node.clear()
    return tree


def _express(node: dict[int, Any]) -> bytes:
    """The tree as an expression: alternatives that differ in their first byte."""
    branches = [re.escape(bytes([byte])) + _express(below) for byte, below in node.items()]
    return branches[0] if len(branches) == 1 else b"(?:" + b"|".join(branches) + b")"
