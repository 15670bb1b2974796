"""What a box is now: from its supervisor while that answers, and always from real processes, ports and requests."""

from __future__ import annotations

import json
import textwrap
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

import httpx
import psutil

from broker.errors import ServiceError, StackError
from workers.boxfile import BoxFile
from workers.checks import VERIFICATION
from workers.client.errors import ProductError
from workers.client.product import ProductAddress, ProductClient
from workers.control import ask
from workers.lock import is_locked, read_folder_lock
from workers.machine import describe_holders, find_holders, list_listeners, read_mode
from workers.outcome import read_outcome
from workers.preflight import probe_renderer
from workers.processes import ProcessBook, Recorded
from workers.stack.driver import facts_path
from workers.stack.facts import StackFacts, read_facts
from workers.stackkeeper import NO_PARTS

_REQUEST_TIMEOUT_S = 3.0
OK = "ok"
_COLUMNS = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class PartStatus:
    """One part of the stack, or a process beside it. None: there is nothing to tell."""

    name: str
    pid: int | None
    age_s: float | None = None
    # of it and of all that it has started
    memory_mb: int | None = None
    restarts: int = 0
    port: int | None = None
    # ok, or why not; None: it is asked nothing
    health: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxStatus:
    """One box as it is."""

    box: str
    # gone, starting, up, ready, running, held or draining
    state: str
    # what a held box is held by
    held: tuple[dict[str, str], ...]
    folder: str
    stack: str
    renderer: str
    lane: str
    # read from the environment of the running backend; None: none runs
    mode: str | None
    revision: str | None
    tree_clean: bool | None
    # markers that the product still prints, of all: None before the check
    verified: str | None
    supervisor_pid: int | None
    supervisor_age_s: float | None
    works: bool
    run: dict[str, Any] | None
    lease: dict[str, Any] | None
    parts: tuple[PartStatus, ...]
    # who listens where another stack would
    foreign: dict[str, str]
    problems: tuple[str, ...]
    last_end: str | None

    def as_json(self) -> str:
        """One line."""
        return json.dumps(asdict(self))


def read_status(box: BoxFile) -> BoxStatus:
    """The box as it is now; takes a few seconds at most, also when nothing answers."""
    seen, silent = _ask_supervisor(box)
    facts = _read_facts(box)
    parts = _list_parts(box, facts)
    mode = _read_running_mode(parts)
    foreign = {str(port): who for port in box.ports.foreign if (who := _name_listener(port))}
    held = _list_holds(seen)
    is_up = seen is not None or any(part.pid for part in parts)
    problems = _find_problems(seen, silent, facts) + _find_troubles(facts, parts, mode, foreign) if is_up else []
    outcome = read_outcome(box.folder)
    return BoxStatus(
        box=box.name,
        state=_name_state(seen, held, is_up=is_up),
        held=held,
        folder=str(box.folder),
        stack=box.stack,
        renderer=box.renderer,
        lane=box.lane,
        mode=mode,
        revision=facts.revision if facts else None,
        tree_clean=facts.tree_clean if facts else None,
        verified=_read_verified(box, facts),
        supervisor_pid=seen["pid"] if seen else None,
        supervisor_age_s=round(time.time() - seen["began_s"], 1) if seen else None,
        works=bool(seen and seen["works"]),
        run=seen["run"] if seen else None,
        lease=seen["lease"] if seen else None,
        parts=parts,
        foreign=foreign,
        problems=tuple(problems),
        last_end=f"{outcome.at}: {outcome.cause or 'it was told to'}" if outcome and not is_up else None,
    )


def _ask_supervisor(box: BoxFile) -> tuple[dict[str, Any] | None, str]:
    """Its words, or why there are none though a process has the folder."""
    try:
        seen = ask(box.folder, "look")
    except ServiceError as error:
        return None, error.message
    if seen is None and is_locked(box.folder):
        return None, f"the supervisor (pid {read_folder_lock(box.folder)[0]}) has just begun, or is ending"
    return seen, ""


def _read_facts(box: BoxFile) -> StackFacts | None:
    with suppress(StackError):
        return read_facts(facts_path(box))
    return None


def _list_holds(seen: dict[str, Any] | None) -> tuple[dict[str, str], ...]:
    if seen is None:
        return ()
    holds = [*seen["holds"]]
    if seen["phase"] == "contended":
        holds.append({"kind": "contended", "reason": seen["detail"], "ends": "itself, when the reason is gone"})
    return tuple(holds)


def _name_state(seen: dict[str, Any] | None, held: Sequence[object], *, is_up: bool) -> str:
    if seen is None:
        return "unattended" if is_up else "gone"
    if held and seen["phase"] != "running":
        return "held"
    return str(seen["phase"])


def _list_parts(box: BoxFile, facts: StackFacts | None) -> tuple[PartStatus, ...]:
    recorded = ProcessBook(folder=box.folder).read()
    count = Counter(item.name for item in recorded)
    newest = {item.name: item for item in recorded}
    ports = facts.parts if facts else {}
    names = [name for name in dict.fromkeys([*newest, *ports]) if name not in NO_PARTS]
    asked = [name for name in names if facts is not None]
    with ThreadPoolExecutor(max_workers=8) as pool:
        health = dict(zip(asked, pool.map(lambda name: ask_part(box, facts, name), asked), strict=True))
    # a box that rests has had a worker
    names += [name for name in ("supervisord", "worker") if name in newest and newest[name].is_alive()]
    return tuple(
        _describe(name, newest.get(name), restarts=count[name] - 1, port=ports.get(name), health=health.get(name))
        for name in names
    )


def _describe(name: str, item: Recorded | None, *, restarts: int, port: int | None, health: str | None) -> PartStatus:
    if item is None:
        # a router that was there before us
        holders = find_holders(list_listeners({port})) if port else ()
        return PartStatus(name=name, pid=holders[0] if holders else None, port=port, health=health)
    try:
        if not item.is_alive():
            raise psutil.NoSuchProcess(item.pid)
        process = psutil.Process(item.pid)
        # supervisord has started all the others, which stand on lines of their own
        family = [process, *([] if name == "supervisord" else process.children(recursive=True))]
        memory = sum(one.memory_info().rss for one in family if one.is_running()) // 2**20
        age_s = round(time.time() - process.create_time(), 1)
    except psutil.Error:
        return PartStatus(name=name, pid=None, restarts=restarts, port=port, health=health or "not running")
    return PartStatus(
        name=name, pid=item.pid, age_s=age_s, memory_mb=memory, restarts=restarts, port=port, health=health
    )


def ask_part(box: BoxFile, facts: StackFacts | None, name: str) -> str | None:
    """The part's answer to a real request: ok, or why not; None for a part that can't be asked anything."""
    if facts is None:
        return None
    requests: dict[str, Callable[[], str]] = {
        "backend": lambda: _ask_backend(facts),
        "renderer": lambda: _ask_renderer(facts),
        "router": lambda: _get(f"{facts.router_url}/v1/models"),
        "sites": lambda: _get(f"http://127.0.0.1:{box.ports.http}/healthz"),
        "frontend": lambda: _get(f"http://127.0.0.1:{box.ports.frontend}/"),
    }
    if name not in requests:
        return None
    try:
        return requests[name]()
    except (ProductError, StackError) as error:
        return error.message
    except httpx.HTTPError as error:
        return f"does not answer ({type(error).__name__})"


def _ask_backend(facts: StackFacts) -> str:
    with _product(facts) as product:
        product.list_dashboards()
    return OK


def _ask_renderer(facts: StackFacts) -> str:
    with _product(facts) as product:
        probe = probe_renderer(product, facts.audit_card)
    return OK if probe.answered else probe.error


def _product(facts: StackFacts) -> ProductClient:
    address = ProductAddress(url=facts.backend_url, token=facts.read_token(), dashboard_id=facts.dashboard_id)
    return ProductClient(address)


def _get(url: str) -> str:
    with httpx.Client(trust_env=False, timeout=_REQUEST_TIMEOUT_S) as line:
        answer = line.get(url)
    return OK if answer.is_success else f"answers {answer.status_code}"


def _read_running_mode(parts: Sequence[PartStatus]) -> str | None:
    pid = next((part.pid for part in parts if part.name == "backend"), None)
    with suppress(psutil.Error):
        return read_mode(psutil.Process(pid)).value if pid else None
    return "can't be read"


def _name_listener(port: int) -> str:
    listeners = list_listeners({port})
    return describe_holders(listeners) if listeners else ""


def _read_verified(box: BoxFile, facts: StackFacts | None) -> str | None:
    with suppress(OSError, ValueError, KeyError, TypeError):
        plain = json.loads((box.folder / VERIFICATION).read_text("utf-8"))
        if facts is not None and plain["product_revision"] == facts.revision:
            return f"{plain['alive']} of {plain['total']} markers"
    return None


def _find_problems(seen: dict[str, Any] | None, silent: str, facts: StackFacts | None) -> list[str]:
    """What is wrong with whoever answers for the box."""
    found = [silent] if silent else []
    if seen is None and not silent:
        found.append("the supervisor is dead; bv3-box down ends what is left, bv3-box up boots it anew")
    if facts is None and (seen is None or seen["stage"] == "up"):
        found.append("the stack has not been booted")
    return found


def _find_troubles(
    facts: StackFacts | None, parts: Sequence[PartStatus], mode: str | None, foreign: dict[str, str]
) -> list[str]:
    """What is wrong with the stack, or around it."""
    found = [f"{part.name}: {part.health}" for part in parts if part.health not in {OK, None}]
    if facts is not None and mode not in {facts.mode.value, None}:
        found.append(f"the backend runs {mode}, the box is up {facts.mode}")
    return found + [f"foreign port {port}: {who}" for port, who in foreign.items()]


def render_status(status: BoxStatus) -> str:
    """For a person, in 80 columns."""
    lines = [f"{status.box}: {_say_state(status)}"]
    for label, text in _list_rows(status):
        lines += _wrap(f"  {label:<11} {text}", indent=14) if text else []
    if status.parts:
        lines += ["", f"{'PART':<12}{'PID':>8}{'AGE':>8}{'MEMORY':>9}{'RESTARTS':>9}{'PORT':>7}  HEALTH"]
    for part in status.parts:
        memory = f"{part.memory_mb} MB" if part.memory_mb is not None else "-"
        health = (part.health or "-")[:25]
        lines.append(
            f"{part.name:<12}{part.pid or '-':>8}{say_age(part.age_s):>8}{memory:>9}{part.restarts:>9}"
            f"{part.port or '-':>7}  {health}"
        )
    if status.problems:
        lines += ["", *(line for problem in status.problems for line in _wrap(f"wrong: {problem}", indent=7))]
    return "\n".join(lines)


def _wrap(text: str, *, indent: int) -> list[str]:
    """In lines that fit a terminal, words and paths whole."""
    return textwrap.wrap(text, _COLUMNS, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False)


def _say_state(status: BoxStatus) -> str:
    if status.state == "gone":
        return "not up"
    what = f"{status.state}, {status.mode or 'no backend'}"
    return what if status.works else f"{what}, works no queue"


def _list_rows(status: BoxStatus) -> list[tuple[str, str]]:
    tree = {True: "clean tree", False: "tree with changes of its own", None: "no tree"}[status.tree_clean]
    run, lease = status.run, status.lease
    beat = _say_lease(lease) if lease else ""
    supervisor = f"pid {status.supervisor_pid}, {say_age(status.supervisor_age_s)}" if status.supervisor_pid else ""
    return [
        ("last end", status.last_end or ""),
        ("supervisor", supervisor),
        ("stack", f"{status.stack}, renderer {status.renderer}, lane {status.lane}"),
        ("revision", f"{status.revision}, {tree}" if status.revision else ""),
        ("verified", status.verified or ("not yet" if status.revision else "")),
        ("lease", beat or ("none: no farm" if status.supervisor_pid else "")),
        ("run", f"{run['name']}, attempt {run['attempt']}, {say_age(run['age_s'])}" if run else ""),
        *(("held", f"{hold['kind']}: {hold['reason']}; ended by {hold['ends']}") for hold in status.held),
        *(("foreign", f"port {port}: {who}") for port, who in status.foreign.items()),
        ("folder", status.folder),
    ]


def _say_lease(lease: dict[str, Any]) -> str:
    ago_s = lease["answered_s_ago"]
    answered = "no beat answered yet" if ago_s is None else f"last beat answered {ago_s:.0f} s ago"
    return f"{lease['holder']}; {answered}"


def say_age(seconds: float | None) -> str:
    """`12 s`, `3 min`, `2.5 h`."""
    if seconds is None:
        return "-"
    if seconds < 120:  # noqa: PLR2004  # two minutes
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"  # noqa: PLR2004  # two hours
