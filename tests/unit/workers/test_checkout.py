"""What a checkout lacks, and which revision it is, read from real files and real repositories."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from broker.errors import StackError
from grader.checkout import read_revision as read_the_graders
from workers.boxfile import BoxFile
from workers.stack.checkout import clean_path, find_python, inspect_checkout, read_revision


def git(folder: Path, *words: str) -> str:
    command = ["git", "-c", "user.name=test", "-c", "user.email=test@example.org", *words]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout of one commit, with its backend and no environment."""
    folder = tmp_path / "product"
    (folder / "backend").mkdir(parents=True)
    (folder / "backend" / "main.py").write_text("app = None\n")
    (folder / ".gitignore").write_text(".venv\nnode_modules\n")
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "one")
    return folder


def make_box(checkout: Path, **changes: Any) -> BoxFile:
    plain = {
        "name": "box-a",
        "stack": "openswarm",
        "isolation": "host",
        "renderer": "playwright",
        "lane": "stub",
        "folder": checkout.parent / "run",
        "checkout": checkout,
        **changes,
    }
    return BoxFile.model_validate(plain)


def make_desktop_box(checkout: Path, **changes: Any) -> BoxFile:
    shown = {"renderer": "electron", "pages": "web", "profile": {"policy": "persistent"}}
    return make_box(checkout, **shown, **changes)


def add_program(path: Path, text: str = "#!/bin/sh\nexit 0\n") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def test_a_clean_checkout_is_its_commit_as_the_grader_names_it(checkout: Path) -> None:
    index = (checkout / ".git" / "index").stat().st_mtime_ns
    (checkout / "backend" / "main.py").touch()
    assert read_revision(checkout) == (git(checkout, "rev-parse", "--short=8", "HEAD"), True)
    assert read_revision(checkout)[0] == read_the_graders(checkout)
    assert (checkout / ".git" / "index").stat().st_mtime_ns == index, "looking writes nothing"


@pytest.mark.parametrize("change", ["changed", "added"])
def test_a_changed_checkout_says_so_as_the_grader_does(checkout: Path, change: str) -> None:
    (checkout / "backend" / ("main.py" if change == "changed" else "new.py")).write_text("app = 1\n")
    head = git(checkout, "rev-parse", "--short=8", "HEAD")
    assert read_revision(checkout) == (f"{head}+changes", False)
    assert read_the_graders(checkout) == f"{head}+changes"


def test_nothing_that_a_checkout_s_own_settings_name_is_run(checkout: Path, tmp_path: Path) -> None:
    trap = tmp_path / "ran"
    git(checkout, "config", "core.fsmonitor", f"touch {trap}")
    git(checkout, "config", "filter.trap.clean", f"touch {trap}")
    (checkout / ".gitattributes").write_text("*.py filter=trap\n")
    (checkout / "backend" / "main.py").touch()
    read_revision(checkout)
    assert not trap.exists()


def test_an_export_is_told_by_its_backend_s_content_alone(checkout: Path) -> None:
    (checkout / ".git").rename(checkout.parent / "elsewhere")
    first, is_clean = read_revision(checkout)
    assert first.startswith("tree-")
    assert is_clean is None
    for left_out in ("data/auth.token", "__pycache__/main.pyc", ".venv/bin/python"):
        add_program(checkout / "backend" / left_out)
    assert read_revision(checkout)[0] == first
    (checkout / "backend" / "main.py").write_text("app = 1\n")
    assert read_revision(checkout)[0] != first


def test_a_machine_without_git_is_told_what_it_lacks(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    with pytest.raises(StackError, match="git is not on PATH"):
        read_revision(checkout)
    assert any("git is not on PATH" in problem.what for problem in inspect_checkout(make_box(checkout)))


def test_a_folder_without_a_backend_is_no_checkout(tmp_path: Path) -> None:
    [problem] = inspect_checkout(make_box(tmp_path / "product"))
    assert "holds no backend/main.py" in problem.what


@pytest.mark.parametrize("place", ["backend/.venv", ".venv", "backend/venv", "venv"])
def test_an_environment_is_found_where_one_usually_is(checkout: Path, place: str) -> None:
    python = checkout / place / "bin" / "python"
    add_program(python)
    assert find_python(make_box(checkout)) == python
    assert inspect_checkout(make_box(checkout)) == ()


def test_the_box_file_s_interpreter_goes_before_all_others(checkout: Path) -> None:
    add_program(checkout / ".venv" / "bin" / "python")
    add_program(checkout / "envs" / "p313")
    assert find_python(make_box(checkout, product={"python": "envs/p313"})) == checkout / "envs" / "p313"
    missing = make_box(checkout, product={"python": "envs/p314"})
    assert find_python(missing) is None
    [problem] = inspect_checkout(missing)
    assert f"there is no {checkout}/envs/p314" in problem.what


def test_an_environment_that_lacks_uvicorn_is_named_with_what_fills_it(checkout: Path) -> None:
    (checkout / "backend" / "requirements.txt").touch()
    python = checkout / "backend" / ".venv" / "bin" / "python"
    # without the packages of ours that the interpreter would have
    add_program(python, f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    [problem] = inspect_checkout(make_box(checkout))
    assert "No module named 'uvicorn'" in problem.what
    assert problem.command == f"{python} -m pip install -r {checkout}/backend/requirements.txt"


def test_an_interpreter_that_does_not_run_is_named(checkout: Path) -> None:
    add_program(checkout / ".venv" / "bin" / "python", "#!/nowhere/python\n")
    [problem] = inspect_checkout(make_box(checkout))
    assert "FileNotFoundError" in problem.what


def test_all_that_a_desktop_lacks_is_named_at_once(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    add_program(checkout / ".venv" / "bin" / "python")
    found = inspect_checkout(make_desktop_box(checkout))
    assert [problem.command for problem in found[:2]] == [
        f"npm --prefix {checkout}/frontend ci",
        f"npm --prefix {checkout}/electron ci",
    ]
    assert "display" in found[2].what


@pytest.mark.parametrize("variable", ["DISPLAY", "WAYLAND_DISPLAY"])
def test_a_desktop_that_has_all_of_it_lacks_nothing(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, "x")
    add_program(checkout / ".venv" / "bin" / "python")
    add_program(checkout / "frontend" / "node_modules" / ".bin" / "webpack")
    add_program(checkout / "electron" / "node_modules" / ".bin" / "electron")
    assert inspect_checkout(make_desktop_box(checkout)) == ()


def test_an_electron_whose_main_file_is_not_built_is_named(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISPLAY", ":0")
    add_program(checkout / ".venv" / "bin" / "python")
    add_program(checkout / "frontend" / "node_modules" / ".bin" / "webpack")
    add_program(checkout / "electron" / "node_modules" / ".bin" / "electron")
    (checkout / "electron" / "package.json").write_text('{"main": "dist/main.js"}')
    [problem] = inspect_checkout(make_desktop_box(checkout))
    assert problem.command == f"npm --prefix {checkout}/electron run build"
    add_program(checkout / "electron" / "dist" / "main.js")
    assert inspect_checkout(make_desktop_box(checkout)) == ()


def test_the_product_finds_no_python_of_ours_first(monkeypatch: pytest.MonkeyPatch) -> None:
    own = str(Path(sys.prefix) / "bin")
    monkeypatch.setenv("PATH", os.pathsep.join([own, "/usr/local/bin", "/usr/bin"]))
    assert clean_path() == os.pathsep.join(["/usr/local/bin", "/usr/bin"])
