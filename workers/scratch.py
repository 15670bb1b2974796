"""The box's temporary folder: Celery, Playwright and Chromium leave things behind when they are killed."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

_PREFIX = "bv3-box-"
_NOTE = "scratch"


def make_scratch(folder: Path) -> Path:
    """A new, empty temporary folder, used by this process and all that it starts from now on.

    One that a killed predecessor on this box left is gone. It lies in the system's temporary folder and not
    in the box's: sockets are made in it, whose paths may have 107 characters at most.
    """
    drop_scratch(folder)
    made = Path(tempfile.mkdtemp(prefix=_PREFIX))
    (folder / _NOTE).write_text(str(made), "utf-8")
    os.environ["TMPDIR"] = str(made)
    tempfile.tempdir = None
    return made


def drop_scratch(folder: Path) -> None:
    """The box's temporary folder is gone, with all that is in it."""
    noted = find_scratch(folder)
    if noted is not None and _is_scratch(noted):
        shutil.rmtree(noted, ignore_errors=True)
    (folder / _NOTE).unlink(missing_ok=True)


def find_scratch(folder: Path) -> Path | None:
    """The temporary folder that was noted for the box; None without one."""
    try:
        return Path((folder / _NOTE).read_text("utf-8"))
    except FileNotFoundError:
        return None


def _is_scratch(path: Path) -> bool:
    """Whether we made it: a note that was tampered with must not name what is removed."""
    return path.name.startswith(_PREFIX) and path.is_dir() and not path.is_symlink()
