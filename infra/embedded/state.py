"""What the keeper tells of itself, as the commands read it."""

from __future__ import annotations

from enum import StrEnum


class Phase(StrEnum):
    """Where the farm stands as a whole."""

    STARTING = "starting"  # something that was asked for does not serve yet
    READY = "ready"
    STOPPING = "stopping"  # whoever comes now waits, and starts a farm anew
    STOPPED = "stopped"
    FAILED = "failed"  # it did not come up; `failure` says why
