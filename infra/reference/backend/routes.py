"""The HTTP interface of the double."""

import json
from typing import Any

from pydantic import BaseModel, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from infra.reference.backend import lines
from infra.reference.backend.services import Services
from infra.reference.backend.sessions import Session
from infra.reference.backend.turns import Turns


class LaunchBody(BaseModel):
    """What a launch may say; whatever else it says is passed over."""

    name: str = ""
    model: str = "sonnet"
    mode: str = "agent"
    provider: str = "anthropic"
    system_prompt: str | None = None
    allowed_tools: list[str] = []
    max_turns: int | None = None
    dashboard_id: str | None = None
    read_only: bool = False


class Api:
    """The endpoints; each method is one route."""

    def __init__(self, services: Services, turns: Turns) -> None:
        self._services = services
        self._turns = turns

    def make_routes(self) -> list[Route]:
        """The routes, in the order they are matched."""
        sessions = "/api/agents/sessions"
        return [
            Route("/api/health/check", self.check_health),
            Route("/api/dashboards/list", self.list_dashboards),
            Route("/api/dashboards/{id}", self.read_dashboard, methods=["GET"]),
            Route("/api/dashboards/{id}", self.change_dashboard, methods=["PUT"]),
            Route("/api/agents/launch", self.launch, methods=["POST"]),
            Route("/api/agents/activity", self.read_activity),
            Route(sessions, self.list_sessions),
            Route(f"{sessions}/{{id}}", self.read_session, methods=["GET"]),
            Route(f"{sessions}/{{id}}", self.delete_session, methods=["DELETE"]),
            Route(f"{sessions}/{{id}}/browser-agents", self.list_children),
            Route(f"{sessions}/{{id}}/message", self.send_message, methods=["POST"]),
            Route(f"{sessions}/{{id}}/stop", self.stop_session, methods=["POST"]),
            Route("/api/browser/command", self.run_command, methods=["POST"]),
            Route("/reference/connections", self.count_connections),
        ]

    async def check_health(self, _request: Request) -> Response:
        """The text ``OK``, without a token."""
        return PlainTextResponse("OK")

    async def list_dashboards(self, _request: Request) -> Response:
        """Every dashboard, the last changed first."""
        return JSONResponse({"dashboards": self._services.dashboards.list_all()})

    async def read_dashboard(self, request: Request) -> Response:
        """A dashboard with its layout."""
        found = self._services.dashboards.find(request.path_params["id"])
        return JSONResponse(found) if found else _missing("Dashboard not found")

    async def change_dashboard(self, request: Request) -> Response:
        """Replace the layout; no event says so."""
        body = await _read_object(request)
        if body is None:
            return _broken()
        found = self._services.dashboards.change(request.path_params["id"], body)
        return JSONResponse(found) if found else _missing("Dashboard not found")

    async def launch(self, request: Request) -> Response:
        """Make a session; it is called running although nothing runs."""
        body = await _read_object(request)
        if body is None:
            return _broken()
        try:
            given = LaunchBody.model_validate({key: value for key, value in body.items() if value is not None})
        except ValidationError as error:
            return JSONResponse({"detail": error.errors(include_url=False, include_context=False)}, status_code=422)
        session = self._services.sessions.add(Session(**given.model_dump()))
        self._services.hub.push_status(session)
        return JSONResponse({"session_id": session.id, "session": session.dump()})

    async def send_message(self, request: Request) -> Response:
        """Start a turn; answers once the classifier has."""
        body = await _read_object(request)
        if body is None:
            return _broken()
        prompt = str(body.get("prompt") or "")
        if not prompt.strip():
            return JSONResponse({"detail": "prompt is required"}, status_code=400)
        session = self._services.sessions.find(request.path_params["id"])
        if session is None:
            return _broken()
        await self._turns.start(session, prompt)
        return JSONResponse({"ok": True})

    async def list_sessions(self, request: Request) -> Response:
        """Every session without its messages, the latest first."""
        wanted = request.query_params.get("dashboard_id")
        found = [
            session.summarise()
            for session in self._services.sessions.list_all()
            if wanted is None or session.dashboard_id == wanted
        ]
        return JSONResponse({"sessions": sorted(found, key=lambda item: item["created_at"], reverse=True)})

    async def read_session(self, request: Request) -> Response:
        """A whole session with the number of its latest event."""
        session = self._services.sessions.find(request.path_params["id"])
        if session is None:
            return _missing("Session not found")
        return JSONResponse({**session.dump(), "event_seq": self._services.hub.last_seq(session.id)})

    async def list_children(self, request: Request) -> Response:
        """The browser children of a session, also after it was deleted."""
        children = self._services.sessions.children(request.path_params["id"])
        return JSONResponse({"sessions": [child.dump() for child in children]})

    async def delete_session(self, request: Request) -> Response:
        """Forget a session, known or not; its children and cards stay, and no event says so."""
        session_id = request.path_params["id"]
        session = self._services.sessions.find(session_id)
        if session is not None:
            await self._turns.stop(session)
            self._services.sessions.delete(session_id)
            self._services.hub.forget(session_id)
            self._services.injections.pop(session_id, None)
            lines.DELETED.log(session=session_id)
        return JSONResponse({"ok": True})

    async def stop_session(self, request: Request) -> Response:
        """End a session's turn."""
        session = self._services.sessions.find(request.path_params["id"])
        if session is None:
            return _missing("Session not found")
        await self._turns.stop(session)
        return JSONResponse({"ok": True})

    async def read_activity(self, _request: Request) -> Response:
        """How many turns are under way."""
        return JSONResponse({"active": self._turns.active, "next_run_in_s": None})

    async def run_command(self, request: Request) -> Response:
        """Relay one browser command; its failures are replies with status 200."""
        body = await _read_object(request)
        if body is None:
            return _broken()
        action, browser_id = body.get("action"), body.get("browser_id")
        if not action or not browser_id:
            return JSONResponse({"error": "action and browser_id are required"}, status_code=400)
        if (blinded := self._services.blind(str(action), str(browser_id))) is not None:
            return JSONResponse(blinded)
        params = body.get("params")
        reply = await self._services.commands.run(
            str(action),
            str(browser_id),
            params if isinstance(params, dict) else {},
            tab_id=str(body.get("tab_id") or ""),
        )
        return JSONResponse(reply)

    async def count_connections(self, _request: Request) -> Response:
        """Not the product's: who was ever taken for a renderer, and the far ports of those who are now."""
        hub = self._services.hub
        return JSONResponse({"dashboards_ever": hub.dashboards_ever, "dashboard_ports": hub.list_peer_ports()})


async def _read_object(request: Request) -> dict[str, Any] | None:
    try:
        body = json.loads(await request.body())
    except ValueError:
        return None
    return body if isinstance(body, dict) else None


def _missing(detail: str) -> Response:
    return JSONResponse({"detail": detail}, status_code=404)


def _broken() -> Response:
    """What the product answers where it did not think of something."""
    return PlainTextResponse("Internal Server Error", status_code=500)
