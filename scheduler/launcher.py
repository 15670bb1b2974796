"""How this user starts us: what a printed command line has to begin with."""

from __future__ import annotations

from broker.terminal import as_typed


def call(*arguments: str) -> str:
    """The command line that runs `bv3-schedule` with these arguments, as this user can type it."""
    return as_typed(" ".join(("bv3-schedule", *arguments)))
