"""What the commands want of the keeper. Written within the gate, read by the keeper on each turn."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

from infra.embedded.documents import read_document, write_document


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """The sum of what all commands have asked for since the farm started."""

    boxes: int = 0
    # False: PostgreSQL alone, for commands that only read.
    full: bool = False
    # Until `bv3-farm down`.
    stays: bool = False
    # Rises with each order, so that a command can tell an answer to its own from one to an earlier.
    number: int = 0

    def joined(self, other: Orders) -> Orders:
        """What satisfies both: a farm grows, it does not shrink while anybody is in it."""
        return Orders(
            boxes=max(self.boxes, other.boxes),
            full=self.full or other.full,
            stays=self.stays or other.stays,
            number=self.number + 1,
        )


def read_orders(path: Path) -> Orders:
    """The orders so far; none when there is no such file."""
    return Orders(**(read_document(path) or {}))


def write_orders(path: Path, orders: Orders) -> None:
    """The keeper sees `orders` on its next turn."""
    write_document(path, asdict(orders))
