"""How this user starts us: what a printed command line has to begin with."""

from __future__ import annotations

from pathlib import Path
from shutil import which


def call(*arguments: str) -> str:
    """The command line that runs `bv3-schedule` with these arguments, as this user can type it."""
    launcher = Path(__file__).resolve().parent.parent / "bv3"
    if which("bv3-schedule") or not launcher.is_file():
        return " ".join(("bv3-schedule", *arguments))
    shown = "./bv3" if launcher.parent == Path.cwd() else str(launcher)
    return " ".join((shown, "schedule", *arguments))
