"""One kept-alive connection to the backend: each call is sent once and is over when its time is."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import Any, Self

import httpx

from workers.client.errors import BackendAwayError, UnreadableReplyError, make_refusal
from workers.client.timeouts import CALL_TIMEOUT_S

_SHOWN_CHARS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """What is asked of the backend."""

    method: str
    path: str
    body: dict[str, Any] | None = None
    query: dict[str, str] | None = None
    timeout_s: float = CALL_TIMEOUT_S

    @property
    def title(self) -> str:
        """The call as messages name it."""
        return f"{self.method} {self.path}"


class Caller:
    """Makes calls with the token."""

    def __init__(self, url: str, token: str) -> None:
        self._http = httpx.Client(
            base_url=url,
            headers={"Authorization": f"Bearer {token}"},
            timeout=httpx.Timeout(CALL_TIMEOUT_S),
            # a proxy from the environment would take loopback traffic away
            trust_env=False,
        )

    def close(self) -> None:
        """The connections are closed."""
        self._http.close()

    def __enter__(self) -> Self:
        """The caller itself; its connections are closed at the end of the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """See `close`."""
        self.close()

    def fetch(self, call: Call) -> str:
        """The body of a success. Raises BackendAwayError or BackendRefusedError."""
        try:
            status, data = self._exchange(call)
        except httpx.HTTPError as error:
            never_sent = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
            raise BackendAwayError(
                f"{call.title}: {type(error).__name__}: {error}", may_have_arrived=not never_sent
            ) from error
        text = data.decode("utf-8", "replace")
        if not httpx.codes.is_success(status):
            raise make_refusal(f"{call.title}: HTTP {status}: {text[:_SHOWN_CHARS]}", status=status)
        return text

    def fetch_object(self, call: Call) -> dict[str, Any]:
        """The JSON object of a success. Raises also UnreadableReplyError."""
        text = self.fetch(call)
        try:
            plain = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise UnreadableReplyError(f"{call.title}: no JSON in the answer: {text[:_SHOWN_CHARS]}") from error
        if not isinstance(plain, dict):
            raise UnreadableReplyError(f"{call.title}: no object in the answer: {text[:_SHOWN_CHARS]}")
        return plain

    def _exchange(self, call: Call) -> tuple[int, bytes]:
        deadline_s = time.monotonic() + call.timeout_s
        chunks = []
        with self._http.stream(
            call.method, call.path, json=call.body, params=call.query, timeout=call.timeout_s
        ) as answer:
            for chunk in answer.iter_bytes():
                chunks.append(chunk)
                # The client's own limit is for each read: an answer that drips could last for ever.
                if time.monotonic() > deadline_s:
                    raise httpx.ReadTimeout(f"the answer was not whole after {call.timeout_s:g} s")
            return answer.status_code, b"".join(chunks)
