"""The folders of a clone, and files that are whole or absent."""

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# What a step found: JSON, kept in its stamp.
Facts = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The folders of one clone, all absolute."""

    root: Path
    # What set-up fetches and builds, except for the Python environment.
    runtime: Path

    @property
    def venv(self) -> Path:
        """The private environment: a link to the newest one that was built and found good."""
        return self.root / ".venv"

    @property
    def binaries(self) -> Path:
        """The environment's programs."""
        return self.venv / "bin"

    @property
    def editor_sources(self) -> Path:
        """What the reference sites' editor bundles are made from."""
        return self.root / "infra" / "reference" / "editors"

    @property
    def manifest(self) -> Path:
        """What the farm reads about this machine."""
        return self.runtime / "manifest.json"

    def read(self, *names: str) -> list[bytes]:
        """The contents of files of the clone; an absent one counts as empty."""
        paths = [self.root / name for name in names]
        return [path.read_bytes() if path.is_file() else b"" for path in paths]


def find_place(environment: Mapping[str, str]) -> Place:
    """The clone that this file is in, and its runtime folder (BV3_RUNTIME, else .runtime)."""
    root = Path(__file__).resolve().parents[2]
    moved = environment.get("BV3_RUNTIME")
    return Place(root=root, runtime=Path(moved).resolve() if moved else root / ".runtime")


def hash_parts(parts: Sequence[str | bytes]) -> str:
    """A hash that differs when any part differs, or where one ends and the next begins."""
    digest = hashlib.sha256()
    for part in parts:
        raw = part.encode() if isinstance(part, str) else part
        digest.update(len(raw).to_bytes(8, "big") + raw)
    return digest.hexdigest()


def write_json(path: Path, value: object) -> None:
    """`path` holds `value` whole, or what it held before."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    draft.write_text(json.dumps(value, indent=1) + "\n")
    draft.replace(path)


def read_json(path: Path) -> Facts:
    """The object in `path`; empty when there is none that can be read."""
    try:
        value = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def remove(path: Path) -> None:
    """`path` is gone, whatever it was."""
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.exists():
        shutil.rmtree(path)


def list_names(folder: Path) -> list[str]:
    """What lies directly in a folder, sorted; nothing when it is not there."""
    return sorted(entry.name for entry in os.scandir(folder)) if folder.is_dir() else []


def holds(folder: Path, names: Sequence[str]) -> bool:
    """True if all the names (at least one) are in the folder; others may be, too."""
    return bool(names) and set(names) <= set(list_names(folder))


def swap_in(draft: Path, final: Path) -> None:
    """`final` is what `draft` was; a half-written folder is never seen there."""
    old = final.with_name(f"{final.name}.old")
    remove(old)
    if final.exists():
        final.rename(old)
    draft.rename(final)
    remove(old)


@contextlib.contextmanager
def hold(place: Place) -> Iterator[tuple[int, ...]]:
    """One set-up at a time on this clone and this runtime folder; yields the locks' descriptors."""
    descriptors: list[int] = []
    try:
        for folder in (place.root, place.runtime):
            folder.mkdir(parents=True, exist_ok=True)
            descriptors.append(os.open(folder, os.O_RDONLY))
            try:
                fcntl.flock(descriptors[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                sys.stderr.write("bv3: another set-up of this clone is running; waiting for it\n")
                fcntl.flock(descriptors[-1], fcntl.LOCK_EX)
        yield tuple(descriptors)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
