"""A small backend that speaks the dashboard socket, pages on loopback, and renderers started against both."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import psutil
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

TOKEN = "t" * 43
DASHBOARD = "dash-1"
ROOT = Path(__file__).resolve().parents[3]
BROWSERS = ("chromium-headless-shell", "chromium", "google-chrome", "chrome")


class Backend:
    """The product's side of the dashboard socket, driven by a test from another thread."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.cards: dict[str, dict[str, Any]] = {}
        self.received: list[dict[str, Any]] = []
        self.puts: list[dict[str, Any]] = []
        self.sockets: list[WebSocket] = []
        self.opened = 0
        self.refused = 0
        # Whether new sockets are turned away, and when each was tried.
        self.refuses = False
        self.tries: list[float] = []
        # Whether pings are answered.
        self.pongs = True
        # Whether every HTTP request is answered with 500.
        self.is_broken = False
        self._replies: dict[str, queue.SimpleQueue[dict[str, Any]]] = {}
        app = Starlette(
            routes=[
                Route(f"/api/dashboards/{DASHBOARD}", self._get, methods=["GET"]),
                Route(f"/api/dashboards/{DASHBOARD}", self._put, methods=["PUT"]),
                WebSocketRoute("/ws/dashboard", self._dashboard),
            ]
        )
        config = uvicorn.Config(
            app, host="127.0.0.1", port=port, log_level="error", ws="websockets-sansio", lifespan="off"
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        end = time.monotonic() + 10
        while not self._server.started:
            assert time.monotonic() < end
            time.sleep(0.01)

    def card(self, browser_id: str, url: str, **more: Any) -> dict[str, Any]:
        """A card as the layout holds it."""
        return {"browser_id": browser_id, "url": url, "tabs": [], "spawned_by": None, "keep_open": False, **more}

    def add_card(self, url: str, **more: Any) -> str:
        """Put a new card into the layout and announce it."""
        browser_id = f"browser-{uuid.uuid4().hex[:8]}"
        self.cards[browser_id] = self.card(browser_id, url, **more)
        self.announce(browser_id)
        return browser_id

    def announce(self, browser_id: str) -> None:
        card = self.cards[browser_id]
        self.push("dashboard:browser_card_added", dashboard_id=DASHBOARD, browser_card=card, parent_session_id="p")

    def drop_card(self, browser_id: str) -> None:
        """Evict a card and take it out of the layout."""
        self.cards.pop(browser_id, None)
        self.push("dashboard:browser_card_evict", dashboard_id=DASHBOARD, browser_id=browser_id)

    def push(self, event: str, **data: Any) -> None:
        self.push_text(json.dumps({"event": event, "data": data}))

    def push_bytes(self, data: bytes) -> None:
        async def send() -> None:
            for socket in self.sockets:
                await socket.send_bytes(data)

        asyncio.run_coroutine_threadsafe(send(), self._loop).result(5)

    def push_text(self, text: str) -> None:
        async def send() -> None:
            for socket in self.sockets:
                await socket.send_text(text)

        asyncio.run_coroutine_threadsafe(send(), self._loop).result(5)

    def push_status(self, session_id: str, status: str, mode: str = "agent") -> None:
        session = {"id": session_id, "status": status, "mode": mode}
        self.push("agent:status", session_id=session_id, status=status, session=session)

    def ask(self, browser_id: str, action: str, **params: Any) -> str:
        """Send a command without waiting; its request id."""
        request_id = uuid.uuid4().hex
        self._replies[request_id] = queue.SimpleQueue()
        self.ask_again(request_id, browser_id, action, **params)
        return request_id

    def ask_again(self, request_id: str, browser_id: str, action: str, **params: Any) -> None:
        """Send a command under a request id that may have been used before."""
        tab_id = params.pop("tab_id", "")
        command = {"request_id": request_id, "action": action, "browser_id": browser_id, "tab_id": tab_id}
        self.push("browser:command", **command, params=params)

    def answer(self, request_id: str, timeout_s: float = 60) -> dict[str, Any]:
        """The next reply to a request."""
        return self._replies[request_id].get(timeout=timeout_s)

    def do(self, browser_id: str, action: str, **params: Any) -> dict[str, Any]:
        """Send a command and wait for its reply."""
        return self.answer(self.ask(browser_id, action, **params))

    def close_sockets(self) -> None:
        async def close() -> None:
            for socket in list(self.sockets):
                await socket.close()

        asyncio.run_coroutine_threadsafe(close(), self._loop).result(5)

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(10)

    def _serve(self) -> None:
        async def serve() -> None:
            self._loop = asyncio.get_running_loop()
            await self._server.serve()

        asyncio.run(serve())

    def _body(self) -> dict[str, Any]:
        return {"id": DASHBOARD, "name": "One", "layout": {"cards": {}, "browser_cards": self.cards, "other": 1}}

    async def _get(self, request: Request) -> Response:
        if request.headers.get("authorization") != f"Bearer {TOKEN}":
            return JSONResponse({"error": "unauthorized"}, status_code=401)
        return JSONResponse(self._body(), status_code=500 if self.is_broken else 200)

    async def _put(self, request: Request) -> Response:
        body = await request.json()
        self.puts.append(body)
        self.cards = body["layout"]["browser_cards"]
        return JSONResponse(self._body())

    async def _dashboard(self, socket: WebSocket) -> None:
        if self.refuses:
            self.tries.append(time.monotonic())
        if self.refuses or socket.headers.get("authorization") != f"Bearer {TOKEN}":
            self.refused += 1
            await socket.close(4401)
            return
        await socket.accept()
        self.sockets.append(socket)
        self.opened += 1
        try:
            async for text in socket.iter_text():
                frame = json.loads(text)
                self._take(frame)
                if frame["event"] == "client:ping" and self.pongs:
                    await socket.send_text(json.dumps({"event": "server:pong", "data": frame["data"]}))
        except WebSocketDisconnect:
            pass
        finally:
            self.sockets.remove(socket)

    def _take(self, frame: dict[str, Any]) -> None:
        self.received.append(frame)
        if frame["event"] == "browser:result":
            replies = self._replies.get(frame["data"]["request_id"])
            if replies is not None:
                replies.put(frame["data"])


class Renderer:
    """A renderer process, as its driver would start it."""

    def __init__(self, backend: Backend, chromium: Chromium, folder: Path, *more: str) -> None:
        self.ready_file = folder / "ready.json"
        self.log_file = folder / "renderer.log"
        token_file = folder / "auth.token"
        token_file.write_text(TOKEN)
        command = [sys.executable, "-m", "workers.renderer", "--backend", backend.url]
        command += ["--token-file", str(token_file), "--dashboard-id", DASHBOARD, "--chromium", str(chromium.path)]
        command += [f"--chromium-arg={argument}" for argument in chromium.args]
        command += ["--ready-file", str(self.ready_file), *more]
        # Playwright leaves things there when it is killed. Not below `folder`: Chromium's sockets have short paths.
        self._scratch = tempfile.mkdtemp(prefix="bv3-rt-")
        environment = {**os.environ, **chromium.env, "PYTHONPATH": str(ROOT), "TMPDIR": self._scratch}
        with self.log_file.open("wb") as log:
            self.process = subprocess.Popen(command, cwd=ROOT, stderr=log, env=environment)

    @property
    def log(self) -> str:
        return self.log_file.read_text()

    def await_ready(self, timeout_s: float = 60) -> None:
        end = time.monotonic() + timeout_s
        while not self.ready_file.exists():
            assert self.process.poll() is None, self.log
            assert time.monotonic() < end, self.log
            time.sleep(0.02)

    def descendants(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)

    def end(self) -> None:
        """Make sure that the process is gone."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(10)
        shutil.rmtree(self._scratch, ignore_errors=True)

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)


class Chromium:
    """The browser of this machine, as set-up left it or as it is found."""

    def __init__(self) -> None:
        manifest = ROOT / ".runtime" / "manifest.json"
        self.env: dict[str, str] = {}
        # Whether the sandbox works here is what set-up finds out; without its manifest nothing is risked.
        self.args = ["--no-sandbox"]
        if path := os.environ.get("BV3_TEST_CHROMIUM"):
            self.path = Path(path)
        elif manifest.is_file():
            facts = json.loads(manifest.read_text())
            self.path, self.args = Path(facts["chromium"]), list(facts["chromium_args"])
            self.env = dict(facts.get("chromium_env") or {})
            if node := facts.get("playwright_node"):
                self.env["PLAYWRIGHT_NODEJS_PATH"] = node
        else:
            found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
            assert found is not None, "no Chromium: run ./bv3 setup, or name one in BV3_TEST_CHROMIUM"
            self.path = Path(found)


@pytest.fixture(scope="session")
def chromium() -> Chromium:
    return Chromium()


class Pages(SimpleHTTPRequestHandler):
    """The pages beside this file, and the editors' bundles under ``/editors``.

    ``/slow`` never answers, ``/half`` never ends, ``/none`` is a 204, ``/file`` a download, ``/hangup`` a connection
    that is closed without an answer; ``/once`` has another answer for each who asks.
    """

    def do_GET(self) -> None:
        if self.path == "/slow":
            time.sleep(30)
            return
        if self.path in {"/none", "/half", "/file", "/hangup"}:
            self._answer_oddly(self.path)
            return
        if self.path == "/once":
            self._answer_for_an_hour(uuid.uuid4().hex.encode())
            return
        super().do_GET()

    def translate_path(self, path: str) -> str:
        if path.startswith("/editors/"):
            return str(ROOT / ".runtime" / "editors" / Path(path).name)
        return super().translate_path(path)

    def _answer_oddly(self, path: str) -> None:
        if path == "/hangup":
            self.close_connection = True
            return
        self.send_response(204 if path == "/none" else 200)
        if path == "/file":
            self.send_header("Content-Disposition", "attachment; filename=x.bin")
        if path != "/none":
            self.send_header("Content-Type", "text/html" if path == "/half" else "application/octet-stream")
            self.send_header("Content-Length", "4000")
        self.end_headers()
        if path == "/half":
            self.wfile.write(b"<!doctype html><title>Half</title><p>The first half")
            self.wfile.flush()
            time.sleep(30)

    def _answer_for_an_hour(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Cache-Control", "max-age=3600")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the library's
        """Say nothing."""


@pytest.fixture(scope="session")
def pages() -> Iterator[int]:
    """The port of the server of the test pages."""
    handler = partial(Pages, directory=str(Path(__file__).parent / "pages"))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server.server_port
    server.shutdown()
    server.server_close()
    thread.join(5)


Start = Callable[..., tuple[Backend, Renderer]]


@contextlib.contextmanager
def _starting(pages: int, chromium: Chromium, free_port: Callable[[], int], folder: Path) -> Iterator[Start]:
    with contextlib.ExitStack() as cleanup:

        def start(*more: str, cards: dict[str, str] | None = None, wait: bool = True) -> tuple[Backend, Renderer]:
            backend = Backend(free_port())
            cleanup.callback(backend.stop)
            backend.cards = {key: backend.card(key, url) for key, url in (cards or {}).items()}
            own = folder / uuid.uuid4().hex[:8]
            own.mkdir()
            hosts = f"MAP *:80 127.0.0.1:{pages}"
            renderer = Renderer(backend, chromium, own, "--host-map", hosts, "--log-level=DEBUG", *more)
            # Before waiting for it: one that never gets ready must end with the test too.
            cleanup.callback(renderer.end)
            if wait:
                renderer.await_ready()
            return backend, renderer

        yield start


@pytest.fixture
def start(pages: int, chromium: Chromium, free_port: Callable[[], int], tmp_path: Path) -> Iterator[Start]:
    """Start a backend and a renderer of this test's own: start("--option", cards={id: url})."""
    with _starting(pages, chromium, free_port, tmp_path) as starting:
        yield starting


@pytest.fixture
def lone_backend(free_port: Callable[[], int]) -> Iterator[Backend]:
    """A backend without a renderer."""
    backend = Backend(free_port())
    yield backend
    backend.stop()


@pytest.fixture(scope="session")
def backend(
    pages: int, chromium: Chromium, free_port: Callable[[], int], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Backend]:
    """A backend whose one renderer all tests of a process share; each opens cards of its own."""
    with _starting(pages, chromium, free_port, tmp_path_factory.mktemp("renderer")) as starting:
        # A site of its own for each frame's process is how frames of other origins become hard to reach.
        yield starting("--chromium-arg=--site-per-process")[0]


@pytest.fixture
def open_card(backend: Backend) -> Iterator[Callable[[str], str]]:
    """Open a page in a card of this test's own: open_card("rich.html") → its id."""
    opened: list[str] = []

    def open_it(page: str) -> str:
        url = page if "://" in page else f"http://pages.test/{page}"
        opened.append(backend.add_card(url))
        return opened[-1]

    yield open_it
    for browser_id in opened:
        backend.drop_card(browser_id)
