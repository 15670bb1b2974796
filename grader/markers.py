"""The catalogue of product output (`broker/markers.toml`), compiled, and the one scan over a log slice.

Linear in the slice: a line is looked at once, by its first word and its template's head; the
pattern itself, in RE2, runs only on lines that somebody asks for.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from typing import Any, NamedTuple

import re2

from broker.markers import read_catalogue

# The slice is bytes of any kind: RE2 in Latin-1 sees each byte as one character and refuses none.
_OPTIONS = re2.Options()
_OPTIONS.encoding = re2.Options.Encoding.LATIN1
_OPTIONS.log_errors = False

_PREFIX_LENGTH = len("HH:MM:SS L ")
_LONGEST_WORD = 64
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


class _Line(NamedTuple):
    start: int
    end: int
    time: bytes
    message: bytes


class _Pattern(NamedTuple):
    compiled: Any
    # names of captured values, as RE2 numbers them; asking RE2 each time costs more than matching
    groups: Mapping[str, int]


class _Headed(NamedTuple):
    name: str
    head: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """One slice, its lines sorted by which markers they may be."""

    _lines: Mapping[str, list[_Line]]
    _patterns: Mapping[str, _Pattern]
    # what was asked before; the answer is always the same
    _found: dict[str, tuple[Hit, ...]] = field(default_factory=dict)

    def find(self, *names: str) -> tuple[Hit, ...]:
        """All lines that these markers match, in the order of the log."""
        found = [self._find_one(name, lines) for name in names if (lines := self._lines.get(name))]
        if len(found) <= 1:
            return found[0] if found else ()
        hits = [hit for some in found for hit in some]
        hits.sort(key=_start)
        return tuple(hits)

    def find_naming_none(self, own: Collection[bytes], *names: str) -> tuple[Hit, ...]:
        """Lines that these markers match and that hold none of these ids; those that do cost no pattern."""
        hits = [
            hit
            for name in names
            for line in self._lines.get(name, ())
            if not any(one in line.message for one in own)
            for hit in self._match(name, (line,))
        ]
        hits.sort(key=_start)
        return tuple(hits)

    def find_all(self) -> tuple[Hit, ...]:
        """Every line that any marker matches."""
        return self.find(*self._lines)

    def _find_one(self, name: str, lines: Sequence[_Line]) -> tuple[Hit, ...]:
        if name not in self._found:
            self._found[name] = tuple(self._match(name, lines))
        return self._found[name]

    def _match(self, name: str, lines: Sequence[_Line]) -> Iterator[Hit]:
        pattern = self._patterns[name]
        for line in lines:
            if match := pattern.compiled.fullmatch(line.message):
                yield Hit(
                    marker=name,
                    start=line.start,
                    end=line.end,
                    time=line.time.decode("ascii", "replace"),
                    _match=match,
                    _groups=pattern.groups,
                )


def _start(hit: Hit) -> int:
    return hit.start


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue:
    """All markers, compiled."""

    markers: tuple[Marker, ...]
    # lines with the logger's prefix, and lines without: neither can pass for the other
    _by_word: Mapping[bytes, tuple[_Headed, ...]]
    _by_word_raw: Mapping[bytes, tuple[_Headed, ...]]
    _patterns: Mapping[str, _Pattern]
    _replies: tuple[str, ...]
    _any_reply: Any

    def scan(self, log: bytes) -> Scan:
        """The slice, ready to be asked."""
        found: dict[str, list[_Line]] = {}
        start = 0
        for line in log.split(b"\n"):
            end = start + len(line)
            message, time, by_word = line, b"", self._by_word_raw
            if line[2:3] == b":" and line[8:9] == b" ":
                colon = line.find(b": ", _PREFIX_LENGTH)
                message, time, by_word = line[colon + 2 :] if colon > 0 else b"", line[:8], self._by_word
            for name, head in by_word.get(message[:_LONGEST_WORD].partition(b" ")[0], ()):
                if message.startswith(head):
                    known = _Line(start, end, time, message.removesuffix(b"\r"))
                    found.setdefault(name, []).append(known)
            start = end + 1
        return Scan(_lines=found, _patterns=self._patterns)

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
    by_word: dict[bool, dict[bytes, tuple[_Headed, ...]]] = {True: {}, False: {}}
    for marker in markers:
        if not marker.is_value:
            head = marker.head.encode()
            word = head.partition(b" ")[0]
            words = by_word[bool(marker.level)]
            words[word] = (*words.get(word, ()), _Headed(marker.name, head))
    replies = [marker for marker in markers if marker.is_value]
    return Catalogue(
        markers=markers,
        _by_word=by_word[True],
        _by_word_raw=by_word[False],
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
