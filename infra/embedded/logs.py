"""The log files of the farm's parts, bounded in size."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from broker.errors import UsageError

LIMIT_BYTES = 20_000_000

_FOLLOW_S = 0.25
_CHUNK_BYTES = 1_000_000
# Of a tail of n lines, n times so much is looked at.
_LINE_BYTES = 2_000


def bound_logs(folder: Path, *, limit_bytes: int = LIMIT_BYTES) -> None:
    """No log is longer than its limit; what was in a longer one stands in `<name>.log.1`.

    The writers go on writing to the same file: they hold it open for appending, so the
    next line lands at its new end.
    """
    for log in folder.glob("*.log"):
        if log.stat().st_size > limit_bytes:
            shutil.copyfile(log, log.with_name(f"{log.name}.1"))
            with log.open("r+b") as file:
                file.truncate()


def choose_logs(folder: Path, part: str | None) -> list[Path]:
    """The log of `part`, or all logs. Raises UsageError naming the parts that have one."""
    there = sorted(folder.glob("*.log"))
    if part is None:
        return there
    chosen = [log for log in there if log.stem == part]
    if not chosen:
        names = ", ".join(log.stem for log in there) or "none yet"
        raise UsageError(f"no log of a part {part!r}", hint=f"there are logs of: {names}")
    return chosen


def print_logs(logs: list[Path], *, lines: int, follow: bool, write: Callable[[str], None]) -> None:
    """The last `lines` of each log, and with `follow` what is written from then on, until interrupted."""
    width = max((len(log.stem) for log in logs), default=0)
    readers = [_LogReader(log=log, prefix=f"{log.stem:<{width}} | " if len(logs) > 1 else "") for log in logs]
    for reader in readers:
        reader.begin(lines, write)
    while follow:
        for reader in readers:
            reader.go_on(write)
        time.sleep(_FOLLOW_S)


@dataclass(slots=True, kw_only=True)
class _LogReader:
    log: Path
    prefix: str
    _offset: int = 0
    _rest: bytes = b""

    def begin(self, lines: int, write: Callable[[str], None]) -> None:
        self._offset = self.log.stat().st_size
        for line in read_tail(self.log, lines=lines) if lines else ():
            write(self.prefix + line)

    def go_on(self, write: Callable[[str], None]) -> None:
        size = self.log.stat().st_size
        if size < self._offset:  # it was bounded
            self._offset = 0
        with self.log.open("rb") as file:
            file.seek(self._offset)
            fresh = file.read(_CHUNK_BYTES)
        self._offset += len(fresh)
        *whole, self._rest = (self._rest + fresh).split(b"\n")
        for line in whole:
            write(self.prefix + line.decode("utf-8", errors="replace"))


def read_tail(log: Path, since: int = 0, lines: int = 8) -> tuple[str, ...]:
    """The last lines that `log` got after byte `since`; of a long log only its end is read."""
    try:
        with log.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(min(since, size), size - max(lines, 1) * _LINE_BYTES))
            text = file.read().decode("utf-8", errors="replace")
    except OSError:
        return ()
    return tuple(text.splitlines()[-lines:])
