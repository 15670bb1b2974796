"""The token every request needs, and the door that asks for it."""

import hmac
import os
import re
import secrets
from pathlib import Path

from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket

from infra.reference.backend import lines
from infra.reference.failure import ReferenceFailure

TOKEN_BYTES = 32
_LENGTHS = range(16, 513)
_OPEN_PATHS = ("/api/health", "/docs", "/openapi")
_ORIGINS = re.compile(r"null|file://.*|http://(?:localhost|127\.0\.0\.1)(?::\d+)?")


def read_token(data_root: Path) -> str:
    """The token in ``<data_root>/auth.token``; one of 16 to 512 characters is kept, else a new one is made.

    The file is readable by its owner only.

    Raises:
        ReferenceFailure: the folder can't be written.
    """
    path = data_root / "auth.token"
    try:
        data_root.mkdir(parents=True, exist_ok=True)
        kept = path.read_text().strip() if path.exists() else ""
        if len(kept) in _LENGTHS:
            return kept
        token = secrets.token_urlsafe(TOKEN_BYTES)
        path.unlink(missing_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(token)
    except OSError as error:
        hint = "choose an OPENSWARM_DATA_ROOT that this user can write"
        raise ReferenceFailure(f"can't write under {data_root}: {error}", hint=hint) from error
    return token


class Door:
    """ASGI middleware: lets a request or a socket in when it carries the token."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what carries the token; answer 401, or 500 to a handshake, otherwise."""
        if scope["type"] == "http" and not self._lets_in(HTTPConnection(scope)):
            await self._refuse(scope, receive, send)
        elif scope["type"] == "websocket" and not self._lets_in_socket(HTTPConnection(scope)):
            # The product means to close with a code, but the handshake itself is what gets an answer.
            socket = WebSocket(scope, receive, send)
            await socket.send_denial_response(PlainTextResponse("Internal Server Error", status_code=500))
        else:
            await self._app(scope, receive, send)

    def _lets_in(self, connection: HTTPConnection) -> bool:
        if connection.scope.get("method") == "OPTIONS" or connection.url.path.startswith(_OPEN_PATHS):
            return True
        headers = connection.headers
        scheme, _, bearer = headers.get("authorization", "").partition(" ")
        offered = [
            bearer if scheme.lower() == "bearer" else "",
            headers.get("x-openswarm-token", ""),
            headers.get("x-api-key", ""),
            connection.query_params.get("token", ""),
        ]
        return any(hmac.compare_digest(entry.encode(), self._token.encode()) for entry in offered)

    def _lets_in_socket(self, connection: HTTPConnection) -> bool:
        origin = connection.headers.get("origin")
        return self._lets_in(connection) and (origin is None or _ORIGINS.fullmatch(origin) is not None)

    async def _refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        connection = HTTPConnection(scope)
        lines.AUTH_REFUSED.log(
            method=scope["method"],
            path=connection.url.path,
            origin=connection.headers.get("origin"),
        )
        body = {"error": "unauthorized", "detail": "missing or invalid token"}
        await JSONResponse(body, status_code=401)(scope, receive, send)
