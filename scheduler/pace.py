"""How fast a sweep goes and how long it may still take: a range, from what was seen so far. Pure."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

# Fewer finished runs say nothing about a pace.
_FEWEST_RUNS = 3
# The recent pace: over this time, or over the last runs where they take longer.
_RECENT_S = 60.0
_RECENT_RUNS = 9
_MINUTE_S = 60
_HOUR_S = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Runs per minute over all that was seen, and the time left in seconds: at best, at worst."""

    runs_per_min: float
    low_s: float
    high_s: float


@dataclass(slots=True)
class Pace:
    """Collects (time, runs over) while a sweep is followed; times are of one monotonic clock, in seconds."""

    _seen: deque[tuple[float, int]] = field(default_factory=deque)

    def note(self, now_s: float, over: int) -> None:
        """`over` runs are over at `now_s`."""
        if not self._seen or over > self._seen[-1][1]:
            self._seen.append((now_s, over))

    def estimate(self, now_s: float, total: int) -> Estimate | None:
        """What the overall and the recent pace promise for the rest; None while too little was seen."""
        if not self._seen or self._seen[-1][1] - self._seen[0][1] < _FEWEST_RUNS:
            return None
        first_s, first = self._seen[0]
        over = self._seen[-1][1]
        overall = (over - first) / max(now_s - first_s, 1e-3)
        recent_s, recent_over = next(
            (seen for seen in reversed(self._seen) if seen[0] <= now_s - _RECENT_S and over - seen[1] >= _RECENT_RUNS),
            self._seen[0],
        )
        recent = (over - recent_over) / max(now_s - recent_s, 1e-3)
        left = max(0, total - over)
        return Estimate(
            runs_per_min=overall * _MINUTE_S, low_s=left / max(overall, recent), high_s=left / min(overall, recent)
        )


def describe_left(estimate: Estimate) -> str:
    """The range in words: `40 to 50 s left`, `3 to 4 min left`, `about 2 h left`."""
    step_s, unit_s, unit = 10, 1, "s"
    if estimate.high_s >= 1.5 * _HOUR_S:
        step_s, unit_s, unit = _HOUR_S, _HOUR_S, "h"
    elif estimate.high_s >= 1.5 * _MINUTE_S:
        step_s, unit_s, unit = _MINUTE_S, _MINUTE_S, "min"
    low = max(1, int(estimate.low_s // step_s)) * step_s // unit_s
    high = max(1, -int(-estimate.high_s // step_s)) * step_s // unit_s
    return f"about {high} {unit} left" if low == high else f"{low} to {high} {unit} left"
