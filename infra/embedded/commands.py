"""What the commands do with the farm: bring it up, ask it to stop, look at it. The keeper does the work."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psutil

from broker.errors import DatabaseError, ServiceError, UsageError
from broker.home import FarmHome, has_users, hold_gate
from broker.settings import load_settings
from infra.embedded.boxes import BOXES_LIMIT, name_box
from infra.embedded.database import has_active_sweep
from infra.embedded.documents import read_document
from infra.embedded.files import FarmFiles, prepare_home
from infra.embedded.lock import is_kept, take_keeper_lock
from infra.embedded.logs import read_tail
from infra.embedded.orders import Conditions, Orders, read_orders, write_orders
from infra.embedded.parts import PartState
from infra.embedded.processes import Identity, ProcessTable, find_marked, send
from infra.embedded.services import REPOSITORY, Say, plain_environment, python_module
from infra.embedded.sockets import drop_folder
from infra.embedded.state import Phase

_LOOK_S = 0.03
# Longer than any part may take; a keeper that is silent for so long is broken.
_START_LIMIT_S = 180.0
# After so long without a step a person is told what is waited for.
_SILENCE_S = 1.0


def refuse_foreign_farm() -> None:
    """Raises UsageError when the environment names a farm elsewhere: there is nothing to bring up here."""
    named = [name for name in ("BV3_BROKER_URL", "BV3_DATABASE_URL") if os.environ.get(name)]
    if named:
        raise UsageError(
            f"{' and '.join(named)} name a farm elsewhere, so that none is embedded here",
            hint=f"unset {' and '.join(named)} to use the embedded farm",
        )


def read_conditions() -> Conditions:
    """The conditions that the environment asks for.

    Raises UsageError naming a bad fault or nature, with the nearest one.
    """
    from infra.reference import faults, natures  # noqa: PLC0415  # only where boxes are started
    from infra.reference.failure import ReferenceFailure  # noqa: PLC0415

    settings = load_settings()
    variable = "BV3_REFERENCE_FAULTS"
    try:
        faults.parse(settings.reference_faults)
        variable = "BV3_REFERENCE_NATURES"
        natures.parse(settings.reference_natures)
    except ReferenceFailure as failure:
        raise UsageError(f"{variable}: {failure.message}", hint=failure.hint) from failure
    return Conditions(
        faults=settings.reference_faults.strip(),
        natures=settings.reference_natures.strip(),
        seed=settings.reference_seed,
        leash_scale=settings.leash_scale,
    )


def bring_up(home: FarmHome, wish: Orders, say: Say) -> dict[str, Any]:
    """The farm serves what `wish` asks for; farm.json's content.

    The caller holds the user lock or wishes that the farm stays. `say` hears what comes up from now on:
    nothing when all is ready. Raises ServiceError with the cause when it does not come up, UsageError
    for more boxes than a farm can have, or boxes under other conditions than those that run.
    """
    if wish.boxes > BOXES_LIMIT:
        raise UsageError(
            f"{wish.boxes} boxes are too many: an embedded farm has at most {BOXES_LIMIT}",
            hint=f"--boxes {BOXES_LIMIT} at most",
        )
    files = prepare_home(home)
    deadline_s = time.monotonic() + _START_LIMIT_S
    while True:
        joined = _join(files, wish)
        if joined.number is None:
            say("waiting for an earlier farm to stop:")
        elif joined.began:
            say("starting the farm …")
        steps = StepReader(say=say, skip=not joined.began)
        address = _follow_start(files, joined.number, steps, deadline_s)
        if address is not None:
            _check_wish(files, wish, address)
            if address["repository"] != str(REPOSITORY):
                say(f"the farm that runs was started from {address['repository']}: that code does the work")
            return address
        # It was stopping when we came, and has stopped: start one anew.


@dataclass(frozen=True, slots=True, kw_only=True)
class _Joined:
    # The number of our order; None when the farm is stopping and takes none.
    number: int | None
    # Whether the keeper is one that we have started.
    began: bool = False


def _join(files: FarmFiles, wish: Orders) -> _Joined:
    with hold_gate(files.home):
        kept = is_kept(files)
        if kept and _phase(files) in (Phase.STOPPING, Phase.STOPPED, Phase.FAILED):
            return _Joined(number=None)
        before = read_orders(files.orders)
        if not kept and not ProcessTable(path=files.processes).living():
            # Nothing of an earlier farm runs (a reboot, say): what was ordered of it is void.
            before = Orders(number=before.number)
        orders = before.joined(wish)
        write_orders(files.orders, orders)
        if not kept:
            start_keeper(files)
        return _Joined(number=orders.number, began=not kept)


def start_keeper(files: FarmFiles, *options: str) -> None:
    """A keeper runs in its own session, detached from this terminal. Call it within the gate."""
    lock = take_keeper_lock(files)
    if lock is None:
        raise ServiceError("the farm has a keeper already")
    files.state.unlink(missing_ok=True)
    log = os.open(files.log("keeper"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    # The lock goes with the descriptor: there is no moment in which nobody has it.
    with lock:
        keeper = subprocess.Popen(
            python_module("infra.embedded.keeper", f"--home={files.home.root}", f"--lock={lock.fileno()}", *options),
            cwd=REPOSITORY,
            env=plain_environment(),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            pass_fds=(lock.fileno(),),
        )
    os.close(log)
    # It lives on without us, and whether it lives is asked of its lock: nobody waits for it here.
    keeper.returncode = 0


def _phase(files: FarmFiles) -> Phase | None:
    state = read_document(files.state)
    return Phase(state["phase"]) if state else None


@dataclass(slots=True, kw_only=True)
class StepReader:
    """Passes the keeper's steps on, each once."""

    say: Say
    # Whether the steps so far are of no interest: they led to a state that was there before us.
    skip: bool
    _next: int = 0
    _last: str = ""
    _said_s: float = field(default_factory=time.monotonic)

    def read(self, state: dict[str, Any]) -> None:
        """Steps that were not passed on yet are."""
        first, steps = state["first_step"], state["steps"]
        if not self.skip:
            for step in steps[max(0, self._next - first) :]:
                self._pass_on(step)
        self.skip = False
        self._next = first + len(steps)

    def break_silence(self, state: dict[str, Any]) -> None:
        """The parts that are waited for are named when there was no step for a while, and the last one was an end."""
        if self._last.endswith("…") or time.monotonic() - self._said_s < _SILENCE_S:
            return
        if waited_for := [name for name, part in state["parts"].items() if part["state"] != PartState.READY]:
            self._pass_on(f"waiting for {', '.join(waited_for)} …")

    def _pass_on(self, step: str) -> None:
        self.say(step)
        self._last = step
        self._said_s = time.monotonic()


def _follow_start(files: FarmFiles, number: int | None, steps: StepReader, deadline_s: float) -> dict[str, Any] | None:
    while time.monotonic() < deadline_s:
        kept = _is_kept_now(files)
        # Read after the look at the lock: a keeper that has gone has said its last word before.
        state = read_document(files.state)
        if state is not None:
            steps.read(state)
        if number is not None and state is not None:
            if state["phase"] == Phase.READY and state["order"] >= number:
                return read_document(files.home.farm_json)
            if state["phase"] == Phase.FAILED and not kept:
                raise as_error(state)
            if state["phase"] == Phase.STARTING:
                steps.break_silence(state)
        if not kept:
            if number is None or (state is not None and state["phase"] == Phase.STOPPED):
                return None
            raise _keeper_died(files)
        time.sleep(_LOOK_S)
    raise ServiceError(
        f"the farm is not ready after {_START_LIMIT_S:.0f} s", hint="see `bv3-farm status` and `bv3-farm logs`"
    )


def _check_wish(files: FarmFiles, wish: Orders, address: dict[str, Any]) -> None:
    wanted = {name_box(index) for index in range(wish.boxes)}
    if wanted <= set(address["boxes"]) and ("broker_url" in address or not wish.full):
        return
    state = read_document(files.state)
    raise as_error(state or {})


def as_error(state: dict[str, Any]) -> ServiceError:
    """The failure that the keeper tells of, with the last lines of the log in the message."""
    failure = state.get("failure") or {"message": "the farm did not come up", "hint": None, "tail": ()}
    message = "\n".join([failure["message"], *(f"  {line}" for line in failure["tail"])])
    return ServiceError(message, hint=failure["hint"])


def _keeper_died(files: FarmFiles) -> ServiceError:
    tail = "\n".join(f"  {line}" for line in read_tail(files.log("keeper")))
    return ServiceError(f"the farm's keeper died\n{tail}", hint=f"its log is {files.log('keeper')}")


def _is_kept_now(files: FarmFiles) -> bool:
    with hold_gate(files.home):
        return is_kept(files)


def bring_down(home: FarmHome, say: Say, *, force: bool) -> bool:
    """Nothing of the farm runs; whether anything did.

    Raises ServiceError, with nothing changed, when somebody still uses it and not `force`.
    """
    files = FarmFiles(home=home)
    if not home.farm.exists():
        return False
    with hold_gate(home):
        kept = is_kept(files)
        running = bool(ProcessTable(path=files.processes).living()) or bool(_marked(files))
        if not kept and not running:
            _forget(files)
            return False
        if not force:
            _refuse_if_used(files)
        if not kept:
            start_keeper(files, "--stop")
        elif force or not _allow_leaving(files):
            _tell_to_stop(files)
    _follow_stop(files, StepReader(say=say, skip=kept), force=force)
    return True


def _marked(files: FarmFiles) -> list[int]:
    document = read_document(files.credentials)
    return [process.pid for process in find_marked(document["farm_id"])] if document else []


def _forget(files: FarmFiles) -> None:
    for path in (files.home.farm_json, files.orders, files.state, files.processes):
        path.unlink(missing_ok=True)
    drop_folder(files)


def _refuse_if_used(files: FarmFiles) -> None:
    forcing = "`bv3-farm down --force` stops it all the same; runs under way are finished first"
    if has_users(files.home):
        raise ServiceError("another command uses the farm: " + "; ".join(name_users(files.home)), hint=forcing)
    address = read_document(files.home.farm_json)
    if address is None:
        return
    try:
        active = has_active_sweep(address["database_url"])
    except DatabaseError:
        return  # PostgreSQL is away: no sweep moves
    if active:
        raise ServiceError("a sweep is active", hint=f"`bv3-schedule list` shows it; {forcing}")


def _allow_leaving(files: FarmFiles) -> bool:
    """The keeper leaves when it sees for itself, within the gate, that nobody is left."""
    try:
        write_orders(files.orders, replace(read_orders(files.orders), stays=False))
    except OSError:
        return False  # a full disk; there was nobody a moment ago
    return True


def _tell_to_stop(files: FarmFiles) -> None:
    state = read_document(files.state)
    if state is not None:
        send(Identity(**state["keeper"]), signal.SIGTERM)


def _follow_stop(files: FarmFiles, steps: StepReader, *, force: bool) -> None:
    while _is_kept_now(files):
        state = read_document(files.state)
        if state is not None:
            steps.read(state)
            if not force and state["phase"] == Phase.READY and has_users(files.home):
                raise ServiceError(
                    "another command has just begun to use the farm: it stops when that ends",
                    hint="`bv3-farm down --force` stops it now",
                )
        time.sleep(_LOOK_S)
    if state := read_document(files.state):
        steps.read(state)


def name_users(home: FarmHome) -> list[str]:
    """The commands that hold the user lock, as far as the kernel names them."""
    try:
        inode = home.users_lock.stat().st_ino
        locks = Path("/proc/locks").read_text("ascii").splitlines()
    except OSError:
        return []
    users = []
    for lock in locks:
        # 1: FLOCK  ADVISORY  READ 4711 08:01:1234 0 EOF
        fields = lock.split()
        if fields[1] == "FLOCK" and fields[5].rpartition(":")[2] == str(inode):
            users.append(_name_process(int(fields[4])))
    return users


def _name_process(pid: int) -> str:
    try:
        words = psutil.Process(pid).cmdline()
    except psutil.Error:
        return f"pid {pid}"
    return f"pid {pid} ({' '.join(Path(word).name if '/' in word else word for word in words[:6])})"
