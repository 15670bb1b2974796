"""A card driven by hand while runs go on: neither knows of the other."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from broker.types import Seen

ROOT = Path(__file__).resolve().parents[3]


def run(box: Any, *words: str) -> subprocess.CompletedProcess[str]:
    command, *rest = words
    return subprocess.run(
        [sys.executable, "-m", "workers.cli", command, "--box", str(box.file), *rest],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
        timeout=120,
    )


def test_pages_are_read_by_hand_while_runs_go_on_and_no_run_notices(farm: Any, wait_until: Any) -> None:
    box = farm.add_box("box-by-hand")
    box.start()
    box.wait_until(lambda: farm.phase_of("box-by-hand") == "ready", "the box is up", 120)
    sweep = farm.add_sweep("x", trials=4)
    farm.dispatch()
    box.wait_until(lambda: farm.phase_of("box-by-hand") == "running", "a run begins", 60)
    during: list[bool] = []
    while len(farm.records_of(sweep)) < 4 and len(during) < 40:
        running = farm.phase_of("box-by-hand") == "running"
        done = run(box, "read", "https://x.com/home", "The last screw of the telescope")
        assert done.returncode == 0, done.stderr
        assert "browser-raw00000" in done.stderr
        during.append(running)
    assert any(during), "no page was read while a run went on"
    wait_until(lambda: len(farm.records_of(sweep)) >= 4, "every run's record", 120)
    for record in farm.records_of(sweep):
        assert [error.message for error in record.errors] == []
        assert record.reads[-1].payload is Seen.SEEN
        assert record.reads[-1].payload_count == 1
        assert "browser-raw00000" not in record.cards
    assert farm.events_of("box-by-hand", "contended") == []
    refused = run(box, "probe", 'Go to https://x.com/ and publish a post with exactly this text: "a"', "text")
    assert refused.returncode == 3
    assert "works its queue" in refused.stderr
    assert box.stop() == 0
