"""What a worker process holds from run to run: its connections, its journal, and its runner."""

from __future__ import annotations

import platform
import secrets
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from uuid import UUID

import httpx
import structlog

from broker.errors import Bv3Error
from broker.store.box_client import BoxClient
from broker.types import RunOrder
from workers.attempt import Bench
from workers.boxfile import BoxFile, load_box
from workers.client.product import ProductAddress, ProductClient
from workers.evidence import EvidenceStore
from workers.farm import FarmDoor
from workers.holding import read_drained
from workers.journal import Journal
from workers.preflight import Preflight, Refusal
from workers.processes import ProcessBook
from workers.record import BoxFacts
from workers.runner import Runner
from workers.stack.driver import facts_path
from workers.stack.facts import StackFacts, read_facts

log = structlog.get_logger(__name__)

_CONTENDED_POLL_S = 0.5
_SAID_CHARS = 500


def journal_path(box: BoxFile) -> Path:
    """The box's journal."""
    return box.folder / "journal.sqlite"


def find_running(box: BoxFile) -> str:
    """The name of the run that is under way on this box; empty when there is none."""
    if not journal_path(box).exists():
        return ""
    journal = Journal(journal_path(box))
    try:
        entry = journal.read_running()
        return entry.name if entry is not None else ""
    finally:
        journal.close()


def evidence_store(box: BoxFile) -> EvidenceStore:
    """The box's evidence."""
    return EvidenceStore(folder=box.folder / "evidence")


def make_preflight(box: BoxFile, facts: StackFacts) -> Preflight:
    """The checks of this box's booted stack."""
    address = ProductAddress(
        url=facts.backend_url,
        token=facts.read_token(),
        dashboard_id=facts.dashboard_id,
        model=facts.model,
    )
    return Preflight(
        facts=facts,
        product=ProductClient(address),
        book=ProcessBook(folder=box.folder),
        router=httpx.Client(trust_env=False),
        limits=box.limits,
        shares_namespace=box.isolation == "ports",
        has_farm=box.has_farm,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Workplace:
    """One worker process at work."""

    box: BoxFile
    journal: Journal
    runner_for: Callable[[Callable[[str], None]], Runner]
    tell_supervisor: Callable[[str], None]
    # Redis may hang; who watches in Flower must not slow a run.
    flower: ThreadPoolExecutor

    def work(self, order: RunOrder, *, show_progress: Callable[[str], None]) -> None:
        """The order is done with. After a refusal the box takes nothing until it is fit again."""

        def announce(phase: str) -> None:
            self.tell_supervisor(f"phase {phase}")
            self.flower.submit(_try_to_show, show_progress, phase)

        runner = self.runner_for(announce)
        refusal = runner.run(order)
        if refusal is not None:
            self._wait_until_fit(runner.bench.preflight, refusal, run=order.run)
        self.tell_supervisor("idle")

    def settle(self) -> None:
        """No run is open in the journal; the supervisor hears of each that was. Only while none runs."""
        for entry in self.journal.settle():
            log.warning("died", run=entry.name, attempt=entry.attempt)
            self.tell_supervisor(f"died {entry.attempt}")

    def _wait_until_fit(self, preflight: Preflight, refusal: Refusal, *, run: int) -> None:
        """The box is fit again; the supervisor has heard of each reason meanwhile, and of the time it took."""
        begun_s = time.monotonic()
        last = ""
        while (again := _find_refusal(preflight, refusal)) is not None:
            if again.reason != last:
                log.warning("contended", reason=again.message)
                last = again.reason
            self.tell_supervisor(f"contended {again.reason} {_as_line(again.said)}")
            time.sleep(_CONTENDED_POLL_S)
        # An order of another mode is refused by a fit box, too: nothing was waited for.
        if last:
            self.tell_supervisor(f"fit {time.monotonic() - begun_s:.1f} {run}")
            log.info("fit")


def _find_refusal(preflight: Preflight, before: Refusal) -> Refusal | None:
    """Why the box is not fit now; what can't be named more exactly is what it was before."""
    try:
        preflight.check(preflight.facts.mode)
    except Refusal as refusal:
        return refusal
    except Bv3Error as error:
        return Refusal(before.reason, error.message)
    except Exception as error:
        log.exception("bug in the preflight")
        return Refusal("harness", f"{type(error).__name__}: {error}")
    return None


def _as_line(text: str) -> str:
    """Fit for the line to the supervisor: ASCII, no line's end, written at once."""
    return " ".join(text.split()).encode("ascii", "backslashreplace").decode("ascii")[:_SAID_CHARS]


def _try_to_show(show: Callable[[str], None], phase: str) -> None:
    try:
        show(phase)
    except Exception as error:  # noqa: BLE001  # whatever Redis does, a picture of progress is worth no run
        log.warning("progress not shown", phase=phase, cause=f"{type(error).__name__}: {error}")


def open_workplace(box_file: Path, *, token: str, tell_supervisor: Callable[[str], None]) -> Workplace:
    """Everything is open. Made in the process that runs the orders: connections don't survive a fork."""
    box = load_box(box_file)
    facts = read_facts(facts_path(box))
    preflight = make_preflight(box, facts)
    journal = Journal(journal_path(box))
    client = BoxClient(box.farm().database_url, application=f"bv3-{box.name}-worker")
    bench = Bench(preflight=preflight, journal=journal, evidence=evidence_store(box))
    farm = FarmDoor(client, UUID(token))
    box_facts = BoxFacts(
        box=box.name,
        lane=facts.lane,
        renderer=facts.renderer,
        product_revision=facts.revision,
        versions=read_versions(),
        faults=facts.faults,
        leash_scale=facts.leash_scale,
    )

    def runner_for(announce: Callable[[str], None]) -> Runner:
        return Runner(
            bench=bench,
            farm=farm,
            box=box_facts,
            announce=announce,
            make_nonce=lambda: secrets.token_hex(16),
            read_drained=lambda: read_drained(box.folder),
        )

    workplace = Workplace(
        box=box,
        journal=journal,
        runner_for=runner_for,
        tell_supervisor=tell_supervisor,
        flower=ThreadPoolExecutor(max_workers=1, thread_name_prefix="flower"),
    )
    # Concurrency is 1, and this process has just begun: whatever is open was another's, who is dead.
    workplace.settle()
    return workplace


def read_versions() -> dict[str, str]:
    """The versions that a result may depend on."""
    found = {"python": platform.python_version()}
    for package in ("bv3", "celery", "playwright", "psycopg"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found
