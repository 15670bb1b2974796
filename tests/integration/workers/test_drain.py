"""`bv3-box drain` and `resume` as a person types them, with no supervisor anywhere."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from broker.store.box_client import BeatAnswer, Hold
from workers.holding import Holding, read_drained

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def box_file(tmp_path: Path) -> Path:
    file = tmp_path / "box.toml"
    kind = 'stack = "reference"\nlane = "stub"\nrenderer = "playwright"\nisolation = "host"\n'
    file.write_text(f'name = "box-a"\nfolder = "{tmp_path}/run"\n{kind}', "utf-8")
    return file


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "workers.cli", *words], capture_output=True, text=True, cwd=ROOT, check=False
    )


def test_a_box_that_is_down_is_drained_and_resumed(box_file: Path, tmp_path: Path) -> None:
    drained = run("drain", "--box", str(box_file), "--reason", "new disk")
    assert (drained.returncode, drained.stderr) == (0, "")
    assert drained.stdout.startswith("box-a: drained")
    assert read_drained(tmp_path / "run") == "new disk"
    resumed = run("resume", "--box", str(box_file))
    assert (resumed.returncode, resumed.stdout) == (0, "box-a: takes runs again\n")
    assert run("resume", "--box", str(box_file)).stdout == "box-a: was not drained\n"


def test_a_drain_without_a_reason_is_refused(box_file: Path, tmp_path: Path) -> None:
    assert run("drain", "--box", str(box_file)).returncode == 2
    empty = run("drain", "--box", str(box_file), "--reason", " ")
    assert empty.returncode == 2
    assert "needs a reason" in empty.stderr
    assert read_drained(tmp_path / "run") is None


def test_a_quarantine_is_not_lifted_by_hand(box_file: Path, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    hold = Hold(id=7, kind="quarantined", reason="three infra attempts in a row: x#1")
    Holding(tmp_path / "run").take(BeatAnswer(answer="hold", holds=(hold,)))
    refused = run("resume", "--box", str(box_file))
    assert refused.returncode == 2
    assert "quarantined: three infra attempts in a row: x#1" in refused.stderr
    assert "a health check that passes on the box" in refused.stderr
    assert "Traceback" not in refused.stderr
