"""The product's own renderer as two parts: its front end served by webpack, and Electron that shows it.

Not established, because no Electron could be run where this was written: the names of the checkout's scripts, the
address that its Electron loads, and whether it opens a dashboard by itself. So the scripts are looked for in the
checkout when it is started; front end and Electron get the product's own variables; and whether a dashboard is
shown is not assumed but asked: the part is healthy when bv3's card answers. A box file may name both commands.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from workers.boxfile import BoxFile
from workers.stack.checkout import read_package
from workers.stack.driver import profile_of
from workers.stack.parts import Part

_SCRIPTS = ("dev", "start", "serve")
# What stands before a program in a script and is not it.
_WRAPPERS = frozenset({"cross-env", "npx", "env"})
_SETTING = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*", re.DOTALL)
# How a process finds the screen and who is sitting before it.
_SESSION = ("DISPLAY", "WAYLAND_DISPLAY", "XDG_RUNTIME_DIR", "XDG_SESSION_TYPE", "DBUS_SESSION_BUS_ADDRESS")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """How a script calls a program: with which variables and which arguments."""

    arguments: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)


def describe_frontend(box: BoxFile, checkout: Path, environment: Mapping[str, str]) -> Part:
    """Webpack's development server on the box's port, on loopback only.

    It keeps what it builds in memory; what a checkout's own configuration caches on disk is its own.
    """
    folder = checkout / "frontend"
    if box.product.frontend:
        return Part(
            name="frontend",
            argv=_fill(box.product.frontend, box),
            environment=environment,
            folder=folder,
            is_bare=True,
        )
    call = find_call(read_package(folder), "webpack", "serve") or Call(arguments=("serve",))
    where = ("--port", str(box.ports.frontend), "--host", "127.0.0.1")
    return Part(
        name="frontend",
        argv=(str(folder / "node_modules" / ".bin" / "webpack"), *_drop_place(call.arguments), *where),
        environment={**environment, **call.environment},
        folder=folder,
        is_bare=True,
    )


def describe_electron(box: BoxFile, checkout: Path, environment: Mapping[str, str]) -> Part:
    """Electron with a profile of this box's own."""
    folder = checkout / "electron"
    variables = {**environment, **read_session()}
    if box.product.electron:
        argv = _fill(box.product.electron, box)
        return Part(name="renderer", argv=argv, environment=variables, folder=folder, is_bare=True)
    call = find_call(read_package(folder), "electron") or Call(arguments=(".",))
    switches = [f"--user-data-dir={profile_of(box)}"]
    if os.geteuid() == 0:
        # Chromium has no sandbox for root
        switches.append("--no-sandbox")
    return Part(
        name="renderer",
        argv=(str(folder / "node_modules" / ".bin" / "electron"), *call.arguments, *switches),
        environment={**variables, **call.environment},
        folder=folder,
        is_bare=True,
    )


def find_call(package: Mapping[str, object], program: str, *leading: str) -> Call | None:
    """How the package's own script calls the program, with these arguments first; None when none does.

    Only the script's last command counts: what stands before it installs or builds, and bv3 does neither.
    """
    scripts = package.get("scripts")
    if not isinstance(scripts, dict):
        return None
    texts = [text for name in _order(scripts) if isinstance(text := scripts[name], str)]
    calls = (_read_call(text, program) for text in texts)
    return next((call for call in calls if call and call.arguments[: len(leading)] == leading), None)


def read_session() -> dict[str, str]:
    """The variables by which a window finds its screen."""
    found = {name: os.environ[name] for name in _SESSION if os.environ.get(name)}
    # looked for in HOME, which is the box's own here
    cookie = os.environ.get("XAUTHORITY") or str(Path.home() / ".Xauthority")
    return {**found, "XAUTHORITY": cookie} if Path(cookie).is_file() else found


def _order(names: Iterable[object]) -> list[str]:
    """The usual names first, then what begins like one of them."""
    told = [name for name in names if isinstance(name, str)]
    usual = [name for name in _SCRIPTS if name in told]
    return usual + [name for name in told if name not in usual and name.startswith(_SCRIPTS)]


def _read_call(text: str, program: str) -> Call | None:
    last = re.split(r"&&|\|\||;", text)[-1]
    try:
        words = shlex.split(last)
    except ValueError:
        return None
    settings: dict[str, str] = {}
    while words and (words[0] in _WRAPPERS or _SETTING.fullmatch(words[0])):
        word = words.pop(0)
        if "=" in word:
            name, _, value = word.partition("=")
            settings[name] = value
    if not words or Path(words[0]).name != program:
        return None
    return Call(arguments=tuple(words[1:]), environment=settings)


def _drop_place(arguments: tuple[str, ...]) -> list[str]:
    """The arguments without a port and a host of their own, and without a browser that is opened on them."""
    left: list[str] = []
    words = list(arguments)
    while words:
        word = words.pop(0)
        if word in {"--port", "--host"} and words:
            words.pop(0)
        elif not word.startswith(("--port", "--host=", "--open")):
            left.append(word)
    return left


def _fill(command: tuple[str, ...], box: BoxFile) -> tuple[str, ...]:
    """The command of a box file, with this box's own values in it."""
    values = {
        "{backend_port}": str(box.ports.backend),
        "{frontend_port}": str(box.ports.frontend),
        "{profile}": str(profile_of(box)),
    }
    filled = list(command)
    for name, value in values.items():
        filled = [word.replace(name, value) for word in filled]
    return tuple(filled)
