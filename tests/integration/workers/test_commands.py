"""bv3-box as a person types it."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from workers.machine import list_listeners

ROOT = Path(__file__).resolve().parents[3]


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "workers.cli", *words], capture_output=True, text=True, cwd=ROOT, check=False
    )


def test_check_names_the_box_or_its_mistake(farm: Any) -> None:
    box = farm.add_box("box-c")
    good = run("check", "--box", str(box.file))
    assert good.returncode == 0, good.stdout
    assert good.stdout.startswith("box-c: stack reference, renderer playwright, lane stub\n")
    box.file.write_text(box.file.read_text().replace("lane", "lain"))
    bad = run("check", "--box", str(box.file))
    assert bad.returncode == 2
    assert "box.toml:5: lain: unknown key" in bad.stderr
    assert "secret" not in bad.stderr


def test_preflight_without_a_stack_says_so(farm: Any) -> None:
    box = farm.add_box("box-d")
    answer = run("preflight", "--box", str(box.file))
    assert answer.returncode == 3
    assert "no booted stack" in answer.stderr
    assert "Traceback" not in answer.stderr


def test_box_that_can_t_reach_the_farm_says_so_within_seconds(farm: Any, tmp_path: Path) -> None:
    box = farm.add_box("box-e")
    file = tmp_path / "box.toml"
    url = next(line for line in box.file.read_text().splitlines() if line.startswith("database_url"))
    file.write_text(box.file.read_text().replace(url, 'database_url = "postgresql://box_e:pw@127.0.0.1:9/farm"'))
    begun = time.monotonic()
    answer = run("work", "--box", str(file))
    assert answer.returncode == 3
    assert time.monotonic() - begun < 8
    assert "PostgreSQL" in answer.stderr
    assert "pw" not in answer.stderr.split()


def test_port_that_is_taken_is_named_and_nothing_is_left(farm: Any, wait_until: Any) -> None:
    box = farm.add_box("box-f")
    port = box.read_port("router")
    listener = subprocess.Popen([sys.executable, "-m", "infra.reference", "router", "--port", str(port)], cwd=ROOT)
    try:
        wait_until(lambda: is_listened_on(port), "the listener")
        answer = run("work", "--box", str(box.file))
    finally:
        listener.terminate()
        listener.wait()
    assert answer.returncode == 3
    assert f"port {port} (router) of box box-f is taken" in answer.stderr
    assert box.list_processes() == []


def is_listened_on(port: int) -> bool:
    return len(list_listeners({port})) == 1
