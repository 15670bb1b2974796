"""One real box on the reference stack, from its start to the last process gone. The tests follow one another."""

from __future__ import annotations

import dataclasses
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from broker.app import make_app
from broker.publish import Publisher
from broker.store import dispatching
from broker.store.engine import begin
from broker.types import Phase, Seen

ROOT = Path(__file__).resolve().parents[3]
# One box for all of them: they must not be shared out between test processes.
pytestmark = pytest.mark.xdist_group("one_box")


@pytest.fixture(scope="module")
def box_of_module(farm: Any) -> Any:
    farm.dispatch()
    return farm.add_box("box-a")


@pytest.fixture
def box(farm: Any, box_of_module: Any) -> Any:
    """The box at work, started anew when the test before ended it."""
    if box_of_module.process is None or box_of_module.process.poll() is not None:
        box_of_module.start()
        box_of_module.wait_until(lambda: farm.phase_of("box-a") == "ready", "ready")
    return box_of_module


def run_sweep(farm: Any, box: Any, *sites: str, trials: int = 1, timeout_s: float = 60.0) -> list[Any]:
    sweep = farm.add_sweep(*sites, trials=trials)
    box.wait_until(lambda: len(farm.records_of(sweep)) == trials * len(sites), "all records", timeout_s)
    found: list[Any] = farm.records_of(sweep)
    return found


def test_order_becomes_a_record_with_the_payload_read_on_the_page(farm: Any, box: Any) -> None:
    for record in run_sweep(farm, box, "x", "youtube", "reddit"):
        *earlier, read = record.reads
        assert {first.card for first in earlier} == {read.card}, "the same card twice, or more where one read failed"
        assert (read.payload, read.payload_count) == (Seen.SEEN, 1)
        assert record.payload == read.editables[0].text.strip()
        assert record.prompt.count(f'"{record.payload}"') == 1
        assert read.card in record.cards
        assert read.offset_ms + read.duration_ms < 2500
        assert record.errors == ()
        assert [span.phase for span in record.phases] == list(Phase)
        assert record.parent.status == "completed"
        assert record.parent.ended_by == "event"
        assert [row.session_id for row in record.metrics] == [child.session_id for child in record.children]
        assert record.probe_before.answered
        assert record.probe_after.answered
        assert record.product_revision.startswith("reference-")
        assert {ref.name for ref in record.evidence} == {"log", "screenshot", "truth"}


def test_walls_are_read_on_the_page(farm: Any, box: Any) -> None:
    reads = {record.site: record.reads[0] for record in run_sweep(farm, box, "gmail", "substack", "tiktok")}
    assert reads["gmail"].url.startswith("https://accounts.google.com/")
    assert reads["substack"].password_form is Seen.SEEN
    assert reads["tiktok"].challenge is Seen.SEEN
    assert all(read.payload is Seen.ABSENT for read in reads.values())


def test_slice_is_the_run_s_own_and_stored_under_its_hash(farm: Any, box: Any) -> None:
    [record] = run_sweep(farm, box, "x")
    [row] = farm.ask("select size from evidence where sha256 = :sha256", sha256=record.log.sha256)
    assert row.size == record.log.end - record.log.start
    with Path(record.log.path).open("rb") as file:
        file.seek(record.log.start)
        text = file.read(row.size).decode()
    assert set(re.findall(r"session ([0-9a-f]{32})", text)) <= {record.parent.session_id}
    assert f"session {record.parent.session_id} done" in text


def test_only_the_renderer_opens_the_dashboard_socket(farm: Any, box: Any) -> None:
    log = box.folder / "stack" / "backend.log"
    before = log.read_text().count('"WebSocket /ws/agents/')
    run_sweep(farm, box, "x", "gmail")
    after = log.read_text()
    assert after.count('"WebSocket /ws/agents/') == before + 2
    assert after.count('"WebSocket /ws/dashboard') == 1


def test_finished_work_is_acknowledged_and_leaves_no_evidence_on_the_box(farm: Any, box: Any) -> None:
    run_sweep(farm, box, "x")
    box.wait_until(lambda: not list((box.folder / "evidence").iterdir()), "evidence dropped", 15)


def test_second_supervisor_is_refused_by_name_and_the_first_works_on(farm: Any, box: Any, tmp_path: Path) -> None:
    begun = time.monotonic()
    same_folder = subprocess.run(
        [sys.executable, "-m", "workers.cli", "work", "--box", str(box.file)],
        capture_output=True, text=True, cwd=ROOT, check=False,
    )  # fmt: skip
    other_folder = tmp_path / "box.toml"
    other_folder.write_text(box.file.read_text().replace(str(box.folder), str(tmp_path / "other")))
    same_box = subprocess.run(
        [sys.executable, "-m", "workers.cli", "work", "--box", str(other_folder)],
        capture_output=True, text=True, cwd=ROOT, check=False,
    )  # fmt: skip
    # two starts of Python and two refusals, on a machine that may be busy
    assert time.monotonic() - begun < 90
    for refused in (same_folder, same_box):
        assert refused.returncode == 3
        assert f"pid {box.process.pid}" in refused.stderr
        assert "Traceback" not in refused.stderr
    [record] = run_sweep(farm, box, "x")
    assert record.errors == ()


def test_phases_are_shown_as_progress_of_the_task(farm: Any, box: Any) -> None:
    shown: list[dict[str, Any]] = []
    app = make_app(farm.broker_url)
    with app.connection_for_read() as line:
        receiver = app.events.Receiver(line, handlers={"task-progress": shown.append})
        events = receiver.itercapture(limit=None, timeout=30, wakeup=False)
        next(events)  # the worker's heartbeat: we hear
        sweep = farm.add_sweep("x")
        while not shown or shown[-1]["result"] != Phase.TEARDOWN:
            next(events)
    assert [event["result"] for event in shown] == [phase for phase in Phase if phase is not Phase.START]
    assert {event["uuid"] for event in shown} == {f"{sweep}.x#1.d1"}
    box.wait_until(lambda: len(farm.records_of(sweep)) == 1, "the record")


def test_backend_that_dies_in_mid_run_is_in_the_record_and_ends_the_run_soon(farm: Any, box: Any) -> None:
    sweep = farm.add_sweep("x")
    wait_for_phase(farm, box, sweep, "wait")
    os.kill(box.find_part("backend").pid, signal.SIGKILL)
    box.wait_until(lambda: len(farm.records_of(sweep)) == 1, "the record", 40)
    [record] = farm.records_of(sweep)
    assert ("part_restarted", "backend") in {(event.kind, event.facts.get("part")) for event in record.events}
    assert not record.budget_used
    assert record.parent.status in {"stopped", "gone"}


def test_backend_that_dies_between_runs_is_back_for_the_next(farm: Any, box: Any) -> None:
    os.kill(box.find_part("backend").pid, signal.SIGKILL)
    [record] = run_sweep(farm, box, "x")
    assert record.reads[0].payload is Seen.SEEN
    box.wait_until(lambda: len(farm.events_of("box-a", "part_restarted")) >= 1, "event", 15)
    log = (box.folder / "stack" / "backend.log").read_text()
    assert re.search(r"^\[stack\] BACKEND RESTARTED at \d\d:\d\d:\d\d$", log, re.MULTILINE)


def test_box_without_a_router_refuses_without_an_attempt_and_heals(farm: Any, box: Any) -> None:
    os.kill(box.find_part("router").pid, signal.SIGSTOP)
    sweep = farm.add_sweep("x")
    box.wait_until(lambda: farm.phase_of("box-a") == "contended", "contended", 15)
    attempts = "select count(*) from attempts a join site_runs r on r.id = a.run_id where r.sweep_id = :sweep"
    assert farm.ask(attempts, sweep=sweep)[0][0] == 0
    assert farm.events_of("box-a", "released")[-1].facts["reason"].startswith("router:")
    box.wait_until(lambda: len(farm.records_of(sweep)) == 1, "a record after healing", 40)
    assert farm.ask(attempts, sweep=sweep)[0][0] == 1
    assert farm.events_of("box-a", "healed")[-1].facts["part"] == "router"


def test_run_beyond_its_wall_limit_is_killed_with_its_group_and_done_again(farm: Any, box: Any) -> None:
    worker = box.find_part("worker")
    with farm.stopped_dispatcher():
        sweep = farm.add_sweep("x")
        hand_out(farm, sweep, wall_limit_s=2.0)
    wait_for_phase(farm, box, sweep, "wait")
    # so that the run can't end by itself
    os.kill(box.find_part("renderer").pid, signal.SIGSTOP)
    box.wait_until(lambda: box.find_part("worker").pid != worker.pid, "another worker", 10)
    assert not [process for process in box.list_processes() if os.getpgid(process.pid) == worker.pid]
    box.wait_until(lambda: len(farm.records_of(sweep)) == 1, "a record of the second attempt", 90)
    [record] = farm.records_of(sweep)
    assert (record.attempt_no, record.errors, record.reads[0].payload) == (2, (), Seen.SEEN)
    assert "beyond its wall limit" in farm.events_of("box-a", "worker_killed")[-1].facts["reason"]
    assert farm.events_of("box-a", "healed")[-1].facts["part"] == "renderer"


def test_asked_to_end_it_finishes_its_run_stores_the_record_and_leaves_nothing(farm: Any, box: Any) -> None:
    sweep = farm.add_sweep("x", trials=3)
    wait_for_phase(farm, box, sweep, "wait")
    assert box.stop() == 0
    assert len(farm.records_of(sweep)) == 1
    assert farm.records_of(sweep)[0].errors == ()
    assert box.list_processes() == []
    assert farm.phase_of("box-a") == "gone"
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", box.read_port("backend")), timeout=1)
    farm.cancel(sweep)


def test_supervisor_killed_in_mid_run_leaves_no_run_alive_and_its_successor_takes_over(
    farm: Any, box: Any, wait_until: Any
) -> None:
    sweep = farm.add_sweep("x")
    wait_for_phase(farm, box, sweep, "wait")
    worker, backend = box.find_part("worker"), box.find_part("backend")
    box.process.kill()
    box.process.wait()
    wait_until(lambda: not worker.is_alive(), "the worker ends with its supervisor", 5)
    assert backend.is_alive()
    box.start()
    box.wait_until(lambda: len(farm.records_of(sweep)) == 1, "a record of the second attempt", 90)
    assert not backend.is_alive()
    assert farm.records_of(sweep)[0].attempt_no == 2
    assert farm.events_of("box-a", "died")[-1].facts["run"] == "x#1"


def test_told_twice_it_stops_at_once(farm: Any, box: Any) -> None:
    sweep = farm.add_sweep("x")
    wait_for_phase(farm, box, sweep, "wait")
    box.process.send_signal(signal.SIGTERM)
    box.wait_until(lambda: farm.phase_of("box-a") in {"draining", "gone"}, "draining", 10)
    box.process.send_signal(signal.SIGTERM)
    assert box.process.wait(20) in {0, 130}
    assert box.list_processes() == []
    farm.cancel(sweep)


def wait_for_phase(farm: Any, box: Any, sweep: str, phase: str) -> None:
    """An attempt of the sweep is in this phase."""
    started = (
        "select count(*) from attempts a join site_runs r on r.id = a.run_id"
        " where a.state = 'started' and a.phase = :phase and r.sweep_id = :sweep"
    )
    box.wait_until(lambda: farm.ask(started, phase=phase, sweep=sweep)[0][0] == 1, f"an attempt in {phase}", 30)


def hand_out(farm: Any, sweep: str, **changes: Any) -> Any:
    """The sweep's first run is on the box's queue, with an order that differs from the dispatcher's."""
    run_id = farm.ask("select id from site_runs where sweep_id = :sweep", sweep=sweep)[0].id
    with begin(farm.engine) as connection:
        handed = dispatching.hand_out(connection, run_id=run_id, box="box-a", slot=1)
    assert handed is not None
    order = dataclasses.replace(handed.order, **changes)
    Publisher(app=make_app(farm.broker_url)).send_run("box-a", order)
    return order
