"""The logs of a box: of its supervisor, its worker and each part of its stack."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from broker.errors import UsageError
from workers.boxfile import BoxFile
from workers.stack.driver import folder_of

_POLL_S = 0.2
# What is looked at for the last lines: a product's line may be long, its log is longer.
_END_BYTES = 1024 * 1024


def choose_logs(box: BoxFile, part: str | None) -> Mapping[str, Path]:
    """The log of this name, or all of them. Raises UsageError naming those that there are."""
    found = {path.stem: path for path in sorted(folder_of(box).glob("*.log"))}
    found |= {path.stem: path for path in sorted(box.folder.glob("*.log"))}
    if part is None:
        return found
    if part not in found:
        raise UsageError(f"box {box.name} has no log of {part}", hint=f"logs: {', '.join(sorted(found)) or 'none yet'}")
    return {part: found[part]}


def read_ends(chosen: Mapping[str, Path], lines: int) -> Iterator[str]:
    """The last lines of each log, under its name when there are several."""
    for name, path in chosen.items():
        if len(chosen) > 1:
            yield f"==> {name} <=="
        yield from _read_end(path, lines)


def _read_end(path: Path, lines: int) -> list[str]:
    if not lines:
        return []
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - _END_BYTES))
        return file.read().decode("utf-8", errors="replace").splitlines()[-lines:]


@dataclass(slots=True, kw_only=True)
class _Place:
    """How far a log was read: of which file, up to where."""

    inode: int
    offset: int
    rest: bytes = b""


def follow_logs(
    chosen: Mapping[str, Path], *, is_over: Callable[[], bool] = lambda: False, poll_s: float = _POLL_S
) -> Iterator[str]:
    """Each line that is written from now on, with its log's name before it when there are several."""
    places = {name: _find_end(path) for name, path in chosen.items()}
    while not is_over():
        for name, path in chosen.items():
            for line in _read_new(path, places[name]):
                yield f"{name}: {line}" if len(chosen) > 1 else line
        time.sleep(poll_s)


def _find_end(path: Path) -> _Place:
    stat = path.stat()
    return _Place(inode=stat.st_ino, offset=stat.st_size)


def _read_new(path: Path, place: _Place) -> Iterator[str]:
    """Whole lines only. A file that was begun anew, as at each boot, is read from its beginning."""
    try:
        with path.open("rb") as file:
            stat = path.stat()
            if stat.st_ino != place.inode or stat.st_size < place.offset:
                place.inode, place.offset, place.rest = stat.st_ino, 0, b""
            file.seek(place.offset)
            data = file.read(_END_BYTES)
    except FileNotFoundError:
        return
    place.offset += len(data)
    *lines, place.rest = (place.rest + data).split(b"\n")
    for line in lines:
        yield line.decode("utf-8", errors="replace")
