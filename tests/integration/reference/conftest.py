"""The reference stack's processes, and a renderer of a few lines for tests that need no browser."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import httpx
import psutil
import pytest
from playwright.sync_api import Browser, sync_playwright
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

ROOT = Path(__file__).parents[3]
LIMIT_S = 20.0
# Every process of these tests has it in its environment, and so has all that comes from one.
MARK = "REFERENCE_TEST_MARK"
Frame = dict[str, Any]


def find_marked(mark: str) -> list[psutil.Process]:
    """The living processes whose mark begins so, in whatever group; one that waits to be reaped is none."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK, "").startswith(mark) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return found


class Process:
    """One process of the stack with its output in a file."""

    def __init__(self, arguments: list[str], log: Path, *, mark: str, **environment: str) -> None:
        self.log = log
        self.mark = mark
        python_path = {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
        with log.open("ab") as output:
            self.popen = subprocess.Popen(
                [sys.executable, *arguments],
                stdout=output,
                stderr=output,
                cwd=log.parent,
                env={**os.environ, **python_path, **environment, MARK: mark},
                start_new_session=True,
            )

    @property
    def output(self) -> str:
        return self.log.read_text()

    def stop(self) -> int:
        """End the process as a supervisor does; its exit code."""
        if self.popen.poll() is None:
            self.popen.send_signal(signal.SIGTERM)
        return self.popen.wait(LIMIT_S)

    def kill(self) -> None:
        """End the process and its group without a word, also when it has been stopped or is gone already.

        A browser has a group of its own: it ends by itself, as the pipe that it is driven by is closed.
        """
        # The leader alone would leave a stopped child behind, which holds the browser's pipe open for ever.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.popen.pid, signal.SIGKILL)
        self.popen.wait(LIMIT_S)

    @property
    def alive(self) -> list[psutil.Process]:
        """The process and all that came from it, as far as they live."""
        return find_marked(self.mark)


@pytest.fixture(scope="session")
def mark(wait_until: Callable[..., None]) -> Iterator[str]:
    """What the marks of these tests' processes begin with; at the end none of them lives."""
    made = uuid.uuid4().hex
    yield made
    with contextlib.suppress(TimeoutError):
        wait_until(lambda: not find_marked(made), "the end of every process", LIMIT_S)
    left = {process.pid: process for process in find_marked(made)}
    for process in left.values():
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    assert left == {}, "these outlived their tests, and were killed"


Launch = Callable[..., Process]


@pytest.fixture(scope="session")
def launch(mark: str) -> Iterator[Launch]:
    """Start a process: launch(["-m", …], log, NAME="value"). Whatever the tests do, all are ended at the end."""
    started: list[Process] = []

    def start(arguments: list[str], log: Path, **environment: str) -> Process:
        started.append(Process(arguments, log, mark=f"{mark}.{len(started)}.", **environment))
        return started[-1]

    with contextlib.ExitStack() as ending:
        yield start
        for process in started:
            ending.callback(process.kill)


def _wait_for(url: str, process: Process) -> None:
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end:
        assert process.popen.poll() is None, process.output
        with contextlib.suppress(httpx.HTTPError):
            if httpx.get(url, trust_env=False).is_success:
                return
        time.sleep(0.03)
    raise TimeoutError(f"{url}: {process.output}")


@dataclass(slots=True)
class Double:
    """A running backend double and a client that carries its token."""

    process: Process
    port: int
    data_root: Path
    client: httpx.Client
    token: str

    @property
    def dashboard(self) -> str:
        return str(self.client.get("/api/dashboards/list").json()["dashboards"][0]["id"])

    @property
    def lines(self) -> list[str]:
        return self.process.output.splitlines()

    def rows(self, name: str) -> list[Frame]:
        """The rows of a JSON-lines file under the data root."""
        path = self.data_root / name
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def socket(self, path: str) -> contextlib.AbstractContextManager[ClientConnection]:
        """A WebSocket with the token: ``with double.socket(path) as socket``."""
        return connect(f"ws://127.0.0.1:{self.port}{path}?token={self.token}", open_timeout=LIMIT_S, proxy=None)

    def launch(self, **body: object) -> str:
        answer = self.client.post("/api/agents/launch", json={"dashboard_id": self.dashboard, **body})
        return str(answer.json()["session_id"])

    def run(self, prompt: str) -> tuple[str, list[Frame]]:
        """Launch, send, and hear the session out: its id and every frame up to the terminal one."""
        session = self.launch(name="test")
        with self.socket(f"/ws/agents/{session}") as socket:
            socket.send(json.dumps({"event": "client:hello", "data": {"connection_uuid": "u", "last_seq": 0}}))
            answer = self.client.post(f"/api/agents/sessions/{session}/message", json={"prompt": prompt})
            assert answer.json() == {"ok": True}
            frames = []
            while True:
                # a page with a hundred frames takes its time on a busy machine
                frames.append(json.loads(socket.recv(3 * LIMIT_S)))
                if is_terminal(frames[-1]):
                    return session, frames


def is_terminal(frame: Frame) -> bool:
    return frame["event"] == "agent:status" and frame["data"]["status"] in {"completed", "error", "stopped"}


@pytest.fixture(scope="session")
def router_url(launch: Launch, free_port: Callable[[], int], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a running router."""
    port = free_port()
    log = tmp_path_factory.mktemp("router") / "router.log"
    process = launch(["-m", "infra.reference", "router", "--port", str(port)], log)
    try:
        _wait_for(f"http://127.0.0.1:{port}/v1/models", process)
        yield f"http://127.0.0.1:{port}"
    finally:
        assert process.stop() == 0


StartDouble = Callable[..., Double]


@pytest.fixture(scope="session")
def start_double(
    launch: Launch, free_port: Callable[[], int], router_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[StartDouble]:
    """Start a backend: start_double(data_root=…, router_url=…, NAME="value"); all are ended at the end."""
    started: list[Double] = []

    def start(data_root: Path | None = None, router_url: str = router_url, **environment: str) -> Double:
        folder = tmp_path_factory.mktemp("double")
        port, root = free_port(), data_root or folder / "data"
        process = launch(
            ["-m", "infra.reference", "backend"],
            folder / "backend.log",
            OPENSWARM_PORT=str(port),
            OPENSWARM_DATA_ROOT=str(root),
            OSW_SENDSCRIPT_DRYRUN="1",
            REFERENCE_ROUTER_URL=router_url,
            **environment,
        )
        base = f"http://127.0.0.1:{port}"
        _wait_for(f"{base}/api/health/check", process)
        token = (root / "auth.token").read_text()
        headers = {"authorization": f"Bearer {token}"}
        client = httpx.Client(base_url=base, headers=headers, timeout=LIMIT_S, trust_env=False)
        started.append(Double(process, port, root, client, token))
        return started[-1]

    try:
        yield start
    finally:
        for double in started:
            double.client.close()
            double.process.kill()


@pytest.fixture(scope="session")
def double(start_double: StartDouble) -> Double:
    """A backend that tests share; a test that runs something on it takes a host of its own."""
    return start_double()


@pytest.fixture
def spawn(launch: Launch, tmp_path: Path) -> Iterator[Callable[..., Process]]:
    """Start one command of the stack: spawn("router", "--port", "1", NAME="value")."""
    spawned: list[Process] = []

    def start(*arguments: str, **environment: str) -> Process:
        log = tmp_path / f"{len(spawned)}.log"
        spawned.append(launch(["-m", "infra.reference", *arguments], log, **environment))
        return spawned[-1]

    yield start
    for process in spawned:
        process.kill()


@dataclass(slots=True)
class Page:
    """A page of a few lines: one named composer, a submit control, and what was typed."""

    url: str = "about:blank"
    typed: str = ""

    def answer(self, action: str, params: Frame) -> Frame:
        """The renderer's reply to one action."""
        if action == "get_text":
            return {"text": "A page with a box. " * 20, "url": self.url, "title": "Box"}
        if action == "list_interactives":
            value = f' value="{self.typed}"' if self.typed else ""
            rows = f'[1]<textbox "Write a post"{value}>\n[2]<button "Post">'
            return {"text": f"2 interactive elements (* = new):\n{rows}", "url": self.url}
        if action == "click_index":
            self.typed = params.get("text", self.typed)
            return {"text": "done", "clickedRole": "textbox", "clickedName": "Write a post"}
        if action == "evaluate":
            return {"text": self._evaluate(params["expression"]), "url": self.url}
        return {"image": "", "url": self.url}

    def _evaluate(self, expression: str) -> str:
        if expression == "document.readyState":
            return "complete"
        if "elsewhere" in expression:
            count = 1 if self.typed else 0
            return json.dumps({"url": self.url, "intended": 0, "elsewhere": count, "element": "textarea"})
        found = bool(self.typed)
        facts = {"found": found, "count": int(found), "resolved": found, "rank": 3 if found else 0}
        return json.dumps({**facts, "label": "post", "why": "" if found else "no editable holding the payload"})


@dataclass(slots=True)
class FakeRenderer:
    """A renderer without a browser: pages by card, and everything that was heard."""

    double: Double
    # Called for each command before it is answered; True means: give no answer.
    swallow: Callable[[Frame], bool] = lambda _: False
    # The action at which the renderer goes away.
    dies_at: str = ""
    pages: dict[str, Page] = field(default_factory=dict)
    frames: list[Frame] = field(default_factory=list)
    on_frame: Callable[[Frame], None] = lambda _: None
    _open: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def __enter__(self) -> Self:
        socket = self._open.enter_context(self.double.socket("/ws/dashboard"))
        thread = threading.Thread(target=self._serve, args=(socket,), daemon=True)
        thread.start()
        self._open.callback(thread.join, LIMIT_S)
        self._open.callback(socket.close)
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def named(self, event: str) -> list[Frame]:
        """The data of every frame of one event."""
        return [frame["data"] for frame in self.frames if frame["event"] == event]

    def _serve(self, socket: ClientConnection) -> None:
        with contextlib.suppress(ConnectionClosed):
            for text in socket:
                self._hear(socket, json.loads(text))

    def _hear(self, socket: ClientConnection, frame: Frame) -> None:
        self.frames.append(frame)
        self.on_frame(frame)
        data = frame["data"]
        if frame["event"] == "dashboard:browser_card_added":
            card = data["browser_card"]
            self.pages[card["browser_id"]] = Page(url=card["url"])
        elif data.get("action") == self.dies_at:
            socket.close()
        elif frame["event"] == "browser:command" and not self.swallow(data):
            page = self.pages.get(data["browser_id"])
            missing = f"Browser card '{data['browser_id']}' not found or not an Electron webview"
            reply = page.answer(data["action"], data["params"]) if page else {"error": missing}
            result = {"request_id": data["request_id"], **reply, "gate_ms": 0, "total_ms": 1}
            socket.send(json.dumps({"event": "browser:result", "data": result}))


@pytest.fixture(scope="session")
def render() -> type[FakeRenderer]:
    """A renderer without a browser: ``with render(double) as renderer``."""
    return FakeRenderer


@pytest.fixture(scope="session")
def terminal() -> Callable[[Frame], bool]:
    """Whether a frame ends its session."""
    return is_terminal


# -- The browser and the sites -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """The browser and the editor bundles of this machine, as set-up left them or as they are found."""

    chromium: str
    chromium_args: list[str]
    environment: dict[str, str]
    editors: Path


def _find_chromium() -> str:
    names = ("chromium-headless-shell", "chromium", "google-chrome", "chrome")
    found = os.environ.get("BV3_TEST_CHROMIUM") or next((path for name in names if (path := shutil.which(name))), None)
    assert found is not None, "no Chromium: run ./bv3 setup, or name one in BV3_TEST_CHROMIUM"
    return found


def _make_editors(folder: Path) -> Path:
    node = shutil.which("node")
    assert node is not None, "no editor bundles and no node: run ./bv3 setup"
    npm = folder / "npm"
    npm.mkdir()
    for file in (ROOT / "infra/reference/editors").glob("package*.json"):
        shutil.copy(file, npm)
    subprocess.run(["npm", "ci", "--ignore-scripts"], cwd=npm, check=True, capture_output=True)
    build = [sys.executable, "-m", "infra.reference.build", "--npm", str(npm), "--node", node]
    subprocess.run([*build, "--out", str(folder / "editors")], cwd=ROOT, check=True)
    return folder / "editors"


@pytest.fixture(scope="session")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Runtime:
    """The browser and the editor bundles."""
    manifest = Path(os.environ.get("BV3_RUNTIME") or ROOT / ".runtime") / "manifest.json"
    if not manifest.is_file():
        args = ["--no-sandbox"] if os.geteuid() == 0 else []
        editors = _make_editors(tmp_path_factory.mktemp("npm"))
        return Runtime(chromium=_find_chromium(), chromium_args=args, environment={}, editors=editors)
    facts = json.loads(manifest.read_text())
    environment = dict(facts.get("chromium_env") or {})
    if facts.get("playwright_node"):
        environment["PLAYWRIGHT_NODEJS_PATH"] = facts["playwright_node"]
    return Runtime(
        chromium=facts["chromium"],
        chromium_args=list(facts["chromium_args"]),
        environment=environment,
        editors=Path(facts["editors"]),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Sites:
    """The running sites."""

    http_port: int
    https_port: int
    process: Process

    @property
    def host_map(self) -> str:
        """Chromium's rules that bring every host here."""
        return f"MAP *:443 127.0.0.1:{self.https_port}, MAP *:80 127.0.0.1:{self.http_port}"

    def posts(self, host: str) -> list[Frame]:
        """What was really posted on a host."""
        answer = httpx.get(
            f"http://127.0.0.1:{self.http_port}/reference/posts", headers={"host": host}, trust_env=False
        )
        return list(answer.json()["posts"])

    def set_nature(self, host: str, nature: str | None) -> None:
        """Give a host's pages a nature, or take it away."""
        url = f"http://127.0.0.1:{self.http_port}/__nature"
        httpx.post(url, json={"host": host, "nature": nature}, trust_env=False).raise_for_status()

    def set_natures(self, host: str, natures: Iterable[str]) -> None:
        """Give a host's pages exactly these natures."""
        url = f"http://127.0.0.1:{self.http_port}/__nature"
        httpx.post(url, json={"host": host, "natures": list(natures)}, trust_env=False).raise_for_status()

    def drafts(self, host: str) -> list[Frame]:
        """What a host's pages kept as drafts."""
        url = f"http://127.0.0.1:{self.http_port}/reference/drafts"
        return list(httpx.get(url, headers={"host": host}, trust_env=False).json()["drafts"])

    @property
    def natures(self) -> dict[str, list[str]]:
        """The natures that are set, by host."""
        return dict(httpx.get(f"http://127.0.0.1:{self.http_port}/__nature", trust_env=False).json()["natures"])


@pytest.fixture(scope="session")
def sites(
    launch: Launch, runtime: Runtime, free_port: Callable[[], int], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Sites]:
    """The nine sites, http and https."""
    folder = tmp_path_factory.mktemp("sites")
    http_port, https_port = free_port(), free_port()
    ports = ["--http-port", str(http_port), "--https-port", str(https_port)]
    folders = ["--editors", str(runtime.editors), "--state", str(folder / "state")]
    process = launch(["-m", "infra.reference", "sites", *ports, *folders], folder / "sites.log")
    try:
        _wait_for(f"http://127.0.0.1:{http_port}/healthz", process)
        yield Sites(http_port=http_port, https_port=https_port, process=process)
    finally:
        assert process.stop() == 0


@pytest.fixture(scope="module")
def browser(runtime: Runtime, sites: Sites, mark: str) -> Iterator[Browser]:
    """A Chromium of the tests' own that finds every host among the sites."""
    environment = pytest.MonkeyPatch()
    for name, value in {**runtime.environment, MARK: f"{mark}.browser."}.items():
        environment.setenv(name, value)
    rules = [f"--host-resolver-rules={sites.host_map}", "--ignore-certificate-errors"]
    with sync_playwright() as playwright:
        args = [*runtime.chromium_args, *rules]
        launched = playwright.chromium.launch(executable_path=runtime.chromium, args=args)
        yield launched
        launched.close()
    environment.undo()


@pytest.fixture(scope="session")
def start_renderer(
    launch: Launch, runtime: Runtime, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., Process]]:
    """Attach the Playwright renderer to a double, with the sites behind its browser; returns once it is ready."""
    started: list[Process] = []

    def start(double: Double, sites: Sites) -> Process:
        folder = tmp_path_factory.mktemp("renderer")
        ready = folder / "ready"
        command = ["-m", "workers.renderer", "--backend", f"http://127.0.0.1:{double.port}"]
        command += ["--token-file", str(double.data_root / "auth.token"), "--dashboard-id", double.dashboard]
        command += [
            "--chromium",
            runtime.chromium,
            *(f"--chromium-arg={argument}" for argument in runtime.chromium_args),
        ]
        command += ["--host-map", sites.host_map, "--ignore-certificate-errors", "--ready-file", str(ready)]
        started.append(launch(command, folder / "renderer.log", **runtime.environment))
        end = time.monotonic() + LIMIT_S
        while not ready.exists():
            assert started[-1].popen.poll() is None, started[-1].output
            assert time.monotonic() < end, started[-1].output
            time.sleep(0.03)
        return started[-1]

    yield start
    # Politely, so that each takes its browser's files away; one that can't hear it is killed with the rest.
    for process in started:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.stop()


# -- Log lines ---------------------------------------------------------------------------------------

_PREFIX = re.compile(r"^\d\d:\d\d:\d\d [A-Z] ([\w.]+): (.*)$")
_NOISE = re.compile(r"skill_registry|mcp_preflight|self_audit|SessionLifecycle|\[browser-route |tier-1: ")
_BLANKS = [
    (re.compile(r"\b[0-9a-f]{32}\b"), "ID"),
    (re.compile(r"browser-[0-9a-f]{8}"), "CARD"),
    (re.compile(r"skill on \S+ not replayed: .*|no skill for host=.*"), "no skill"),
    (re.compile(r"https?://[^\s'\"),]+"), "URL"),
    (re.compile(r"host='[^']*'"), "host=HOST"),
    (re.compile(r"submit_resolved=\w+, submit_rank=\d, submit=.*\);"), "submit=SUBMIT);"),
    (re.compile(r"usable composer \(.*\)$"), "usable composer (REPLY)"),
    (re.compile(r"role='\w+' score=[\d.]+ nearSubmit=\w+ reveals=\[.*\] fillMode=\w+"), "COMPOSER"),
    (re.compile(r"triggered by \w+: .*"), "triggered by WHY"),
    (re.compile(r"(?:reply=|target |opener )'[^']*'"), "NAME"),
    (re.compile(r"READY after \d+ step\(s\): .*"), "READY after N step(s): WHY"),
    (re.compile(r"hint_steps=\d"), "hint_steps=N"),
    (re.compile(r"=(?:True|False)\b"), "=B"),
    (re.compile(r"-?\d+"), "N"),
]


def read_templates(text: str) -> list[str]:
    """The product's lines of a log in order, with ids, names, addresses and numbers blanked and noise left out."""
    found = []
    for line in text.splitlines():
        match = _PREFIX.match(line)
        if match and not _NOISE.search(line):
            words = match[2]
            for pattern, blank in _BLANKS:
                words = pattern.sub(blank, words)
            found.append(f"{match[1].rsplit('.', 1)[-1]}: {words}")
    return found


@pytest.fixture(scope="session")
def templates() -> Callable[[str], list[str]]:
    """The order of a log's lines, without what changes from run to run."""
    return read_templates


@pytest.fixture(scope="session")
def captured() -> Callable[[str], list[str]]:
    """The order of lines of one shape, as captured in ``lines/``."""
    return lambda name: (Path(__file__).parent / "lines" / f"{name}.txt").read_text().splitlines()
