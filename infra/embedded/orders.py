"""What the commands want of the keeper. Written within the gate, read by the keeper on each turn."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from broker.errors import UsageError
from infra.embedded.documents import read_document, write_document


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """Under what the boxes' reference stacks work."""

    faults: str = "none"
    natures: str = "none"
    seed: int = 0
    leash_scale: float = 1.0

    def __str__(self) -> str:
        """In words: faults, natures and leashes."""
        told = {"faults": self.faults, "natures": self.natures}
        words = [f"{kind} {text} (seed {self.seed})" for kind, text in told.items() if text != "none"]
        return f"{', '.join(words) or 'no faults'}, leashes x {self.leash_scale:g}"


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
    # Of every box; None while none was asked for.
    conditions: Conditions | None = None

    def joined(self, other: Orders) -> Orders:
        """What satisfies both: a farm grows, it does not shrink while anybody is in it.

        Raises UsageError when its boxes work under other conditions.
        """
        if self.conditions and other.conditions and self.conditions != other.conditions:
            raise UsageError(
                f"the farm's boxes work with {self.conditions}, and this command asks for {other.conditions}",
                hint="`bv3-farm down` first, or set BV3_REFERENCE_FAULTS, BV3_REFERENCE_NATURES, BV3_REFERENCE_SEED and"
                " BV3_LEASH_SCALE alike",
            )
        return Orders(
            boxes=max(self.boxes, other.boxes),
            full=self.full or other.full,
            stays=self.stays or other.stays,
            number=self.number + 1,
            conditions=self.conditions or other.conditions,
        )


def read_orders(path: Path) -> Orders:
    """The orders so far; none when there is no such file."""
    plain: dict[str, Any] = read_document(path) or {}
    conditions = plain.pop("conditions", None)
    return Orders(**plain, conditions=Conditions(**conditions) if conditions else None)


def write_orders(path: Path, orders: Orders) -> None:
    """The keeper sees `orders` on its next turn."""
    write_document(path, asdict(orders))
