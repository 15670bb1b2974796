"""Network namespaces of one machine as boxes: made and deleted by root, each with a loopback of its own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from broker.home import FarmHome
from infra.embedded.credentials import load_credentials
from infra.embedded.files import FarmFiles
from infra.embedded.postgres import outside_folder
from infra.embedded.processes import end_marked
from workers import namespaces
from workers.boxfile import load_box
from workers.boxinit import Wish, make_box_text, write_box
from workers.namespaces import find_processes
from workers.netns import NAMES

ROOT = Path(__file__).resolve().parents[3]
Wait = Callable[..., None]


def why_not() -> str:
    """What this machine lacks for namespaces; empty when it has all."""
    if sys.platform != "linux":
        return "network namespaces are Linux's"
    if os.geteuid() != 0:
        return "only root may make a network namespace"
    if shutil.which("ip") is None:
        return "the program ip is not installed"
    name = f"bv3-probe-{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
    subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)
    return f"this machine allows no network namespaces: {made.stderr.strip()}" if made.returncode else ""


_WHY_NOT = why_not()
pytestmark = [pytest.mark.skipif(bool(_WHY_NOT), reason=_WHY_NOT or "can be made"), pytest.mark.timeout(480)]


def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "workers.cli", *words],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, **environment},
        check=False,
        timeout=60,
    )


@pytest.fixture
def names() -> Iterator[tuple[str, str]]:
    """Two names that are nobody's; whatever was made under them is gone afterwards, with all that lives there."""
    chosen = (f"bv3-{uuid.uuid4().hex[:8]}", f"bv3-{uuid.uuid4().hex[:8]}")
    yield chosen
    for name in chosen:
        for pid in find_processes(name):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)


@contextmanager
def living_in(name: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that lives in the namespace."""
    process = subprocess.Popen(["ip", "netns", "exec", name, "sleep", "60"])
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def read_rows(*words: str) -> dict[str, Any]:
    return {row["name"]: row for row in json.loads(run("netns", "list", "--json", *words).stdout)}


def test_a_namespace_has_its_own_loopback_and_is_made_once(names: tuple[str, str]) -> None:
    name = names[0]
    made = run("netns", "create", name)
    assert (made.returncode, made.stdout.splitlines()[0]) == (0, f"{name} is made"), made.stderr
    again = run("netns", "create", name)
    assert (again.returncode, again.stdout.splitlines()[0]) == (0, f"{name} is there already; nothing was changed")
    answers = ["ip", "netns", "exec", name, sys.executable, "-c"]
    listens = "import socket; s = socket.create_server(('127.0.0.1', 8326)); socket.create_connection(s.getsockname())"
    assert subprocess.run([*answers, listens], check=False).returncode == 0, "its loopback is up"
    assert read_rows()[name] == {"name": name, "addresses": [], "processes": []}
    gone = run("netns", "delete", name)
    assert (gone.returncode, gone.stdout) == (0, f"{name} is deleted\n")
    assert run("netns", "delete", name).stdout == f"there is no network namespace {name}\n"
    assert name not in read_rows()


def test_a_way_out_has_two_addresses_a_route_and_a_command_for_the_administrator(
    names: tuple[str, str], wait_until: Wait
) -> None:
    name = names[0]
    network = f"10.{os.getpid() % 200 + 20}.{uuid.uuid4().int % 250}"
    made = run("netns", "create", name, "--veth", f"{network}.0/30")
    assert made.returncode == 0, made.stderr
    assert f"iptables -t nat -A POSTROUTING -s {network}.0/30" in made.stdout
    assert read_rows()[name]["addresses"] == [f"{network}.2/30"]
    with socket.create_server((f"{network}.1", 0)) as server:
        port = server.getsockname()[1]
        reach = f"import socket; socket.create_connection(('{network}.1', {port}), timeout=5)"
        inside = ["ip", "netns", "exec", name, sys.executable, "-c", reach]
        wait_until(lambda: subprocess.run(inside, check=False, capture_output=True).returncode == 0, "the pair", 10)
    route = subprocess.run(["ip", "-n", name, "route"], capture_output=True, text=True, check=True).stdout
    assert f"default via {network}.1" in route
    assert run("netns", "create", name, "--veth", f"{network}.0/30").returncode == 0, "the same again"
    other = run("netns", "create", name)
    assert other.returncode == 2
    assert f"is there already and has {network}.2/30" in other.stderr
    assert run("netns", "delete", name).returncode == 0
    outer = namespaces.make_veth(name, f"{network}.0/30").outer
    wait_until(lambda: not Path("/sys/class/net", outer).exists(), "the host's end is gone, too", 10)


def test_a_namespace_that_can_not_be_made_whole_is_not_left(names: tuple[str, str]) -> None:
    name = names[0]
    veth = namespaces.make_veth(name, "10.199.7.0/30")
    subprocess.run(["ip", "link", "add", veth.outer, "type", "veth", "peer", "name", f"{veth.outer}x"], check=True)
    try:
        failed = run("netns", "create", name, "--veth", "10.199.7.0/30")
    finally:
        subprocess.run(["ip", "link", "delete", veth.outer], check=True)
    assert failed.returncode == 3
    assert "`ip link add" in failed.stderr
    assert not (NAMES / name).exists()


def test_a_name_whose_namespace_is_gone_is_made_anew(names: tuple[str, str]) -> None:
    NAMES.mkdir(exist_ok=True)
    (NAMES / names[0]).touch()
    made = run("netns", "create", names[0])
    assert (made.returncode, made.stdout.splitlines()[0]) == (0, f"{names[0]} is made"), made.stderr


def test_a_namespace_in_which_processes_live_is_not_deleted(names: tuple[str, str], wait_until: Wait) -> None:
    name = names[0]
    assert run("netns", "create", name).returncode == 0
    with living_in(name) as process:
        wait_until(lambda: process.pid in find_processes(name), "it lives there")
        refused = run("netns", "delete", name)
        assert refused.returncode == 3
        assert f"processes live in {name}: pid {process.pid} (sleep 60)" in refused.stderr
        assert read_rows()[name]["processes"] == [process.pid]
    assert run("netns", "delete", name).returncode == 0


def test_ports_are_judged_in_the_boxs_own_namespace(names: tuple[str, str], tmp_path: Path) -> None:
    file = tmp_path / "box.toml"
    write_box(file, make_box_text(Wish(name="box-n", stack="reference", netns=names[0], folder=tmp_path / "box-n")))
    missing = run("check", "--box", str(file))
    assert missing.returncode == 1
    assert f"bv3-box netns create {names[0]}" in missing.stdout
    assert run("netns", "create", names[0]).returncode == 0
    port = load_box(file).ports.http
    taking = f"import socket, time; s = socket.create_server(('127.0.0.1', {port})); print(flush=True); time.sleep(60)"

    def check() -> subprocess.CompletedProcess[str]:
        return run("check", "--box", str(file))

    with ExitStack() as held:
        with suppress(OSError):  # somebody else's, then: as good for us
            held.enter_context(socket.create_server(("127.0.0.1", port)))
        fit = check()
        assert fit.returncode == 0, fit.stdout
        inside = ["ip", "netns", "exec", names[0], sys.executable, "-c", taking]
        taker = held.enter_context(subprocess.Popen(inside, stdout=subprocess.PIPE))
        held.callback(taker.kill)
        assert taker.stdout is not None
        taker.stdout.readline()
        refused = check()
        assert refused.returncode == 1
        assert f"taken: {port} (http) by pid {taker.pid}" in refused.stdout


def test_a_box_whose_namespace_went_with_a_reboot_is_ended_and_shown_and_not_booted(
    names: tuple[str, str], tmp_path: Path
) -> None:
    file = tmp_path / "box.toml"
    write_box(file, make_box_text(Wish(name="box-n", stack="reference", netns=names[0], folder=tmp_path / "box-n")))
    (tmp_path / "box-n").mkdir()
    down = run("down", "--box", str(file))
    assert (down.returncode, down.stdout) == (0, "box box-n is down\n"), down.stderr
    assert run("status", "--box", str(file)).returncode == 3, "it is not up"
    refused = run("up", "dry", "--box", str(file))
    assert refused.returncode == 2
    assert f"bv3-box netns create {names[0]}" in refused.stderr


ENTERING_TWICE = """
import os, sys, threading
from workers.netns import enter
outside = os.stat("/proc/self/ns/net").st_ino
enter(sys.argv[1])
inside = os.stat("/proc/self/ns/net").st_ino
waiting = threading.Event()
thread = threading.Thread(target=waiting.wait)
thread.start()
try:
    enter(sys.argv[1])
    assert os.stat("/proc/self/ns/net").st_ino == inside == os.stat(f"/run/netns/{sys.argv[1]}").st_ino != outside
    enter(sys.argv[2])
finally:
    waiting.set()
"""


def test_whoever_is_in_a_namespace_may_enter_it_again_and_no_thread_is_left_outside_of_one(
    names: tuple[str, str],
) -> None:
    for name in names:
        assert run("netns", "create", name).returncode == 0
    done = subprocess.run(
        [sys.executable, "-c", ENTERING_TWICE, *names],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
        timeout=60,
    )
    assert "RuntimeError: a network namespace is entered before any thread is started" in done.stderr, done.stderr


def test_who_may_not_enter_is_told_so(names: tuple[str, str], tmp_path: Path) -> None:
    assert run("netns", "create", names[0]).returncode == 0
    entering = f"import os\nfrom workers.netns import enter\nos.setuid(65534)\nenter({names[0]!r})"
    done = subprocess.run(
        [sys.executable, "-c", entering], capture_output=True, text=True, cwd=ROOT, check=False, timeout=60
    )
    assert "UsageError: entering a network namespace needs root" in done.stderr, (done.stderr, tmp_path)


@dataclass(slots=True)
class Farm:
    """An embedded farm without boxes of its own, in a home of its own, and what this test started."""

    folder: Path
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def call(self, module: str, *words: str, timeout_s: float = 120) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self._command(module, *words),
            env=self._environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout_s,
        )

    def start(self, log: str, module: str, *words: str) -> subprocess.Popen[bytes]:
        with (self.folder / log).open("ab") as file:
            command = self._command(module, *words)
            process = subprocess.Popen(command, env=self._environment, cwd=self.folder, stdout=file, stderr=file)
        self.started.append(process)
        return process

    def admit(self, name: str, namespace: str) -> Path:
        file = self.folder / f"{name}.toml"
        words = ("--netns", namespace, "--folder", str(self.folder / name), "--out", str(file))
        done = self.call("infra.cli", "admit", name, *words)
        assert done.returncode == 0, done.stderr
        return file

    def close(self) -> None:
        for process in self.started:
            process.terminate()
        for process in self.started:
            try:
                process.wait(timeout=60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        with suppress(subprocess.TimeoutExpired):
            self.call("infra.cli", "down", "--force")
        credentials = FarmFiles(home=FarmHome(root=self.folder / "home")).credentials
        if credentials.exists():
            farm_id = load_credentials(credentials).farm_id
            end_marked(farm_id)
            shutil.rmtree(outside_folder(self.folder / "home", farm_id), ignore_errors=True)
        shutil.rmtree(self.folder)

    @property
    def _environment(self) -> dict[str, str]:
        return {**os.environ, "BV3_HOME": str(self.folder / "home"), "PYTHONPATH": str(ROOT)}

    def _command(self, module: str, *words: str) -> list[str]:
        return [sys.executable, "-P", "-m", module, *words]


@pytest.fixture
def farm(names: tuple[str, str]) -> Iterator[Farm]:
    """Ends before the namespaces do."""
    assert names
    made = Farm(folder=Path(tempfile.mkdtemp(prefix="bv3-netns-")))
    try:
        yield made
    finally:
        made.close()


def holds_the_lock(process: subprocess.Popen[bytes]) -> bool:
    """Whether the stack's lock is bound in the process's own network namespace."""
    return "@bv3-stack\n" in Path(f"/proc/{process.pid}/net/unix").read_text("ascii", errors="replace")


@pytest.mark.xdist_group("quiet")
def test_two_namespaces_are_two_boxes_with_the_same_ports_that_work_for_one_sweep(
    names: tuple[str, str], farm: Farm, wait_until: Wait
) -> None:
    up = farm.call("infra.cli", "up", "--boxes", "0")
    assert up.returncode == 0, up.stderr
    files = []
    for box, namespace in zip(("ns-a", "ns-b"), names, strict=True):
        assert run("netns", "create", namespace).returncode == 0
        files.append(farm.admit(box, namespace))
    first, second = map(load_box, files)
    assert first.ports == second.ports
    boxes = [farm.start(f"{file.stem}.log", "workers.cli", "work", "--box", str(file)) for file in files]
    wait_until(lambda: all(holds_the_lock(box) for box in boxes), "both hold the lock of their namespace", 60)
    began = farm.start(
        "sweep.log", "scheduler.cli", "c7", "--n", "2", "--site", "x", "--site", "reddit", "--boxes", "0"
    )
    assert began.wait(timeout=300) == 0, (farm.folder / "sweep.log").read_text()
    assert all(holds_the_lock(box) for box in boxes), "both did to the end"
    [exported] = (farm.folder / "results").glob("*.jsonl")
    rows = [json.loads(line) for line in exported.read_text("utf-8").splitlines()]
    assert len(rows) == 4
    assert {row["box"] for row in rows} == {"ns-a", "ns-b"}
    assert {row["bucket"] for row in rows} <= {"ok", "not_measurable"}
    refused = run("netns", "delete", names[0])
    assert refused.returncode == 3, "the box lives in it"
    for process in boxes:
        process.send_signal(signal.SIGTERM)
    assert [box.wait(timeout=60) for box in boxes] == [0, 0]
    for name in names:
        assert run("netns", "delete", name).returncode == 0, [psutil.Process(pid) for pid in find_processes(name)]
