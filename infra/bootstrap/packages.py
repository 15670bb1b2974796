"""Packages from the four places they come from: uv, pip, npm and Debian."""

import os
import shutil
import sys
from pathlib import Path

from infra.bootstrap.clients import Command, CommandError, Setup, SetupError

NPM_QUIETLY = (
    "--ignore-scripts",
    "--no-audit",
    "--no-fund",
    "--fetch-retries=2",
    "--fetch-retry-mintimeout=1000",
)

# Another program may be at work with packages.
DEBIAN_PATIENTLY = ("-o", "DPkg::Lock::Timeout=60")


def install_python(setup: Setup, target: tuple[str, Path], arguments: Command) -> None:
    """Install Python packages with uv when it can be had, with pip otherwise.

    `target` is ("--python", an environment's Python) or ("--target", a plain folder).
    """
    kind, path = target
    uv = find_uv(setup)
    if uv:
        into: Command = (kind, path) if kind == "--python" else (kind, path, "--python", sys.executable)
        try:
            setup.run([uv, "pip", "install", *into, *arguments], env={"UV_PYTHON_DOWNLOADS": "never"})
        except CommandError as error:
            if error.is_offline:
                raise
            # A company's index, say, is in pip's configuration, which uv does not read.
            setup.say(f"  uv could not ({error}), so pip tries")
        else:
            return
    python = find_pip(setup)
    # Which Python to install for is an option of pip, which folder is one of its install command.
    pip = pip_command(python, *target) if kind == "--python" else [*pip_command(python), *target]
    setup.run([*pip, *arguments])


def pip_command(python: Path, *options: str | Path) -> list[str | Path]:
    """The install command of the pip that belongs to `python`."""
    quietly = ("--disable-pip-version-check", "--no-input", "--retries", "2")
    return [python, "-m", "pip", *options, "install", *quietly]


def find_pip(setup: Setup) -> Path:
    """A Python with pip, in an environment of its own."""
    folder = setup.place.runtime / "bootstrap"
    python = folder / "bin" / "python"
    if python.exists() and setup.can_run(python, "-m", "pip", "--version"):
        return python
    make: Command = [sys.executable, "-m", "venv", "--clear", folder]
    try:
        setup.run(make)
    except CommandError as error:
        package = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
        if not install_debian(setup, package):
            raise SetupError(
                f"no virtual environment with pip could be made ({error})",
                hint=f"install uv, or on Debian and Ubuntu: `apt-get install {package}`",
            ) from error
        setup.run(make)
    return python


def find_uv(setup: Setup) -> Path | None:
    """An installed uv, else one fetched with pip; None when none is to be had."""
    if setup.is_pip_wanted:
        return None
    installed = setup.find_program("uv")
    if installed and setup.can_run(installed, "--version"):
        return Path(installed)
    python = find_pip(setup)
    fetched = python.with_name("uv")
    if setup.can_run(fetched, "--version"):
        return fetched
    wanted = setup.place.root / "requirements-uv.txt"
    fetch: Command = [*pip_command(python), "--require-hashes", "-r", wanted]
    try:
        setup.run(fetch)
    except CommandError as error:
        if error.is_offline:
            raise
        setup.say(f"  uv could not be had ({error}), so pip installs, which is slower")
        return None
    return fetched


def install_npm(setup: Setup, source: Path, folder: Path) -> None:
    """`folder` holds exactly the packages of the lock file in `source`; none of their scripts has run."""
    node = setup.facts["node"]
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copyfile(source / name, folder / name)
    path = f"{Path(node['node']).parent}{os.pathsep}{setup.env.get('PATH', os.defpath)}"
    setup.run([*node["npm"], "ci", *NPM_QUIETLY], cwd=folder, env={"PATH": path})


def install_debian(setup: Setup, *packages: str) -> bool:
    """True once Debian's package manager has installed them; False where it can't or may not."""
    if os.geteuid() != 0 or not setup.find_program("apt-get"):
        return False
    quietly = {"DEBIAN_FRONTEND": "noninteractive"}
    install = ["apt-get", "install", "-y", "--no-install-recommends", *DEBIAN_PATIENTLY, *packages]
    # Without package lists, as in a fresh container, the first try can't succeed.
    for command in (install, ["apt-get", "update"], install):
        try:
            setup.run(command, env=quietly)
        except CommandError:
            continue
        if command is install:
            return True
    return False
