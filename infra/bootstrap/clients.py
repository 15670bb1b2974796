"""The programs that set-up runs: how they are started, ended and understood."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from infra.bootstrap.place import Facts, Place

# A command line, its words as they come.
Command = Sequence[str | Path]
INSTALL_LIMIT_S = 900.0
ANSWER_LIMIT_S = 30.0
# The machine's certificates, not those that uv and npm bring: a company's own are among them.
OWN_CERTIFICATES = {"UV_SYSTEM_CERTS": "1", "UV_NATIVE_TLS": "1", "NODE_USE_SYSTEM_CA": "1"}
# These lead a client to another environment or folder than the one it is told.
MISLEADING = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PIP_USER", "PIP_TARGET", "PIP_PREFIX", "PIP_PYTHON")
OFFLINE = re.compile(
    r"ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ENETUNREACH|ETIMEDOUT|Network is unreachable|name resolution|dns error"
    r"|tcp connect error|Could not resolve|NewConnectionError|ConnectTimeout"
)
TELLING = re.compile(r"\berror\b|^E: |ENOTFOUND|[Ff]ailed|Error:|^cause:")


class SetupError(Exception):
    """What could not be had or done; `hint` says what the reader can do about it."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class CommandError(Exception):
    """A program that set-up ran has failed; `output` is all that it printed."""

    def __init__(self, command: Sequence[str], ending: str, output: str) -> None:
        # True if the output says that the network was missing, rather than the package.
        self.is_offline = OFFLINE.search(output) is not None
        cause = "the network could not be reached" if self.is_offline else last_words(output)
        super().__init__(f"`{name_program(command)}` {ending}: {cause}")
        self.output = output


def name_program(command: Sequence[str]) -> str:
    """What a reader calls the program: `pip`, for a Python that runs it as a module."""
    is_module = command[1:2] == ["-m"]
    return command[2] if is_module else Path(command[0]).name


def last_words(output: str, *, limit: int = 240) -> str:
    """The line of a client's output that says most about its failure, cut to `limit` characters."""
    lines = [re.sub(r"\s+", " ", line).strip() for line in output.splitlines()]
    lines = [line for line in lines if line and "complete log of this run" not in line]
    telling = [line for line in lines if TELLING.search(line)]
    return (telling or lines or ["it printed nothing"])[-1][:limit]


def make_environment(environment: Mapping[str, str], fallback_home: Path) -> dict[str, str]:
    """The environment of set-up's clients: ours, less what misleads them, and with a writable home."""
    env = OWN_CERTIFICATES | {key: value for key, value in environment.items() if key not in MISLEADING}
    home = env.get("HOME")
    if home and Path(home).is_dir() and os.access(home, os.W_OK | os.X_OK):
        return env
    return {**env, "HOME": str(fallback_home), "XDG_CACHE_HOME": str(fallback_home / ".cache")}


@dataclass(slots=True, kw_only=True)
class Setup:
    """One set-up under way: where, in what environment, and what the steps have found."""

    place: Place
    env: dict[str, str]
    lock_fds: tuple[int, ...]
    is_pip_wanted: bool = False
    facts: dict[str, Facts] = field(default_factory=dict)
    # When the step began whose line on the terminal waits for its time; None when no line is open.
    open_since: float | None = None

    @property
    def log(self) -> Path:
        """All that the clients print."""
        return self.place.runtime / "setup.log"

    def say(self, text: str) -> None:
        """Print a line, not into the one that a step has left open."""
        sys.stderr.write(("\n" if self.open_since is not None else "") + f"bv3: {text}\n")
        sys.stderr.flush()
        self.open_since = None

    def begin(self, title: str) -> float:
        """Print the step's title and leave its line open; returns when it began."""
        sys.stderr.write(f"bv3:   {title} … ")
        sys.stderr.flush()
        self.open_since = time.monotonic()
        return self.open_since

    def end(self, title: str, began: float) -> None:
        """Print how long the step took."""
        again = "" if self.open_since == began else f"bv3:   {title} … "
        sys.stderr.write(f"{again}{time.monotonic() - began:.1f} s\n")
        self.open_since = None

    def find_program(self, name: str) -> str | None:
        """The path of a program that is installed on this machine."""
        return shutil.which(name, path=self.env.get("PATH"))

    def can_run(self, *command: str | Path) -> bool:
        """True if the command starts and ends well in a short time."""
        try:
            self.run(command, limit_s=ANSWER_LIMIT_S)
        except CommandError:
            return False
        return True

    def run(
        self,
        command: Command,
        *,
        limit_s: float = INSTALL_LIMIT_S,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> str:
        """Run a program to its end; returns its output, which is in the log too. Raises CommandError.

        It leads its own process group, which ends with us. It inherits the locks: should we be
        killed outright, the next set-up waits until the orphan is done with its files.
        """
        argv = [str(part) for part in command]
        with self.log.open("a+b") as log:
            log.write(f"\n$ {' '.join(argv)}\n".encode())
            log.flush()
            start = log.seek(0, os.SEEK_END)
            try:
                child = subprocess.Popen(
                    argv,
                    cwd=cwd or self.place.runtime,
                    env={**self.env, **(env or {})},
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    pass_fds=self.lock_fds,
                )
            except OSError as error:
                raise CommandError(argv, "did not start", str(error)) from error
            ending = wait_or_kill(child, limit_s)
            log.seek(start)
            output = log.read().decode(errors="replace")
        if ending:
            raise CommandError(argv, ending, output)
        return output


def wait_or_kill(child: subprocess.Popen[bytes], limit_s: float) -> str:
    """'' once the child has ended well, else how it ended; its group outlives no interruption."""
    try:
        code = child.wait(limit_s)
    except BaseException as error:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        if isinstance(error, subprocess.TimeoutExpired):
            return f"was not done within {limit_s:.0f} s"
        raise
    return "" if code == 0 else f"ended with code {code}"
