"""Where the farm's servers listen on Unix sockets: a box in a network namespace of its own has no other way to them."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tempfile
from pathlib import Path

from broker.errors import ServiceError
from infra.embedded.files import FarmFiles

# A socket's whole path may have 103 characters (macOS; Linux: 107), and PostgreSQL's file name has 15 of them.
_FOLDER_CHARS = 85


def choose_folder(files: FarmFiles) -> Path:
    """In the farm's own folder, else, where that path is too long for a socket, a short one named after it."""
    own = files.data("sockets")
    if len(os.fsencode(own)) <= _FOLDER_CHARS:
        return own
    name = hashlib.sha256(os.fsencode(files.home.root.resolve())).hexdigest()[:12]
    return Path(tempfile.gettempdir()) / f"bv3-{os.geteuid()}-{name}"


def make_folder(files: FarmFiles) -> Path:
    """The folder is there and open to this user alone. Raises ServiceError when it is another's."""
    folder = choose_folder(files)
    folder.mkdir(mode=0o700, exist_ok=True)
    # Not followed: in the folder for temporary files anybody may have put a link under this name.
    seen = folder.lstat()
    if not stat.S_ISDIR(seen.st_mode) or seen.st_uid != os.geteuid():
        raise ServiceError(f"{folder} belongs to another user", hint="set BV3_HOME to a folder with a shorter path")
    folder.chmod(0o700)
    return folder


def drop_folder(files: FarmFiles) -> None:
    """The folder is gone; the farm has stopped."""
    shutil.rmtree(choose_folder(files), ignore_errors=True)
