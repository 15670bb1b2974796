"""Before every run: is the box alone, whole, in the right mode, quiet and clean? A refusal costs no attempt."""

from __future__ import annotations

import contextlib
import shutil
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil

from broker.errors import Bv3Error
from broker.types import Mode, Probe
from workers.cleaning import clean_up, find_leftovers
from workers.client.errors import ProductError
from workers.client.product import ProductClient
from workers.processes import ProcessBook
from workers.stack.facts import StackFacts

PROBE_TIMEOUT_S = 2.0
ROUTER_TIMEOUT_S = 1.0
# A record, its evidence and the log of one run must fit.
NEEDED_BYTES = 64 * 1024 * 1024
_LISTEN = "0A"


class Refusal(Bv3Error):  # noqa: N818  # it is an answer
    """This box must not run anything now; `reason` is the kind, short enough to count by."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(f"{reason}: {message}")
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """What preflight found, kept in the record."""

    mode: Mode
    probe: Probe


@dataclass(frozen=True, slots=True, kw_only=True)
class Preflight:
    """The checks of one box. `check` takes some tens of milliseconds."""

    facts: StackFacts
    product: ProductClient
    book: ProcessBook
    router: httpx.Client

    def check(self, wanted: Mode) -> Readiness:
        """All is well. Raises Refusal with the first reason why not."""
        self._check_space()
        mode = self._check_backend()
        if mode is not wanted:
            raise Refusal("mode", f"the backend runs {mode}, the order wants {wanted}")
        self.check_alone()
        self._check_router()
        try:
            self._check_product()
        except ProductError as error:
            raise Refusal("backend", error.message) from error
        probe = probe_renderer(self.product, self.facts.audit_card)
        if not probe.answered:
            raise Refusal("renderer", f"the audit card does not answer: {probe.error}")
        return Readiness(mode=mode, probe=probe)

    def _check_space(self) -> None:
        free = shutil.disk_usage(self.book.folder).free
        if free < NEEDED_BYTES:
            raise Refusal("space", f"{free // 2**20} MB are free in {self.book.folder}")

    def _check_backend(self) -> Mode:
        """One process listens on the backend's port, it is the one we started, and this is its mode."""
        ours = self.book.last("backend")
        if ours is None or not ours.is_alive():
            raise Refusal("backend", "the backend does not run")
        try:
            process = psutil.Process(ours.pid)
            if not _listens_on(process, self.facts.backend_port):
                raise Refusal("backend", f"our backend does not listen on port {self.facts.backend_port}")
            if process.exe() != self.facts.backend_executable:
                raise Refusal("build", f"the backend runs {process.exe()}, not {self.facts.backend_executable}")
            return read_mode(process)
        except psutil.Error as error:
            raise Refusal("backend", f"the backend can't be looked at: {error}") from error

    def check_alone(self) -> None:
        """Nobody else serves where this box's product does. Raises Refusal."""
        listeners = count_listeners(self.facts.backend_port)
        if listeners > 1:
            raise Refusal("backend_count", f"{listeners} sockets listen on port {self.facts.backend_port}")
        for port in self.facts.foreign_ports:
            if count_listeners(port):
                raise Refusal("foreign", f"somebody listens on the foreign port {port}")

    def _check_router(self) -> None:
        try:
            answer = self.router.get(f"{self.facts.router_url}/v1/models", timeout=ROUTER_TIMEOUT_S)
        except httpx.HTTPError as error:
            raise Refusal("router", f"the router does not answer: {type(error).__name__}") from error
        if not answer.is_success:
            raise Refusal("router", f"the router answers {answer.status_code}")

    def _check_product(self) -> None:
        """Quiet and clean; what an earlier run left is removed first."""
        leftovers = find_leftovers(self.product, self.facts.audit_card)
        if leftovers.is_any:
            clean_up(self.product, leftovers)
            leftovers = find_leftovers(self.product, self.facts.audit_card)
        if leftovers.is_any:
            raise Refusal("clean_start", f"still there from an earlier run: {leftovers}")
        if active := self.product.count_active():
            raise Refusal("busy", f"the product works on {active} sessions that are not ours")


def probe_renderer(product: ProductClient, card: str, *, timeout_s: float = PROBE_TIMEOUT_S) -> Probe:
    """Whether the renderer answers on our own card, seen directly instead of guessed from the product's lines."""
    begun_s = time.monotonic()
    error = ""
    try:
        text = product.evaluate(card, "6 * 7", timeout_s=timeout_s)
        if text != "42":
            error = f"6 * 7 gave {text[:40]!r}"
    except ProductError as failure:
        error = failure.message
    return Probe(answered=not error, duration_ms=round((time.monotonic() - begun_s) * 1000), error=error)


def read_mode(process: psutil.Process) -> Mode:
    """The mode in the running process's environment; a missing variable counts as live."""
    return Mode.DRY if process.environ().get("OSW_SENDSCRIPT_DRYRUN") == "1" else Mode.LIVE


def count_listeners(port: int) -> int:
    """How many sockets listen on this TCP port, in this network namespace, whoever owns them."""
    if sys.platform == "linux":
        return sum(_count_lines(Path(f"/proc/self/net/{table}"), port) for table in ("tcp", "tcp6"))
    with contextlib.suppress(psutil.AccessDenied):
        return sum(c.status == psutil.CONN_LISTEN and c.laddr.port == port for c in psutil.net_connections("tcp"))
    # An ordinary user of macOS sees no other user's sockets: connecting tells at least one from none.
    return _count_by_connecting(port)


def _count_lines(table: Path, port: int) -> int:
    wanted = f":{port:04X}"
    try:
        lines = table.read_text("ascii").splitlines()[1:]
    except FileNotFoundError:
        return 0
    return sum(fields[3] == _LISTEN and fields[1].endswith(wanted) for line in lines if (fields := line.split()))


def _count_by_connecting(port: int) -> int:
    import socket  # noqa: PLC0415  # macOS only

    with socket.socket() as line:
        line.settimeout(0.5)
        return int(line.connect_ex(("127.0.0.1", port)) == 0)


def _listens_on(process: psutil.Process, port: int) -> bool:
    return any(
        connection.status == psutil.CONN_LISTEN and connection.laddr.port == port
        for connection in process.net_connections("tcp")
    )
