"""Commands that the supervisor runs beside the stack, as processes: checks of the markers, and of the box's health."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import psutil
import structlog

from broker.errors import StackError
from workers.processes import MARK, ProcessBook, kill_group
from workers.stack.facts import StackFacts
from workers.stack.parts import REPOSITORY
from workers.verification import Verification, read_verification, start_verification

log = structlog.get_logger(__name__)

VERIFICATION = "verification.json"
_RETRY_S = (30.0, 60.0, 120.0, 300.0)
_HEALTH_LIMIT_S = 300.0
_VERIFY_LIMIT_S = 300.0


class Verifier:
    """At most one check of the markers at a time; again, with back-off, when it could not be made."""

    def __init__(self, folder: Path, book: ProcessBook, report: Callable[..., None]) -> None:
        self._path = folder / VERIFICATION
        self._report = report
        self._began_s = 0.0
        self._book = book
        self._process: Verification | None = None
        self._due_s = 0.0
        self._tries = 0
        self._is_done = False

    def forget(self) -> None:
        """What runs now has not been checked."""
        self.close()
        self._is_done = False
        self._tries = 0
        self._due_s = 0.0
        self._path.unlink(missing_ok=True)

    def look_after(self, facts: StackFacts, *, is_wanted: bool) -> dict[str, Any] | None:
        """The fact `verify` when a check has just ended well."""
        if self._process is None:
            if is_wanted and not self._is_done and time.monotonic() >= self._due_s:
                self._start(facts)
            return None
        if self._process.poll() is None:
            if time.monotonic() - self._began_s > _VERIFY_LIMIT_S:
                self.close()
                self._fail(f"no result within {_VERIFY_LIMIT_S:.0f} s")
            return None
        process, self._process = self._process, None
        try:
            found = read_verification(process)
            self._path.write_text(json.dumps(found), encoding="utf-8")
        except (StackError, OSError) as error:
            self._fail(str(error))
            return None
        self._is_done = True
        return found

    def _start(self, facts: StackFacts) -> None:
        try:
            self._process = start_verification(facts)
            self._book.record("verification", self._process.pid)
        except (psutil.Error, OSError) as error:
            # a full disk, say: it ends neither the box nor the wish for a check
            self.close()
            self._fail(str(error))
        self._began_s = time.monotonic()

    def _fail(self, cause: str) -> None:
        log.warning("not verified", cause=cause)
        self._report("verify_failed", cause=cause[:500])
        self._due_s = time.monotonic() + _RETRY_S[min(self._tries, len(_RETRY_S) - 1)]
        self._tries += 1

    def close(self) -> None:
        """No check runs."""
        if self._process is not None:
            kill_group(self._process.pid)
            self._process.wait()
            self._process.take_output()
            self._process = None


class HealthCheck:
    """The command that proves a held box healthy, run while it is asked for; its answer goes to `note`."""

    def __init__(self, box_file: Path, book: ProcessBook, note: Callable[[int, bool, str], None]) -> None:
        self._command = [sys.executable, "-m", "workers.cli", "health-check", "--box", str(box_file), "--json"]
        self._book = book
        self._note = note
        self._process: subprocess.Popen[bytes] | None = None
        self._output: IO[bytes] | None = None
        self._hold = 0
        self._began_s = 0.0

    @property
    def is_running(self) -> bool:
        """Whether the stack is being tried now."""
        return self._process is not None

    def look_after(self, wanted: int | None, *, may_start: bool) -> None:
        """A check is started when one is wanted; one that has ended is noted."""
        if self._process is None:
            if wanted is not None and may_start:
                try:
                    self._start(wanted)
                except (psutil.Error, OSError) as error:
                    # a full disk, say: a check that could not be made has failed, and ends no box
                    self.close()
                    self._note(wanted, False, f"no check could be started: {error}")  # noqa: FBT003  # a callback
            return
        is_late = time.monotonic() - self._began_s > _HEALTH_LIMIT_S
        if self._process.poll() is None and not is_late:
            return
        passed, detail = (False, f"no answer within {_HEALTH_LIMIT_S:.0f} s") if is_late else self._read()
        hold = self._hold
        self.close()
        log.info("health check", hold=hold, passed=passed, detail=detail)
        self._note(hold, passed, detail)

    def close(self) -> None:
        """No check runs."""
        if self._process is not None:
            kill_group(self._process.pid)
            self._process.wait()
            self._process = None
        if self._output is not None:
            self._output.close()
            self._output = None

    def _start(self, hold: int) -> None:
        path = self._book.folder / "health-check.out"
        self._output = path.open("w+b")
        with (self._book.folder / "health-check.log").open("ab") as errors:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=errors,
                env={**os.environ, MARK: str(self._book.folder)},
                cwd=REPOSITORY,
                start_new_session=True,
            )
        self._book.record("health-check", self._process.pid)
        self._hold = hold
        self._began_s = time.monotonic()

    def _read(self) -> tuple[bool, str]:
        if self._output is None or self._process is None:
            return False, "no check ran"
        self._output.seek(0)
        try:
            plain = json.loads(self._output.read())
            return bool(plain["passed"]), str(plain["detail"])
        except (ValueError, KeyError, TypeError):
            code = self._process.returncode
            return False, f"the check ended with {code}: see {self._book.folder / 'health-check.log'}"
