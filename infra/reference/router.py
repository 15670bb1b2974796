"""The model router's stand-in: every answer follows from the prompt alone, no model is asked."""

import json
import logging
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from infra.reference.serving import Listener, serve

MODELS = ("cc/claude-haiku-4-5-20251001", "cc/claude-opus-4-8", "cc/claude-sonnet-4-6")
CLASSIFIER_MARK = "You route requests to a web-browsing agent"
PRESTAGE_MARK = "You pre-stage a browser"

_URL = re.compile(r"https?://[^\s\"'<>\])]+")
_BARE_HOST = re.compile(r"(?<![\w@./-])((?:[a-z0-9-]+\.)+[a-z]{2,}(?:/[^\s\"'<>]*)?)", re.IGNORECASE)
_QUOTED = re.compile(r"[\"“][^\"”]*[\"”]")
_WRITING = re.compile(
    r"\b(?:publish|post|write|comment|reply|send|create|compose|submit|type|start|draft|tweet|add|leave)\b",
    re.IGNORECASE,
)
_READING = re.compile(r"\b(?:read|find|look|summari[sz]e|what|which|who|list|check|open|go)\b", re.IGNORECASE)
_TEXTBOX_ROW = re.compile(r"^\[\d+\]\*?<textbox\b", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One request to ``/v1/messages``, reduced to its two texts."""

    system: str
    user: str


def answer(question: Question) -> str:
    """The reply text to a question; the same question always gets the same reply."""
    if CLASSIFIER_MARK in question.system:
        return _classify(question.user)
    if PRESTAGE_MARK in question.system:
        return _prestage(question.user)
    return "OK"


def _classify(prompt: str) -> str:
    """Line 1 is ``ACT``, ``READ`` or ``NO``; ``ENTRY: <url>`` names the first address of the prompt."""
    plain = _QUOTED.sub(" ", prompt)
    entry = find_entry(plain)
    words = _URL.sub(" ", plain)
    if entry is None:
        return "NO"
    if _WRITING.search(words):
        return f"ACT\nENTRY: {entry}\nOpen the entry page, find the box that the task names and work there."
    if _READING.search(words):
        return f"READ\nENTRY: {entry}\nOpen the entry page and read what the task asks for."
    return "NO"


def find_entry(text: str) -> str | None:
    """The first http(s) address in a text; a bare host name counts as https."""
    url = _URL.search(text)
    if url:
        return url.group().rstrip(".,;:!?")
    host = _BARE_HOST.search(text)
    return f"https://{host.group(1).rstrip('.,;:!?')}" if host else None


def _prestage(perception: str) -> str:
    """One step: nothing here ever needs a click, so the page is called ready, with the reason."""
    if _TEXTBOX_ROW.search(perception):
        return "READY composer visible"
    return "READY nothing more to open"


def read_question(body: dict[str, Any]) -> Question:
    """System and user text of a Messages request; content blocks are joined by newlines."""
    messages = body.get("messages") or []
    users = [_text(message.get("content")) for message in messages if message.get("role") == "user"]
    return Question(system=_text(body.get("system")), user="\n".join(users))


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(str(block.get("text", "")) for block in content if isinstance(block, dict))
    return ""


async def _messages(request: Request) -> Response:
    try:
        body = json.loads(await request.body())
    except ValueError:
        return _refusal("the body is not JSON")
    if not isinstance(body, dict):
        return _refusal("the body is not an object")
    text = answer(read_question(body))
    model = str(body.get("model") or MODELS[0])
    if body.get("stream"):
        return StreamingResponse(_stream(text, model), media_type="text/event-stream")
    return JSONResponse(_message(text, model))


def _refusal(why: str) -> JSONResponse:
    body = {"type": "error", "error": {"type": "invalid_request_error", "message": why}}
    return JSONResponse(body, status_code=400)


def _message(text: str, model: str) -> dict[str, Any]:
    return {
        "id": "msg_reference",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [{"type": "text", "text": text}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }


async def _stream(text: str, model: str) -> AsyncIterator[str]:
    opened = {**_message("", model), "content": [], "stop_reason": None}
    block = {"type": "text", "text": ""}
    delta = {"type": "text_delta", "text": text}
    ended = {"stop_reason": "end_turn", "stop_sequence": None}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": opened},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": ended, "usage": {"output_tokens": 1}},
        {"type": "message_stop"},
    ]
    for event in events:
        yield f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"


async def _models(_request: Request) -> Response:
    data = [{"id": name, "object": "model", "owned_by": "reference"} for name in MODELS]
    return JSONResponse({"object": "list", "data": data})


async def _providers(_request: Request) -> Response:
    return JSONResponse({"connections": [{"provider": "claude", "isActive": True}]})


async def _anything(_request: Request) -> Response:
    return JSONResponse({})


def make_app() -> Starlette:
    """The router as an ASGI application; paths it does not know are answered with ``{}``."""
    every = ["GET", "POST", "PUT", "PATCH", "DELETE"]
    return Starlette(
        routes=[
            Route("/v1/models", _models),
            Route("/api/providers", _providers),
            Route("/v1/messages", _messages, methods=["POST"]),
            Route("/{path:path}", _anything, methods=every),
        ],
    )


def run(*, port: int, log_level: str) -> None:
    """Serve the router in the foreground until SIGTERM or SIGINT."""
    logging.basicConfig(level=log_level.upper(), format="%(asctime)s %(levelname).1s router: %(message)s")
    logging.getLogger("uvicorn.access").setLevel(logging.WARNING)
    serve([Listener(app=make_app(), port=port)], log_config=None, access_log=False)
