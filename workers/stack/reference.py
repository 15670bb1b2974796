"""The driver of the reference stack: router, sites, backend, then the audit card, then the renderer."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import httpx

from broker.errors import StackError, UsageError
from broker.settings import Manifest
from broker.types import Mode
from workers.boxfile import BoxFile
from workers.client.errors import ProductError
from workers.client.product import ProductAddress, ProductClient
from workers.preflight import probe_renderer
from workers.processes import ProcessBook, Recorded, find_survivors, kill_group
from workers.stack.driver import facts_path, folder_of
from workers.stack.facts import StackFacts, write_facts
from workers.stack.healing import choose_part, is_due
from workers.stack.parts import REPOSITORY, Part, PartsTable

AUDIT_CARD = "browser-audit000"
RAW_CARD = "browser-raw00000"
BOOT_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 10.0
_POLL_S = 0.03


class ReferenceDriver:
    """Boots the product's stand-in with a fresh data root, on the box's block of ports."""

    def __init__(self, box: BoxFile, manifest: Manifest, book: ProcessBook, *, mode: Mode, lock_fd: int) -> None:
        self._box = box
        self._manifest = manifest
        self._book = book
        self._mode = mode
        self._lock_fd = lock_fd
        self._folder = folder_of(box)
        self._data = self._folder / "data"
        self._ready_file = self._folder / "renderer.ready"
        self._table = PartsTable(self._folder, book)
        self._give_up: Callable[[], bool] = lambda: False
        self._facts: StackFacts | None = None
        # parts that `heal` has killed since the boot
        self._killed: set[str] = set()
        self._http = httpx.Client(trust_env=False, timeout=2.0)

    def boot(self, *, give_up: Callable[[], bool]) -> StackFacts:
        """The stack is healthy; its facts are returned and on disk. `give_up` ends the waiting with a StackError."""
        self._give_up = give_up
        self._prepare()
        revision = subprocess.Popen(
            [sys.executable, "-m", "infra.reference", "revision"], stdout=subprocess.PIPE, text=True
        )
        self._table.open(self._describe_parts(dashboard_id=""), lock_fd=self._lock_fd)
        for name in ("backend", "router", "sites"):
            self._table.start(name)
        ports = self._box.ports
        self._await("router", lambda: self._answers(f"http://127.0.0.1:{ports.router}/v1/models"))
        self._await("backend", self._backend_answers)
        dashboard_id = self._pin_dashboard()
        self._await("sites", lambda: self._answers(f"http://127.0.0.1:{ports.http}/healthz"))
        self._start_renderer(dashboard_id)
        said, _ = revision.communicate(timeout=BOOT_TIMEOUT_S)
        facts = self._collect_facts(dashboard_id, revision=said.strip())
        self._await("renderer", lambda: self._ready_file.exists() and self._audit_card_answers(facts))
        write_facts(facts_path(self._box), facts)
        self._facts = facts
        return facts

    def is_alive(self) -> bool:
        """Whether supervisord watches over the parts."""
        return self._table.is_alive()

    def describe(self) -> dict[str, str]:
        """The state of each part, in supervisord's words."""
        return self._table.describe()

    def restart(self, part: str) -> None:
        """The part is started anew and has answered a real request."""
        healthy = {
            "router": lambda: self._answers(f"http://127.0.0.1:{self._box.ports.router}/v1/models"),
            "sites": lambda: self._answers(f"http://127.0.0.1:{self._box.ports.http}/healthz"),
            "backend": self._backend_answers,
            "renderer": self._renderer_answers,
        }
        process = self._book.last(part)
        if part not in healthy or process is None:
            raise UsageError(f"this stack has no part {part}", hint=f"its parts: {', '.join(healthy)}")
        kill_group(process.pid)
        self._await(part, lambda: self._book.last(part) != process and healthy[part]())

    def heal(self, reason: str) -> str | None:
        """The part's group is killed, which hangs and would not hear a signal; supervisord starts it anew at once.

        None when no part helps, or it is too early to say so of this one.
        """
        part = choose_part(reason, renderer_answers=reason == "clean_start" and self._renderer_answers())
        process = self._book.last(part) if part else None
        if part is None or process is None or not process.is_alive():
            return None
        if not is_due(
            age_s=time.time() - process.started_s,
            patience_s=BOOT_TIMEOUT_S,
            has_come_up=self._has_come_up(part, process),
            was_killed=part in self._killed,
        ):
            return None
        self._killed.add(part)
        kill_group(process.pid)
        return part

    def _has_come_up(self, part: str, process: Recorded) -> bool:
        """Whether this very process has served; one that hangs since then still holds its port."""
        if part != "renderer":
            return _is_listened_on(getattr(self._box.ports, part))
        try:
            # a renderer makes it anew when it is ready, and its predecessor's is older
            return self._ready_file.stat().st_mtime >= process.started_s
        except FileNotFoundError:
            return False

    def stop(self) -> None:
        """Nothing of the stack is left: its processes are gone and its ports are free."""
        facts_path(self._box).unlink(missing_ok=True)
        if not self._table.is_open:
            return
        self._table.close()
        deadline_s = time.monotonic() + STOP_TIMEOUT_S
        while left := self._list_left():
            if time.monotonic() > deadline_s:
                raise StackError(
                    f"the stack did not stop: {', '.join(left)}", hint="bv3-box work ends it at its next start"
                )
            time.sleep(_POLL_S)

    def _prepare(self) -> None:
        self._facts = None
        self._killed.clear()
        ports = self._box.ports
        for name in ("router", "http", "https", "backend"):
            if _is_listened_on(port := getattr(ports, name)):
                raise StackError(
                    f"port {port} ({name}) of box {self._box.name} is taken by another process",
                    hint="end it, or give the box other ports",
                )
        facts_path(self._box).unlink(missing_ok=True)
        self._ready_file.unlink(missing_ok=True)
        # No session, card or skill of an earlier boot survives.
        shutil.rmtree(self._data, ignore_errors=True)
        self._data.mkdir(mode=0o700, parents=True)
        for name in ("router", "sites", "backend", "renderer"):
            log = self._table.log_of(name)
            if log.exists():
                log.replace(log.with_suffix(".log.1"))
            log.touch(mode=0o600)

    def _describe_parts(self, *, dashboard_id: str) -> tuple[Part, ...]:
        ports, manifest = self._box.ports, self._manifest
        reference = (sys.executable, "-m", "infra.reference")
        sites = ("--http-port", str(ports.http), "--https-port", str(ports.https))
        state = ("--editors", manifest.editors, "--state", str(self._folder / "sites"))
        dry = {"OSW_SENDSCRIPT_DRYRUN": "1"} if self._mode is Mode.DRY else {}
        unbuffered = {"PYTHONUNBUFFERED": "1"}
        renderer_environment = {**unbuffered, **manifest.chromium_env}
        if manifest.playwright_node:
            renderer_environment["PLAYWRIGHT_NODEJS_PATH"] = manifest.playwright_node
        return (
            Part(name="router", argv=(*reference, "router", "--port", str(ports.router)), environment=unbuffered),
            Part(name="sites", argv=(*reference, "sites", *sites, *state), environment=unbuffered),
            Part(
                name="backend",
                argv=(*reference, "backend"),
                environment={
                    **unbuffered,
                    **dry,
                    "OPENSWARM_PORT": str(ports.backend),
                    "OPENSWARM_DATA_ROOT": str(self._data),
                    "REFERENCE_ROUTER_URL": f"http://127.0.0.1:{ports.router}",
                    "REFERENCE_SITES_URL": f"http://127.0.0.1:{ports.http}",
                    "REFERENCE_FAULTS": self._box.reference.faults,
                    "REFERENCE_SEED": str(self._box.reference.seed),
                    "REFERENCE_LEASH_SCALE": str(self._box.reference.leash_scale),
                },
                restart_line="BACKEND",
            ),
            Part(name="renderer", argv=self._renderer_argv(dashboard_id), environment=renderer_environment),
        )

    def _renderer_argv(self, dashboard_id: str) -> tuple[str, ...]:
        ports = self._box.ports
        return (
            sys.executable,
            "-m",
            "workers.renderer",
            f"--backend=http://127.0.0.1:{ports.backend}",
            f"--token-file={self._data / 'auth.token'}",
            f"--dashboard-id={dashboard_id}",
            f"--chromium={self._manifest.chromium}",
            *(f"--chromium-arg={argument}" for argument in self._manifest.chromium_args),
            # The sites answer under their real names, and nothing leaves the machine.
            f"--host-map=MAP *:443 127.0.0.1:{ports.https}, MAP *:80 127.0.0.1:{ports.http}",
            "--ignore-certificate-errors",
            f"--ready-file={self._ready_file}",
        )

    def _start_renderer(self, dashboard_id: str) -> None:
        parts = {part.name: part for part in self._describe_parts(dashboard_id=dashboard_id)}
        self._table.rewrite(parts["renderer"])
        self._table.start("renderer")

    def _product(self, dashboard_id: str) -> ProductClient:
        token = (self._data / "auth.token").read_text("ascii").strip()
        url = f"http://127.0.0.1:{self._box.ports.backend}"
        return ProductClient(ProductAddress(url=url, token=token, dashboard_id=dashboard_id))

    def _pin_dashboard(self) -> str:
        """The id of the one dashboard, which holds the audit card and nothing else now."""
        with self._product("") as product:
            found = product.list_dashboards()
        if len(found) != 1:
            raise StackError(f"a fresh data root has {len(found)} dashboards instead of one")
        with self._product(found[0]) as product:
            cards = {card: _describe_card(card, found[0]) for card in (AUDIT_CARD, RAW_CARD)}
            product.write_layout({**product.read_layout(), "browser_cards": cards})
        return found[0]

    def _collect_facts(self, dashboard_id: str, *, revision: str) -> StackFacts:
        ports = self._box.ports
        if not revision:
            raise StackError("the reference stack did not tell its revision")
        return StackFacts(
            mode=self._mode,
            lane=self._box.lane,
            renderer=self._box.renderer,
            revision=revision,
            tree_clean=None,
            checkout=None,
            backend_url=f"http://127.0.0.1:{ports.backend}",
            backend_port=ports.backend,
            backend_executable=os.path.realpath(sys.executable),
            backend_folder=str(REPOSITORY),
            backend_words=("-m", "infra.reference", "backend"),
            router_url=f"http://127.0.0.1:{ports.router}",
            router_adopted=False,
            foreign_ports=ports.foreign,
            token_file=str(self._data / "auth.token"),
            dashboard_id=dashboard_id,
            audit_card=AUDIT_CARD,
            raw_card=RAW_CARD,
            log_file=str(self._table.log_of("backend")),
            metrics_file=str(self._data / "browser_metrics" / "tasks.jsonl"),
            truth_file=str(self._data / "truth.jsonl"),
            parts={"backend": ports.backend, "router": ports.router, "sites": ports.http, "renderer": None},
        )

    def _await(self, part: str, condition: Callable[[], bool]) -> None:
        deadline_s = time.monotonic() + BOOT_TIMEOUT_S
        while not condition():
            if self._give_up():
                raise StackError("the box was told to end before its stack was up")
            if time.monotonic() > deadline_s or not self._table.is_alive():
                raise StackError(
                    f"the {part} of box {self._box.name} does not come up: {self._table.read_tail(part)}",
                    hint=f"see {self._table.log_of(part)}",
                )
            time.sleep(_POLL_S)

    def _answers(self, url: str) -> bool:
        try:
            return self._http.get(url).is_success
        except httpx.HTTPError:
            return False

    def _backend_answers(self) -> bool:
        try:
            with self._product("") as product:
                product.list_dashboards()
        except (ProductError, OSError):
            return False
        return True

    def _renderer_answers(self) -> bool:
        """Whether the renderer of the booted stack is healthy by bv3's own card."""
        try:
            return self._facts is not None and self._audit_card_answers(self._facts)
        except OSError:
            # a backend that is starting anew writes its token again
            return False

    def _audit_card_answers(self, facts: StackFacts) -> bool:
        with self._product(facts.dashboard_id) as product:
            return probe_renderer(product, AUDIT_CARD).answered

    def _list_left(self) -> list[str]:
        ports = self._box.ports
        names = ("router", "http", "https", "backend")
        taken = [f"port {getattr(ports, name)}" for name in names if _is_listened_on(getattr(ports, name))]
        parts = {item.pid: item.name for item in self._book.read() if item.name in _STACK_PARTS}
        spare = frozenset(item.pid for item in self._book.read() if item.name not in _STACK_PARTS)
        alive = [f"{parts.get(p.pid, 'a child')} (pid {p.pid})" for p in find_survivors(self._book, spare=spare)]
        return taken + alive


_STACK_PARTS = frozenset({"supervisord", "router", "sites", "backend", "renderer"})


def _describe_card(browser_id: str, dashboard_id: str) -> dict[str, Any]:
    """A user's card, which the product never reuses and never closes."""
    return {
        "browser_id": browser_id,
        "url": "about:blank",
        "tabs": [],
        "activeTabId": "",
        "spawned_by": None,
        "keep_open": True,
        "dashboard_id": dashboard_id,
        "x": 0,
        "y": 0,
        "width": 400,
        "height": 300,
    }


def _is_listened_on(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex(("127.0.0.1", port)) == 0
