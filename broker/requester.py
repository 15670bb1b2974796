"""Who stands behind a command."""

from __future__ import annotations

import getpass
import os
import socket


def name_requester() -> str:
    """Who asks, for other people's eyes: `anna@mini-3`."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a uid without a name, as in many containers
        user = f"uid {os.getuid()}"
    return f"{user}@{socket.gethostname()}"
