"""A booted reference stack without a farm, a small site of any pages beside it, and bv3-box as a person types it."""

from __future__ import annotations

import io
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from workers import cli
from workers.boxfile import load_box
from workers.client.product import ProductAddress, ProductClient
from workers.processes import ProcessBook, Recorded
from workers.stack.driver import facts_path
from workers.stack.facts import StackFacts, read_facts

ROOT = Path(__file__).resolve().parents[3]


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What a command left."""

    returncode: int
    stdout: bytes
    stderr: bytes


def _stand_in() -> io.TextIOWrapper:
    """For stdout or stderr."""
    return io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="\n")


def _bytes_of(stand_in: io.TextIOWrapper) -> bytes:
    stand_in.seek(0)
    return bytes(stand_in.buffer.read())


@dataclass(frozen=True, slots=True, kw_only=True)
class BootedBox:
    """One box whose stack is up, and nobody works its queue."""

    file: Path
    folder: Path
    facts: StackFacts

    def run(self, *words: str) -> Done:
        """The command in this process: starting one costs more than most commands do."""
        command, *rest = words
        with _stand_in() as out, _stand_in() as err:
            with redirect_stdout(out), redirect_stderr(err):
                try:
                    code = cli.run([command, "--box", str(self.file), *rest])
                except SystemExit as ending:
                    code = int(ending.code or 0)
            return Done(returncode=code, stdout=_bytes_of(out), stderr=_bytes_of(err))

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        """The command in a process of its own, as a person runs it."""
        command, *rest = words
        return subprocess.Popen(
            [sys.executable, "-m", "workers.cli", command, "--box", str(self.file), *rest],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=ROOT,
            start_new_session=True,
        )

    @contextmanager
    def product(self) -> Iterator[ProductClient]:
        facts = self.facts
        address = ProductAddress(url=facts.backend_url, token=facts.read_token(), dashboard_id=facts.dashboard_id)
        with ProductClient(address) as client:
            yield client

    def find_part(self, name: str) -> Recorded:
        last = ProcessBook(folder=self.folder).last(name)
        assert last is not None
        return last


def write_box_file(folder: Path, free_port: Callable[[], int]) -> Path:
    ports = "\n".join(f"{part} = {free_port()}" for part in ("backend", "router", "https", "http"))
    file = folder / "box.toml"
    file.write_text(
        f'name = "hand"\nstack = "reference"\nisolation = "ports"\nrenderer = "playwright"\nlane = "stub"\n'
        f'folder = "{folder}"\n\n[ports]\n{ports}\n'
    )
    return file


# A process of its own boots the stack, and ends it when its input is closed, however the tests end.
BOOT = """
import sys
from pathlib import Path
from broker.settings import load_settings, read_manifest
from broker.types import Mode
from workers import cli
from workers.boxfile import load_box
from workers.lock import bind_host_lock
from workers.processes import ProcessBook, kill_survivors
from workers.stack.driver import make_driver
box = load_box(Path(sys.argv[1]))
book = ProcessBook(folder=box.folder)
lock = bind_host_lock(box.lock_name)
driver = make_driver(box, read_manifest(load_settings()), book, mode=Mode.DRY, lock_fd=lock.fd)
try:
    driver.boot(give_up=lambda: False)
    print("up", flush=True)
    sys.stdin.read()
finally:
    driver.stop()
    kill_survivors(book)
"""


@contextmanager
def boot(folder: Path, free_port: Callable[[], int]) -> Iterator[BootedBox]:
    file = write_box_file(folder, free_port)
    with subprocess.Popen(
        [sys.executable, "-c", BOOT, str(file)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
        start_new_session=True,
    ) as keeper:
        assert keeper.stdout is not None
        assert keeper.stdin is not None
        try:
            assert keeper.stdout.readline() == b"up\n"
            yield BootedBox(file=file, folder=folder, facts=read_facts(facts_path(load_box(file))))
        finally:
            keeper.stdin.close()
            keeper.wait(60)


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory, free_port: Callable[[], int]) -> Iterator[BootedBox]:
    """A dry stack for all tests of a module."""
    with boot(tmp_path_factory.mktemp("box"), free_port) as booted:
        yield booted


class Pages(ThreadingHTTPServer):
    """Serves what a test puts into `bodies`, by path; a path that is in `moved` leads elsewhere."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.bodies: dict[str, bytes] = {}
        self.moved: dict[str, str] = {}
        self.no_content: set[str] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def put(self, path: str, body: str) -> str:
        self.bodies[path] = f"<!doctype html><meta charset=utf-8><title>T</title><body>{body}</body>".encode()
        return self.url + path


class _Answer(BaseHTTPRequestHandler):
    server: Pages

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path in self.server.moved:
            self.send_response(302)
            self.send_header("Location", self.server.moved[path])
            self.end_headers()
            return
        if path in self.server.no_content:
            self.send_response(204)
            self.end_headers()
            return
        body = self.server.bodies.get(path)
        self.send_response(200 if body is not None else 404)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(body or b"nothing here")

    def log_message(self, *_: object) -> None:
        """Not a word."""


@pytest.fixture(scope="module")
def pages() -> Iterator[Pages]:
    with Pages() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
