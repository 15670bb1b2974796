"""The worker's door to the farm: the box functions of one attempt, on one connection, on one thread.

What a run only tells (its phase) never delays it; what it asks (`start`) or must have said (`finished`) waits.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar
from uuid import UUID

import structlog

from broker.errors import DatabaseError
from broker.store.box_client import BoxClient, StartAnswer
from broker.types import RunOrder

T = TypeVar("T")
log = structlog.get_logger(__name__)

# An order whose start could not be asked for is left; the dispatcher sends it again.
START_PATIENCE_S = 30.0
FINISH_PATIENCE_S = 10.0
_RETRY_S = 0.5
# After a failure nothing is merely told for this long: each try would cost a connect timeout.
_QUIET_AFTER_FAILURE_S = 10.0


class FarmDoor:
    """Made in the process that uses it, never before a fork."""

    def __init__(self, client: BoxClient, token: UUID) -> None:
        self._client = client
        self._token = token
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="farm")
        self._quiet_until_s = 0.0

    def close(self) -> None:
        """What was told has been sent, the connection is closed."""
        self._thread.shutdown(wait=True)
        self._client.close()

    def start(self, order: RunOrder, nonce: str) -> StartAnswer:
        """The farm's answer. Raises DatabaseError when it gave none for START_PATIENCE_S."""
        return self._insist(
            lambda: self._client.start(order.run, order.dispatch, self._token, nonce), patience_s=START_PATIENCE_S
        )

    def tell_phase(self, attempt: int, phase: str) -> None:
        """The farm will know the phase soon, if it can be reached."""
        self._thread.submit(self._tell, attempt, phase)

    def finish(self, attempt: int) -> bool:
        """Whether the farm knows that the attempt is finished; if not, the supervisor says it later."""
        try:
            answer = self._insist(
                lambda: self._client.step(attempt, self._token, "finished"), patience_s=FINISH_PATIENCE_S
            )
        except DatabaseError as error:
            log.warning("the farm does not know yet that the attempt is finished", cause=error.message)
            return False
        if answer != "ok":
            # lost meanwhile, or said by the supervisor at the same moment; the record is sent all the same
            log.info("the farm had it finished already", attempt=attempt, answer=answer)
        return True

    def release(self, order: RunOrder, reason: str, facts: Mapping[str, Any] | None = None) -> None:
        """The run is handed back, if the farm can be reached; else it takes it back itself."""
        try:
            self._insist(
                lambda: self._client.released(order.run, order.dispatch, self._token, reason, facts),
                patience_s=FINISH_PATIENCE_S,
            )
        except DatabaseError as error:
            log.warning("could not hand the run back", cause=error.message)

    def _tell(self, attempt: int, phase: str) -> None:
        if time.monotonic() < self._quiet_until_s:
            return
        try:
            self._client.step(attempt, self._token, "phase", {"phase": phase})
        except DatabaseError as error:
            self._quiet_until_s = time.monotonic() + _QUIET_AFTER_FAILURE_S
            log.warning("the farm does not hear the phase", phase=phase, cause=error.message)

    def _insist(self, call: Callable[[], T], *, patience_s: float) -> T:
        deadline_s = time.monotonic() + patience_s
        while True:
            answered: Future[T] = self._thread.submit(call)
            try:
                return answered.result(timeout=max(_RETRY_S, deadline_s - time.monotonic()))
            except TimeoutError as error:
                # A PostgreSQL that has stopped answers nothing and breaks no connection.
                answered.cancel()
                raise DatabaseError(f"PostgreSQL did not answer within {patience_s:.0f} s") from error
            except DatabaseError:
                if time.monotonic() > deadline_s:
                    raise
                time.sleep(_RETRY_S)
