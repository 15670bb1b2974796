"""Whoever works on a box's product by hand keeps runs away, and is kept away by one."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from broker.errors import BoxHeldError
from workers.journal import Journal
from workers.occupancy import find_handwork, find_run, is_worked, occupy
from workers.processes import ProcessBook

ROOT = Path(__file__).resolve().parents[3]
HOLD = """
import sys, pathlib
from workers.occupancy import occupy
with occupy(pathlib.Path(sys.argv[1]), "a probe"):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_product_held_by_another_process_is_named_and_free_again_when_that_one_is_killed(tmp_path: Path) -> None:
    assert find_handwork(tmp_path) == ""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        assert find_handwork(tmp_path) == f"a probe by hand (pid {other.pid})"
        with pytest.raises(BoxHeldError, match="a probe works on this box's product"), occupy(tmp_path, "a check"):
            pass
        other.kill()
    assert find_handwork(tmp_path) == ""
    with occupy(tmp_path, "a check"):
        assert (tmp_path / "by-hand.lock").read_text() == f"{os.getpid()} a check"
        assert find_handwork(tmp_path) == "", "one's own hold keeps oneself from nothing"
    assert find_handwork(tmp_path) == ""


def test_run_is_found_from_its_arrival_to_its_record(tmp_path: Path) -> None:
    assert find_run(tmp_path) == ""
    journal = Journal(tmp_path / "journal.sqlite")
    journal.intend(1, 1, nonce="n", sweep="c7-1", name="x#1", since_s=time.monotonic(), wall_limit_s=300)
    assert find_run(tmp_path) == "c7-1 x#1"
    journal.mark_started(1, 1, attempt=7, attempt_no=1)
    assert find_run(tmp_path) == "c7-1 x#1"
    journal.mark_launching(1, 1)
    assert find_run(tmp_path) == "c7-1 x#1"
    journal.mark_recorded(1, 1, record=b"r", evidence=())
    assert find_run(tmp_path) == ""
    journal.close()


def test_order_that_the_farms_silence_left_behind_blocks_nobody(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.sqlite")
    journal.intend(1, 1, nonce="n", sweep="c7-1", name="x#1", since_s=time.monotonic() - 600, wall_limit_s=300)
    assert find_run(tmp_path) == ""
    journal.close()


def test_box_is_worked_while_its_worker_lives(tmp_path: Path) -> None:
    assert not is_worked(tmp_path)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as worker:
        ProcessBook(folder=tmp_path).record("worker", worker.pid)
        assert is_worked(tmp_path)
        worker.kill()
        worker.wait()
        assert not is_worked(tmp_path)
