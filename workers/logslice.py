"""Cutting the part of a growing file that belongs to one attempt: by byte offset and inode, never by line."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from broker.types import LogSlice

# More than any run prints; the farm refuses evidence that is several times as large.
LIMIT_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class FileMark:
    """Where a file ended at one moment. Its cost does not depend on the file's size."""

    path: Path
    inode: int
    offset: int


def mark_end(path: Path) -> FileMark:
    """The file's end now; a file that is not there yet begins at 0."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return FileMark(path=path, inode=0, offset=0)
    return FileMark(path=path, inode=status.st_ino, offset=status.st_size)


def cut_slice(start: FileMark, *, limit_bytes: int = LIMIT_BYTES) -> tuple[LogSlice, bytes]:
    """What was written since `start`, with its place and hash.

    When the file was replaced or shortened meanwhile the slice is `torn`: it is all that the present file
    holds, and what the old one held after `start` is lost. It is torn, too, when more was written than
    `limit_bytes`: it is the beginning then. Raises OSError when there is no file.
    """
    with start.path.open("rb") as file:
        status_before = mark_end(start.path)
        is_torn = (start.inode not in (0, status_before.inode)) or status_before.offset < start.offset
        offset = 0 if is_torn else start.offset
        file.seek(offset)
        # up to the end as it was when we looked: a line that is being written stays out
        written = status_before.offset - offset
        data = file.read(min(written, limit_bytes))
    cut = LogSlice(
        path=str(start.path),
        inode=status_before.inode,
        start=offset,
        end=offset + len(data),
        sha256=hashlib.sha256(data).hexdigest(),
        torn=is_torn or len(data) < written,
    )
    return cut, data
