"""A box without a farm for the tests of its life: its file, its commands, and what is left of it afterwards."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from workers.boxfile import load_box
from workers.control import SOCKET, ask
from workers.lock import find_holder
from workers.machine import list_listeners
from workers.processes import MARK, ProcessBook, Recorded
from workers.sockets import short_folder

ROOT = Path(__file__).resolve().parents[4]
PARTS = ("router", "backend", "sites", "renderer")


@dataclass(slots=True, kw_only=True)
class LifeBox:
    """One box. Its commands have a temporary folder of their own, so that what they leave there is seen."""

    name: str
    folder: Path
    file: Path
    temporary: Path

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "TMPDIR": str(self.temporary)}

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "workers.cli", *words, "--box", str(self.file)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=self.environment,
            start_new_session=True,
        )

    def run(self, *words: str, timeout_s: float = 150.0) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "workers.cli", *words, "--box", str(self.file)],
            capture_output=True,
            text=True,
            cwd=ROOT,
            env=self.environment,
            check=False,
            timeout=timeout_s,
        )

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.run("status", "--json").stdout)
        return found

    def look(self) -> dict[str, Any]:
        seen = ask(self.folder, "look")
        assert seen is not None, self.log
        return seen

    @property
    def log(self) -> str:
        path = self.folder / "box.log"
        return path.read_text()[-3000:] if path.exists() else "no log"

    def find_part(self, name: str) -> Recorded | None:
        return ProcessBook(folder=self.folder).last(name)

    def list_processes(self) -> list[psutil.Process]:
        """Every process that is the box's: marked with its folder, or given its file."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error, OSError):
                words = process.cmdline()
                is_supervisor = str(self.file) in words and "supervise" in words
                if is_supervisor or process.environ().get(MARK) == str(self.folder):
                    found.append(process)
        return [process for process in found if process.status() != psutil.STATUS_ZOMBIE]

    def list_remains(self) -> list[str]:
        """What there should not be of a box that is down."""
        box = load_box(self.file)
        left = [f"{process.pid} {process.cmdline()}" for process in self.list_processes()]
        left += [f"port {item.port}" for item in list_listeners(set(box.ports.listened(electron=False).values()))]
        if find_holder(box.lock_name).folder == str(self.folder):
            left.append(box.lock_name)
        places = [self.folder / SOCKET, self.folder / "stack" / "control", *self.temporary.iterdir()]
        places += [short_folder(self.folder), short_folder(self.folder / "stack")]
        return left + [str(place) for place in places if place.exists()]

    def clear(self) -> None:
        """Whatever a failed test left is gone."""
        self.run("down", "--now")
        for process in self.list_processes():
            with suppress(psutil.NoSuchProcess):
                process.kill()


def make_life_box(folder: Path, free_port: Callable[[], int], *, name: str = "box-life", lines: str = "") -> LifeBox:
    """A box on the reference stack, with a block of ports of its own."""
    run_folder, temporary = folder / name, folder / f"{name}-tmp"
    temporary.mkdir()
    ports = "\n".join(f"{part} = {free_port()}" for part in ("backend", "router", "https", "http"))
    file = folder / f"{name}.toml"
    file.write_text(
        f'name = "{name}"\nstack = "reference"\nisolation = "ports"\nrenderer = "playwright"\n'
        f'lane = "stub"\nfolder = "{run_folder}"\n{lines}\n[ports]\n{ports}\n'
    )
    return LifeBox(name=name, folder=run_folder, file=file, temporary=temporary)


@pytest.fixture
def box(tmp_path: Path, free_port: Callable[[], int]) -> Iterator[LifeBox]:
    made = make_life_box(tmp_path, free_port)
    try:
        yield made
    finally:
        made.clear()


@pytest.fixture
def neighbour(tmp_path: Path, free_port: Callable[[], int]) -> Iterator[LifeBox]:
    made = make_life_box(tmp_path, free_port, name="box-life-2")
    try:
        yield made
    finally:
        made.clear()
