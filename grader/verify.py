"""Whether each marker of the catalogue is alive: printed by the product's source as written, its pattern fit. Pure.

`source` and `reply` markers are looked for in the product's source, in the file that prints them where one is
named. `sdk` and `harness` ones are printed by nobody's source that could be read: their example is the check.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from grader.markers import Catalogue, Marker, Origin
from grader.printed import Printed, SourceText, find_printed
from grader.samples import can_match

_VALUE = re.compile(r"(?<!\{)\{(?!\{)[^{}]*\}")
_LONGEST_SNIPPET = 60
# a literal with less letters is anybody's, where no file is named that prints it
_LEAST_PROVEN = 16
_LEAST_WORD = 4
# the names of captured values that replies are looked for in
_CARRIERS = ("error", "trigger", "submit")


class State(StrEnum):
    """What became of a marker."""

    ALIVE = "alive"
    # never to be matched, or by the wrong text
    DEAD = "dead"
    # printed, but in words too few to be this marker's, and by a file that nobody named
    UNPROVEN = "unproven"
    # the reference stack prints a part of the product's lines only
    ABSENT = "absent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """The text of a checkout's source files by their path in it, and why others could not be read."""

    files: Mapping[str, SourceText]
    unread: Mapping[str, str] = field(default_factory=dict)
    # how many files hold the words of no marker
    others: int = 0
    # of the reference stack: its files have other names, and it prints a part
    is_reference: bool = False

    @property
    def count(self) -> int:
        """How many files were looked through."""
        return len(self.files) + self.others


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What was found of one marker."""

    marker: str
    origin: Origin
    state: State
    # where it is printed, or why it is not alive
    detail: str
    # lines of the given logs that it matched; None: no log was given
    matched: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The whole catalogue against one source."""

    findings: tuple[Finding, ...]
    unread: Mapping[str, str]
    files: int

    def of(self, state: State) -> tuple[Finding, ...]:
        """The markers in this state."""
        return tuple(finding for finding in self.findings if finding.state is state)


def verify(catalogue: Catalogue, tree: Tree, counts: Mapping[str, int] | None = None) -> Report:
    """One finding per marker, in the catalogue's order. `counts`: how many lines of the logs each one matched."""
    return Report(
        findings=tuple(_judge(catalogue, marker, tree, counts) for marker in catalogue.markers),
        unread=dict(tree.unread),
        files=tree.count,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which files of a checkout can say something of a marker."""

    # the ends of the paths that the catalogue names
    sources: frozenset[str]
    # for each literal what a file that holds it must hold, in lower case, the longest first
    words: tuple[tuple[bytes, ...], ...]

    def has(self, path: str, data: bytes) -> bool:
        """Whether this file is one of them."""
        if any(_ends_with(path, source) for source in self.sources):
            return True
        text = data.lower()
        return any(all(word in text for word in words) for words in self.words)


def want(catalogue: Catalogue) -> Wanted:
    """The files that printing this catalogue takes, or that may print it in a wrong way."""
    printed = [marker for marker in catalogue.markers if marker.origin in {Origin.SOURCE, Origin.REPLY}]
    return Wanted(
        sources=frozenset(marker.source for marker in printed if marker.source),
        words=tuple(sorted({words for marker in printed if (words := _words_of(marker))})),
    )


def _words_of(marker: Marker) -> tuple[bytes, ...]:
    """What stands in a file in any way of writing the longest literal; nothing where that would be anything."""
    parts = literal_parts(marker.template)
    longest = max(parts, key=len).lower()
    if _is_weak(parts):
        return () if marker.source else (max(re.split("[\"'`]", longest), key=len).encode(),)
    words = {word.encode() for word in re.findall(r"\w+", longest, re.ASCII) if len(word) >= _LEAST_WORD}
    return tuple(sorted(words, key=lambda word: (-len(word), word)))


def _is_weak(parts: Sequence[str]) -> bool:
    return sum(map(len, parts)) < _LEAST_PROVEN


def literal_parts(template: str) -> tuple[str, ...]:
    """What stands between the values of a template."""
    parts = (part.replace("{{", "{").replace("}}", "}") for part in _VALUE.split(template))
    return tuple(part for part in parts if part)


def count_hits(catalogue: Catalogue, log: bytes) -> dict[str, int]:
    """How many lines each marker matched; a value's marker counts the lines that carry it."""
    counts: dict[str, int] = {}
    for hit in catalogue.scan(log).find_all():
        carried = (hit.text(name) for name in _CARRIERS)
        for name in {hit.marker, *(name for text in carried if text for name in catalogue.replies_in(text))}:
            counts[name] = counts.get(name, 0) + 1
    return counts


def matches_example(catalogue: Catalogue, marker: Marker) -> bool:
    """Whether the pattern fits the marker's own example, as the grader would look for it."""
    if marker.is_value:
        return marker.name in catalogue.replies_in(marker.example)
    hits = catalogue.scan(marker.example.encode("utf-8")).find(marker.name)
    return any((hit.start, hit.end) == (0, len(marker.example.encode("utf-8"))) for hit in hits)


def _judge(catalogue: Catalogue, marker: Marker, tree: Tree, counts: Mapping[str, int] | None) -> Finding:
    matched = None if counts is None else counts.get(marker.name, 0)
    if not matches_example(catalogue, marker):
        state, detail = State.DEAD, "its pattern does not match its example"
    elif marker.origin is Origin.SDK:
        state, detail = State.ALIVE, "data of a library: checked against a captured line alone"
        if matched == 0:
            detail += ", and in no line of the logs"
    elif marker.origin is Origin.HARNESS:
        state, detail = State.ALIVE, "printed by a supervisor: checked against its example alone"
    else:
        state, detail = _look_for(catalogue, marker, tree)
    return Finding(marker=marker.name, origin=marker.origin, state=state, detail=detail, matched=matched)


def _look_for(catalogue: Catalogue, marker: Marker, tree: Tree) -> tuple[State, str]:
    parts = literal_parts(marker.template)
    own = _own_files(marker, tree)
    # of a value that its pattern takes from the start, nothing else may be printed before it
    from_start = marker.pattern.startswith("^") and parts[0].startswith(marker.pattern[1:])
    found = _find_string(parts, own, from_start=from_start)
    if found and not _is_weak(parts) and not can_match(catalogue, marker, parts, found[1]):
        printed = "{}".join(found[1].runs)[:_LONGEST_SNIPPET]
        return State.DEAD, f"its pattern does not fit what is printed at {found[0]}: {printed!r}"
    where = found[0] if found else None
    if where is None and tree.is_reference:
        where = _find_across(parts, own, from_start=from_start)
    if where and (tree.is_reference or not marker.source) and _is_weak(parts):
        return State.UNPROVEN, f"too short to prove: printed at {where}, which may be anybody's"
    if where:
        return State.ALIVE, f"printed at {where}"
    if other_case := _find_in_other_case(parts, own):
        return State.DEAD, other_case
    if tree.is_reference:
        return State.ABSENT, "not printed by the reference stack"
    others = {path: text for path, text in tree.files.items() if path not in own}
    return State.DEAD, next(_explain(marker, parts, tree, own, others))


def _own_files(marker: Marker, tree: Tree) -> dict[str, SourceText]:
    if tree.is_reference or not marker.source:
        return dict(tree.files)
    return {path: text for path, text in tree.files.items() if _ends_with(path, marker.source)}


def _ends_with(path: str, source: str) -> bool:
    return path == source or path.endswith(f"/{source}")


def _explain(
    marker: Marker,
    parts: Sequence[str],
    tree: Tree,
    own: Mapping[str, SourceText],
    others: Mapping[str, SourceText],
) -> Iterator[str]:
    """Why it is dead, what says most first."""
    literal = repr(max(parts, key=len))
    yield from (
        f"{path} could not be read: {why}"
        for path, why in tree.unread.items()
        if marker.source and _ends_with(path, marker.source)
    )
    if where := _find(parts, others):
        yield f"in the wrong file: printed at {where}, not by {marker.source}"
    yield from _find_unprinted(parts, own)
    if other_case := _find_in_other_case(parts, others):
        yield f"{other_case}, not by {marker.source}"
    yield from _find_unprinted(parts, others)
    if not marker.source:
        yield f"{literal} is printed nowhere in {tree.count} files"
    elif own:
        yield f"{literal} is not printed by {', '.join(sorted(own))}, nor by another of {tree.count} files"
    else:
        yield f"there is no file {marker.source}; {literal} is printed nowhere in {tree.count} files"


def _find(parts: Sequence[str], files: Mapping[str, SourceText], *, from_start: bool = False) -> str | None:
    found = _find_string(parts, files, from_start=from_start)
    return found[0] if found else None


def _find_string(
    parts: Sequence[str], files: Mapping[str, SourceText], *, from_start: bool = False
) -> tuple[str, Printed] | None:
    for path, text in files.items():
        if found := find_printed(parts, text, from_start=from_start):
            return f"{path}:{found.line}", found
    return None


def _find_across(parts: Sequence[str], files: Mapping[str, SourceText], *, from_start: bool) -> str | None:
    """Where the reference stack prints it: there a tag and what follows may stand in two files."""
    owners = {id(string): path for path, text in files.items() for string in text.printed}
    everything = SourceText(printed=tuple(one for text in files.values() for one in text.printed))
    found = find_printed(parts, everything, from_start=from_start)
    return f"{owners[id(found)]}:{found.line}" if found else None


def _find_in_other_case(parts: Sequence[str], files: Mapping[str, SourceText]) -> str | None:
    lowered = [part.lower() for part in parts]
    for path, text in files.items():
        if found := find_printed(lowered, text.lowered):
            original = text.printed[text.lowered.printed.index(found)]
            snippet = "{}".join(original.runs)[:_LONGEST_SNIPPET]
            return f"in another case at {path}:{found.line}: {snippet!r}"
    return None


def _find_unprinted(parts: Sequence[str], files: Mapping[str, SourceText]) -> Iterator[str]:
    longest = max(parts, key=len)
    for path, text in files.items():
        for one in text.unprinted:
            if longest.strip() in one.text:
                yield f"only in {one.place} at {path}:{one.line}: {longest!r}"
