"""A product's checkout as files: its source read, its revision named, logs counted. Nothing of it is ever run."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from broker.errors import RevisionError, ServiceError, UsageError
from broker.revision import has_git, is_clean, name_revision, read_head
from grader.markers import Catalogue
from grader.printed import SourceText, SourceUnreadableError
from grader.python_source import read_python
from grader.script_source import read_script
from grader.verify import Tree, count_hits, want

REFERENCE = Path(__file__).resolve().parent.parent / "infra" / "reference"

_PARTS = ("backend", "frontend", "electron")
_PYTHON = frozenset({".py"})
_SCRIPTS = frozenset({".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".mts", ".cts"})
# others' code, what a build has made, and what tests alone print
_LEFT_OUT = frozenset(
    {".git", "node_modules", "__pycache__", ".venv", "venv", "dist", "build", "tests", "test", "__tests__", "__mocks__"}
)
_MAX_FILES = 50_000
_MAX_FILE_BYTES = 8 * 2**20
_CHUNK_BYTES = 4 * 2**20
_MAX_LINE_BYTES = 64 * 2**20
_SILENT_S = 1.0

Tell = Callable[[str], None]


class Progress:
    """Tells how far something is, once a second, when it lasts."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._next_s = time.monotonic() + _SILENT_S

    def at(self, text: str) -> None:
        """This far."""
        now_s = time.monotonic()
        if now_s >= self._next_s:
            self._next_s = now_s + _SILENT_S
            self._tell(text)


def read_tree(root: Path, progress: Progress, catalogue: Catalogue | None = None) -> Tree:
    """The source of this checkout: of its backend, frontend and electron folders where it has one, else all of it.

    With a catalogue, files that can say nothing of its markers are only counted. Raises UsageError for what is no
    folder, or holds more than any product's source.
    """
    if not root.is_dir():
        raise UsageError(f"{root} is no folder", hint="--source CHECKOUT, the folder that holds backend/")
    wanted = None if catalogue is None else want(catalogue)
    files: dict[str, SourceText] = {}
    unread: dict[str, str] = {}
    others = 0
    found = list(_list_sources(root, unread))
    if len(found) > _MAX_FILES:
        raise UsageError(f"{root} holds more than {_MAX_FILES} source files", hint="name the product's own folder")
    for number, path in enumerate(found, start=1):
        name = _show(path.relative_to(root))
        progress.at(f"read {number} of {len(found)} files")
        try:
            data = _read_bytes(path)
            if wanted is None or wanted.has(name, data):
                files[name] = read_python(data) if path.suffix in _PYTHON else read_script(data)
            else:
                others += 1
        except OSError as error:
            is_link = error.errno == errno.ELOOP
            unread[name] = "a symbolic link" if is_link else error.strerror or type(error).__name__
        except SourceUnreadableError as error:
            unread[name] = str(error)
    return Tree(files=files, unread=unread, others=others)


def read_reference(progress: Progress) -> Tree:
    """The source of the reference stack that ships with bv3."""
    tree = read_tree(REFERENCE, progress)
    return Tree(files=tree.files, unread=tree.unread, is_reference=True)


def _list_sources(root: Path, unread: dict[str, str]) -> Iterator[Path]:
    def note(error: OSError) -> None:
        unread[_show(Path(error.filename).relative_to(root))] = error.strerror or type(error).__name__

    parts = [root / part for part in _PARTS if (root / part).is_dir() and not (root / part).is_symlink()]
    for start in parts if root != REFERENCE and parts else [root]:
        for folder, folders, names in os.walk(start, onerror=note):
            folders[:] = sorted(name for name in folders if name not in _LEFT_OUT)
            yield from (Path(folder, name) for name in sorted(names) if _is_source(name))


def _is_source(name: str) -> bool:
    path = Path(name)
    if path.suffix not in _PYTHON | _SCRIPTS:
        return False
    is_test = name.startswith("test_") or path.stem.endswith(("_test", ".test", ".spec")) or name == "conftest.py"
    return not is_test


def _show(path: Path) -> str:
    """The path in letters that every terminal and store takes."""
    text = os.fsencode(path.as_posix()).decode("utf-8", "backslashreplace")
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def _read_bytes(path: Path) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor that follows no link
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode):
            raise SourceUnreadableError("not a regular file")
        data = file.read(_MAX_FILE_BYTES + 1)
    if len(data) > _MAX_FILE_BYTES:
        raise SourceUnreadableError(f"larger than {_MAX_FILE_BYTES // 2**20} MB")
    return data


def count_log(path: Path, catalogue: Catalogue, progress: Progress) -> dict[str, int]:
    """How many lines of this log each marker matched, read piece by piece.

    Raises UsageError when it can't be read, or has a line that is longer than any log's.
    """
    counts: dict[str, int] = {}
    done, rest = 0, b""
    try:
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK_BYTES):
                done += len(chunk)
                progress.at(f"{path.name}: {done // 2**20} MB")
                whole, newline, last = chunk.rpartition(b"\n")
                if not newline:
                    rest += chunk
                    if len(rest) > _MAX_LINE_BYTES:
                        raise UsageError(f"{path} has a line of more than {_MAX_LINE_BYTES // 2**20} MB")
                    continue
                _add(counts, count_hits(catalogue, rest + whole))
                rest = last
    except OSError as error:
        raise UsageError(f"can't read the log {path}: {error.strerror}") from error
    _add(counts, count_hits(catalogue, rest))
    return counts


def _add(counts: dict[str, int], more: dict[str, int]) -> None:
    for name, count in more.items():
        counts[name] = counts.get(name, 0) + count


def read_revision(root: Path) -> str | None:
    """The checkout's commit in the product's short form, `+changes` behind it when files differ; None without git.

    Raises UsageError when git tells the commit and not whether the tree is clean.
    """
    if not has_git(root):
        return None
    try:
        head = read_head(root)
    except RevisionError:
        return None
    try:
        return name_revision(head, clean=is_clean(root))
    except RevisionError as error:
        raise UsageError(f"git can't tell whether {root} is clean", hint="name its revision with --revision") from error


def read_reference_revision() -> str:
    """The revision that a reference stack started now would name. Raises ServiceError when it does not tell."""
    # -P: a folder named infra where the user stands must not be taken for ours
    command = [sys.executable, "-P", "-m", "infra.reference", "revision"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode or not done.stdout.strip():
        raise ServiceError("the reference stack does not tell its revision")
    return done.stdout.strip()
