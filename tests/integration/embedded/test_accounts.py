"""Root's farm opens nothing to others; an ordinary user's farm needs nothing of root."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from infra.embedded.documents import write_document
from infra.embedded.postgres import remove_orphans

REPOSITORY = Path(__file__).resolve().parents[3]

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="is about root")


@as_root
def test_postgres_runs_unprivileged_and_no_folder_becomes_wider(stopped: Any) -> None:
    farm = stopped
    assert farm.home.parent.stat().st_mode & 0o777 == 0o700
    above = [*farm.home.parents, Path(sys.executable).parent, Path(sys.prefix)]
    above += [Path("/root"), *Path("/root").glob("*")]
    before = {folder: _access(folder) for folder in above}
    farm.up_store()
    assert psutil.Process(farm.pids()["postgres"]).uids().real == pwd.getpwnam("nobody").pw_uid
    assert {folder: _access(folder) for folder in above} == before
    assert farm.home.stat().st_mode & 0o777 == 0o700
    farm.down()
    assert {folder: _access(folder) for folder in above} == before


def test_data_outside_is_removed_when_its_temporary_home_is_gone_and_nobody_serves_it(tmp_path: Path) -> None:
    homes = {
        "gone": f"{tempfile.gettempdir()}/bv3-no-such-home",
        "served": f"{tempfile.gettempdir()}/bv3-no-such-home",
        "there": str(tmp_path),
        "unmounted": "/mnt/bv3-no-such-disk/home",
    }
    for name, home in homes.items():
        write_document(_made(tmp_path / name) / "home.json", {"home": home})
    (_made(tmp_path / "served" / "data") / "postmaster.pid").touch()
    remove_orphans(tmp_path)
    assert {folder.name for folder in tmp_path.iterdir()} == {"served", "there", "unmounted"}


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


@as_root
def test_an_ordinary_user_has_a_farm_under_the_own_home(make_farm: Callable[[str], Any], workbench: Path) -> None:
    nobody = pwd.getpwnam("nobody")
    if (python := _python_of_everybody(nobody)) is None:
        pytest.skip("no Python here that an unprivileged user can run with this environment's packages")
    # The repository may lie in a private folder.
    code = workbench / "code"
    for package in ("broker", "infra"):
        shutil.copytree(REPOSITORY / package, code / package, ignore=shutil.ignore_patterns("__pycache__"))
    # Before 3.11.3 redis wants a package for what asyncio has; this environment may be of a later Python.
    (code / "async_timeout.py").write_text("from asyncio import timeout as timeout\n")
    programs = workbench / "of-everybody.toml"
    stand_in = f"['{python}', '{workbench}/stand_in.py']"
    programs.write_text("".join(f"{name} = {stand_in}\n" for name in ("dispatcher", "grader", "box")))
    house = workbench / "house"
    house.mkdir(mode=0o700)
    os.chown(house, nobody.pw_uid, nobody.pw_gid)
    farm = make_farm("house/bv3")
    farm.environment["BV3_FARM_PROGRAMS"] = str(programs)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [python, "-m", "infra.cli", *arguments],
            env=farm.environment | {"HOME": str(house), "PYTHONPATH": f"{code}:{_site_packages()}"},
            cwd="/",
            user=nobody.pw_uid,
            group=nobody.pw_gid,
            extra_groups=[],
            capture_output=True,
            text=True,
            check=False,
            timeout=90,
        )

    try:
        up = run("up", "--boxes", "2")
        assert up.returncode == 0, up.stderr
        assert {process.uids().real for process in farm.marked()} == {nobody.pw_uid}
        assert (farm.home / "farm" / "postgres" / "data" / "PG_VERSION").exists()
        foreign = farm.run("up")
        assert foreign.returncode == 3
        assert "belongs to nobody" in foreign.stderr
    finally:
        down = run("down", "--force")
    assert down.returncode == 0, down.stderr
    assert farm.marked() == []


def _access(folder: Path) -> tuple[int, int, int]:
    status = folder.lstat()
    return status.st_mode, status.st_uid, status.st_gid


def _site_packages() -> str:
    return sysconfig.get_path("purelib")


def _python_of_everybody(account: pwd.struct_passwd) -> str | None:
    """This environment's Python, or the system's of the same version, if the account can run it."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    for python in (sys.executable, f"/usr/bin/python{version}", f"/usr/local/bin/python{version}"):
        try:
            tried = subprocess.run(
                [python, "-c", "import psutil, psycopg, sqlalchemy"],
                env={"PYTHONPATH": _site_packages()},
                cwd="/",
                user=account.pw_uid,
                group=account.pw_gid,
                extra_groups=[],
                capture_output=True,
                check=False,
            )
        except OSError:
            continue
        if tried.returncode == 0:
            return python
    return None
