"""The catalogue of product output (`broker/markers.toml`), compiled, and the one scan over a log slice.

Linear in the slice: it is looked through once, for lines that begin as a template does; on those all
patterns are tried at once, in RE2. Captured values are read when somebody asks for them.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from typing import Any, NamedTuple

import re2

from broker.markers import read_catalogue
from grader.heads import Heads, Line, compile_heads

# The slice is bytes of any kind: RE2 in Latin-1 sees each byte as one character and refuses none.
_OPTIONS = re2.Options()
_OPTIONS.encoding = re2.Options.Encoding.LATIN1
_OPTIONS.log_errors = False
# A set has only its automaton, whose states must find place in this.
_SET_OPTIONS = re2.Options()
_SET_OPTIONS.encoding = re2.Options.Encoding.LATIN1
_SET_OPTIONS.log_errors = False
_SET_OPTIONS.max_mem = 64 << 20

_TIME_LENGTH = len("HH:MM:SS")
_MAX_DIGITS = 12
_PLAIN_QUOTE = re.compile(r"'[^'\\]*'|\"[^\"\\]*\"")
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


class _Pattern(NamedTuple):
    compiled: Any
    # names of captured values, as RE2 numbers them; asking RE2 each time costs more than matching
    groups: Mapping[str, int]


class Hit(NamedTuple):
    """One line that a marker matched: bytes `start` to `end` of the slice, without the line's end."""

    marker: str
    start: int
    end: int
    # where the message begins, after the logger's prefix
    message: int
    log: bytes
    pattern: _Pattern
    # RE2's match once a value was asked for: most hits are only counted
    match: list[Any]

    @property
    def time(self) -> str:
        """HH:MM:SS as printed, without a date; empty for lines without the logger's prefix."""
        if self.message == self.start:
            return ""
        return self.log[self.start : self.start + _TIME_LENGTH].decode("ascii", "replace")

    @property
    def line(self) -> bytes:
        """The message as printed, after the logger's prefix and without the line's end."""
        return _read_message(self.log, self.message, self.end)

    def text(self, name: str) -> str:
        """A captured value; empty when it was not printed."""
        number = self.pattern.groups.get(name)
        if number is None:
            return ""
        if not self.match:
            self.match.append(self.pattern.compiled.fullmatch(self.line))
        value: bytes | None = self.match[0][number]
        return (value or b"").decode("utf-8", "replace")

    def number(self, name: str) -> int | None:
        """A captured whole number, or None when it was not printed or is absurdly long."""
        digits = self.text(name)
        return int(digits) if 0 < len(digits) <= _MAX_DIGITS else None

    def __eq__(self, other: object) -> bool:
        """The same marker at the same place, whatever else the logs hold."""
        return isinstance(other, Hit) and self[:4] == other[:4]

    def __hash__(self) -> int:
        """As equality has it."""
        return hash(self[:4])

    def __repr__(self) -> str:
        """Without the log, which it holds whole."""
        return f"<{self.marker} at {self.start}-{self.end}>"


def _read_message(log: bytes, start: int, end: int) -> bytes:
    return log[start:end].removesuffix(b"\r")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """One slice, its lines by the marker that they match."""

    _log: bytes
    _lines: Mapping[str, list[Line]]
    _patterns: Mapping[str, _Pattern]
    # what was asked before; the answer is always the same
    _found: dict[str, tuple[Hit, ...]] = field(default_factory=dict)

    def find(self, *names: str) -> tuple[Hit, ...]:
        """All lines that these markers match, in the order of the log."""
        lines = self._lines
        there = [name for name in names if name in lines]
        if not there:
            return ()
        if len(there) == 1:
            return self._find_one(there[0])
        return tuple(sorted([hit for name in there for hit in self._find_one(name)], key=_start))

    def find_naming_none(self, own: Collection[bytes], *names: str) -> tuple[Hit, ...]:
        """Lines that these markers match and that hold none of these ids."""
        lines = self._lines
        hits = [
            self._hit(name, line)
            for name in names
            if name in lines
            for line in lines[name]
            if not self._holds(line, own)
        ]
        return tuple(sorted(hits, key=_start))

    def find_all(self) -> tuple[Hit, ...]:
        """Every line that any marker matches."""
        return self.find(*self._lines)

    def _holds(self, line: Line, ids: Collection[bytes]) -> bool:
        _, message, end = line
        for one in ids:  # noqa: SIM110 - a generator costs twice as much, and this is asked of most lines
            if self._log.find(one, message, end) >= 0:
                return True
        return False

    def _find_one(self, name: str) -> tuple[Hit, ...]:
        found = self._found.get(name)
        if found is None:
            found = self._found[name] = tuple([self._hit(name, line) for line in self._lines[name]])
        return found

    def _hit(self, name: str, line: Line) -> Hit:
        start, message, end = line
        return Hit(name, start, end, message, self._log, self._patterns[name], [])


def _start(hit: Hit) -> int:
    return hit.start


class _Set(NamedTuple):
    """Patterns that are all tried at once; a third of what one costs whose values are wanted."""

    # the numbers of those that match, or None
    match: Callable[[bytes], Sequence[int] | None]
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue:
    """All markers, compiled."""

    markers: tuple[Marker, ...]
    _heads: Heads
    _patterns: Mapping[str, _Pattern]
    # lines with the logger's prefix, and lines without: neither can pass for the other
    _logged: _Set
    _raw: _Set
    _replies: _Set

    def scan(self, log: bytes) -> Scan:
        """The slice, ready to be asked."""
        found: dict[str, list[Line]] = {}
        (match_logged, logged), (match_raw, raw) = self._logged, self._raw
        has_returns = b"\r" in log
        for line in self._heads.find_lines(log):
            start, message, end = line
            text = _read_message(log, message, end) if has_returns else log[message:end]
            names, numbers = (logged, match_logged(text)) if message > start else (raw, match_raw(text))
            for number in numbers or ():
                name = names[number]
                if name in found:
                    found[name].append(line)
                else:
                    found[name] = [line]
        return Scan(_log=log, _lines=found, _patterns=self._patterns)

    def replies_in(self, text: str) -> frozenset[str]:
        """The names of all reply markers found in a captured value."""
        match, names = self._replies
        return frozenset(names[number] for number in match(text.encode("utf-8", "surrogatepass")) or ())


def compile_catalogue(text: str) -> Catalogue:
    """The catalogue in this TOML. Raises ValueError naming the entry that is incomplete or no RE2 pattern."""
    markers = tuple(_read(entry) for entry in tomllib.loads(text)["marker"])
    patterns = {marker.name: _compile(marker) for marker in markers}
    if len(patterns) != len(markers):
        raise ValueError("two markers have the same name")
    lines = [marker for marker in markers if not marker.is_value]
    logged = [marker for marker in lines if marker.level]
    raw = [marker for marker in lines if not marker.level]
    return Catalogue(
        markers=markers,
        _heads=compile_heads(
            logged=[marker.head.encode() for marker in logged], raw=[marker.head.encode() for marker in raw]
        ),
        _patterns=patterns,
        _logged=_gather(logged, re2.Set.FullMatchSet(_SET_OPTIONS)),
        _raw=_gather(raw, re2.Set.FullMatchSet(_SET_OPTIONS)),
        _replies=_gather([marker for marker in markers if marker.is_value], re2.Set.SearchSet(_SET_OPTIONS)),
    )


def _gather(markers: Sequence[Marker], patterns: Any) -> _Set:
    for marker in markers:
        patterns.Add(marker.pattern.encode("ascii"))
    patterns.Compile()
    return _Set(patterns.Match, tuple(marker.name for marker in markers))


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
    if _PLAIN_QUOTE.fullmatch(printed) and printed.isprintable():
        # nearly every name; what `literal_eval` would say, at a tenth of the cost
        return printed[1:-1]
    try:
        value = ast.literal_eval(printed)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return printed
    return value if isinstance(value, str) else printed
