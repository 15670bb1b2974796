"""Which hosts a product's source names: all text files that git tracks in a checkout, each read in full or refused.

That no file names a host is evidence only when all were read, so whatever can't be read is an error.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
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
# A letter before a name that belongs to an escape and not to the name: `\nhost`, `%2Fhost`, `\x2fhost`, `/`.
_ESCAPE = re.compile(rb"(?:\\[abfnrtv]|%[0-9A-Fa-f]{2}|\\x[0-9A-Fa-f]{2}|\\u[0-9A-Fa-f]{4})\Z")
_LONGEST_ESCAPE = 6
_IN_A_NAME = re.compile(rb"[A-Za-z0-9_-]")
# What would make another host of it: `dev.tours`, `dev.to-day`, `dev.to.example`.
_GOES_ON = re.compile(rb"[A-Za-z0-9_-]|\.[A-Za-z0-9]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A place where a host is named."""

    host: str
    file: str
    line: int


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
    return SearchedSource(path=str(root.resolve()), revision=revision, files=found.files)


def _list(named: Sequence[Named]) -> str:
    lines = [f"{one.file}:{one.line} ({one.host})" for one in named[:_MOST_NAMED]]
    more = len(named) - _MOST_NAMED
    return "".join(f"\n  {line}" for line in [*lines, *([f"and {more} more"] if more > 0 else [])])


def search_checkout(root: Path, hosts: Sequence[str]) -> Search:
    """Every place in the tracked text files where one of the `hosts`, or a subdomain of one, is named."""
    rough = [(host, _compile(host)) for host in hosts]
    files, binaries, left_out = 0, 0, 0
    named: list[Named] = []
    for mode, name in list_tracked(root):
        if _is_left_out(PurePosixPath(name)):
            left_out += 1
            continue
        data = _read(root, mode, name)
        if b"\0" in data[:_LOOKED_AT]:
            binaries += 1
            continue
        files += 1
        named += [Named(host=host, file=_show(name), line=line) for host, line in _find(data, rough)]
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
    # a dot as a pattern writes it, too: `dev\.to`, `dev\\.to`, `dev[.]to`
    dot = rb"(?:\\{0,2}\.|\[\.\])"
    options = re2.Options()
    options.case_sensitive = False
    options.encoding = re2.Options.Encoding.LATIN1
    return re2.compile(dot.join(re.escape(label.encode()) for label in host.split(".")), options)


def _find(data: bytes, rough: Iterable[tuple[str, re2.Pattern]]) -> Iterator[tuple[str, int]]:
    found = sorted(
        (match.start(), host)
        for host, pattern in rough
        for match in pattern.finditer(data)
        if _is_whole(data, match.start(), match.end())
    )
    line, counted = 1, 0
    for start, host in found:
        line += data.count(b"\n", counted, start)
        counted = start
        yield host, line


def _is_whole(data: bytes, start: int, end: int) -> bool:
    """Whether the name begins and ends there, or is the parent of a subdomain: `api.dev.to`, not `mydev.to`."""
    if _GOES_ON.match(data, end):
        return False
    before = data[max(0, start - _LONGEST_ESCAPE) : start]
    return not _IN_A_NAME.match(before[-1:]) or bool(_ESCAPE.search(before))
