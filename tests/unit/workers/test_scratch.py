"""What killed programs leave in a box's temporary folder goes with the box, or with its successor."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from workers.scratch import drop_scratch, make_scratch


@pytest.fixture(autouse=True)
def _own_temporary_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    yield
    tempfile.tempdir = None


def test_what_a_child_leaves_is_gone_with_the_box(tmp_path: Path) -> None:
    box = tmp_path / "box"
    box.mkdir()
    made = make_scratch(box)
    code = "import tempfile; print(tempfile.mkdtemp())"
    left = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    assert Path(left).parent == made
    drop_scratch(box)
    assert not made.exists()
    assert list(box.iterdir()) == []


def test_a_successor_removes_what_a_killed_predecessor_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    box = tmp_path / "box"
    box.mkdir()
    first = make_scratch(box)
    # the successor has the environment of its starter, not of its predecessor
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    second = make_scratch(box)
    assert not first.exists()
    assert second.is_dir()


def test_a_note_that_names_something_else_removes_nothing(tmp_path: Path) -> None:
    box = tmp_path / "box"
    box.mkdir()
    (tmp_path / "precious").mkdir()
    for precious in (tmp_path / "precious", tmp_path / "none"):
        (box / "scratch").write_text(str(precious))
        drop_scratch(box)
    assert (tmp_path / "precious").is_dir()
