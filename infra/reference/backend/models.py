"""Asking the model router: the auxiliary calls of the write path, and a plain reply."""

from typing import Any

import httpx

AUX_MODEL = "cc/claude-haiku-4-5-20251001"
CALL_LIMIT_S = 8.0
NOT_CONFIGURED = (
    "No AI provider configured for auxiliary LLM call. Add an API key or connect a subscription in Settings."
)
NOT_CONNECTED = "No AI provider connected for auxiliary LLM call. Connect at least one subscription in Settings."


class ModelUnavailableError(Exception):
    """No model can be asked; the text says why, in the product's words where it has some."""


class Models:
    """The router, as the double sees it."""

    def __init__(self, url: str, *, scale: float = 1.0) -> None:
        self._client = httpx.AsyncClient(base_url=url, timeout=CALL_LIMIT_S * scale, trust_env=False)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def is_up(self) -> bool:
        """Whether the router answers its list of models with 200."""
        try:
            return (await self._client.get("/v1/models")).status_code == httpx.codes.OK
        except httpx.HTTPError:
            return False

    async def ask(self, *, system: str, user: str, max_tokens: int) -> str:
        """The reply text of one call.

        Raises:
            ModelUnavailableError: no router, no provider, or a refusal.
        """
        await self._check_provider()
        body = {
            "model": AUX_MODEL,
            "max_tokens": max_tokens,
            "temperature": 0,
            "system": system,
            "messages": [{"role": "user", "content": user}],
        }
        try:
            reply = await self._client.post("/v1/messages", json=body, headers={"x-api-key": "9router"})
        except httpx.HTTPError as error:
            raise ModelUnavailableError(f"{type(error).__name__}: {error}") from error
        if reply.status_code != httpx.codes.OK:
            raise ModelUnavailableError(f"Error code: {reply.status_code} - {reply.text[:200]}")
        return _text(reply.json())

    async def chat(self, *, system: str, user: str, max_tokens: int) -> str:
        """The reply text of a turn without a browser; see `ask`."""
        return await self.ask(system=system, user=user, max_tokens=max_tokens)

    async def _check_provider(self) -> None:
        try:
            reply = await self._client.get("/api/providers")
        except httpx.HTTPError as error:
            raise ModelUnavailableError(NOT_CONFIGURED) from error
        connections = reply.json().get("connections") if reply.status_code == httpx.codes.OK else None
        if not any(entry.get("isActive") for entry in connections or []):
            raise ModelUnavailableError(NOT_CONNECTED)


def _text(message: dict[str, Any]) -> str:
    blocks = message.get("content") or []
    return "".join(str(block.get("text", "")) for block in blocks if block.get("type") == "text")
