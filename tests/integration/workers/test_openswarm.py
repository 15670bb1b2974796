"""The driver of the product, on a checkout whose application is the reference double."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from broker.errors import StackError
from broker.settings import load_settings, read_manifest
from broker.types import Mode, Seen
from workers.boxfile import BoxFile
from workers.client.product import ProductAddress, ProductClient
from workers.conditions import ProgramWords
from workers.machine import find_programs
from workers.preflight import Refusal, probe_renderer
from workers.processes import ProcessBook, find_survivors, kill_survivors
from workers.stack.checkout import inspect_checkout
from workers.stack.driver import AUDIT_CARD, RAW_CARD, facts_path, make_driver
from workers.stack.facts import StackFacts, read_facts
from workers.stack.supervised import SupervisedDriver
from workers.workplace import make_preflight

ROOT = Path(__file__).resolve().parents[3]
REAL = os.environ.get("BV3_OPENSWARM_CHECKOUT")
# The port at which the product looks for its router; no variable of its tells another.
ROUTER_PORT = 20128
# A box with isolation "host" is refused where a second backend runs: one at a time.
pytestmark = pytest.mark.xdist_group("openswarm")


@pytest.fixture(autouse=True)
def _alone_on_this_machine() -> Iterator[None]:
    """Also beside another run of these tests on the same machine."""
    with (Path(tempfile.gettempdir()) / f"bv3-test-openswarm-{os.geteuid()}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


APPLICATION = """
import os
from pathlib import Path

from infra.reference.backend import lines
from infra.reference.backend.auth import read_token
from infra.reference.backend.process import make_app
from infra.reference.backend.services import make_services
from infra.reference.backend.settings import Settings

root = Path(os.environ["OPENSWARM_DATA_ROOT"])
mode = "dry" if os.environ.get("OSW_SENDSCRIPT_DRYRUN") == "1" else "live"
token = read_token(root)
lines.start_logging(token)
settings = Settings(
    port=int(os.environ["OPENSWARM_PORT"]), data_root=root, mode=mode, router_url="{router}", sites_url="{sites}"
)
app = make_app(make_services(settings), token)
"""

# Told on the command line where to listen; says how it was called in the one place that is not the checkout.
WEBPACK = """#!{python}
import http.server, json, os, pathlib, sys, time
note = pathlib.Path(os.environ["HOME"], "webpack.json")
note.write_text(json.dumps({{"words": sys.argv[1:], "folder": os.getcwd(), "environment": dict(os.environ)}}))
time.sleep(0.5)
port = int(sys.argv[sys.argv.index("--port") + 1])
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"<title>front end</title>")
http.server.HTTPServer(("127.0.0.1", port), Page).serve_forever()
"""

# Electron's part is played by bv3's own renderer, which needs to be told what Electron knows by itself.
ELECTRON = """#!{python}
import json, os, pathlib, sys, urllib.request
try:
    front = urllib.request.urlopen("http://127.0.0.1:{frontend}/", timeout=5).status
except OSError as error:
    front = str(error)
called = {{"words": sys.argv[1:], "folder": os.getcwd(), "environment": dict(os.environ), "front": front}}
pathlib.Path(os.environ["HOME"], "electron.json").write_text(json.dumps(called))
token = pathlib.Path(os.environ["OPENSWARM_DATA_ROOT"], "auth.token")
url = "http://127.0.0.1:" + os.environ["OPENSWARM_PORT"]
head = {{"Authorization": "Bearer " + token.read_text()}}
said = json.load(urllib.request.urlopen(urllib.request.Request(url + "/api/dashboards/list", headers=head)))
dashboard = said["dashboards"][0]["id"]
os.environ.update({chromium_env!r})
os.chdir({root!r})
words = ["--backend=" + url, "--token-file=" + str(token), "--dashboard-id=" + dashboard, *{chromium!r}]
os.execv(sys.executable, [sys.executable, "-m", "workers.renderer", *words])
"""


@dataclass(slots=True)
class Checkout:
    """A checkout that a person has prepared, and the ports that its double asks."""

    folder: Path
    ports: dict[str, int]

    @property
    def python(self) -> Path:
        return self.folder / "backend" / ".venv" / "bin" / "python"

    def git(self, *words: str) -> str:
        command = ["git", "-c", "user.name=test", "-c", "user.email=test@example.org", *words]
        return subprocess.run(command, cwd=self.folder, check=True, capture_output=True, text=True).stdout.strip()

    def add_program(self, part: str, name: str, text: str) -> None:
        program = self.folder / part / "node_modules" / ".bin" / name
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(text)
        program.chmod(0o755)

    def list_files(self) -> dict[str, tuple[int, int]]:
        """Every file with its size and the time of its last change."""
        return {
            str(path.relative_to(self.folder)): (status.st_size, status.st_mtime_ns)
            for path in self.folder.rglob("*")
            for status in [path.lstat()]
        }


def make_environment(folder: Path) -> None:
    """A Python environment in which our own packages can be imported."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    [packages] = folder.glob("lib/*/site-packages")
    (packages / "double.pth").write_text(f"{ROOT}\n{sysconfig.get_paths()['purelib']}\n")


@pytest.fixture
def checkout(tmp_path: Path, free_port: Callable[[], int]) -> Checkout:
    ports = {name: free_port() for name in ("backend", "router", "frontend", "https", "http")}
    made = Checkout(folder=tmp_path / "product", ports=ports)
    backend = made.folder / "backend"
    backend.mkdir(parents=True)
    router, sites = (f"http://127.0.0.1:{ports[name]}" for name in ("router", "http"))
    (backend / "main.py").write_text(APPLICATION.format(router=router, sites=sites))
    (made.folder / ".gitignore").write_text(".venv\nnode_modules\n__pycache__\n")
    make_environment(backend / ".venv")
    made.git("init", "-q")
    made.git("add", ".")
    made.git("commit", "-q", "-m", "one")
    return made


def make_box(checkout: Checkout, folder: Path, **changes: Any) -> BoxFile:
    return BoxFile.model_validate(
        {
            "name": "box-a",
            "stack": "openswarm",
            "isolation": "host",
            "renderer": "playwright",
            "lane": "stub",
            "pages": "loopback",
            "folder": folder,
            "checkout": checkout.folder,
            "ports": checkout.ports,
            **changes,
        }
    )


@dataclass(slots=True)
class Stack:
    """A booted stack."""

    driver: SupervisedDriver
    facts: StackFacts
    book: ProcessBook
    announced: list[str] = field(default_factory=list)

    @property
    def folder(self) -> Path:
        return self.book.folder / "stack"

    def environment_of(self, part: str) -> dict[str, str]:
        process = self.book.last(part)
        assert process is not None
        return psutil.Process(process.pid).environ()

    def product(self) -> ProductClient:
        facts = self.facts
        address = ProductAddress(url=facts.backend_url, token=facts.read_token(), dashboard_id=facts.dashboard_id)
        return ProductClient(address)


@contextlib.contextmanager
def booted(box: BoxFile, *, mode: Mode = Mode.DRY) -> Iterator[Stack]:
    """Within the block the box's stack is up; after it nothing of it is left, also when the block fails."""
    box.folder.mkdir(exist_ok=True)
    book = ProcessBook(folder=box.folder)
    announced: list[str] = []
    manifest = read_manifest(load_settings())
    driver = make_driver(box, manifest, book, mode=mode, lock_fd=-1, announce=announced.append)
    assert isinstance(driver, SupervisedDriver)
    try:
        facts = driver.boot(give_up=lambda: False)
        yield Stack(driver=driver, facts=facts, book=book, announced=announced)
        driver.stop()
        assert not find_survivors(book)
    finally:
        driver.stop()
        kill_survivors(book)


def is_fit(box: BoxFile, facts: StackFacts) -> bool:
    """What is asked before every run lets it begin. Raises Refusal."""
    preflight = make_preflight(box, facts)
    with contextlib.closing(preflight.product), contextlib.closing(preflight.router):
        return preflight.check(facts.mode).mode is facts.mode


def test_the_backend_runs_by_the_checkout_s_own_environment_and_the_stack_answers(
    checkout: Checkout, tmp_path: Path
) -> None:
    before = checkout.list_files()
    with booted(make_box(checkout, tmp_path / "run")) as stack:
        facts = stack.facts
        process = psutil.Process(stack.book.last("backend").pid)  # type: ignore[union-attr]
        words = ["-m", "uvicorn", "backend.main:app", "--port", str(checkout.ports["backend"]), "--host", "127.0.0.1"]
        assert process.cmdline()[1:] == words == list(facts.backend_words)
        assert process.cmdline()[0] == str(checkout.python)
        assert process.exe() == facts.backend_executable == os.path.realpath(checkout.python)
        assert process.cwd() == facts.backend_folder == str(checkout.folder)
        assert stack.announced == ["sites", "router", "backend", "renderer"] == list(facts.parts)
        assert facts.parts == {
            "sites": checkout.ports["http"],
            "router": checkout.ports["router"],
            "backend": checkout.ports["backend"],
            "renderer": None,
        }
        assert (facts.mode, facts.lane, facts.renderer) == (Mode.DRY, "stub", "playwright")
        assert (facts.router_adopted, facts.checkout) == (False, str(checkout.folder))
        assert (facts.revision, facts.tree_clean) == (checkout.git("rev-parse", "--short=8", "HEAD"), True)
        assert facts == read_facts(facts_path(make_box(checkout, tmp_path / "run")))
        with stack.product() as product:
            assert set(product.list_cards()) == {AUDIT_CARD, RAW_CARD}
        assert is_fit(make_box(checkout, tmp_path / "run"), facts)
    assert checkout.list_files() == before


def test_the_backend_s_environment_holds_what_it_needs_and_nothing_else(
    checkout: Checkout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = {
        "BV3_REFERENCE_SEED": "7",
        "HTTP_PROXY": "http://127.0.0.1:1",
        "https_proxy": "http://127.0.0.1:1",
        "OPENSWARM_ROUTER_TAKEOVER": "1",
        "ANTHROPIC_API_KEY": "a key",
        "PYTHONPATH": "/nowhere",
        "TZ": "Europe/Berlin",
    }
    for name, value in outside.items():
        monkeypatch.setenv(name, value)
    box = make_box(checkout, tmp_path / "run")
    with booted(box) as stack:
        environment = stack.environment_of("backend")
        data, home = stack.folder / "data", stack.folder / "home"
        assert environment.pop("PATH").split(os.pathsep)
        for name in ("LANG", "LC_ALL", "LC_CTYPE", "TMPDIR"):
            environment.pop(name, None)
        assert environment == {
            "BV3_BOX_FOLDER": str(box.folder),
            "HOME": str(home),
            "OPENSWARM_PORT": str(checkout.ports["backend"]),
            "OPENSWARM_DATA_ROOT": str(data),
            "OPENSWARM_BROWSER_METRICS_DIR": str(data / "browser_metrics"),
            "OSW_SENDSCRIPT_DRYRUN": "1",
            "PYTHONUNBUFFERED": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "TZ": "Europe/Berlin",
        }
        assert Path(stack.facts.token_file) == data / "auth.token"
        assert stack.facts.read_token() == (data / "auth.token").read_text()
        assert home.is_dir()


def test_live_is_said_to_the_backend_and_a_changed_tree_in_the_facts(checkout: Checkout, tmp_path: Path) -> None:
    with (checkout.folder / "backend" / "main.py").open("a") as file:
        file.write("# changed\n")
    with booted(make_box(checkout, tmp_path / "run"), mode=Mode.LIVE) as stack:
        assert stack.environment_of("backend")["OSW_SENDSCRIPT_DRYRUN"] == "0"
        assert stack.facts.mode is Mode.LIVE
        head = checkout.git("rev-parse", "--short=8", "HEAD")
        assert (stack.facts.revision, stack.facts.tree_clean) == (f"{head}+changes", False)
        assert is_fit(make_box(checkout, tmp_path / "run"), stack.facts)


def test_each_boot_has_a_new_token_and_no_session_of_an_earlier_one_but_keeps_what_was_installed(
    checkout: Checkout, tmp_path: Path
) -> None:
    box = make_box(checkout, tmp_path / "run", profile={"policy": "persistent"})
    home = box.folder / "stack" / "home"
    with booted(box) as stack:
        first = stack.facts.read_token()
        with stack.product() as product:
            product.launch("left behind")
        (home / ".openswarm" / "cache").mkdir(parents=True)
        (home / ".openswarm" / "workspaces" / "0a1b").mkdir(parents=True)
    with booted(box) as stack:
        assert stack.facts.read_token() != first
        with stack.product() as product:
            assert product.list_sessions() == ()
        assert (home / ".openswarm" / "cache").is_dir()
        assert not (home / ".openswarm" / "workspaces").exists()


def test_a_restart_of_the_backend_is_marked_in_its_log_and_the_box_answers_again(
    checkout: Checkout, tmp_path: Path
) -> None:
    with booted(make_box(checkout, tmp_path / "run")) as stack:
        log = Path(stack.facts.log_file)
        assert "BACKEND RESTARTED" not in log.read_text()
        stack.driver.restart("backend")
        assert log.read_text().count("[stack] BACKEND RESTARTED at ") == 1
        stack.driver.restart("renderer")
        with stack.product() as product:
            assert probe_renderer(product, AUDIT_CARD).answered
        with pytest.raises(Exception, match="no part frontend"):
            stack.driver.restart("frontend")


def test_a_taken_router_port_is_refused_for_the_lane_stub_and_its_holder_is_left_alone(
    checkout: Checkout, tmp_path: Path
) -> None:
    with a_router(checkout.ports["router"]) as router:
        with (
            pytest.raises(StackError, match=r"port \d+ \(router\)") as refused,
            booted(make_box(checkout, tmp_path / "run")),
        ):
            pass
        assert 'lane = "stub"' in str(refused.value.hint)
        assert router.poll() is None


@contextlib.contextmanager
def a_router(port: int) -> Iterator[subprocess.Popen[bytes]]:
    """A router that is not the box's."""
    with subprocess.Popen([sys.executable, "-m", "infra.reference", "router", "--port", str(port)], cwd=ROOT) as router:
        try:
            deadline = time.monotonic() + 30
            while not _answers(f"http://127.0.0.1:{port}/v1/models"):
                assert time.monotonic() < deadline
                time.sleep(0.05)
            yield router
        finally:
            router.kill()


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, trust_env=False).is_success
    except httpx.HTTPError:
        return False


@pytest.fixture(params=["double", "real"])
def product(request: pytest.FixtureRequest, free_port: Callable[[], int]) -> Checkout:
    """A checkout to work a queue on: the double's, and the product's own where one is named."""
    if request.param == "double":
        made: Checkout = request.getfixturevalue("checkout")
        return made
    if not REAL:
        pytest.skip("BV3_OPENSWARM_CHECKOUT names no checkout of the product")
    ports = {name: free_port() for name in ("backend", "https", "http")}
    return Checkout(folder=Path(REAL), ports={**ports, "router": ROUTER_PORT})


def test_a_box_works_its_queue_on_the_product_without_a_model(product: Checkout, farm: Any) -> None:
    before = product.git("status", "--porcelain")
    name = f"box-{len(farm.boxes)}"
    ports = {part: port for part, port in product.ports.items() if part != "frontend"}
    box = farm.add_product_box(name, checkout=product.folder, ports=ports)
    if not farm.helpers:
        farm.dispatch()
    box.start()
    box.wait_until(lambda: farm.phase_of(name) == "ready", "ready", 240)
    sweep = farm.add_sweep("x", "substack")
    box.wait_until(lambda: len(farm.records_of(sweep)) == 2, "both records", 240)
    records = {record.site: record for record in farm.records_of(sweep)}
    head = product.git("rev-parse", "--short=8", "HEAD")
    for record in records.values():
        assert (record.box, record.lane, record.renderer) == (name, "stub", "playwright")
        assert record.product_revision == (f"{head}+changes" if before else head)
        assert record.mode is Mode.DRY
        assert record.parent.status == "completed"
        assert record.children
        assert {ref.name for ref in record.evidence} >= {"log", "screenshot"}
    assert records["x"].reads[-1].payload is Seen.SEEN
    assert records["substack"].reads[-1].payload is Seen.ABSENT
    assert box.stop() == 0
    assert not box.list_processes()
    assert product.git("status", "--porcelain") == before


def test_a_router_that_is_there_is_adopted_and_outlives_the_stack(checkout: Checkout, tmp_path: Path) -> None:
    with a_router(checkout.ports["router"]) as router:
        with booted(make_box(checkout, tmp_path / "run", lane="sonnet")) as stack:
            assert stack.facts.router_adopted
            assert "router" not in stack.facts.parts
            assert stack.driver.heal("router") is None
            with pytest.raises(Exception, match="no part router"):
                stack.driver.restart("router")
        assert router.poll() is None
        assert _answers(f"http://127.0.0.1:{checkout.ports['router']}/v1/models")


def test_a_lane_whose_router_never_answers_is_named_with_what_to_do(
    checkout: Checkout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    box = make_box(checkout, tmp_path / "run", lane="sonnet")
    monkeypatch.setattr("workers.stack.openswarm.OpenSwarmDriver.router_timeout_s", 0.5)
    with pytest.raises(StackError, match="the router of box box-a does not come up") as failed, booted(box):
        pass
    assert f"http://127.0.0.1:{checkout.ports['router']}/v1/models" in str(failed.value.hint)
    assert "sonnet" in str(failed.value.hint)


def test_a_router_that_the_backend_starts_itself_ends_with_the_stack(checkout: Checkout, tmp_path: Path) -> None:
    """It leaves its part's group, as a service that is meant to go on does."""
    starting = (
        "\nimport subprocess, sys\n"
        f"subprocess.Popen([sys.executable, '-m', 'infra.reference', 'router', '--port', '{checkout.ports['router']}'],"
        f" cwd={str(ROOT)!r}, start_new_session=True)\n"
    )
    with (checkout.folder / "backend" / "main.py").open("a") as file:
        file.write(starting)
    with booted(make_box(checkout, tmp_path / "run", lane="sonnet")) as stack:
        assert not stack.facts.router_adopted
    assert not _answers(f"http://127.0.0.1:{checkout.ports['router']}/v1/models")


def test_a_missing_environment_is_named_with_the_command_that_makes_it(checkout: Checkout, tmp_path: Path) -> None:
    shutil.rmtree(checkout.folder / "backend" / ".venv")
    (checkout.folder / "backend" / "requirements.lock").touch()
    with (
        pytest.raises(StackError, match="no Python environment") as refused,
        booted(make_box(checkout, tmp_path / "run")),
    ):
        pass
    assert f"-m venv {checkout.folder}/backend/.venv" in str(refused.value.hint)
    assert f"pip install -r {checkout.folder}/backend/requirements.lock" in str(refused.value.hint)


def test_the_preflight_knows_the_backend_by_its_words_and_refuses_once_the_checkout_has_moved_on(
    checkout: Checkout, tmp_path: Path
) -> None:
    box = make_box(checkout, tmp_path / "run")
    with booted(box) as stack, make_preflight(box, stack.facts) as made:
        # other tests may run backends of their own beside this one
        preflight = dataclasses.replace(made, shares_namespace=True)
        assert preflight.check(Mode.DRY).probe.answered
        backend = stack.book.last("backend")
        words = ProgramWords(executable=stack.facts.backend_executable, words=stack.facts.backend_words)
        assert backend is not None
        assert backend.pid in [program.pid for program in find_programs(words)]
        checkout.git("commit", "-q", "--allow-empty", "-m", "two")
        with pytest.raises(Refusal, match=f"^build: the checkout is at .*, and {stack.facts.revision[:12]} was booted"):
            preflight.check(Mode.DRY)


@pytest.fixture
def desktop(checkout: Checkout, monkeypatch: pytest.MonkeyPatch) -> Checkout:
    """The checkout with a front end and an Electron, on a machine with a screen."""
    manifest = read_manifest(load_settings())
    chromium = [f"--chromium={manifest.chromium}", *(f"--chromium-arg={one}" for one in manifest.chromium_args)]
    environment = dict(manifest.chromium_env)
    if manifest.playwright_node:
        environment["PLAYWRIGHT_NODEJS_PATH"] = manifest.playwright_node
    checkout.add_program("frontend", "webpack", WEBPACK.format(python=sys.executable))
    checkout.add_program(
        "electron",
        "electron",
        ELECTRON.format(
            python=sys.executable,
            frontend=checkout.ports["frontend"],
            chromium=chromium,
            chromium_env=environment,
            root=str(ROOT),
        ),
    )
    dev = "NODE_ENV=development webpack serve --port 3000 --open --mode development"
    (checkout.folder / "frontend" / "package.json").write_text(json.dumps({"scripts": {"dev": dev}}))
    scripts = {"build": "tsc", "start": "npm run build && cross-env KIND=dev electron . --enable-logging"}
    (checkout.folder / "electron" / "package.json").write_text(json.dumps({"main": "main.js", "scripts": scripts}))
    (checkout.folder / "electron" / "main.js").touch()
    monkeypatch.setenv("DISPLAY", ":7")
    return checkout


def make_desktop_box(checkout: Checkout, folder: Path, **changes: Any) -> BoxFile:
    shown = {"renderer": "electron", "pages": "web", "profile": {"policy": "persistent"}, **changes}
    return make_box(checkout, folder, **shown)


def test_the_front_end_answers_before_electron_starts_on_a_profile_of_the_box_s_own(
    desktop: Checkout, tmp_path: Path
) -> None:
    before = desktop.list_files()
    box = make_desktop_box(desktop, tmp_path / "run")
    with booted(box) as stack:
        assert stack.announced == ["router", "backend", "frontend", "renderer"]
        assert stack.facts.renderer == "electron"
        home = stack.folder / "home"
        webpack = json.loads((home / "webpack.json").read_text())
        electron = json.loads((home / "electron.json").read_text())
        port = str(desktop.ports["frontend"])
        assert webpack["words"] == ["serve", "--mode", "development", "--port", port, "--host", "127.0.0.1"]
        assert webpack["folder"] == str(desktop.folder / "frontend")
        assert webpack["environment"]["NODE_ENV"] == "development"
        assert electron["front"] == 200
        assert electron["words"][:3] == [".", "--enable-logging", f"--user-data-dir={box.folder / 'profile'}"]
        assert electron["words"][3:] == (["--no-sandbox"] if os.geteuid() == 0 else [])
        assert electron["folder"] == str(desktop.folder / "electron")
        assert (electron["environment"]["DISPLAY"], electron["environment"]["KIND"]) == (":7", "dev")
        assert (box.folder / "profile").is_dir()
        stack.driver.restart("renderer")
        stack.driver.restart("frontend")
    assert desktop.list_files() == before


def test_commands_of_the_box_file_take_the_place_of_the_checkout_s_scripts(desktop: Checkout, tmp_path: Path) -> None:
    webpack, electron = (desktop.folder / part for part in ("frontend/serve", "electron/show"))
    shutil.move(desktop.folder / "frontend/node_modules/.bin/webpack", webpack)
    shutil.move(desktop.folder / "electron/node_modules/.bin/electron", electron)
    product = {
        "frontend": [str(webpack), "--port", "{frontend_port}"],
        "electron": [str(electron), "--to={backend_port}", "--user-data-dir={profile}"],
    }
    box = make_desktop_box(desktop, tmp_path / "run", product=product)
    assert inspect_checkout(box) == ()
    with booted(box) as stack:
        called = json.loads((stack.folder / "home" / "electron.json").read_text())
        assert called["words"] == [f"--to={desktop.ports['backend']}", f"--user-data-dir={box.folder / 'profile'}"]
