"""The catalogue of product output (`broker/markers.toml`), compiled, and the one scan over a log slice.

Linear in the slice: it is looked through once, for lines that begin as a template does; the pattern
itself, in RE2, runs only on lines that somebody asks for.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from itertools import chain
from typing import Any, NamedTuple

import re2

from broker.markers import read_catalogue
from grader.heads import Heads, Line, compile_heads

# The slice is bytes of any kind: RE2 in Latin-1 sees each byte as one character and refuses none.
_OPTIONS = re2.Options()
_OPTIONS.encoding = re2.Options.Encoding.LATIN1
_OPTIONS.log_errors = False

_TIME_LENGTH = len("HH:MM:SS")
_MAX_DIGITS = 12
_PLACEHOLDER = re.compile(r"(?<!\{)\{(?!\{)")


class Origin(StrEnum):
    """Who prints a marker."""

    SOURCE = "source"
    REPLY = "reply"
    SDK = "sdk"
    HARNESS = "harness"


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """One entry of the catalogue, as written."""

    name: str
    origin: Origin
    source: str
    level: str
    template: str
    pattern: str
    example: str
    # no line of its own: looked for within the values of others
    is_value: bool = False

    @property
    def head(self) -> str:
        """The literal text before the template's first value."""
        return _PLACEHOLDER.split(self.template, maxsplit=1)[0].replace("{{", "{")


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """One line that a marker matched: bytes `start` to `end` of the slice, without the line's end."""

    marker: str
    start: int
    end: int
    # HH:MM:SS as printed, without a date; empty for lines without the logger's prefix
    time: str
    # RE2's match; values are decoded when asked for
    _match: Any = field(repr=False, compare=False)
    _groups: Mapping[str, int] = field(repr=False, compare=False)

    def text(self, name: str) -> str:
        """A captured value; empty when it was not printed."""
        number = self._groups.get(name)
        value: bytes | None = None if number is None else self._match.group(number)
        return (value or b"").decode("utf-8", "replace")

    def number(self, name: str) -> int | None:
        """A captured whole number, or None when it was not printed or is absurdly long."""
        digits = self.text(name)
        return int(digits) if 0 < len(digits) <= _MAX_DIGITS else None


class _Pattern(NamedTuple):
    compiled: Any
    # names of captured values, as RE2 numbers them; asking RE2 each time costs more than matching
    groups: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """One slice, its lines sorted by which markers they may be."""

    _log: bytes
    _lines: Mapping[str, list[Line]]
    _patterns: Mapping[str, _Pattern]
    # what was asked before; the answer is always the same
    _found: dict[str, tuple[Hit, ...]] = field(default_factory=dict)

    def find(self, *names: str) -> tuple[Hit, ...]:
        """All lines that these markers match, in the order of the log."""
        lines = self._lines
        found = [hits for name in names if name in lines and (hits := self._find_one(name))]
        if len(found) <= 1:
            return found[0] if found else ()
        return tuple(sorted(chain.from_iterable(found), key=_start))

    def find_naming_none(self, own: Collection[bytes], *names: str) -> tuple[Hit, ...]:
        """Lines that these markers match and that hold none of these ids; those that do cost no pattern."""
        hits = [
            hit
            for name in names
            for line in self._lines.get(name, ())
            if not self._holds(line, own) and (hit := self._match(name, line))
        ]
        return tuple(sorted(hits, key=_start))

    def find_all(self) -> tuple[Hit, ...]:
        """Every line that any marker matches."""
        return self.find(*self._lines)

    def _holds(self, line: Line, ids: Collection[bytes]) -> bool:
        for one in ids:  # noqa: SIM110 - a generator costs twice as much, and this is asked of most lines
            if self._log.find(one, line.message, line.end) >= 0:
                return True
        return False

    def _find_one(self, name: str) -> tuple[Hit, ...]:
        found = self._found.get(name)
        if found is None:
            hits = [hit for line in self._lines[name] if (hit := self._match(name, line))]
            found = self._found[name] = tuple(hits)
        return found

    def _match(self, name: str, line: Line) -> Hit | None:
        start, message, end = line
        pattern = self._patterns[name]
        match = pattern.compiled.fullmatch(self._log[message:end].removesuffix(b"\r"))
        if match is None:
            return None
        time = self._log[start : start + _TIME_LENGTH].decode("ascii", "replace") if message > start else ""
        return Hit(marker=name, start=start, end=end, time=time, _match=match, _groups=pattern.groups)


def _start(hit: Hit) -> int:
    return hit.start


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue:
    """All markers, compiled."""

    markers: tuple[Marker, ...]
    _heads: Heads
    _patterns: Mapping[str, _Pattern]
    _replies: tuple[str, ...]
    _any_reply: Any

    def scan(self, log: bytes) -> Scan:
        """The slice, ready to be asked."""
        return Scan(_log=log, _lines=self._heads.sort_lines(log), _patterns=self._patterns)

    def replies_in(self, text: str) -> frozenset[str]:
        """The names of all reply markers found in a captured value."""
        data = text.encode("utf-8", "surrogatepass")
        if not self._any_reply.search(data):
            return frozenset()
        return frozenset(name for name in self._replies if self._patterns[name].compiled.search(data))


def compile_catalogue(text: str) -> Catalogue:
    """The catalogue in this TOML. Raises ValueError naming the entry that is incomplete or no RE2 pattern."""
    markers = tuple(_read(entry) for entry in tomllib.loads(text)["marker"])
    patterns = {marker.name: _compile(marker) for marker in markers}
    if len(patterns) != len(markers):
        raise ValueError("two markers have the same name")
    heads = {marker.name: marker.head.encode() for marker in markers if not marker.is_value}
    logged = {marker.name for marker in markers if marker.level}
    replies = [marker for marker in markers if marker.is_value]
    return Catalogue(
        markers=markers,
        # lines with the logger's prefix, and lines without: neither can pass for the other
        _heads=compile_heads(
            logged={name: head for name, head in heads.items() if name in logged},
            raw={name: head for name, head in heads.items() if name not in logged},
        ),
        _patterns=patterns,
        _replies=tuple(marker.name for marker in replies),
        _any_reply=re2.compile("|".join(f"(?:{marker.pattern})" for marker in replies).encode("ascii"), _OPTIONS),
    )


def _read(entry: dict[str, Any]) -> Marker:
    try:
        origin = Origin(entry["origin"])
        return Marker(**{"is_value": origin is Origin.REPLY, **entry, "origin": origin})
    except (TypeError, KeyError, ValueError) as error:
        raise ValueError(f"marker {entry.get('name', '?')!r}: {error}") from error


def _compile(marker: Marker) -> _Pattern:
    try:
        compiled = re2.compile(marker.pattern.encode("ascii"), _OPTIONS)
        groups = {name.decode("ascii"): number for name, number in compiled.groupindex.items()}
        return _Pattern(compiled, groups)
    except (re2.error, UnicodeEncodeError) as error:
        raise ValueError(f"marker {marker.name!r}: {error}") from error


@cache
def load_catalogue() -> Catalogue:
    """The catalogue that ships with bv3, read and compiled once per process."""
    return compile_catalogue(read_catalogue())


def unquote(printed: str) -> str:
    """The text of a value that was printed with `repr`; as it stands when it is none."""
    try:
        value = ast.literal_eval(printed)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return printed
    return value if isinstance(value, str) else printed
