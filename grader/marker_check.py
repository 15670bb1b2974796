"""What a scorecard says of the catalogue: how many of its markers live, at which revision of the product. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class CheckState(StrEnum):
    """What the latest check of this catalogue against the sweep's revision came to."""

    # all alive that its source can prove
    VERIFIED = "verified"
    # a reference stack, which prints a part of the product's lines; none of them wrongly
    PARTIAL = "partial"
    DEAD = "dead"
    # nobody checked this catalogue against the one revision of the sweep, or it has none or several
    UNVERIFIED = "unverified"


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkerCheck:
    """The catalogue's standing. `alive` and `revision` are None while it is unverified."""

    total: int
    alive: int | None = None
    # neither alive nor dead: printed, but too short to prove
    unproven: int = 0
    revision: str | None = None
    state: CheckState = CheckState.UNVERIFIED

    @property
    def text(self) -> str:
        """As the scorecard's header says it."""
        if self.state is CheckState.UNVERIFIED:
            return f"markers {self.total}, unverified"
        remark = {CheckState.DEAD: ", DEAD", CheckState.PARTIAL: ", the rest not printed there"}.get(self.state, "")
        unproven = f", {self.unproven} unproven" if self.unproven else ""
        return f"markers {self.alive}/{self.total} at {self.revision}{unproven}{remark}"


def judge_check(*, total: int, alive: int, revision: str, facts: Mapping[str, Any]) -> MarkerCheck:
    """The standing that a stored check gives; `facts` names the dead ones and those that can't be proven."""
    unproven = len(facts.get("unproven", ()))
    lacking = CheckState.DEAD if facts.get("dead") else CheckState.PARTIAL
    state = CheckState.VERIFIED if alive + unproven == total else lacking
    return MarkerCheck(total=total, alive=alive, unproven=unproven, revision=revision, state=state)
