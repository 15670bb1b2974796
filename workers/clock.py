"""By how much this machine's clock differs from the farm's, as each beat's answer tells it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

_NAME = "clock.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Offset:
    """The farm's clock minus this machine's: `offset_s`, give or take `uncertainty_s`."""

    offset_s: float
    uncertainty_s: float
    # by this machine's clock
    noted_at: datetime

    @property
    def least_s(self) -> float:
        """How far apart the clocks are at least, whichever way; 0 when they may agree."""
        return max(0.0, abs(self.offset_s) - self.uncertainty_s)


def measure_offset(farm_now: datetime, sent_at: datetime, answered_at: datetime) -> Offset:
    """The offset by one question and its answer: the farm looked at its clock somewhere in between."""
    round_trip = answered_at - sent_at
    return Offset(
        offset_s=(farm_now - (sent_at + round_trip / 2)).total_seconds(),
        uncertainty_s=abs(round_trip.total_seconds()) / 2,
        noted_at=answered_at,
    )


def note_offset(folder: Path, farm_now: datetime, sent_at: datetime, answered_at: datetime) -> Offset:
    """The offset is in the box's folder, whole, for whoever looks next. Raises OSError."""
    offset = measure_offset(farm_now, sent_at, answered_at)
    plain = {
        "offset_s": round(offset.offset_s, 6),
        "uncertainty_s": round(offset.uncertainty_s, 6),
        "noted_at": offset.noted_at.astimezone(UTC).isoformat(),
    }
    fresh = folder / f"{_NAME}.new"
    fresh.write_text(json.dumps(plain), encoding="ascii")
    fresh.replace(folder / _NAME)
    return offset


def read_offset(folder: Path) -> Offset | None:
    """The offset as it was last noted; None for a box that no farm has answered, or an unreadable note."""
    try:
        plain = json.loads((folder / _NAME).read_text("ascii"))
        return Offset(
            offset_s=float(plain["offset_s"]),
            uncertainty_s=float(plain["uncertainty_s"]),
            noted_at=datetime.fromisoformat(plain["noted_at"]),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None
