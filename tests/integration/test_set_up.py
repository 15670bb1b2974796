"""Set-up against this machine: its Chromium, and a clone that finds no network."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from infra.bootstrap.place import find_place

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def manifest() -> dict[str, Any]:
    """What set-up has found on this machine."""
    found: dict[str, Any] = json.loads(find_place(os.environ).manifest.read_text())
    return found


def try_chromium(path: str, manifest: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    options = [f"--arg={argument}" for argument in manifest["chromium_args"]]
    options += [f"--env={key}={value}" for key, value in manifest["chromium_env"].items()]
    driver = {"PLAYWRIGHT_NODEJS_PATH": manifest["playwright_node"]} if manifest["playwright_node"] else {}
    command = [sys.executable, "-m", "workers.renderer.smoke", path, *options]
    return subprocess.run(command, env={**os.environ, **driver}, capture_output=True, text=True, check=False)


def test_chosen_chromium_shows_a_page(manifest: dict[str, Any]) -> None:
    tried = try_chromium(manifest["chromium"], manifest)

    assert (tried.returncode, tried.stderr) == (0, "")


def test_program_that_shows_no_page_is_refused_in_one_line(manifest: dict[str, Any]) -> None:
    tried = try_chromium("/bin/false", manifest)

    assert tried.returncode == 1
    assert tried.stderr.startswith("Error: BrowserType.launch: ")
    assert tried.stderr.count("\n") == 1


def test_set_up_without_a_network_names_what_could_not_be_had(tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    shutil.copytree(ROOT, clone, ignore=shutil.ignore_patterns(".venv*", ".runtime", ".git", ".*_cache", "results"))
    home = tmp_path / "home"
    home.mkdir()
    nobody = "http://127.0.0.1:9/"  # the discard port: nothing listens
    env = {"PATH": os.defpath, "HOME": str(home), "PIP_INDEX_URL": nobody, "UV_DEFAULT_INDEX": nobody}

    # Not the environment's own Python: a set-up begins with the machine's.
    python = os.path.realpath(sys.executable)
    failed = subprocess.run([python, clone / "bv3", "setup"], env=env, capture_output=True, text=True, check=False)

    assert failed.returncode == 3
    assert "error: Python packages could not be had" in failed.stderr
    assert "the network could not be reached" in failed.stderr
    assert "hint: try again with a network" in failed.stderr
    assert "Traceback" not in failed.stderr


def test_program_that_fails_to_start_is_quoted(tmp_path: Path, manifest: dict[str, Any]) -> None:
    program = tmp_path / "chromium"
    program.write_text("#!/bin/sh\necho 'libnss3.so: cannot open shared object file' >&2\nexit 127\n")
    program.chmod(0o755)

    tried = try_chromium(str(program), manifest)

    assert "(libnss3.so: cannot open shared object file)" in tried.stderr
