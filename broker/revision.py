"""What a checkout of the product is called: a box and the grader must give the same source the same name.

Asked of git, which changes nothing, not even its index; nothing that the checkout's own settings name is run.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from broker.errors import RevisionError

_GIT_TIMEOUT_S = 60.0
_DIGITS = 8
_SAFE = ("safe.directory=*", "core.hooksPath=/dev/null", "core.fsmonitor=false", "core.attributesFile=/dev/null")


def has_git(root: Path) -> bool:
    """Whether the folder is a checkout of git's."""
    return (root / ".git").exists()


def read_head(root: Path) -> str:
    """The commit in the product's short form. Raises RevisionError when git does not tell it."""
    return _git(root, "rev-parse", f"--short={_DIGITS}", "HEAD").strip()


def is_clean(root: Path) -> bool:
    """Whether no file differs from the commit. Raises RevisionError when git does not tell it."""
    filters = _git(root, "config", "--name-only", "-z", "--get-regexp", r"^filter\.", may_fail=True).split("\0")
    # by environment: a name with "=" in it would be another one on the command line
    quiet = {"GIT_CONFIG_COUNT": str(len(filters) - 1)}
    for number, name in enumerate(filters[:-1]):
        quiet |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": ""}
    return not _git(root, "status", "--porcelain", "--ignore-submodules=all", settings=quiet).strip()


def list_tracked(root: Path) -> tuple[tuple[str, str], ...]:
    """The mode and the path of every file that git tracks there. Raises RevisionError when git does not tell it."""
    listed = _ask(root, "ls-files", "--stage", "-z").decode("utf-8", "surrogateescape")
    entries = (entry.split("\t", 1) for entry in listed.split("\0") if entry)
    # of a file in conflict, git lists each side
    return tuple(dict.fromkeys((about.split(" ", 1)[0], name) for about, name in entries))


def name_revision(head: str, *, clean: bool) -> str:
    """The name: `+changes` stands behind the commit of a tree that differs from it."""
    return head if clean else f"{head}+changes"


def _git(root: Path, *arguments: str, settings: Mapping[str, str] | None = None, may_fail: bool = False) -> str:
    return _ask(root, *arguments, settings=settings, may_fail=may_fail).decode("utf-8", "replace")


def _ask(root: Path, *arguments: str, settings: Mapping[str, str] | None = None, may_fail: bool = False) -> bytes:
    command = ["git", "--no-pager", "--no-optional-locks", *(part for one in _SAFE for part in ("-c", one))]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment |= {
        "GIT_CEILING_DIRECTORIES": str(root.resolve().parent),
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        # an object that is missing is fetched from nowhere
        "GIT_ALLOW_PROTOCOL": "none",
        **(settings or {}),
    }
    try:
        done = subprocess.run(
            [*command, *arguments],
            cwd=root,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_GIT_TIMEOUT_S,
            check=False,
        )
    except FileNotFoundError as error:
        said = f"git is not on PATH, so the revision of {root} can't be told"
        raise RevisionError(said, hint="install git") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RevisionError(f"git does not answer in {root}: {error}", hint=f"git -C {root} status") from error
    if done.returncode and not may_fail:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["it says nothing"]
        raise RevisionError(f"git refuses {root}: {lines[-1]}", hint=f"git -C {root} status")
    return done.stdout
