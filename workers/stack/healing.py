"""Which part of a stack is killed to be started anew, and when. Pure."""

from __future__ import annotations

# What a refusal's reason speaks of; `clean_start` may be either's fault.
_PART_BEHIND = {"renderer": "renderer", "router": "router", "backend": "backend"}


def choose_part(reason: str, *, renderer_answers: bool) -> str | None:
    """The part behind the reason, or None when no part helps.

    What a run left stays there because of a renderer that hangs or of a backend that can't end its work: a
    renderer that answers on bv3's own card is not to blame.
    """
    if reason == "clean_start":
        return "backend" if renderer_answers else "renderer"
    return _PART_BEHIND.get(reason)


def is_due(*, age_s: float, patience_s: float, has_come_up: bool, was_killed: bool) -> bool:
    """Whether a part that has run for so long may be killed now.

    One that is coming up is left to it: under load that takes longer than the patience of whoever asks, and a part
    that is killed again and again never comes up. So is one whose predecessor was killed: where that has not
    helped at once, another kill makes only more load.
    """
    return age_s >= patience_s or (has_come_up and not was_killed)
