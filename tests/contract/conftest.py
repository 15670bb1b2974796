"""The product's side, three ways: replies of the real one, replies written from its contract, and the stand-in.

`play` serves replies from files over a real port; `stack` is the reference stack, booted as a box boots it; `bare` is a
reference backend with neither a router nor a renderer.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from broker.settings import load_settings, read_manifest
from broker.types import Mode
from workers.boxfile import BoxFile, load_box
from workers.client.product import ProductAddress, ProductClient
from workers.lock import bind_host_lock
from workers.processes import ProcessBook, Recorded, kill_survivors
from workers.stack.driver import StackDriver, make_driver
from workers.stack.facts import StackFacts

ROOT = Path(__file__).resolve().parents[2]
WRITTEN = Path(__file__).parent / "replies"
TOKEN = "t" * 43
LIMIT_S = 30.0
Frame = dict[str, Any]


# -- Replies in files --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One answer over HTTP, and how slowly it comes."""

    body: str
    status: int = 200
    wait_s: float = 0.0
    # so many seconds between two pieces of the body; 0: it comes as a whole
    drip_s: float = 0.0

    @property
    def plain(self) -> Any:
        return json.loads(self.body)


def read_reply(path: Path) -> Reply:
    """A reply as it was captured: the body, and a last line with the status."""
    body, _, last = path.read_text().rstrip("\n").rpartition("\n")
    word, status, *_ = last.split()
    assert word == "HTTP", path
    return Reply(body=body, status=int(status))


@pytest.fixture(scope="session")
def recorded_folder() -> Path | None:
    """The folder of replies of the real product, if this machine has it."""
    folder = Path(os.environ.get("BV3_EXTRA_DATA") or "/nowhere") / "openswarm_http"
    return folder if folder.is_dir() else None


@pytest.fixture(scope="session")
def recorded(recorded_folder: Path | None) -> Path:
    """The folder of replies of the real product."""
    if recorded_folder is None:
        pytest.skip("BV3_EXTRA_DATA names no folder with replies of the real product in openswarm_http")
    return recorded_folder


@pytest.fixture(scope="session")
def written() -> Path:
    """The folder of replies written from the contract's text."""
    return WRITTEN


@pytest.fixture(scope="session")
def load_reply() -> Callable[[Path], Reply]:
    return read_reply


# -- A backend that plays replies ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request as it came in."""

    method: str
    path: str
    query: dict[str, str]
    body: Any
    is_let_in: bool


@dataclass(slots=True)
class Player:
    """Answers each path with what a test put there; a session's socket sends what a test put into `scripts`."""

    url: str = ""
    replies: dict[tuple[str, str], Reply] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)
    # one list of frames for each connection, sent after its hello; None in it: the line is cut
    scripts: list[list[str | bytes | None]] = field(default_factory=list)
    hellos: list[Frame] = field(default_factory=list)
    refused: int = 0

    @property
    def address(self) -> ProductAddress:
        return ProductAddress(url=self.url, token=TOKEN, dashboard_id="d1")

    def put(self, method: str, path: str, body: object, **more: Any) -> None:
        text = body if isinstance(body, str) else json.dumps(body)
        self.replies[method, path] = Reply(body=text, **more)

    def make_app(self) -> Starlette:
        methods = ["GET", "POST", "PUT", "DELETE"]
        return Starlette(
            routes=[
                WebSocketRoute("/ws/agents/{session}", self._push),
                Route("/{path:path}", self._answer, methods=methods),
            ]
        )

    async def _answer(self, request: Request) -> Response:
        data = await request.body()
        is_let_in = request.headers.get("authorization") == f"Bearer {TOKEN}"
        body = json.loads(data) if data else None
        path = request.url.path
        query = dict(request.query_params)
        self.asked.append(Asked(method=request.method, path=path, query=query, body=body, is_let_in=is_let_in))
        reply = self.replies.get((request.method, path))
        if reply is None:
            return PlainTextResponse(f"nothing to play for {request.method} {path}", status_code=418)
        await asyncio.sleep(reply.wait_s)
        if reply.drip_s:
            return StreamingResponse(_drip(reply), status_code=reply.status)
        return Response(reply.body, status_code=reply.status)

    async def _push(self, socket: WebSocket) -> None:
        if socket.headers.get("authorization") != f"Bearer {TOKEN}":
            self.refused += 1
            await socket.send_denial_response(PlainTextResponse("Internal Server Error", status_code=500))
            return
        await socket.accept()
        with contextlib.suppress(WebSocketDisconnect):
            self.hellos.append(json.loads(await socket.receive_text()))
            for frame in self.scripts.pop(0) if self.scripts else []:
                if frame is None:
                    await socket.close()
                    return
                await (socket.send_text(frame) if isinstance(frame, str) else socket.send_bytes(frame))
            while True:
                await socket.receive_text()


async def _drip(reply: Reply) -> Any:
    for character in reply.body:
        yield character
        await asyncio.sleep(reply.drip_s)


@pytest.fixture
def play() -> Iterator[Player]:
    """A backend that plays replies, on a port of its own."""
    player = Player()
    config = uvicorn.Config(player.make_app(), host="127.0.0.1", port=0, log_level="error", ws="websockets-sansio")
    # It ends with its test, and waits for nobody.
    config.timeout_graceful_shutdown = 1
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    end = time.monotonic() + LIMIT_S
    while not server.started:
        assert time.monotonic() < end
        time.sleep(0.01)
    player.url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    try:
        yield player
    finally:
        server.should_exit = True
        server.force_exit = True
        thread.join(LIMIT_S)


# -- The reference stack -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """A booted reference stack."""

    folder: Path
    box: BoxFile
    facts: StackFacts
    driver: StackDriver

    @property
    def address(self) -> ProductAddress:
        facts = self.facts
        return ProductAddress(url=facts.backend_url, token=facts.read_token(), dashboard_id=facts.dashboard_id)

    @property
    def book(self) -> ProcessBook:
        return ProcessBook(folder=self.folder)

    def find_part(self, name: str) -> Recorded:
        last = self.book.last(name)
        assert last is not None
        return last

    def ask(self, path: str) -> Any:
        headers = {"authorization": f"Bearer {self.address.token}"}
        return httpx.get(f"{self.address.url}{path}", headers=headers, timeout=LIMIT_S, trust_env=False).json()


@contextmanager
def _boot(folder: Path, free_port: Callable[[], int], *, reference: str = "") -> Iterator[Stack]:
    ports = "\n".join(f"{part} = {free_port()}" for part in ("backend", "router", "https", "http"))
    file = folder / "box.toml"
    file.write_text(
        f'name = "contract"\nstack = "reference"\nisolation = "ports"\nrenderer = "playwright"\nlane = "stub"\n'
        f'folder = "{folder}"\n\n[ports]\n{ports}\n\n[reference]\n{reference}\n'
    )
    box = load_box(file)
    book = ProcessBook(folder=folder)
    with ExitStack() as ending:
        lock = bind_host_lock(box.lock_name)
        ending.callback(lock.release)
        ending.callback(kill_survivors, book)
        driver = make_driver(box, read_manifest(load_settings()), book, mode=Mode.DRY, lock_fd=lock.fd)
        ending.callback(driver.stop)
        yield Stack(folder=folder, box=box, facts=driver.boot(give_up=lambda: False), driver=driver)


@pytest.fixture(scope="module")
def boot(tmp_path_factory: pytest.TempPathFactory, free_port: Callable[[], int]) -> Iterator[Callable[..., Stack]]:
    """Boot a reference stack: boot(reference="leash_scale = 0.1"). Each is stopped after its module."""
    with ExitStack() as ending:
        yield lambda reference="": ending.enter_context(
            _boot(tmp_path_factory.mktemp("box"), free_port, reference=reference)
        )


@pytest.fixture(scope="module")
def stack(boot: Callable[..., Stack]) -> Stack:
    """A reference stack with the product's own waits."""
    return boot()


@dataclass(slots=True, kw_only=True)
class Bare:
    """A reference backend with neither a router nor a renderer, which can be started anew on its data."""

    folder: Path
    port: int
    router_port: int
    process: subprocess.Popen[bytes] | None = None
    dashboard: str = ""

    @property
    def address(self) -> ProductAddress:
        token = (self.folder / "auth.token").read_text().strip()
        return ProductAddress(url=f"http://127.0.0.1:{self.port}", token=token, dashboard_id=self.dashboard)

    def start(self, wait_until: Callable[..., None]) -> None:
        environment = {
            **os.environ,
            "OPENSWARM_PORT": str(self.port),
            "OPENSWARM_DATA_ROOT": str(self.folder),
            "OSW_SENDSCRIPT_DRYRUN": "1",
            "REFERENCE_ROUTER_URL": f"http://127.0.0.1:{self.router_port}",
            "REFERENCE_LEASH_SCALE": "0.1",
        }
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "infra.reference", "backend"], cwd=ROOT, env=environment, stdout=log, stderr=log
            )
        wait_until(self._answers, "the backend")
        with ProductClient(self.address) as product:
            [self.dashboard] = product.list_dashboards()

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait(LIMIT_S)
        self.process = None

    def _answers(self) -> bool:
        with contextlib.suppress(httpx.HTTPError):
            return httpx.get(f"http://127.0.0.1:{self.port}/api/health/check", trust_env=False).is_success
        return False


@pytest.fixture
def bare(tmp_path: Path, free_port: Callable[[], int], wait_until: Callable[..., None]) -> Iterator[Bare]:
    """A backend with nobody beside it."""
    made = Bare(folder=tmp_path, port=free_port(), router_port=free_port())
    try:
        made.start(wait_until)
        yield made
    finally:
        made.stop()


# -- Pages ---------------------------------------------------------------------------------------------


class Pages(ThreadingHTTPServer):
    """Serves what a test puts into `bodies`, by path, on a port of its own; `moved` leads elsewhere."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.bodies: dict[str, str] = {}
        self.moved: dict[str, str] = {}
        self.asked: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Answer(BaseHTTPRequestHandler):
    server: Pages

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        self.server.asked.append(path)
        if path in self.server.moved:
            self.send_response(302)
            self.send_header("Location", self.server.moved[path])
            self.end_headers()
            return
        body = self.server.bodies.get(path)
        self.send_response(200 if body is not None else 404)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write((body or "nothing here").encode())

    def log_message(self, *_: object) -> None:
        """Not a word."""


@pytest.fixture(scope="module")
def serve_pages() -> Iterator[Callable[[dict[str, str]], Pages]]:
    """Serve pages on a port of their own: serve_pages({"/": "<html>…"})."""
    with ExitStack() as ending:

        def serve(bodies: dict[str, str]) -> Pages:
            server = ending.enter_context(Pages())
            server.bodies.update(bodies)
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            ending.callback(thread.join)
            ending.callback(server.shutdown)
            return server

        yield serve
