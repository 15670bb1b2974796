"""The driver of the product itself, OpenSwarm, from a checkout that a person has prepared.

Everything that the product writes lies in the run folder: its HOME, its data root, its profile. The data root is
new at each boot whatever the profile's policy says, for it holds sessions, cards and skills, and a skill of an
earlier run sends later ones on other branches. HOME is kept: the product fills it with installed packages (npm and
pip, over a minute of work beside the first runs) and its router with the accounts a person has connected.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from broker.errors import StackError
from broker.types import Mode
from workers.stack.checkout import clean_path, find_python, inspect_checkout, read_revision
from workers.stack.desktop import describe_electron, describe_frontend
from workers.stack.driver import profile_of
from workers.stack.parts import Part
from workers.stack.ports import answers
from workers.stack.renderer_part import describe_renderer
from workers.stack.standins import describe_router, describe_sites
from workers.stack.supervised import Build, SupervisedDriver

# The lane that bv3's own router answers; every other one is a router of the product's.
STUB_LANE = "stub"
# What of our environment means the same to the product: the clock's zone, in which its log is written, the
# letters, and the temporary folder, which is the box's own.
_KEPT = ("TZ", "LANG", "LC_ALL", "TMPDIR")


class OpenSwarmDriver(SupervisedDriver):
    """Boots the product's backend with the renderer that the box file names. It installs nothing."""

    # the backend's imports alone take 13 s on two idle cores, and a first webpack build longer
    boot_timeout_s = 120.0
    # it may have to be installed first, by the product
    router_timeout_s = 120.0

    _python = Path()
    _router_adopted = False

    @property
    def waves(self) -> tuple[tuple[str, ...], ...]:
        """The router is there before the backend: one that finds none begins to install its own."""
        first = (*(["sites"] if self.box.pages == "loopback" else []), *(["router"] if self._is_stubbed else []))
        shown = (("frontend",),) if self.box.renderer == "electron" else ()
        return (*((first,) if first else ()), ("backend",), *shown)

    def prepare(self) -> None:
        """The checkout is whole, and the folders that the product writes into are there."""
        if problems := inspect_checkout(self.box):
            raise StackError(
                "; ".join(problem.what for problem in problems),
                hint="; ".join(problem.command for problem in problems),
            )
        self._python = find_python(self.box) or Path()
        self._home.mkdir(mode=0o700, exist_ok=True)
        # one per session that was ever launched, removed by nobody
        shutil.rmtree(self._home / ".openswarm" / "workspaces", ignore_errors=True)
        if self.box.profile.policy == "persistent":
            profile_of(self.box).mkdir(mode=0o700, exist_ok=True)
        self._router_adopted = not self._is_stubbed and self._router_answers()

    def describe_part(self, name: str, *, dashboard_id: str) -> Part:
        """Backend, front end and Electron are the checkout's; the rest is ours."""
        if name == "router":
            return describe_router(self.box)
        if name == "sites":
            return describe_sites(self.box, self.manifest)
        if name == "backend":
            argv = (str(self._python), *self.backend_words())
            environment = self._read_environment()
            return Part(
                name=name,
                argv=argv,
                environment=environment,
                restart_line="BACKEND",
                folder=self._checkout,
                is_bare=True,
            )
        if name == "frontend":
            return describe_frontend(self.box, self._checkout, self._read_environment())
        if self.box.renderer == "electron":
            return describe_electron(self.box, self._checkout, self._read_environment())
        token = self.data / "auth.token"
        return describe_renderer(self.box, self.manifest, token=token, dashboard_id=dashboard_id, ready=self.ready_file)

    def is_healthy(self, name: str) -> bool:
        """Whether the part has answered just now."""
        ports = self.box.ports
        if name == "router":
            # an unknown router that took the port meanwhile must not pass for the stub
            return self.holds(name, ports.router) and self._router_answers()
        if name == "sites":
            return answers(ports.http, "/healthz")
        if name == "backend":
            return self.backend_answers()
        if name == "frontend":
            return self.holds(name, ports.frontend) and answers(ports.frontend, "/")
        is_ready = self.box.renderer == "electron" or self.ready_file.exists()
        return is_ready and self.renderer_answers()

    def settle(self) -> None:
        """The router of the lane answers, whoever started it. It is never taken over and never ended."""
        if self._is_stubbed:
            return
        url = f"http://127.0.0.1:{self.box.ports.router}/v1/models"
        self.wait_for(
            "router",
            self._router_answers,
            timeout_s=self.router_timeout_s,
            hint=f"nothing answers GET {url} with 200: start the router of lane {self.box.lane} there, "
            'or set lane = "stub"; an own router that the product installs needs the network',
        )

    def own_ports(self) -> Mapping[str, int]:
        """What this box starts listens on these; the lane's own router on none of them."""
        ports = self.box.ports
        return {
            "backend": ports.backend,
            **({"router": ports.router} if self._is_stubbed else {}),
            **({"http": ports.http, "https": ports.https} if self.box.pages == "loopback" else {}),
            **({"frontend": ports.frontend} if self.box.renderer == "electron" else {}),
        }

    def ports_after(self) -> Mapping[str, int]:
        """Also the router's that the backend started itself: it must have ended with it."""
        own = self.own_ports()
        return own if self._router_adopted else {**own, "router": self.box.ports.router}

    def say_of_taken(self, name: str) -> str:
        """An unknown router gives unknown answers, so it can't be the lane `stub`."""
        if name == "router":
            return 'end it: lane = "stub" means the answers of bv3\'s own router; or name the lane it is'
        return "end it, or give the box other ports"

    def read_build(self) -> Build:
        """The checkout's revision."""
        revision, tree_clean = read_revision(self._checkout)
        return Build(revision=revision, tree_clean=tree_clean, checkout=str(self._checkout))

    def backend_words(self) -> tuple[str, ...]:
        """Uvicorn with the product's application."""
        return ("-m", "uvicorn", "backend.main:app", "--port", str(self.box.ports.backend), "--host", "127.0.0.1")

    @property
    def backend_folder(self) -> str:
        """The checkout."""
        return str(self._checkout)

    @property
    def router_adopted(self) -> bool:
        """Whether the lane's router was there before us."""
        return self._router_adopted

    @property
    def _checkout(self) -> Path:
        if self.box.checkout is None:
            raise StackError(f"box {self.box.name} names no checkout", hint='set checkout = "/path" in the box file')
        return self.box.checkout

    @property
    def _home(self) -> Path:
        return self.folder / "home"

    @property
    def _is_stubbed(self) -> bool:
        return self.box.lane == STUB_LANE

    def _router_answers(self) -> bool:
        return answers(self.box.ports.router, "/v1/models")

    def _read_environment(self) -> dict[str, str]:
        """All that the product's processes get: no proxy, no key and no word of bv3 comes through from outside.

        OPENSWARM_ROUTER_TAKEOVER is never set: with it the product ends every router of the machine.
        """
        kept = {name: os.environ[name] for name in _KEPT if os.environ.get(name)}
        return {
            **kept,
            "PATH": clean_path(),
            "HOME": str(self._home),
            "OPENSWARM_PORT": str(self.box.ports.backend),
            "OPENSWARM_DATA_ROOT": str(self.data),
            # where it is by itself, too; said, because timings are read there
            "OPENSWARM_BROWSER_METRICS_DIR": str(self.data / "browser_metrics"),
            # said for both: a missing variable means live, and a glance at the process must tell which was meant
            "OSW_SENDSCRIPT_DRYRUN": "1" if self.mode is Mode.DRY else "0",
            "PYTHONUNBUFFERED": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
