"""The product over HTTP (contract section 2): one method per call, each with its own timeout."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Self

from broker.types import Child
from workers.client.calls import Call, Caller
from workers.client.errors import NotFoundError, UnreadableReplyError, make_failure
from workers.client.timeouts import HEALTH_TIMEOUT_S, MESSAGE_TIMEOUT_S, command_timeout_s
from workers.client.views import (
    CHILD_MODE,
    NAME_PREFIX,
    TERMINAL,
    Activity,
    DashboardView,
    SessionLine,
    SessionView,
    pick,
    pick_objects,
    read_activity,
    read_child,
    read_dashboard,
    read_session_line,
    read_session_view,
)

__all__ = [
    "CHILD_MODE",
    "NAME_PREFIX",
    "TERMINAL",
    "ProductAddress",
    "ProductClient",
    "SessionLine",
    "SessionView",
]

_SESSIONS = "/api/agents/sessions"
# A layout is replaced as a whole and the last writer wins: the renderer, which closes cards too, may bring one back.
_REMOVE_TRIES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductAddress:
    """Where the product is, how to be let in, and the one dashboard that is used."""

    url: str
    token: str
    dashboard_id: str
    # of each session, as the product names it; empty: the product's own default
    model: str = ""


class ProductClient:
    """One kept-alive connection to the backend. Every method raises a ProductError."""

    def __init__(self, address: ProductAddress) -> None:
        self.address = address
        self._caller = Caller(address.url, address.token)

    def close(self) -> None:
        """The connections are closed."""
        self._caller.close()

    def __enter__(self) -> Self:
        """The client itself; its connections are closed at the end of the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """See `close`."""
        self.close()

    # -- The backend itself ---------------------------------------------------------------------------

    def check_health(self) -> None:
        """The backend says that it is well, which it does without a token."""
        call = Call(method="GET", path="/api/health/check", timeout_s=HEALTH_TIMEOUT_S)
        said = self._caller.fetch(call)
        if said.strip().strip('"') != "OK":
            raise UnreadableReplyError(f"{call.title}: {said[:80]!r} instead of OK")

    def read_activity(self) -> Activity:
        """What the product is busy with."""
        return read_activity(self._get("/api/agents/activity"))

    def count_active(self) -> int:
        """How many sessions the product is working on: 0 when it is quiet."""
        return self.read_activity().active

    # -- Sessions -------------------------------------------------------------------------------------

    def launch(self, name: str) -> str:
        """A new session's id. It says that it runs, although nothing runs yet."""
        # Without a dashboard the product would not take its browser's way.
        body = {"name": NAME_PREFIX + name, "mode": "agent", "dashboard_id": self.address.dashboard_id}
        if self.address.model:
            body["model"] = self.address.model
        plain = self._caller.fetch_object(Call(method="POST", path="/api/agents/launch", body=body))
        return str(pick(plain, "session_id", str))

    def send_message(self, session_id: str, prompt: str) -> None:
        """The prompt is with the product, which works on it from here on. Never call it twice for one run."""
        path = f"{_SESSIONS}/{session_id}/message"
        self._caller.fetch(Call(method="POST", path=path, body={"prompt": prompt}, timeout_s=MESSAGE_TIMEOUT_S))

    def read_session(self, session_id: str) -> SessionView:
        """The session as it is now. Raises NotFoundError when the product does not know it."""
        return read_session_view(session_id, self._get(f"{_SESSIONS}/{session_id}"))

    def read_messages(self, session_id: str) -> tuple[dict[str, Any], ...]:
        """All that was said in the session, as the product tells it. Raises NotFoundError as `read_session` does."""
        return tuple(pick_objects(self._get(f"{_SESSIONS}/{session_id}"), "messages"))

    def list_sessions(self, *, dashboard_id: str | None = None) -> tuple[SessionLine, ...]:
        """Every session that the product holds, or those of one dashboard."""
        query = {"dashboard_id": dashboard_id} if dashboard_id else None
        plain = self._caller.fetch_object(Call(method="GET", path=_SESSIONS, query=query))
        return tuple(read_session_line(item) for item in pick_objects(plain, "sessions"))

    def list_children(self, session_id: str) -> tuple[Child, ...]:
        """The session's browser sub-agents, in order of creation: one for each dispatch."""
        plain = self._get(f"{_SESSIONS}/{session_id}/browser-agents")
        children = [read_child(item) for item in pick_objects(plain, "sessions")]
        return tuple(sorted(children, key=lambda child: child.created_at or ""))

    def stop_session(self, session_id: str) -> None:
        """The session's turn has been told to end. Raises NotFoundError when the product does not know it."""
        self._caller.fetch(Call(method="POST", path=f"{_SESSIONS}/{session_id}/stop", body={}))

    def delete_session(self, session_id: str) -> None:
        """The session is stopped and gone; its children and cards are not (contract 2.3)."""
        self._caller.fetch(Call(method="DELETE", path=f"{_SESSIONS}/{session_id}"))

    # -- Dashboards and cards -------------------------------------------------------------------------

    def list_dashboards(self) -> tuple[str, ...]:
        """The ids of all dashboards; their order means nothing."""
        plain = self._get("/api/dashboards/list")
        return tuple(str(pick(item, "id", str)) for item in pick_objects(plain, "dashboards"))

    def read_dashboard(self) -> DashboardView:
        """The pinned dashboard. Raises NotFoundError when the product does not know it."""
        return read_dashboard(self._get(f"/api/dashboards/{self.address.dashboard_id}"))

    def read_layout(self) -> dict[str, Any]:
        """The pinned dashboard's layout."""
        return self.read_dashboard().layout

    def write_layout(self, layout: dict[str, Any]) -> None:
        """The pinned dashboard has this layout: all of it is replaced, and no event tells the renderer."""
        path = f"/api/dashboards/{self.address.dashboard_id}"
        self._caller.fetch(Call(method="PUT", path=path, body={"layout": layout}))

    def list_cards(self) -> dict[str, str | None]:
        """The browser cards of the layout: by id, the session that spawned each, None for a user's own."""
        return self.read_dashboard().cards

    def remove_cards(self, browser_ids: Iterable[str]) -> None:
        """These cards are not in the layout any more, also when another writer brought one back meanwhile.

        Every other entry is as it was. Who must be sure asks `list_left`.
        """
        unwanted = frozenset(browser_ids)
        for _ in range(_REMOVE_TRIES):
            layout = self.read_layout()
            cards = layout.get("browser_cards") or {}
            if unwanted.isdisjoint(cards):
                return
            left = {key: card for key, card in cards.items() if key not in unwanted}
            self.write_layout({**layout, "browser_cards": left})

    def list_left(self, *, sessions: Sequence[str], cards: Sequence[str]) -> tuple[str, ...]:
        """What of these the product still knows, in words; a session's children among them. Empty: all are gone."""
        left = [f"session {session_id}" for session_id in sessions if self._knows(session_id)]
        for session_id in sessions:
            left += [f"child {child.session_id}" for child in self.list_children(session_id)]
        shown = self.list_cards()
        return (*left, *(f"card {card}" for card in cards if card in shown))

    # -- The browser ----------------------------------------------------------------------------------

    def command(
        self,
        action: str,
        browser_id: str,
        params: dict[str, Any] | None = None,
        *,
        tab_id: str = "",
        timeout_s: float | None = None,
    ) -> dict[str, Any]:
        """The renderer's reply. Raises CommandFailedError when the reply holds an error.

        Without a timeout the product's own word for a hang is waited for, which it has for every action.
        """
        body = {"action": action, "browser_id": browser_id, "params": params or {}}
        if tab_id:
            body["tab_id"] = tab_id
        limit_s = command_timeout_s(action) if timeout_s is None else timeout_s
        reply = self._caller.fetch_object(
            Call(method="POST", path="/api/browser/command", body=body, timeout_s=limit_s)
        )
        if (said := reply.get("error")) is not None:
            raise make_failure(f"{action} on {browser_id}: {said}", said=str(said))
        return reply

    def evaluate(self, browser_id: str, expression: str, *, timeout_s: float | None = None) -> str:
        """What the expression gives on the card's page: a string as it is, anything else as JSON."""
        reply = self.command("evaluate", browser_id, {"expression": expression}, timeout_s=timeout_s)
        return str(reply.get("text", ""))

    def _get(self, path: str) -> dict[str, Any]:
        return self._caller.fetch_object(Call(method="GET", path=path))

    def _knows(self, session_id: str) -> bool:
        try:
            self.read_session(session_id)
        except NotFoundError:
            return False
        return True
