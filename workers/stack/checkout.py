"""A product's checkout as it lies there: what is missing in it, its revision, its own environment.

bv3 installs nothing in a checkout and writes nothing into it: it names the command that does.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

from broker.errors import RevisionError, StackError
from broker.revision import has_git, is_clean, name_revision, read_head
from workers.boxfile import BoxFile

# Where the environment of a backend usually is, in the order of looking.
ENVIRONMENTS = ("backend/.venv", ".venv", "backend/venv", "venv")
_PYTHON_TIMEOUT_S = 30.0
# What an installation, a run or a build puts beside the source.
_LEFT_OUT = frozenset({"__pycache__", ".venv", "venv", "node_modules", "data", "dist", "build"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """What a checkout lacks, and the command that a person gives to make it."""

    what: str
    command: str

    def __str__(self) -> str:
        """Both, in one line."""
        return f"{self.what} ({self.command})"


def inspect_checkout(box: BoxFile) -> tuple[Problem, ...]:
    """All that the box's checkout lacks before its stack can be started; none for a box without a checkout."""
    if box.checkout is None:
        return ()
    checkout = box.checkout
    if not (checkout / "backend" / "main.py").is_file():
        return (
            Problem(
                what=f"{checkout} holds no backend/main.py",
                command=f"git clone THE_PRODUCT {quote(str(checkout))}, or name the right checkout in the box file",
            ),
        )
    found = [*_inspect_python(box, checkout), *_inspect_git(checkout)]
    if box.renderer == "electron":
        found += [*_inspect_frontend(box, checkout), *_inspect_electron(box, checkout), *_inspect_display()]
    return tuple(found)


def find_python(box: BoxFile) -> Path | None:
    """The interpreter of the checkout's own environment, links kept: they are what makes it one."""
    if box.checkout is None:
        return None
    if box.python is not None:
        return box.python if box.python.is_file() else None
    places = (box.checkout / place / "bin" / "python" for place in ENVIRONMENTS)
    return next((place for place in places if place.is_file()), None)


def read_revision(checkout: Path) -> tuple[str, bool | None]:
    """The checkout's revision, as `bv3-grade verify` names it, and whether its tree is clean.

    The commit's short form, `+changes` behind it when files differ; without git a hash over backend/, and whether
    it is clean can't be told. Raises StackError when git is not there or does not answer.
    """
    if not has_git(checkout):
        return _hash_backend(checkout), None
    try:
        head, clean = read_head(checkout), is_clean(checkout)
    except RevisionError as error:
        raise StackError(error.message, hint=error.hint) from error
    return name_revision(head, clean=clean), clean


def read_package(folder: Path) -> dict[str, object]:
    """The folder's package.json; empty when it has none that can be read."""
    try:
        plain = json.loads((folder / "package.json").read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return plain if isinstance(plain, dict) else {}


def clean_path() -> str:
    """PATH without bv3's own environment: the product must not find our Python where it looks for its own."""
    own = str(Path(sys.prefix) / "bin") if sys.prefix != sys.base_prefix else ""
    told = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return os.pathsep.join(place for place in told if place != own)


def _inspect_python(box: BoxFile, checkout: Path) -> Iterator[Problem]:
    requirements = next(
        (name for name in ("requirements.lock", "requirements.txt") if (checkout / "backend" / name).is_file()),
        "requirements.lock",
    )
    install = f"-m pip install -r {quote(str(checkout / 'backend' / requirements))}"
    python = find_python(box)
    if python is None:
        made = checkout / ENVIRONMENTS[0]
        named = box.python
        yield Problem(
            what=f"{checkout} has no Python environment: "
            + (f"there is no {named}" if named else f"none of {', '.join(ENVIRONMENTS)} holds bin/python"),
            command=f"python3.13 -m venv {quote(str(made))} && {quote(str(made / 'bin' / 'python'))} {install}",
        )
        return
    if why := _try_python(python):
        yield Problem(what=f"{python} can't run uvicorn: {why}", command=f"{quote(str(python))} {install}")


def _try_python(python: Path) -> str:
    """Why the interpreter can't serve the backend; empty when it can."""
    try:
        done = subprocess.run(
            [python, "-c", "import uvicorn"],
            env={"PATH": clean_path(), "PYTHONDONTWRITEBYTECODE": "1"},
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_PYTHON_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{type(error).__name__}: {error}"
    lines = done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"]
    return lines[-1] if done.returncode else ""


def _inspect_git(checkout: Path) -> Iterator[Problem]:
    if not has_git(checkout):
        return
    try:
        read_head(checkout)
    except RevisionError as error:
        yield Problem(what=error.message, command=error.hint or "git status")


def _inspect_frontend(box: BoxFile, checkout: Path) -> Iterator[Problem]:
    folder = checkout / "frontend"
    if not (folder / "node_modules").is_dir():
        yield Problem(what=f"{folder} has no node_modules", command=f"npm --prefix {quote(str(folder))} ci")
    elif not box.product.frontend and not (folder / "node_modules" / ".bin" / "webpack").exists():
        yield Problem(
            what=f"{folder / 'node_modules'} holds no webpack", command=f"npm --prefix {quote(str(folder))} ci"
        )


def _inspect_electron(box: BoxFile, checkout: Path) -> Iterator[Problem]:
    folder = checkout / "electron"
    if box.product.electron:
        return
    if not (folder / "node_modules" / ".bin" / "electron").exists():
        yield Problem(what=f"{folder} holds no Electron", command=f"npm --prefix {quote(str(folder))} ci")
    main = read_package(folder).get("main")
    if isinstance(main, str) and not any((folder / f"{main}{end}").exists() for end in ("", ".js", "/index.js")):
        yield Problem(
            what=f"{folder / main}, Electron's main file, is not built",
            command=f"npm --prefix {quote(str(folder))} run build",
        )


def _inspect_display() -> Iterator[Problem]:
    if sys.platform != "darwin" and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        yield Problem(
            what="there is no display: neither DISPLAY nor WAYLAND_DISPLAY is set",
            command='start it in a desktop session or by xvfb-run, or set renderer = "playwright"',
        )


def _hash_backend(checkout: Path) -> str:
    """`tree-` and a hash over every file of the backend's source, by name and content."""
    digest = hashlib.sha256()
    root = checkout / "backend"
    for path in sorted(_list_source(root), key=lambda one: one.relative_to(root).as_posix()):
        name = path.relative_to(root).as_posix().encode("utf-8", "surrogateescape")
        content = path.read_bytes()
        digest.update(b"%d:%s%d:" % (len(name), name, len(content)))
        digest.update(content)
    return f"tree-{digest.hexdigest()[:12]}"


def _list_source(root: Path) -> Iterator[Path]:
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name not in _LEFT_OUT]
        yield from (path for name in names if (path := Path(folder, name)).is_file() and not path.is_symlink())
