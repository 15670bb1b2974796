"""Does the running product still print what the grader looks for? Asked of the grader's command, as a process."""

from __future__ import annotations

import getpass
import json
import os
import socket
import subprocess
import sys
import tempfile
from typing import Any

from broker.errors import EXIT_GATE, EXIT_OK, StackError
from workers.processes import MARK
from workers.stack.facts import StackFacts
from workers.stack.parts import REPOSITORY

# More is no cause any more, and what a command prints may be long.
_CAUSE_CHARS = 300


class Verification(subprocess.Popen[bytes]):
    """A check that runs. What it prints goes into a file: nobody reads a pipe meanwhile."""

    def __init__(self, facts: StackFacts) -> None:
        # closed when they are taken
        self._printed = tempfile.TemporaryFile()  # noqa: SIM115
        self._said = tempfile.TemporaryFile()  # noqa: SIM115
        source = ["--reference"] if facts.checkout is None else [f"--source={facts.checkout}"]
        command = [sys.executable, "-m", "grader.cli", "verify", *source, f"--revision={facts.revision}"]
        super().__init__(
            [*command, "--no-store", "--json"],
            stdin=subprocess.DEVNULL,
            stdout=self._printed,
            stderr=self._said,
            cwd=REPOSITORY,
            # It has no business with the farm. Who starts it records it; the box's mark would make it a part.
            env={name: value for name, value in os.environ.items() if name != MARK and not name.startswith("BV3_")},
            start_new_session=True,
        )

    def take_output(self) -> tuple[str, str]:
        """What it printed and what it said beside, once."""
        with self._printed as printed, self._said as said:
            printed.seek(0)
            said.seek(0)
            return printed.read().decode("utf-8", "replace"), said.read().decode("utf-8", "replace")


def start_verification(facts: StackFacts) -> Verification:
    """The catalogue is being set against the source of what runs. It takes seconds; poll it, then read it.

    It leads a group of its own: whoever starts it records it in the box's book, so that it ends with the box.
    """
    return Verification(facts)


def read_verification(process: subprocess.Popen[bytes]) -> dict[str, Any]:
    """The beat's fact `verify`, of a verification that has ended; dead markers stand in its `facts`.

    Raises StackError when the check itself did not run: that says nothing of the product, and is not verified.
    """
    if not isinstance(process, Verification):
        raise TypeError("only what start_verification returned can be read")
    code = process.wait()
    printed, said = process.take_output()
    cause = " ".join(said.split())[-_CAUSE_CHARS:]
    if code not in {EXIT_OK, EXIT_GATE}:
        raise StackError(f"the markers could not be checked: bv3-grade verify ended with {code}: {cause}")
    try:
        return _collect(json.loads(printed))
    except (ValueError, KeyError, TypeError) as error:
        # a command that fails without its own words ends with 1, too
        raise StackError(f"the markers could not be checked: {type(error).__name__} {error}: {cause}") from error


def _collect(plain: dict[str, Any]) -> dict[str, Any]:
    """As the farm stores it (the columns of its table of checks)."""
    states: dict[str, dict[str, str]] = {"dead": {}, "unproven": {}, "absent": {}}
    for marker in plain["markers"]:
        states.get(marker["state"], {})[marker["name"]] = marker["detail"]
    return {
        "product_revision": plain["revision"],
        "catalogue_sha256": plain["catalogue_sha256"],
        "total": plain["total"],
        "alive": plain["alive"],
        "facts": {
            "dead": states["dead"],
            "unproven": states["unproven"],
            "absent": sorted(states["absent"]),
            "unread": {item["path"]: item["reason"] for item in plain["unread"]},
            "files": plain["files"],
            "logs": {},
        },
        "checked_by": f"{_name_user()}@{socket.gethostname()}",
    }


def _name_user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        # an account without a name, as containers have
        return "unknown"
