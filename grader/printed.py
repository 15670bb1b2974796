"""What a source file prints, and whether a template is among it. Pure.

The rule: a template is printed by a file when its literal parts stand, each unbroken and in order, in one
printed string of the file. Where that string has a hole (a value that is put in), another printed string of the
same file may fill it whole, two deep, if the template has words enough to be nobody else's: so `_log("READY ...")`
is read with the helper's `"[tag] %s"`. No literal is put together from words that merely stand in the same file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property

# `%s`, `%(name)5.1f`, `{name!r}`: where a value is put into a template
_HOLE = re.compile(r"%(?:\(\w+\))?[-#0+]*(?:\d+|\*)?(?:\.(?:\d+|\*))?[sdrifgxeX]|\{[^{}\n]*\}")
_WORD = re.compile(r"\w{4,}")
_DEEPEST = 2
_SHORTEST_FILLER = 3
_LEAST_JOINED = 16


class Place(StrEnum):
    """Why a text of a source file is printed by nobody."""

    COMMENT = "a comment"
    DOCSTRING = "a docstring"
    TESTED = "a test against other text"
    KEY = "a key"
    TYPE = "a type"
    ATTRIBUTE = "an attribute of a tag"


@dataclass(frozen=True, slots=True, kw_only=True)
class Printed:
    """A string that the file may print; between its runs of literal text there are values."""

    line: int
    runs: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unprinted:
    """Text of the file that is printed by nobody."""

    line: int
    place: Place
    text: str


@dataclass(frozen=True, kw_only=True)
class SourceText:
    """All text of one source file."""

    printed: tuple[Printed, ...] = ()
    unprinted: tuple[Unprinted, ...] = ()

    @cached_property
    def lowered(self) -> SourceText:
        """The printed strings in lower case."""
        return SourceText(
            printed=tuple(Printed(line=one.line, runs=tuple(run.lower() for run in one.runs)) for one in self.printed)
        )

    @cached_property
    def whole(self) -> str:
        """Every literal run, apart from one another."""
        return "\0".join(run for one in self.printed for run in one.runs)


class SourceUnreadableError(ValueError):
    """The file can't be read as what its name says it is."""


@dataclass(frozen=True, slots=True)
class _At:
    """A position in a printed string, and the one that its end leads back to."""

    string: Printed
    run: int
    offset: int
    back: _At | None = None
    deep: int = 0
    # one filler may stand where the template has a value; more would be put together from anything
    is_closed: bool = False


def split_holes(text: str) -> tuple[str, ...]:
    """The literal runs of a format string."""
    return tuple(_HOLE.split(text))


def find_printed(parts: Sequence[str], source: SourceText, *, from_start: bool = False) -> Printed | None:
    """The string of the file that prints these literal parts of a template, `from_start` with the first; or None."""
    if all(part in source.whole for part in parts):
        for string in source.printed:
            if _is_within(parts, string) and (not from_start or string.runs[0].startswith(parts[0])):
                return string
    # what no string holds alone may be put together, but not its words; of a few letters anything could be
    if sum(map(len, parts)) < _LEAST_JOINED or not all(word in source.whole for word in _WORD.findall(" ".join(parts))):
        return None
    return _find_joined(parts, source, from_start=from_start)


def _is_within(parts: Sequence[str], string: Printed) -> bool:
    run = offset = 0
    for part in parts:
        while (found := string.runs[run].find(part, offset)) < 0:
            run, offset = run + 1, 0
            if run == len(string.runs):
                return False
        offset = found + len(part)
    return True


def _find_joined(parts: Sequence[str], source: SourceText, *, from_start: bool) -> Printed | None:
    joiner = _Joiner(source)
    for at in joiner.begin(parts[0]):
        if from_start and (at.run, at.offset) != (0, 0):
            continue
        if any(True for _ in joiner.match(parts, at)):
            return at.string if at.back is None else at.back.string
    return None


class _Joiner:
    """Reads templates in strings whose holes other strings fill."""

    def __init__(self, source: SourceText) -> None:
        self._strings = [string for string in source.printed if any(string.runs)]
        self._by_start: dict[str, list[Printed]] = {}
        for string in self._strings:
            self._by_start.setdefault(string.runs[0][:1], []).append(string)

    def begin(self, part: str) -> Iterator[_At]:
        """Every place where reading the first part may begin: in a string, or in one that fills a hole."""
        for string in self._strings:
            for number, run in enumerate(string.runs):
                for offset in _starts(run, part, is_first=number == 0):
                    at = _At(string, number, offset)
                    yield at
                    if number == len(string.runs) - 1 and offset + len(part) > len(run):
                        yield from self._led_back(at, part[len(run) - offset :])

    def _led_back(self, at: _At, rest: str) -> Iterator[_At]:
        # the string ends within the part: whose hole it fills must go on with what is left
        for outer in self._strings:
            for number in range(1, len(outer.runs)):
                run = outer.runs[number]
                if run and (run.startswith(rest) or rest.startswith(run)):
                    yield _At(at.string, at.run, at.offset, _At(outer, number, 0), 1)

    def match(self, parts: Sequence[str], at: _At) -> Iterator[_At]:
        """Ends of readings of these parts, the first one right here."""
        for end in self._read(parts[0], at):
            if len(parts) == 1:
                yield end
            else:
                for start in self._seek(parts[1], end):
                    yield from self.match(parts[1:], start)

    def _read(self, text: str, at: _At) -> Iterator[_At]:
        run = at.string.runs[at.run][at.offset :]
        if run.startswith(text):
            yield replace(at, offset=at.offset + len(text))
        elif text.startswith(run):
            rest = text[len(run) :]
            if at.run == len(at.string.runs) - 1:
                if at.back is not None:
                    yield from self._read(rest, at.back)
            elif at.deep < _DEEPEST:
                back = replace(at, run=at.run + 1, offset=0)
                for filler in self._by_start.get(rest[:1], ()):
                    first = filler.runs[0]
                    if filler is at.string or len(first) < _SHORTEST_FILLER:
                        continue
                    if first.startswith(rest) or rest.startswith(first):
                        yield from self._read(rest, _At(filler, 0, 0, back, at.deep + 1, at.is_closed))

    def _seek(self, part: str, at: _At) -> Iterator[_At]:
        """Where the part may begin from here on; what a template's value swallows lies between."""
        here: _At | None = at
        while here is not None:
            yield from self._seek_along(part, here)
            here = here.back

    def _seek_along(self, part: str, at: _At) -> Iterator[_At]:
        runs = at.string.runs
        for number in range(at.run, len(runs)):
            least = at.offset if number == at.run else 0
            for start in _starts(runs[number], part):
                if start >= least:
                    yield replace(at, run=number, offset=start)
            if number < len(runs) - 1 and not at.is_closed and at.deep < _DEEPEST:
                back = replace(at, run=number + 1, offset=0, is_closed=True)
                for filler in self._strings:
                    # it begins with the template's value itself; words before the part would be swallowed unread
                    if filler.runs[0] == "" and len(filler.runs) > 1 and filler.runs[1].startswith(part):
                        yield _At(filler, 1, 0, back, at.deep + 1, is_closed=True)


def _starts(run: str, part: str, *, is_first: bool = False) -> Iterator[int]:
    """Where in the run the part stands, or begins and the run ends."""
    start = run.find(part)
    while start >= 0:
        yield start
        start = run.find(part, start + 1)
    if not run:
        return
    end = part.find(run[-1]) + 1
    while 0 < end < len(part):
        # a bracket or a space at a string's end begins nothing, but where it is all that stands before a value
        if run.endswith(part[:end]) and (end >= _SHORTEST_FILLER or (is_first and end == len(run))):
            yield len(run) - end
        end = part.find(run[-1], end) + 1
