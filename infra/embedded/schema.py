"""The schema as a part of the farm: a step that runs once after PostgreSQL serves, in a thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from broker.errors import Bv3Error
from infra.embedded.lifetime import rest_s
from infra.embedded.parts import Failure, PartState
from infra.embedded.services import USUAL_ATTEMPTS


@dataclass(slots=True, kw_only=True)
class Schema:
    """Waits for PostgreSQL, brings its schema up to date, and is ready from then on."""

    migrate: Callable[[], None]
    name: str = "schema"
    needs: tuple[str, ...] = ("postgres",)
    state: PartState = PartState.WAITING
    failure: Failure | None = None
    ready_after_s: float | None = None
    _deaths: int = 0
    _due_s: float = 0.0
    _begun_s: float = 0.0
    _thread: threading.Thread | None = None
    _error: Exception | None = None

    def turn(self, *, needs_ready: bool, may_move: bool) -> bool:  # noqa: ARG002 - as a Part turns
        """One step of the state machine; whether anything changed."""
        before = self.state
        if self.state in (PartState.WAITING, PartState.RESTING):
            if needs_ready and time.monotonic() >= self._due_s:
                self._launch()
        elif self.state is PartState.STARTING and self._thread and not self._thread.is_alive():
            self._settle()
        return self.state is not before

    def _launch(self) -> None:
        self._error = None
        self._begun_s = time.monotonic()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self.state = PartState.STARTING

    def _run(self) -> None:
        try:
            self.migrate()
        except Exception as error:  # noqa: BLE001 - handed to the keeper's thread, which reports it
            self._error = error

    def _settle(self) -> None:
        if self._error is None:
            self.state = PartState.READY
            self.failure = None
            self.ready_after_s = time.monotonic() - self._begun_s
            return
        hint = self._error.hint if isinstance(self._error, Bv3Error) else None
        self.failure = Failure(message=f"the schema could not be brought up to date: {self._error}", hint=hint)
        self._deaths += 1
        self._due_s = time.monotonic() + rest_s(self._deaths)
        self.state = PartState.FAILED if self._deaths >= USUAL_ATTEMPTS else PartState.RESTING
