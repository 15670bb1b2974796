"""The model router as a session with a router fault sees it."""

import asyncio
from collections.abc import Callable
from typing import Any

from infra.reference.backend import lines
from infra.reference.backend.models import NOT_CONFIGURED, NOT_CONNECTED, Models, ModelUnavailableError

OVERLOADED = "Error code: 529 - {'type': 'error', 'error': {'type': 'overloaded_error', 'message': 'Overloaded'}}"
RATE_LIMITED = (
    "Error code: 429 - {'type': 'error', 'error': {'type': 'rate_limit_error', "
    "'message': 'This request would exceed the rate limit of your account.'}}"
)
_WHY = {
    "no_router": NOT_CONFIGURED,
    "no_provider": NOT_CONNECTED,
    "provider_overloaded": OVERLOADED,
    "rate_limited": RATE_LIMITED,
}
RETRIES = 10
FIRST_RETRY_S = 0.5
MOST_RETRY_S = 32.0


class FaultyModels(Models):
    """No call gets an answer; the reasons are the product's own words."""

    def __init__(self, fault: str, *, strike: Callable[[str], bool], scale: float) -> None:
        # No connection: nobody is ever asked.
        self._fault = fault
        self._strike = strike
        self._scale = scale

    async def close(self) -> None:
        """Nothing is open."""

    async def is_up(self) -> bool:
        """Whether there is a router: all that these faults but one leave."""
        return not (self._fault == "no_router" and self._strike(self._fault))

    async def ask(self, *, system: str, user: str, max_tokens: int) -> str:  # noqa: ARG002  # as its base class
        """Never returns.

        Raises:
            ModelUnavailableError: always.
        """
        self._strike(self._fault)
        raise ModelUnavailableError(_WHY[self._fault])

    async def chat(self, *, system: str, user: str, max_tokens: int) -> str:
        """As `ask`; an overloaded provider is asked again and again first, as the product's SDK does."""
        if self._fault == "provider_overloaded":
            for attempt in range(1, RETRIES + 1):
                wait_s = min(MOST_RETRY_S, FIRST_RETRY_S * 2 ** (attempt - 1)) * self._scale
                lines.RETRIED.log(message=_describe_retry(attempt, round(wait_s * 1000)))
                await asyncio.sleep(wait_s)
        return await self.ask(system=system, user=user, max_tokens=max_tokens)


def is_faulty(fault: str) -> bool:
    """Whether the fault is one of the router's."""
    return fault in _WHY


def _describe_retry(attempt: int, wait_ms: int) -> dict[str, Any]:
    data = {
        "type": "system",
        "subtype": "api_retry",
        "attempt": attempt,
        "max_retries": RETRIES,
        "retry_delay_ms": wait_ms,
        "error_status": 529,
        "error": "overloaded_error",
    }
    return {"subtype": "api_retry", "data": data}
