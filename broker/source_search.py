"""Which hosts a product's source names: all text files that git tracks in a checkout, each read in full or refused.

That no file names a host is evidence only when all were read, so whatever can't be read is an error.
"""

from __future__ import annotations

import codecs
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import re2

from broker.errors import UsageError
from broker.freezes import SearchedSource
from broker.revision import has_git, is_clean, list_tracked, name_revision, read_head

# Folders at any depth: others' code.
DEPENDENCIES = frozenset({"node_modules", ".venv", "venv", "site-packages"})
# What a package manager writes of others' code, home pages among it.
LOCK_FILES = frozenset(
    {"package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml", "poetry.lock", "uv.lock", "Cargo.lock"}
)
# At the top of the checkout: what measures the product, and so must name the sites.
HARNESS = "e2e"
_LINK, _MODULE = "120000", "160000"
_MAX_FILE_BYTES = 64 * 2**20
# git's own rule for what is no text
_LOOKED_AT = 8000
_MOST_NAMED = 20
# A letter before a name that belongs to an escape and not to the name: `\nhost`, `\bhost`, `%2Fhost`, `\x2fhost`.
_ESCAPE = re.compile(rb"(?:\\[A-Za-z]|%(?:25)*[0-9A-Fa-f]{2}|\\x[0-9A-Fa-f]{2}|\\u[0-9A-Fa-f]{4})\Z")
_LOOKED_BACK = 12
_IN_A_NAME = re.compile(rb"[A-Za-z0-9_-]")
# What would make another host of it: `dev.tours`, `dev.to.example`. A name's last label holds no `-` and no `_`, and a
# capital behind a dot begins a sentence: `dev.to-fix`, `dev.to_RULES` and `dev.to.Then` name it.
_GOES_ON = re.compile(rb"[A-Za-z0-9]|\.[a-z0-9]")
# A dot as patterns, strings and addresses write it: `\.`, `[.]`, `\x2e`, `%2E`, `&#46;`, with `\b` or `\s*` around it.
_GAP = rb"(?:\\{1,4}[bBs][*+?]?)*"
_DOT = _GAP + rb"(?:\\{0,4}\.|\[\.\]|\\{1,4}x2e|\\{1,4}u002e|%(?:25)*2e|&#46;|&#x2e;)" + _GAP
_DOT_BEFORE = re.compile(rb"\\{0,4}\.\Z")
# UTF-32's first: one of them begins as one of UTF-16's
_WIDE_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# Below `co.uk` are anybody's names: no parent of a host.
_COUNTRY_LENGTH = 2
_PUBLIC = frozenset({"ac", "co", "com", "edu", "go", "gob", "gov", "gv", "ne", "net", "nom", "or", "org", "sch"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A place where a host is named."""

    # or the name above it
    host: str
    file: str
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sought:
    """A name, its pattern, and whether what the pattern found from here to there means the name."""

    name: str
    pattern: re2.Pattern
    is_meant: Callable[[bytes, int, int], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """What was read of a checkout, and where it names a host; `left_out` counts files of dependencies and harness."""

    files: int
    binaries: int
    left_out: int
    named: tuple[Named, ...]


def search_source(root: Path, hosts: Sequence[str], *, what: str) -> SearchedSource:
    """The checkout, whose source names none of the `hosts`.

    Raises UsageError naming file and line of those that it names, and for a checkout that can't be read in full;
    RevisionError when git does not tell what it is.
    """
    if not root.is_dir():
        raise UsageError(f"{root} is no folder", hint="--source CHECKOUT, the top folder of the product's checkout")
    if not has_git(root):
        raise UsageError(
            f"{root} is no checkout of git's, which alone tells the product's own files from others",
            hint="--source CHECKOUT, the top folder, which holds .git",
        )
    revision = name_revision(read_head(root), clean=is_clean(root))
    found = search_checkout(root, hosts)
    if found.named:
        raise UsageError(
            f"the product's source at {revision} names hosts of the {what}:{_list(found.named)}",
            hint=f"a site that the product knows is no {what}: take it out of both, or freeze others",
        )
    if not found.files:
        raise UsageError(f"{root} tracks no file of the product: nothing was read, so nothing is shown")
    return SearchedSource(path=str(root.resolve()), revision=revision, files=found.files, binaries=found.binaries)


def _list(named: Sequence[Named]) -> str:
    lines = [f"{one.file}:{one.line} ({one.host})" for one in named[:_MOST_NAMED]]
    more = len(named) - _MOST_NAMED
    return "".join(f"\n  {line}" for line in [*lines, *([f"and {more} more"] if more > 0 else [])])


def search_checkout(root: Path, hosts: Sequence[str]) -> Search:
    """Every place in the tracked text files that names one of the `hosts`, one below it, or the very one above."""
    above = dict.fromkeys(name for host in hosts for name in _names_above(host) if name not in hosts)
    sought = [_Sought(name=host, pattern=_compile(host), is_meant=_is_whole) for host in hosts]
    sought += [_Sought(name=name, pattern=_compile(name), is_meant=_is_alone) for name in above]
    files, binaries, left_out = 0, 0, 0
    named: list[Named] = []
    for mode, name in list_tracked(root):
        if _is_left_out(PurePosixPath(name)):
            left_out += 1
            continue
        data = _narrow(_read(root, mode, name))
        if b"\0" in data[:_LOOKED_AT]:
            binaries += 1
            continue
        files += 1
        named += [Named(host=host, file=_show(name), line=line) for host, line in _find(data, sought)]
    return Search(files=files, binaries=binaries, left_out=left_out, named=tuple(named))


def _is_left_out(path: PurePosixPath) -> bool:
    parts = path.parts
    is_harness = len(parts) > 1 and parts[0] == HARNESS
    return is_harness or path.name in LOCK_FILES or not DEPENDENCIES.isdisjoint(parts[:-1])


def _read(root: Path, mode: str, name: str) -> bytes:
    """The file as it stands in the checkout; of a link where it leads. Raises UsageError when it can't be read."""
    path = root / name
    if mode == _MODULE:
        raise _unread(name, "is a checkout of its own (a submodule)")
    try:
        if mode == _LINK:
            return os.fsencode(path.readlink())
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor that follows no link
            about = os.fstat(descriptor)
            if not stat.S_ISREG(about.st_mode):
                raise _unread(name, "is no regular file")
            if about.st_size > _MAX_FILE_BYTES:
                raise _unread(name, f"is larger than {_MAX_FILE_BYTES // 2**20} MB")
            return file.read()
    except OSError as error:
        raise _unread(name, f"can't be read: {error.strerror}") from error


def _narrow(data: bytes) -> bytes:
    """A text that says by its mark that it is UTF-16 or UTF-32 as UTF-8, what is no letter in it replaced."""
    for mark, encoding in _WIDE_MARKS:
        if data.startswith(mark):
            return data.decode(encoding, "replace").encode("utf-8", "replace")
    return data


def _unread(name: str, why: str) -> UsageError:
    return UsageError(
        f"{_show(name)} of the product's source {why}: that no host is named there can't be said",
        hint="the search holds only when every tracked file was read",
    )


def _show(name: str) -> str:
    """The path in letters that every terminal and store takes."""
    text = os.fsencode(name).decode("utf-8", "backslashreplace")
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def _compile(host: str) -> re2.Pattern:
    options = re2.Options()
    options.case_sensitive = False
    options.encoding = re2.Options.Encoding.LATIN1
    return re2.compile(_DOT.join(re.escape(label.encode()) for label in host.split(".")), options)


def _names_above(host: str) -> Iterator[str]:
    """`discourse.org` of `meta.discourse.org`; none below which anybody may have a name, as `org` or `co.uk`."""
    labels = host.split(".")[1:]
    while len(labels) > 1 and not (
        len(labels) == _COUNTRY_LENGTH and labels[0] in _PUBLIC and len(labels[1]) == _COUNTRY_LENGTH
    ):
        yield ".".join(labels)
        labels = labels[1:]


def _find(data: bytes, sought: Iterable[_Sought]) -> Iterator[tuple[str, int]]:
    found = sorted(
        (match.start(), one.name)
        for one in sought
        for match in one.pattern.finditer(data)
        if one.is_meant(data, match.start(), match.end())
    )
    line, counted = 1, 0
    for start, host in found:
        line += data.count(b"\n", counted, start)
        counted = start
        yield host, line


def _is_whole(data: bytes, start: int, end: int) -> bool:
    """Whether the name begins and ends there, or is the parent of a subdomain: `api.dev.to`, not `mydev.to`."""
    return not _GOES_ON.match(data, end) and _begins(data[max(0, start - _LOOKED_BACK) : start])


def _is_alone(data: bytes, start: int, end: int) -> bool:
    """Whether it is whole and no label stands before it: `.discourse.org`, not `blog.discourse.org`."""
    before = data[max(0, start - _LOOKED_BACK) : start]
    return _is_whole(data, start, end) and _begins(_DOT_BEFORE.sub(b"", before))


def _begins(before: bytes) -> bool:
    return not _IN_A_NAME.match(before[-1:]) or bool(_ESCAPE.search(before))
