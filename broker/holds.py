"""The kinds of holds, and what ends each, as people are told on the box and at the farm. Pure."""

from __future__ import annotations

from enum import StrEnum


class HoldKind(StrEnum):
    """Why a box gets no runs (docs/explanation/box-states.md)."""

    BREACH = "breach"
    QUARANTINED = "quarantined"
    DRAINED = "drained"


# No hold of the farm's: the box's own preflight refuses, which its beats tell as their phase.
CONTENDED = "contended"

_ENDINGS: dict[str, str] = {
    CONTENDED: "its reason, when that is gone",
    HoldKind.BREACH: "bv3-schedule resume SWEEP --after-breach, when you have looked",
    HoldKind.QUARANTINED: "a health check that passes on the box",
    HoldKind.DRAINED: "bv3-box resume, on the box",
}


def say_what_ends(kind: str) -> str:
    """What ends a hold of this kind, as in `ends by ...`."""
    # without one: a kind that a newer farm has
    return _ENDINGS.get(kind, "what its reason says")
