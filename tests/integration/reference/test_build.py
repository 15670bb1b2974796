"""Bundling the editors."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from infra.reference.build import EDITORS, FILES

ROOT = Path(__file__).parents[3]


def _build(npm: Path, out: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "infra.reference.build", "--npm", str(npm), "--node", sys.executable]
    return subprocess.run([*command, "--out", str(out)], cwd=ROOT, capture_output=True, text=True, check=False)


def test_a_folder_without_packages_is_named_with_what_helps(tmp_path: Path) -> None:
    done = _build(tmp_path, tmp_path / "out")
    assert done.returncode == 1
    assert f"error: no esbuild under {tmp_path}" in done.stderr
    assert "hint: run npm ci --ignore-scripts" in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_refusal_of_the_bundler_leaves_no_half_made_bundle(tmp_path: Path) -> None:
    bundler = tmp_path / "node_modules" / "esbuild" / "bin" / "esbuild"
    bundler.parent.mkdir(parents=True)
    bundler.write_text("import sys\nsys.exit('no such package: draft-js')\n")
    done = _build(tmp_path, tmp_path / "out")
    assert done.returncode == 1
    assert "error: bundling draft.jsx failed: no such package: draft-js" in done.stderr
    assert list((tmp_path / "out").iterdir()) == []


def test_packages_are_pinned_and_no_registry_is_named() -> None:
    wanted = json.loads((EDITORS / "package.json").read_text())["dependencies"]
    lock = json.loads((EDITORS / "package-lock.json").read_text())
    # One package may stand under a name of our own beside another version of it.
    pins = {name: version.rpartition("@")[2] for name, version in wanted.items()}
    assert all(version[0].isdigit() for version in pins.values())
    assert {name: lock["packages"][f"node_modules/{name}"]["version"] for name in wanted} == pins
    assert all("resolved" not in package for package in lock["packages"].values())
    assert all("integrity" in package for name, package in lock["packages"].items() if name)


def test_a_bundle_of_an_editor_is_a_few_megabytes_without_what_it_would_load_later(runtime: Any) -> None:
    sizes = {file: (runtime.editors / file).stat().st_size for file in FILES}
    assert max(sizes.values()) < 4_000_000
    assert sum(sizes.values()) < 16_000_000
