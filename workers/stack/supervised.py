"""A stack whose parts run under supervisord: what every driver of one does, and the few steps that differ.

The order is always the same. What listens where the stack wants to is refused; folders and logs are made anew;
the parts are started in waves, each waited for by a real request; the dashboard is pinned by its id, and bv3's
own cards are put into its layout, which a renderer reads only when it mounts; then the renderer is started, and
is healthy when it answers on such a card.

A driver says: which parts there are and in which waves (`waves`), how each is started (`describe_part`) and known
to be healthy (`is_healthy`), which ports are its own (`own_ports`), what was built (`read_build`), and how its
backend is told from other programs (`backend_words`, `backend_folder`). It may prepare more (`prepare`) and wait
for what it does not start itself (`settle`).
"""

from __future__ import annotations

import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import psutil

from broker.errors import StackError, UsageError
from broker.settings import Manifest
from broker.types import Mode
from workers.boxfile import BoxFile
from workers.client.errors import ProductError
from workers.client.product import ProductAddress, ProductClient
from workers.preflight import probe_renderer
from workers.processes import ProcessBook, Recorded, find_survivors, kill_group, kill_survivors
from workers.stack.driver import AUDIT_CARD, RAW_CARD, facts_path, folder_of
from workers.stack.facts import StackFacts, write_facts
from workers.stack.healing import choose_part, is_due
from workers.stack.own_cards import pin_dashboard
from workers.stack.parts import Part, PartsTable
from workers.stack.ports import is_listened_on, listens_on

# How long the parts may take to end by themselves, and then all of them together.
GRACE_S = 2.0
STOP_TIMEOUT_S = 10.0
_POLL_S = 0.03

Announce = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """What was started: its revision, whether its tree has no change of its own, where it lies."""

    revision: str
    tree_clean: bool | None = None
    checkout: str | None = None


class SupervisedDriver(ABC):
    """Boots one stack with a fresh data root and watches it. See the module for what a subclass says."""

    # how long one part may take to come up
    boot_timeout_s = 60.0

    def __init__(
        self,
        box: BoxFile,
        manifest: Manifest,
        book: ProcessBook,
        *,
        mode: Mode,
        lock_fd: int,
        announce: Announce = lambda _part: None,
    ) -> None:
        self.box = box
        self.manifest = manifest
        self.book = book
        self.mode = mode
        self.folder = folder_of(box)
        self.data = self.folder / "data"
        self.ready_file = self.folder / "renderer.ready"
        self.table = PartsTable(self.folder, book)
        self._lock_fd = lock_fd
        self._announce = announce
        self._give_up: Callable[[], bool] = lambda: False
        self._facts: StackFacts | None = None
        # parts that `heal` has killed since the boot
        self._killed: set[str] = set()

    # The steps that differ.

    @property
    @abstractmethod
    def waves(self) -> tuple[tuple[str, ...], ...]:
        """The parts that are started together, wave by wave; the renderer comes after all of them."""

    @abstractmethod
    def describe_part(self, name: str, *, dashboard_id: str) -> Part:
        """How the part is started. The renderer's is asked for again when the dashboard is known."""

    @abstractmethod
    def is_healthy(self, name: str) -> bool:
        """Whether the part has answered a real request just now."""

    @abstractmethod
    def own_ports(self) -> Mapping[str, int]:
        """The ports that nobody may hold before the stack, and nobody holds after it, by their name in the file."""

    def ports_after(self) -> Mapping[str, int]:
        """The ports that nobody holds once the stack has stopped."""
        return self.own_ports()

    @abstractmethod
    def read_build(self) -> Build:
        """What is started. Runs beside the boot. Raises StackError."""

    def prepare(self) -> None:  # noqa: B027  # most have nothing to say here
        """What must be there before the first part is started. Raises StackError naming what is missing."""

    def settle(self) -> None:  # noqa: B027  # as above
        """What the stack needs and no wave started has come up. Raises StackError."""

    @abstractmethod
    def backend_words(self) -> tuple[str, ...]:
        """The arguments behind the backend's executable."""

    @property
    @abstractmethod
    def backend_folder(self) -> str:
        """The backend's working folder."""

    @property
    def router_adopted(self) -> bool:
        """Whether the router was there before us."""
        return False

    @property
    def truth_file(self) -> str | None:
        """Where the stack tells what it did; None: it does not."""
        return None

    # What is the same for all.

    @property
    def part_names(self) -> tuple[str, ...]:
        """Every part, in the order of starting."""
        return (*(name for wave in self.waves for name in wave), "renderer")

    def boot(self, *, give_up: Callable[[], bool]) -> StackFacts:
        """The stack is healthy; its facts are returned and on disk. `give_up` ends the waiting with a StackError."""
        self._give_up = give_up
        self._clear()
        self.prepare()
        with ThreadPoolExecutor(max_workers=1, thread_name_prefix="build") as beside:
            build = beside.submit(self.read_build)
            parts = tuple(self.describe_part(name, dashboard_id="") for name in self.part_names)
            self.table.open(parts, lock_fd=self._lock_fd)
            for wave in self.waves:
                self._start_wave(wave)
            self.settle()
            dashboard_id = pin_dashboard(self._product)
            self.table.rewrite(self.describe_part("renderer", dashboard_id=dashboard_id))
            self.table.start("renderer")
            facts = self._collect_facts(dashboard_id, build.result())
        self._facts = facts
        self._bring_up("renderer")
        write_facts(facts_path(self.box), facts)
        return facts

    def is_alive(self) -> bool:
        """Whether supervisord watches over the parts."""
        return self.table.is_alive()

    def describe(self) -> dict[str, str]:
        """The state of each part, in supervisord's words."""
        return self.table.describe()

    def restart(self, part: str) -> None:
        """The part is started anew and has answered a real request."""
        process = self.book.last(part)
        if part not in self.part_names or process is None:
            raise UsageError(f"this stack has no part {part}", hint=f"its parts: {', '.join(self.part_names)}")
        self.table.restart(part)
        self.wait_for(part, lambda: self.book.last(part) != process and self.is_healthy(part))

    def heal(self, reason: str) -> str | None:
        """The part's group is killed, which hangs and would not hear a signal; supervisord starts it anew at once.

        None when no part helps, or it is too early to say so of this one.
        """
        part = choose_part(reason, renderer_answers=reason == "clean_start" and self.renderer_answers())
        process = self.book.last(part) if part in self.part_names else None
        if part is None or process is None or not process.is_alive():
            return None
        if not is_due(
            age_s=time.time() - process.started_s,
            patience_s=self.boot_timeout_s,
            has_come_up=self._has_come_up(part, process),
            was_killed=part in self._killed,
        ):
            return None
        self._killed.add(part)
        kill_group(process.pid)
        return part

    def stop(self) -> None:
        """Nothing of the stack is left: its processes are gone and its ports are free."""
        facts_path(self.box).unlink(missing_ok=True)
        if not self.table.is_open:
            return
        self.table.close()
        begun_s = time.monotonic()
        while left := self._list_left():
            if (waited_s := time.monotonic() - begun_s) > STOP_TIMEOUT_S:
                raise StackError(f"the stack did not stop: {', '.join(left)}", hint="bv3-box down ends it")
            if waited_s > GRACE_S:
                # what left its part's group, as an installer or a router of the product's own does
                kill_survivors(self.book, spare=self._others())
            time.sleep(_POLL_S)

    def wait_for(
        self, part: str, condition: Callable[[], bool], *, timeout_s: float | None = None, hint: str | None = None
    ) -> None:
        """The condition holds. Raises StackError when it does not in time, or nobody wants it any more."""
        deadline_s = time.monotonic() + (self.boot_timeout_s if timeout_s is None else timeout_s)
        while not condition():
            if self._give_up():
                raise StackError("the box was told to end before its stack was up")
            if time.monotonic() > deadline_s or not self.table.is_alive():
                said = self.table.read_tail(part)
                raise StackError(
                    f"the {part} of box {self.box.name} does not come up{f': {said}' if said else ''}",
                    hint=hint or f"see {self.table.log_of(part)}",
                )
            time.sleep(_POLL_S)

    def holds(self, part: str, port: int) -> bool:
        """Whether the part, or a child of it, is who listens on the port."""
        process = self.book.last(part)
        if process is None or not process.is_alive():
            return False
        try:
            leader = psutil.Process(process.pid)
            return any(listens_on(one, port) for one in (leader, *leader.children(recursive=True)))
        except psutil.Error:
            return False

    def backend_answers(self) -> bool:
        """Whether the backend answers a request that needs the token, and has made its dashboard."""
        try:
            with self._product("") as product:
                return bool(product.list_dashboards())
        except (ProductError, OSError):
            return False

    def renderer_answers(self) -> bool:
        """Whether the renderer of the booted stack is healthy by bv3's own card."""
        try:
            return self._facts is not None and self._audit_card_answers(self._facts)
        except OSError:
            # a backend that is starting anew writes its token again
            return False

    def _start_wave(self, wave: tuple[str, ...]) -> None:
        for name in wave:
            self.table.start(name)
        for name in wave:
            self._bring_up(name)

    def _bring_up(self, name: str) -> None:
        self.wait_for(name, lambda: self.is_healthy(name))
        self._announce(name)

    def _clear(self) -> None:
        """Ports are free, folders empty, logs new."""
        self._facts = None
        self._killed.clear()
        for name, port in self.own_ports().items():
            if is_listened_on(port):
                raise StackError(
                    f"port {port} ({name}) of box {self.box.name} is taken by another process",
                    hint=self.say_of_taken(name),
                )
        facts_path(self.box).unlink(missing_ok=True)
        self.ready_file.unlink(missing_ok=True)
        # No session, card or skill of an earlier boot survives.
        shutil.rmtree(self.data, ignore_errors=True)
        self.data.mkdir(mode=0o700, parents=True)
        for name in self.part_names:
            log = self.table.log_of(name)
            if log.exists():
                log.replace(log.with_suffix(".log.1"))
            log.touch(mode=0o600)

    def say_of_taken(self, name: str) -> str:  # noqa: ARG002  # a driver may know more of one of them
        """What a person does about a port of that name which somebody else holds."""
        return "end it, or give the box other ports"

    def _product(self, dashboard_id: str) -> ProductClient:
        token = (self.data / "auth.token").read_text("ascii").strip()
        url = f"http://127.0.0.1:{self.box.ports.backend}"
        return ProductClient(ProductAddress(url=url, token=token, dashboard_id=dashboard_id))

    def _collect_facts(self, dashboard_id: str, build: Build) -> StackFacts:
        ports = self.box.ports
        return StackFacts(
            mode=self.mode,
            lane=self.box.lane,
            model=self.box.product.model,
            faults=self.box.reference.told,
            leash_scale=self.box.reference.leash_scale,
            renderer=self.box.renderer,
            revision=build.revision,
            tree_clean=build.tree_clean,
            checkout=build.checkout,
            backend_url=f"http://127.0.0.1:{ports.backend}",
            backend_port=ports.backend,
            backend_executable=self._read_executable(),
            backend_folder=self.backend_folder,
            backend_words=self.backend_words(),
            router_url=f"http://127.0.0.1:{ports.router}",
            router_adopted=self.router_adopted,
            foreign_ports=ports.foreign,
            token_file=str(self.data / "auth.token"),
            dashboard_id=dashboard_id,
            audit_card=AUDIT_CARD,
            raw_card=RAW_CARD,
            log_file=str(self.table.log_of("backend")),
            metrics_file=str(self.data / "browser_metrics" / "tasks.jsonl"),
            truth_file=self.truth_file,
            parts={name: self.port_of(name) for name in self.part_names},
        )

    def port_of(self, part: str) -> int | None:
        """The port that the part serves on."""
        name = {"sites": "http"}.get(part, part)
        return getattr(self.box.ports, name, None)

    def _read_executable(self) -> str:
        """What the running backend is, links resolved: a script may have stood before it."""
        process = self.book.last("backend")
        try:
            return psutil.Process(process.pid if process else 0).exe()
        except psutil.Error as error:
            raise StackError(f"the backend of box {self.box.name} can't be looked at: {error}") from error

    def _has_come_up(self, part: str, process: Recorded) -> bool:
        """Whether this very process has served; one that hangs since then still holds its port."""
        if (port := self.port_of(part)) is not None:
            return is_listened_on(port)
        try:
            # a renderer makes it anew when it is ready, and its predecessor's is older
            return self.ready_file.stat().st_mtime >= process.started_s
        except FileNotFoundError:
            return False

    def _audit_card_answers(self, facts: StackFacts) -> bool:
        with self._product(facts.dashboard_id) as product:
            return probe_renderer(product, AUDIT_CARD).answered

    def _others(self) -> frozenset[int]:
        """The box's processes that are no part of the stack."""
        parts = {"supervisord", *self.part_names}
        return frozenset(item.pid for item in self.book.read() if item.name not in parts)

    def _list_left(self) -> list[str]:
        taken = [f"port {port}" for port in self.ports_after().values() if is_listened_on(port)]
        names = {item.pid: item.name for item in self.book.read()}
        survivors = find_survivors(self.book, spare=self._others())
        return taken + [f"{names.get(one.pid, 'a child')} (pid {one.pid})" for one in survivors]
