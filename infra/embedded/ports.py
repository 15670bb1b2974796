"""Loopback ports: free when chosen, the same again at the next start when still free."""

from __future__ import annotations

import os
import random
import socket
from dataclasses import dataclass
from pathlib import Path

from broker.errors import ServiceError, UsageError
from infra.embedded.documents import read_document, write_document

HOST = "127.0.0.1"

# Below the range from which kernels give ports to outgoing connections (32768 on Linux), so that none
# of them sits on ours while the farm is down; above the product's own (20128).
LOWEST = 21_000
HIGHEST = 29_999


def is_free(port: int) -> bool:
    """Whether nobody listens on the loopback `port` now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As a server does: connections of an earlier one that linger in TIME_WAIT are no hindrance.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
            probe.listen(1)
        except OSError:
            return False
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class PortBook:
    """The ports of one farm, by part (`postgres`, `box-a.backend`), kept in a file."""

    path: Path

    def kept(self, part: str) -> int | None:
        """The port that `part` last had."""
        return self._read().get(part)

    def assign(self, part: str, *, preferred: int | None = None) -> int:
        """A port that is free now: the configured one, else the last one, else `preferred`, else any.

        Raises ServiceError when the configured one (`BV3_<PART>_PORT`) is taken.
        """
        if (port := configured_port(part)) is not None:
            if not is_free(port):
                raise ServiceError(
                    f"port {port} for {part} is taken by another program",
                    hint=f"end that program, or set {_variable(part)} to a free port, or unset it",
                )
            self._write({part: port})
            return port
        for port in (self.kept(part), preferred):
            if port is not None and port not in self._others(part) and is_free(port):
                self._write({part: port})
                return port
        return self.assign_block((part,))[part]

    def assign_block(self, parts: tuple[str, ...]) -> dict[str, int]:
        """Free ports for `parts`: the last ones when all are free, else a new block in one row."""
        book = self._read()
        if all(part in book and is_free(book[part]) for part in parts):
            return {part: book[part] for part in parts}
        taken = {port for part, port in book.items() if part not in parts}
        chosen = dict(zip(parts, find_free_block(len(parts), frozenset(taken)), strict=True))
        self._write(chosen)
        return chosen

    def _others(self, part: str) -> set[int]:
        return {port for other, port in self._read().items() if other != part}

    def _read(self) -> dict[str, int]:
        return {part: int(port) for part, port in (read_document(self.path) or {}).items()}

    def _write(self, chosen: dict[str, int]) -> None:
        write_document(self.path, self._read() | chosen)


def find_free_block(length: int, taken: frozenset[int] = frozenset()) -> range:
    """So many ports in a row on which nobody listens now, none of them `taken`. Raises ServiceError."""
    # From a random place: two farms that start at the same moment must not choose the same block.
    starts = list(range(LOWEST, HIGHEST - length, length))
    random.SystemRandom().shuffle(starts)
    for start in starts:
        block = range(start, start + length)
        if not taken.intersection(block) and all(is_free(port) for port in block):
            return block
    raise ServiceError(
        f"no {length} free loopback ports in a row between {LOWEST} and {HIGHEST}",
        hint="end programs that listen there",
    )


def configured_port(part: str) -> int | None:
    """The port that the environment orders for `part`. Raises UsageError when it is no port."""
    text = os.environ.get(_variable(part))
    if not text:
        return None
    if not text.isdecimal() or not 0 < int(text) < 1 << 16:
        raise UsageError(f"{_variable(part)}: {text!r} is no port", hint="give a number from 1 to 65535")
    return int(text)


def _variable(part: str) -> str:
    return f"BV3_{part.upper()}_PORT"
