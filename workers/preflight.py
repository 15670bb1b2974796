"""Before every run: is the box alone, whole, in the right mode, quiet and clean? A refusal costs no attempt."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

import httpx
import psutil

from broker.errors import Bv3Error
from broker.types import Mode, Probe
from workers import conditions, machine
from workers.boxfile import Limits
from workers.cleaning import NotCleanError, clean_up, find_leftovers
from workers.client.errors import ProductError
from workers.client.product import ProductClient
from workers.clock import read_offset
from workers.conditions import Answer, BackendView, BackendWanted, Condition, ProgramWords
from workers.machine import Listener
from workers.occupancy import find_handwork
from workers.processes import ProcessBook
from workers.stack.facts import StackFacts

PROBE_TIMEOUT_S = 2.0
ROUTER_TIMEOUT_S = 1.0
_MOST_NAMED = 5


class Refusal(Bv3Error):  # noqa: N818  # it is an answer
    """This box must not run anything now; `reason` is the kind, short enough to count by."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(f"{reason}: {message}")
        self.reason = reason
        self.said = message


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """What preflight found, kept in the record."""

    mode: Mode
    probe: Probe


@dataclass(slots=True)
class _Seen:
    """What one pass over the conditions has read, for those that come later."""

    wanted: Mode
    # nothing of an earlier run is removed: only looked at
    only_look: bool = False
    # the run that is under way, when somebody looks meanwhile
    running: str = ""
    listeners: tuple[Listener, ...] | None = None
    backend: BackendView | None = None
    probe: Probe | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Preflight:
    """The checks of one box. `check` takes some tens of milliseconds."""

    facts: StackFacts
    product: ProductClient
    book: ProcessBook
    router: httpx.Client
    limits: Limits = field(default_factory=Limits)
    # whether boxes share the network namespace, each with a block of ports
    shares_namespace: bool = False
    has_farm: bool = True
    read_clock: Callable[[], datetime] = lambda: datetime.now(UTC)

    def __enter__(self) -> Self:
        """The preflight itself; its connections are closed at the end of the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """See above."""
        self.product.close()
        self.router.close()

    def check(self, wanted: Mode) -> Readiness:
        """All is well. Raises Refusal with the first reason why not."""
        seen = _Seen(wanted=wanted)
        for look in self._looks():
            for condition in look(seen):
                if condition.answer is Answer.REFUSED:
                    raise Refusal(condition.reason, condition.said)
        if seen.backend is None or seen.probe is None:
            raise Refusal("backend", "the backend could not be looked at")
        return Readiness(mode=seen.backend.mode, probe=seen.probe)

    def list_conditions(self, wanted: Mode, *, running: str = "") -> tuple[Condition, ...]:
        """Every condition, also after one that refuses. Nothing is removed or changed.

        `running`: the run that is under way meanwhile, whose sessions and cards are no leftovers.
        """
        seen = _Seen(wanted=wanted, only_look=True, running=running)
        return tuple(condition for look in self._looks() for condition in look(seen))

    def list_intrusions(self) -> tuple[Condition, ...]:
        """What refuses of that which may happen to a box while a run is on: another stack comes, the router goes."""
        seen = _Seen(wanted=self.facts.mode)
        looks = (self._look_at_others, self._look_at_foreign, self._look_at_router)
        return tuple(item for look in looks for item in look(seen) if item.answer is Answer.REFUSED)

    def _looks(self) -> tuple[Callable[[_Seen], Iterator[Condition]], ...]:
        """In the order of LOOKED_AT: what is cheap and local first, what asks the product last."""
        return (
            self._look_at_machine,
            self._look_at_clock,
            self._look_at_backend,
            self._look_at_others,
            self._look_at_foreign,
            self._look_at_router,
            self._look_at_handwork,
            self._look_at_leftovers,
            self._look_at_activity,
            self._look_at_renderer,
        )

    def _list_listeners(self, seen: _Seen, *ports: int) -> tuple[Listener, ...]:
        """Who listens on these ports. The kernel's tables are read once a pass, since they may be long."""
        if seen.listeners is None:
            every = {self.facts.backend_port, self._router_port, *self.facts.foreign_ports}
            seen.listeners = machine.list_listeners(every)
        return tuple(item for item in seen.listeners if item.port in ports)

    @property
    def _router_port(self) -> int:
        return httpx.URL(self.facts.router_url).port or 80

    def _look_at_machine(self, _: _Seen) -> Iterator[Condition]:
        yield from list_machine_conditions(self.book.folder, self.limits)

    def _look_at_clock(self, _: _Seen) -> Iterator[Condition]:
        offset, now = read_offset(self.book.folder), self.read_clock()
        yield conditions.judge_clock(offset, self.limits.clock_offset_s, now=now, has_farm=self.has_farm)

    def _look_at_backend(self, seen: _Seen) -> Iterator[Condition]:
        """The recorded process lives, listens, is what was booted, runs in the wanted mode, writes the log."""
        ours = self.book.last("backend")
        port = self.facts.backend_port
        if ours is None or not ours.is_alive():
            yield conditions.refuse("backend", "the backend that this box started does not run")
            return
        try:
            seen.backend = machine.view_backend(ours.pid)
        except (psutil.Error, OSError) as error:
            yield conditions.refuse("backend", f"the backend can't be looked at: {error}")
            return
        listeners = self._list_listeners(seen, port)
        if len(machine.choose_foreign(listeners, ours.pid)) == len(listeners):
            yield conditions.refuse("backend", f"our backend, pid {ours.pid}, does not listen on port {port}")
        else:
            yield conditions.hold("backend", f"pid {ours.pid} listens on port {port}")
        yield self._judge_build(seen.backend)
        yield conditions.judge_mode(seen.backend.mode, seen.wanted)
        yield conditions.judge_log(machine.look_for_log(ours.pid, self.facts.log_file), self.facts.log_file)

    def _judge_build(self, backend: BackendView) -> Condition:
        facts = self.facts
        wanted = BackendWanted(
            executable=os.path.realpath(facts.backend_executable),
            # the kernel knows no links on the way to it
            folder=os.path.realpath(facts.backend_folder),
            words=facts.backend_words,
        )
        found = conditions.judge_build(backend, wanted)
        if facts.checkout is None or found.answer is Answer.REFUSED:
            return found
        return conditions.judge_revision(machine.read_head(Path(facts.checkout)), facts.revision)

    def _look_at_others(self, seen: _Seen) -> Iterator[Condition]:
        """Nobody else serves where this box's product does."""
        facts, recorded = self.facts, self.book.last("backend")
        ours = recorded.pid if recorded is not None else None
        words = ProgramWords(executable=facts.backend_executable, words=facts.backend_words)
        others = conditions.choose_others(
            machine.find_programs(words),
            ours=ours,
            folder=str(self.book.folder),
            is_alone_in_namespace=not self.shares_namespace,
        )
        intruders = machine.choose_foreign(self._list_listeners(seen, facts.backend_port), ours)
        yield conditions.judge_alone(
            [machine.describe_process(item.pid) for item in others[:_MOST_NAMED]],
            machine.describe_holders(intruders) if intruders else "",
            port=facts.backend_port,
            count=len(others),
        )

    def _look_at_foreign(self, seen: _Seen) -> Iterator[Condition]:
        ports = frozenset(self.facts.foreign_ports)
        listeners = self._list_listeners(seen, *ports)
        holders = {
            port: machine.describe_holders([item for item in listeners if item.port == port])
            for port in {item.port for item in listeners}
        }
        yield conditions.judge_foreign(holders, ports)

    def _look_at_router(self, seen: _Seen) -> Iterator[Condition]:
        """It answers, and, unless it was there before us, it is the process that we started."""
        facts, recorded = self.facts, self.book.last("router")
        port = self._router_port
        if not facts.router_adopted and recorded is not None:
            intruders = machine.choose_foreign(self._list_listeners(seen, port), recorded.pid)
            if intruders:
                who = machine.describe_holders(intruders)
                yield conditions.refuse("router", f"port {port} is listened on by {who}, not by our router alone")
                return
        try:
            # its head alone: a body may drip for ever, and each drop is in time
            with self.router.stream("GET", f"{facts.router_url}/v1/models", timeout=ROUTER_TIMEOUT_S) as answer:
                pass
        except httpx.HTTPError as error:
            yield conditions.refuse("router", f"the router on port {port} does not answer: {type(error).__name__}")
            return
        if not answer.is_success:
            yield conditions.refuse("router", f"the router on port {port} answers {answer.status_code}")
            return
        whose = "adopted" if facts.router_adopted else f"pid {recorded.pid}" if recorded else "not recorded"
        yield conditions.hold("router", f"the router on port {port} answers ({whose})")

    def _look_at_handwork(self, _: _Seen) -> Iterator[Condition]:
        """Looked at before leftovers: what somebody works on by hand is none."""
        if who := find_handwork(self.book.folder):
            yield conditions.refuse("by_hand", f"the product is in use: {who}")
        else:
            yield conditions.hold("by_hand", "nobody uses the product by hand")

    def _look_at_leftovers(self, seen: _Seen) -> Iterator[Condition]:
        """What an earlier run left is removed first."""
        if seen.running:
            yield conditions.not_looked_at("clean_start", f"{seen.running} is under way")
            return
        try:
            leftovers = find_leftovers(self.product, self.facts.audit_card)
            if seen.only_look and leftovers.is_any:
                yield conditions.hold("clean_start", f"to be removed before a run: {leftovers}")
                return
            if leftovers.is_any:
                clean_up(self.product, leftovers)
                leftovers = find_leftovers(self.product, self.facts.audit_card)
        except NotCleanError as error:
            yield conditions.refuse("clean_start", error.message)
        except ProductError as error:
            yield conditions.refuse("backend", error.message)
        else:
            if leftovers.is_any:
                yield conditions.refuse("clean_start", f"still there from an earlier run: {leftovers}")
            else:
                yield conditions.hold("clean_start", "no session, child or card of an earlier run is there")

    def _look_at_activity(self, seen: _Seen) -> Iterator[Condition]:
        if seen.running:
            yield conditions.not_looked_at("busy", f"{seen.running} is under way")
            return
        try:
            active = self.product.count_active()
        except ProductError as error:
            yield conditions.refuse("backend", error.message)
            return
        if active:
            yield conditions.refuse("busy", f"the product works on {active} sessions that are no run's")
        else:
            yield conditions.hold("busy", "the product is quiet")

    def _look_at_renderer(self, seen: _Seen) -> Iterator[Condition]:
        probe = probe_renderer(self.product, self.facts.audit_card)
        if not probe.answered:
            yield conditions.refuse("renderer", f"the audit card does not answer: {probe.error}")
            return
        seen.probe = probe
        yield conditions.hold("renderer", f"the audit card answered in {probe.duration_ms} ms")


def list_machine_conditions(folder: Path, limits: Limits) -> Iterator[Condition]:
    """What is left of this machine for a box whose folder lies there, by its limits. Raises OSError."""
    shm = Path("/dev/shm")  # noqa: S108  # Chromium's, not ours
    free_mb = machine.count_free_mb(folder)
    yield conditions.judge_least("space", free_mb, limits.free_mb, f"MB are free in {folder}")
    free_inodes = machine.count_free_inodes(folder)
    yield conditions.judge_least("inodes", free_inodes, limits.free_inodes, f"files can be made in {folder}")
    shm_mb = machine.count_free_mb(shm) if limits.shm_mb is not None and shm.is_dir() else None
    yield conditions.judge_least("shm", shm_mb, limits.shm_mb, f"MB are free in {shm}")
    memory_mb = machine.count_available_mb() if limits.memory_mb is not None else None
    yield conditions.judge_least("memory", memory_mb, limits.memory_mb, "MB of memory are available")
    zombies = machine.count_zombies() if limits.zombies is not None else 0
    yield conditions.judge_most("zombies", zombies, limits.zombies, "ended processes wait to be reaped")
    load = machine.read_load_per_core()
    yield conditions.judge_most("load", load, limits.load_per_core, "is the load average per core")


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
