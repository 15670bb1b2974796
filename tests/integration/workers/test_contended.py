"""A box that is disturbed within a sweep: nothing of it counts against the product, and it goes on by itself."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest

from broker.types import Bucket, Family, Mode
from grader.storing import grade_pending
from workers.boxfile import load_box
from workers.clock import note_offset
from workers.conditions import LOOKED_AT, Answer
from workers.machine import list_listeners
from workers.preflight import Preflight, Refusal
from workers.processes import MARK, ProcessBook
from workers.stack.driver import facts_path
from workers.stack.facts import read_facts
from workers.workplace import make_preflight

ROOT = Path(__file__).resolve().parents[3]
# One box for all of them: they must not be shared out between test processes.
pytestmark = pytest.mark.xdist_group("contended_box")

_STARTED = (
    "select a.id, a.state, a.started_at, a.finished_at, v.bucket, v.rule from attempts a"
    " join site_runs r on r.id = a.run_id left join verdicts v on v.attempt_id = a.id"
    " where r.sweep_id = :sweep order by a.id"
)


@pytest.fixture(scope="module")
def foreign_port(free_port: Callable[[], int]) -> int:
    return free_port()


@pytest.fixture(scope="module")
def box(farm: Any, foreign_port: int) -> Any:
    farm.dispatch()
    made = farm.add_box("box-a", foreign=(foreign_port,))
    made.start()
    made.wait_until(lambda: farm.phase_of("box-a") == "ready", "ready")
    return made


@pytest.fixture
def preflight(box: Any) -> Iterator[Preflight]:
    """The box's own checks, asked in this process."""
    loaded = load_box(box.file)
    with make_preflight(loaded, read_facts(facts_path(loaded))) as made:
        yield made


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """A sweep under way, looked at through the farm's rows; looking grades what has come in."""

    farm: Any
    box: Any
    id: str
    runs: int

    def list_attempts(self) -> list[Any]:
        grade_pending(self.farm.engine)
        found: list[Any] = self.farm.ask(_STARTED, sweep=self.id)
        return found

    def wait_until_running(self) -> None:
        """One run is done, and another is with the product."""
        self.box.wait_until(lambda: self._count("a.state <> 'started'") >= 1, "one is done")
        self.box.wait_until(lambda: self._count("a.state = 'started' and a.phase = 'wait'") == 1, "one runs")

    def wait_until_over(self) -> list[Any]:
        """Every run has reached: what was disturbed was done again. All attempts, disturbed ones included."""

        def is_over() -> bool:
            return [row.bucket for row in self.list_attempts()].count(Bucket.OK) == self.runs

        self.box.wait_until(is_over, "every run has reached", 180)
        return self.list_attempts()

    def _count(self, condition: str) -> int:
        mine = "select count(*) from attempts a join site_runs r on r.id = a.run_id where r.sweep_id = :id"
        return int(self.farm.ask(f"{mine} and {condition}", id=self.id)[0][0])


def begin_sweep(farm: Any, box: Any, *, trials: int = 4) -> Sweep:
    sweep = Sweep(farm=farm, box=box, id=farm.add_sweep("x", trials=trials), runs=trials)
    sweep.wait_until_running()
    return sweep


def wait_until_contended(sweep: Sweep, reason: str) -> None:
    """The box says so, and begins no run from then on, while the dispatcher would have it begin them."""
    farm, box = sweep.farm, sweep.box
    begun = len(sweep.list_attempts())
    box.wait_until(lambda: farm.phase_of(box.name) == "contended", "contended", 60)
    contended = sweep.list_attempts()
    # the one that ran, and at most one that had just passed its preflight
    assert len(contended) <= begun + 1
    said = farm.events_of(box.name, "contended")[-1].facts
    assert said["reason"] == reason
    time.sleep(1.5)
    assert len(sweep.list_attempts()) == len(contended)


def assert_nothing_held_against_the_product(attempts: list[Any], *infra: Bucket) -> None:
    """Disturbed attempts are the instrument's, in these buckets alone, and at least one was disturbed."""
    families = [Bucket(row.bucket).family for row in attempts]
    assert Family.PRODUCT not in families, [(row.bucket, row.rule) for row in attempts]
    disturbed = {Bucket(row.bucket) for row in attempts if Bucket(row.bucket).family is Family.INFRA}
    assert disturbed, "the run that was under way was disturbed"
    assert disturbed <= set(infra)


@contextmanager
def listening(port: int) -> Iterator[None]:
    with socket.create_server(("127.0.0.1", port)):
        yield


@contextmanager
def second_backend(folder: Path, port: int, *, mark: str | None) -> Iterator[int]:
    """A backend with the very words of the box's own, on another port; its pid."""
    environment = {
        **os.environ,
        "OPENSWARM_PORT": str(port),
        "OPENSWARM_DATA_ROOT": str(folder),
        "OSW_SENDSCRIPT_DRYRUN": "1",
        **({MARK: mark} if mark else {}),
    }
    argv = [sys.executable, "-m", "infra.reference", "backend"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(argv, cwd=ROOT, env=environment, stdout=log, stderr=log, start_new_session=True)
    try:
        deadline = time.monotonic() + 60
        while b"Uvicorn running" not in (folder / "log").read_bytes():
            assert process.poll() is None, (folder / "log").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        yield process.pid
    finally:
        process.kill()
        process.wait()


def test_listener_on_a_foreign_port_holds_the_box_until_it_is_gone(farm: Any, box: Any, foreign_port: int) -> None:
    sweep = begin_sweep(farm, box)
    with listening(foreign_port):
        wait_until_contended(sweep, "foreign")
        said = farm.events_of(box.name, "contended")[-1].facts["said"]
        assert f"pid {os.getpid()} (" in said
        assert f"port {foreign_port}" in said
        by_hand = look_by_hand(box)
        assert by_hand.returncode == 1
        assert "refused" in by_hand.stdout
    assert_nothing_held_against_the_product(sweep.wait_until_over(), Bucket.INFRA_CONTENDED)
    box.wait_until(lambda: farm.events_of(box.name, "fit"), "the event that it is fit")
    assert float(farm.events_of(box.name, "fit")[-1].facts["lost_s"]) > 1
    box.wait_until(lambda: farm.phase_of(box.name) == "ready", "ready")
    assert look_by_hand(box).returncode == 0


def test_second_backend_holds_the_box_until_it_is_gone(
    farm: Any, box: Any, tmp_path: Path, free_port: Callable[[], int]
) -> None:
    with ExitStack() as started:
        sweep = begin_sweep(farm, box, trials=5)
        pid = started.enter_context(second_backend(tmp_path, free_port(), mark=str(box.folder)))
        wait_until_contended(sweep, "backend_count")
        assert f"pid {pid} (" in farm.events_of(box.name, "contended")[-1].facts["said"]
    assert_nothing_held_against_the_product(sweep.wait_until_over(), Bucket.INFRA_CONTENDED)


def test_backend_of_a_neighbour_with_its_own_block_of_ports_disturbs_nobody(
    farm: Any, box: Any, preflight: Preflight, tmp_path: Path, free_port: Callable[[], int]
) -> None:
    with second_backend(tmp_path, free_port(), mark="/another/box"):
        sweep = begin_sweep(farm, box, trials=2)
        attempts = sweep.wait_until_over()
    assert [row.bucket for row in attempts] == [Bucket.OK, Bucket.OK]
    for record in farm.records_of(sweep.id):
        assert record.errors == ()
        sessions = [record.parent.session_id, *(child.session_id for child in record.children)]
        assert preflight.product.list_left(sessions=sessions, cards=record.cards) == ()


def test_router_that_hangs_holds_the_box_until_it_answers(farm: Any, box: Any) -> None:
    sweep = begin_sweep(farm, box)
    router = box.find_part("router")
    os.kill(router.pid, signal.SIGSTOP)
    try:
        wait_until_contended(sweep, "router")
        attempts = sweep.wait_until_over()
    finally:
        if router.is_alive():
            os.kill(router.pid, signal.SIGCONT)
    assert_nothing_held_against_the_product(attempts, Bucket.INFRA_ROUTER)


def test_every_limit_that_is_passed_is_named_at_once_and_nothing_is_changed(
    box: Any, tmp_path: Path, wait_until: Any
) -> None:
    ended = subprocess.Popen(["/bin/true"])
    wait_until(lambda: psutil.Process(ended.pid).status() == psutil.STATUS_ZOMBIE, "a process to reap")
    limits = {
        "free_mb": 10**9,
        "free_inodes": 10**15,
        "shm_mb": 10**9,
        "memory_mb": 10**9,
        "zombies": 0,
        "load_per_core": 1e-9,
    }
    strict = tmp_path / "box.toml"
    lines = "\n".join(f"{name} = {value}" for name, value in limits.items())
    strict.write_text(f"{box.file.read_text()}\n[limits]\n{lines}\n")
    try:
        looked = look_by_hand(box, "--json", file=strict)
    finally:
        ended.wait()
    told = json.loads(looked.stdout)
    assert looked.returncode == 1
    assert not told["fit"]
    assert told["refused"] == ["space", "inodes", "shm", "memory", "zombies", "load"]
    assert [item["reason"] for item in told["conditions"]] == list(LOOKED_AT)
    said = {item["reason"]: item["said"] for item in told["conditions"]}
    assert "1000000000 are needed" in said["space"]
    assert "0 at most" in said["zombies"]


def test_fit_box_is_told_with_its_numbers(box: Any) -> None:
    looked = look_by_hand(box)
    assert looked.returncode == 0
    assert "box-a: fit (looked for " in looked.stdout
    assert f"pid {box.find_part('backend').pid} listens on port {box.read_port('backend')}" in looked.stdout
    assert len(looked.stdout.splitlines()) == len(LOOKED_AT) + 1


def test_log_that_is_moved_away_keeps_runs_off_until_it_is_back(farm: Any, box: Any) -> None:
    log = box.folder / "stack" / "backend.log"
    away = log.with_name("moved.log")
    log.rename(away)
    try:
        sweep = Sweep(farm=farm, box=box, id=farm.add_sweep("x"), runs=1)
        box.wait_until(lambda: farm.phase_of(box.name) == "contended", "contended", 30)
        assert farm.events_of(box.name, "contended")[-1].facts["reason"] == "log"
        assert sweep.list_attempts() == []
    finally:
        away.rename(log)
    assert [row.bucket for row in sweep.wait_until_over()] == [Bucket.OK]


def test_build_and_mode_that_differ_from_the_booted_ones_refuse(box: Any, preflight: Preflight, tmp_path: Path) -> None:
    assert preflight.check(Mode.DRY).mode is Mode.DRY
    with pytest.raises(Refusal, match=r"^mode: the backend runs dry, the order wants live"):
        preflight.check(Mode.LIVE)
    checkout = tmp_path / "checkout"
    subprocess.run(["git", "init", "-q", str(checkout)], check=True)
    (checkout / ".git" / "HEAD").write_text("31a08c2300000000000000000000000000000000\n")
    changes: list[tuple[dict[str, Any], str]] = [
        ({"backend_executable": "/usr/bin/python2"}, "build"),
        ({"backend_folder": "/elsewhere"}, "build"),
        ({"backend_words": ("-m", "infra.reference", "backend", "--other")}, "build"),
        ({"checkout": str(checkout), "revision": "21a08c2300000000000000000000000000000000"}, "build"),
        ({"log_file": str(tmp_path / "none.log")}, "log"),
        ({"backend_port": box.read_port("router")}, "backend"),
        ({"audit_card": "browser-none00000"}, "renderer"),
    ]
    for change, reason in changes:
        other = dataclasses.replace(preflight, facts=dataclasses.replace(preflight.facts, **change))
        with pytest.raises(Refusal) as refused:
            other.check(Mode.DRY)
        assert refused.value.reason == reason, change


def test_preflight_of_a_fit_box_takes_tens_of_milliseconds(preflight: Preflight) -> None:
    durations_s = []
    for _ in range(15):
        begun_s = time.perf_counter()
        preflight.check(Mode.DRY)
        durations_s.append(time.perf_counter() - begun_s)
    print(f"median {sorted(durations_s)[7] * 1000:.1f} ms, least {min(durations_s) * 1000:.1f} ms")
    # of a machine that others use too
    assert min(durations_s) < 0.3


def test_backend_beside_ours_refuses_where_the_box_has_the_namespace_to_itself(
    preflight: Preflight, tmp_path: Path, free_port: Callable[[], int]
) -> None:
    alone = dataclasses.replace(preflight, shares_namespace=False)
    with second_backend(tmp_path, free_port(), mark=None):
        # other tests' may run, too, and not all of them are named
        with pytest.raises(Refusal, match=r"^backend_count: \d+ backends run beside ours: pid \d+ \("):
            alone.check(Mode.DRY)
        preflight.check(Mode.DRY)


def test_router_that_is_another_process_than_ours_is_refused(
    box: Any, preflight: Preflight, free_port: Callable[[], int]
) -> None:
    port = free_port()
    argv = [sys.executable, "-m", "infra.reference", "router", "--port", str(port)]
    other = subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        box.wait_until(lambda: list_listeners({port}) != (), "the other router")
        facts = dataclasses.replace(preflight.facts, router_url=f"http://127.0.0.1:{port}")
        with pytest.raises(Refusal, match=f"^router: port {port} is listened on by pid {other.pid}"):
            dataclasses.replace(preflight, facts=facts).check(Mode.DRY)
        adopted = dataclasses.replace(facts, router_adopted=True)
        assert dataclasses.replace(preflight, facts=adopted).check(Mode.DRY).probe.answered
    finally:
        other.kill()
        other.wait()


def test_skewed_clock_refuses_when_it_is_certain(box: Any, preflight: Preflight, tmp_path: Path) -> None:
    here = preflight.read_clock()
    for skew_s, is_refused in ((3600, True), (-3, True), (1, False)):
        folder = tmp_path / str(skew_s)
        shutil.copytree(box.folder, folder, ignore=lambda _, names: [name for name in names if name != "processes"])
        note_offset(folder, here + timedelta(seconds=skew_s), here, here)
        skewed = dataclasses.replace(preflight, book=ProcessBook(folder=folder))
        refused = [item for item in skewed.list_conditions(Mode.DRY) if item.answer is Answer.REFUSED]
        assert [item.reason for item in refused] == (["clock"] if is_refused else [])


def look_by_hand(box: Any, *words: str, file: Path | None = None) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "workers.cli", "preflight", "--box", str(file or box.file), *words]
    return subprocess.run(argv, capture_output=True, text=True, cwd=ROOT, check=False)
