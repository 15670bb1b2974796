"""What the keeper knows of a part of the farm: how to start it, when it is ready, how to stop it."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from broker.ready import READY_VARIABLE
from infra.embedded.processes import Launch

REPOSITORY = Path(__file__).resolve().parent.parent.parent

# What a part may see of the environment of the command that happened to start the keeper. Operators keep
# passwords of accounts in theirs, and boxes render pages that nobody here has written.
_PASSED_ON = (
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "TERM",
    "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR",
    "LD_LIBRARY_PATH", "FONTCONFIG_PATH", "FONTCONFIG_FILE", "CHROMIUM_PATH", "PLAYWRIGHT_NODEJS_PATH",
    "PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX", "PYTHONUTF8", "VIRTUAL_ENV",
    "BV3_HOME", "BV3_RUNTIME", "BV3_LOG_LEVEL",
    "BV3_POSTGRES_PORT", "BV3_VALKEY_PORT", "BV3_FLOWER_PORT", "BV3_FARM_PROGRAMS",
)  # fmt: skip


def plain_environment() -> dict[str, str]:
    """The part of this process's environment that a part of the farm may see."""
    return {name: value for name, value in os.environ.items() if name in _PASSED_ON or name.startswith("LC_")}


# Reports a step to whoever waits for the farm.
Say = Callable[[str], None]


class Service(Protocol):
    """A part of the farm that is one process."""

    @property
    def name(self) -> str:
        """Short, as commands name it."""

    @property
    def needs(self) -> tuple[str, ...]:
        """Parts that must be ready before it starts."""

    @property
    def start_timeout_s(self) -> float:
        """How long it may take until it is ready."""

    @property
    def attempts(self) -> int:
        """How many deaths before it ever served mean that it won't."""

    @property
    def stop_signal(self) -> int:
        """What asks it to end."""

    @property
    def stop_timeout_s(self) -> float:
        """How long it may take to end before it is killed."""

    def prepare(self, *, may_move: bool) -> Launch:
        """Its data and configuration are in place; what to start.

        With `may_move` it may choose another port when its last one is taken: nobody has
        been told of it yet. Raises Bv3Error with the cause when it can't be prepared.
        """

    def is_ready(self) -> bool:
        """Whether it serves."""

    @property
    def came_up(self) -> str:
        """What to call it when it `is_ready`."""

    @property
    def remark(self) -> str:
        """What a person should know of how it came up; empty: nothing."""


# Enough for a port that another program took between our look and the part's bind.
USUAL_ATTEMPTS = 3
# What imports may take on a machine that is busy with sweeps.
PYTHON_START_LIMIT_S = 90.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonProgram:
    """A program of bv3 itself; it has no port to knock at, and tells when it serves."""

    name: str
    argv: tuple[str, ...]
    needs: tuple[str, ...]
    ready: Path
    addresses: Callable[[], Mapping[str, str]]
    stop_timeout_s: float = 60.0
    start_timeout_s: float = PYTHON_START_LIMIT_S
    attempts: int = USUAL_ATTEMPTS
    stop_signal: int = signal.SIGTERM
    came_up: str = "ready"
    remark: str = ""

    def prepare(self, *, may_move: bool) -> Launch:  # noqa: ARG002 - it has no port
        """Its predecessor's word is void."""
        self.ready.unlink(missing_ok=True)
        return Launch(
            argv=self.argv,
            environment={**plain_environment(), **self.addresses(), READY_VARIABLE: str(self.ready)},
            folder=REPOSITORY,
        )

    def is_ready(self) -> bool:
        """Whether it has told so."""
        return self.ready.exists()


def python_module(*argv: str) -> tuple[str, ...]:
    """The command line that runs a module of this environment."""
    return (sys.executable, "-m", *argv)
