"""How long things live: when a farm stops, how long a part rests after it died. Arithmetic alone."""

from __future__ import annotations

from dataclasses import dataclass

# A part that lived so long has recovered; its next death counts as the first.
RECOVERED_AFTER_S = 60.0
# So long without a look at the database the sweeps in it are not moving: nothing is lost by stopping.
BLIND_FOR_S = 120.0

_FIRST_REST_S = 0.25
_LONGEST_REST_S = 30.0


def rest_s(deaths: int) -> float:
    """How long a part waits before it is started again after so many deaths in a row."""
    return min(_FIRST_REST_S * 2.0 ** max(deaths - 1, 0), _LONGEST_REST_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """Who has a use for the farm, as last seen."""

    stays: bool
    has_users: bool
    # None: the database could not be asked.
    has_active_sweep: bool | None
    blind_for_s: float = 0.0


def may_stop(use: Use) -> bool:
    """Whether nobody is left for whom the farm runs."""
    if use.stays or use.has_users:
        return False
    if use.has_active_sweep is None:
        return use.blind_for_s >= BLIND_FOR_S
    return not use.has_active_sweep
