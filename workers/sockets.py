"""Where a box's sockets lie: in its folder, or in a short one named after it."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

from broker.errors import StackError

# The path of a Unix socket has less than 108 characters, on macOS less than 104.
_PATH_CHARS = 100
# Not the temporary folder of the moment: whoever ends the box must find it again.
_SHORT_PLACE = Path("/tmp")  # noqa: S108  # made with mode 0700, and checked to be ours


def choose_socket(folder: Path, name: str) -> Path:
    """A path for the socket that is short enough. The folder that it needs outside of `folder` exists.

    Raises StackError when that folder is another user's.
    """
    if len(str(folder / name)) <= _PATH_CHARS:
        return folder / name
    short = short_folder(folder)
    short.mkdir(mode=0o700, exist_ok=True)
    if short.is_symlink() or short.stat().st_uid != os.geteuid():
        raise StackError(f"{short} belongs to another user", hint="give the box a folder with a shorter path")
    return short / name


def find_socket(folder: Path, name: str) -> Path:
    """Where `choose_socket` puts it; nothing is made."""
    return folder / name if len(str(folder / name)) <= _PATH_CHARS else short_folder(folder) / name


def short_folder(folder: Path) -> Path:
    """The folder beside the system's other temporary ones for sockets of a folder whose path is too long."""
    name = hashlib.sha256(str(folder).encode()).hexdigest()[:12]
    return _SHORT_PLACE / f"bv3-{os.geteuid()}-{name}"


def drop_sockets(folder: Path, *names: str) -> None:
    """No socket of these names is left, nor the short folder."""
    for name in names:
        (folder / name).unlink(missing_ok=True)
    short = short_folder(folder)
    if short.is_dir() and not short.is_symlink() and short.stat().st_uid == os.geteuid():
        shutil.rmtree(short, ignore_errors=True)
