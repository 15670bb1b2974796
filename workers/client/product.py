"""The product over HTTP (contract section 2): one method per call, each with its own timeout."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import httpx

from broker.types import Child
from workers.client.errors import BackendAwayError, BackendRefusedError, CommandFailedError

CALL_TIMEOUT_S = 5.0
# Blocks until the product's classifier has answered (contract 2.3); posted once, whatever happens.
MESSAGE_TIMEOUT_S = 60.0
COMMAND_TIMEOUT_S = 20.0

TERMINAL = frozenset({"completed", "error", "stopped"})
# How our sessions can be told from any other's.
NAME_PREFIX = "bv3 "
CHILD_MODE = "browser-agent"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductAddress:
    """Where the product is, how to be let in, and the one dashboard that is used."""

    url: str
    token: str
    dashboard_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionView:
    """A session as the product tells it."""

    session_id: str
    status: str
    reply: str
    # what the trace of a browser task calls its receipt of a sent write; empty: it holds none
    receipt: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionLine:
    """A session in the product's list: enough to know whose it is."""

    session_id: str
    name: str
    mode: str

    @property
    def is_ours(self) -> bool:
        """Whether a run of this box made it, or a child that outlived its parent."""
        return self.name.startswith(NAME_PREFIX) or self.mode == CHILD_MODE


class ProductClient:
    """One kept-alive connection to the backend. Every method raises a ProductError."""

    def __init__(self, address: ProductAddress) -> None:
        self.address = address
        self._http = httpx.Client(
            base_url=address.url,
            headers={"Authorization": f"Bearer {address.token}"},
            timeout=httpx.Timeout(CALL_TIMEOUT_S),
            # a proxy from the environment would take loopback traffic away
            trust_env=False,
        )

    def close(self) -> None:
        """The connections are closed."""
        self._http.close()

    def __enter__(self) -> Self:
        """The client itself; its connections are closed at the end of the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """See `close`."""
        self.close()

    def launch(self, name: str) -> str:
        """A new session's id. It says that it runs, although nothing runs yet."""
        body = {"name": NAME_PREFIX + name, "mode": "agent", "dashboard_id": self.address.dashboard_id}
        return str(self._json("POST", "/api/agents/launch", body=body)["session_id"])

    def send_message(self, session_id: str, prompt: str) -> None:
        """The prompt is with the product, which works on it from here on. Never call it twice for one run."""
        path = f"/api/agents/sessions/{session_id}/message"
        self._request("POST", path, body={"prompt": prompt}, timeout_s=MESSAGE_TIMEOUT_S)

    def read_session(self, session_id: str) -> SessionView:
        """Status, the last thing the assistant, or the product in its place, said, and the receipt, if there is one."""
        plain = self._json("GET", f"/api/agents/sessions/{session_id}")
        messages = plain.get("messages", ())
        # why no model could be asked stands in a message of the system's
        said = [message for message in messages if message.get("role") in {"assistant", "system"}]
        content = said[-1].get("content", "") if said else ""
        receipts = [_receipt_in(message) for message in messages if message.get("role") == "tool_result"]
        return SessionView(
            session_id=session_id,
            status=str(plain.get("status", "")),
            reply=content if isinstance(content, str) else json.dumps(content),
            receipt=next(filter(None, reversed(receipts)), ""),
        )

    def list_sessions(self) -> tuple[SessionLine, ...]:
        """Every session that the product holds."""
        return tuple(
            SessionLine(
                session_id=str(plain["id"]), name=str(plain.get("name") or ""), mode=str(plain.get("mode") or "")
            )
            for plain in self._json("GET", "/api/agents/sessions")["sessions"]
        )

    def list_children(self, session_id: str) -> tuple[Child, ...]:
        """The session's browser sub-agents, in order of creation: one for each dispatch."""
        plain = self._json("GET", f"/api/agents/sessions/{session_id}/browser-agents")["sessions"]
        children = [
            Child(
                session_id=str(child["id"]),
                status=str(child.get("status", "")),
                created_at=child.get("created_at"),
                closed_at=child.get("closed_at"),
                browser_id=child.get("browser_id"),
            )
            for child in plain
        ]
        return tuple(sorted(children, key=lambda child: child.created_at or ""))

    def delete_session(self, session_id: str) -> None:
        """The session is stopped and gone; its children and cards are not (contract 2.3)."""
        self._request("DELETE", f"/api/agents/sessions/{session_id}")

    def count_active(self) -> int:
        """How many sessions the product is working on: 0 when it is quiet."""
        return int(self._json("GET", "/api/agents/activity")["active"])

    def list_dashboards(self) -> tuple[str, ...]:
        """The ids of all dashboards; their order means nothing."""
        return tuple(str(item["id"]) for item in self._json("GET", "/api/dashboards/list")["dashboards"])

    def read_layout(self) -> dict[str, Any]:
        """The pinned dashboard's layout."""
        layout = self._json("GET", f"/api/dashboards/{self.address.dashboard_id}").get("layout")
        return layout if isinstance(layout, dict) else {}

    def write_layout(self, layout: dict[str, Any]) -> None:
        """The pinned dashboard has this layout: all of it is replaced, and no event tells the renderer."""
        self._request("PUT", f"/api/dashboards/{self.address.dashboard_id}", body={"layout": layout})

    def list_cards(self) -> dict[str, str | None]:
        """The browser cards of the layout: by id, the session that spawned each, None for a user's own."""
        cards = self.read_layout().get("browser_cards") or {}
        return {str(key): card.get("spawned_by") for key, card in cards.items()}

    def remove_cards(self, browser_ids: frozenset[str]) -> None:
        """These cards are not in the layout any more; every other entry is as it was."""
        layout = self.read_layout()
        cards = layout.get("browser_cards") or {}
        left = {key: card for key, card in cards.items() if key not in browser_ids}
        if len(left) != len(cards):
            self.write_layout({**layout, "browser_cards": left})

    def command(
        self,
        action: str,
        browser_id: str,
        params: dict[str, Any] | None = None,
        *,
        timeout_s: float = COMMAND_TIMEOUT_S,
    ) -> dict[str, Any]:
        """The renderer's reply. Raises CommandFailedError when the reply holds an error."""
        body = {"action": action, "browser_id": browser_id, "params": params or {}}
        reply = self._json("POST", "/api/browser/command", body=body, timeout_s=timeout_s)
        if (said := reply.get("error")) is not None:
            raise CommandFailedError(f"{action} on {browser_id}: {said}")
        return reply

    def evaluate(self, browser_id: str, expression: str, *, timeout_s: float = COMMAND_TIMEOUT_S) -> str:
        """What the expression gives on the card's page: a string as it is, anything else as JSON."""
        reply = self.command("evaluate", browser_id, {"expression": expression}, timeout_s=timeout_s)
        return str(reply.get("text", ""))

    def _json(
        self, method: str, path: str, *, body: dict[str, Any] | None = None, timeout_s: float = CALL_TIMEOUT_S
    ) -> dict[str, Any]:
        answer = self._request(method, path, body=body, timeout_s=timeout_s)
        try:
            plain = answer.json()
        except ValueError as error:
            raise BackendRefusedError(f"{method} {path}: no JSON in the answer", status=answer.status_code) from error
        if not isinstance(plain, dict):
            raise BackendRefusedError(f"{method} {path}: no object in the answer", status=answer.status_code)
        return plain

    def _request(
        self, method: str, path: str, *, body: dict[str, Any] | None = None, timeout_s: float = CALL_TIMEOUT_S
    ) -> httpx.Response:
        try:
            answer = self._http.request(method, path, json=body, timeout=timeout_s)
        except httpx.HTTPError as error:
            never_sent = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
            raise BackendAwayError(
                f"{method} {path}: {type(error).__name__}: {error}", may_have_arrived=not never_sent
            ) from error
        if not answer.is_success:
            message = f"{method} {path}: HTTP {answer.status_code}: {answer.text[:200]}"
            raise BackendRefusedError(message, status=answer.status_code)
        return answer


def _receipt_in(message: Mapping[str, Any]) -> str:
    """The receipt in the trace of a browser task's result (contract 2.3), as text; empty for null and nothing."""
    content = message.get("content")
    trace = content.get("browser_trace") if isinstance(content, dict) else None
    receipt = trace.get("receipt") if isinstance(trace, dict) else None
    if not receipt:
        return ""
    return receipt if isinstance(receipt, str) else json.dumps(receipt)
