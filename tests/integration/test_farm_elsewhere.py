"""A farm whose services run elsewhere: started part by part, by the command lines that a person would type."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def start(tmp_path: Path, database: str, valkey: str) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Start a bv3 command against this farm; all of them are asked to end, and end, after the test."""
    environment = os.environ | {"BV3_BROKER_URL": valkey, "BV3_DATABASE_URL": database}
    started: list[subprocess.Popen[bytes]] = []

    def begin(module: str, *arguments: str) -> subprocess.Popen[bytes]:
        with (tmp_path / f"{module}.log").open("ab") as log:
            command = [sys.executable, "-P", "-m", module, *arguments]
            started.append(subprocess.Popen(command, env=environment, cwd=tmp_path, stdout=log, stderr=log))
        return started[-1]

    yield begin
    for process in reversed(started):
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
    for process in reversed(started):
        process.wait(timeout=60)


def test_a_box_that_was_admitted_works_for_a_sweep_that_is_only_enqueued_and_followed(
    start: Callable[..., subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    assert start("infra.cli", "migrate").wait(timeout=60) == 0
    file = tmp_path / "box.toml"
    admitted = ("admit", "box-a", "--folder", str(tmp_path / "box-a"), "--out", str(file))
    assert start("infra.cli", *admitted).wait(timeout=60) == 0, (tmp_path / "infra.cli.log").read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert start("infra.cli", *admitted).wait(timeout=60) == 2, "a box file is not written over"
    start("scheduler.cli", "dispatcher")
    start("grader.cli", "work")
    start("workers.cli", "work", "--box", str(file))
    refused = start("scheduler.cli", "c7", "--boxes", "2")
    assert refused.wait(timeout=60) == 2
    sweep = start("scheduler.cli", "c7", "--n", "1", "--site", "x", "--site", "gmail")
    said = tmp_path / "scheduler.cli.log"
    assert sweep.wait(timeout=120) == 0, said.read_text()
    [rows] = (tmp_path / "results").glob("*.jsonl")
    found = {row["site"]: row for row in map(json.loads, rows.read_text("utf-8").splitlines())}
    assert {site: row["bucket"] for site, row in found.items()} == {"x": "ok", "gmail": "not_measurable"}
    assert {row["box"] for row in found.values()} == {"box-a"}
