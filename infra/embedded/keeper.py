"""The keeper: starts, restarts, exports and stops the farm's parts, and stops itself when nobody is left.

`python -m infra.embedded.keeper --home H`, in a session of its own. Killed by -9 it leaves the parts
running; the next command starts another, which goes on with them (docs/adr/0004-own-process-table.md).
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

import click

from broker.errors import EXIT_SERVICE, Bv3Error, DatabaseError
from broker.home import FarmHome, has_users, hold_gate
from infra.embedded.database import has_active_sweep, warm_up
from infra.embedded.documents import write_document
from infra.embedded.farm import Farm
from infra.embedded.files import FarmFiles
from infra.embedded.lifetime import Use, may_stop
from infra.embedded.logs import bound_logs
from infra.embedded.orders import Orders, read_orders
from infra.embedded.parts import Failure, Part, PartState
from infra.embedded.processes import Identity, identify
from infra.embedded.programs import build_programs
from infra.embedded.state import Phase

_EAGER_TURN_S = 0.02
_CALM_TURN_S = 0.2
_LOOK_FOR_USERS_S = 0.5
_LOOK_FOR_SWEEPS_S = 1.0
_LOOK_AT_LOGS_S = 5.0


@dataclass(slots=True, kw_only=True)
class Keeper:
    """The loop and what it remembers between two turns."""

    files: FarmFiles
    identity: Identity
    farm: Farm = field(init=False)
    orders: Orders = field(default_factory=Orders)
    phase: Phase = Phase.STARTING
    steps: list[str] = field(default_factory=list)
    failure: Failure | None = None
    told_to_stop: bool = False
    # A pipe: what is written at its end ends the pause between two turns. No Event: a signal may come
    # while this very thread holds the Event's lock.
    waker: tuple[int, int] = field(default_factory=os.pipe)
    # Whether somebody may have been told that the farm is there: then one part that does not come up
    # is an answer to who asked for it, and no reason to stop the others.
    others_rely: bool = False
    _seen_orders_at: int = 0
    _next_use_s: float = 0.0
    _next_logs_s: float = 0.0
    _sweep_seen_s: float = field(default_factory=time.monotonic)
    _published: dict[str, Any] = field(default_factory=dict)
    _pen: Lock = field(default_factory=Lock)

    def say(self, step: str) -> None:
        """A step is in the log and in the state that the commands follow."""
        with suppress(OSError):  # a full disk must not end the keeper, and with it the watch over the parts
            print(f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {step}", flush=True)  # noqa: T201 - its log
        self.steps.append(step)
        self.publish()

    def run(self) -> int:
        """The farm has run and is stopped; the exit code."""
        try:
            self._begin()
            while not self._turn():
                pause_s = _CALM_TURN_S if self.phase is Phase.READY else _EAGER_TURN_S
                select.select([self.waker[0]], [], [], pause_s)
        except Bv3Error as error:
            self.failure = Failure(message=error.message, hint=error.hint)
        self._finish()
        return EXIT_SERVICE if self.phase is Phase.FAILED else 0

    def _begin(self) -> None:
        self.publish()
        warm_up()
        self.farm = Farm(files=self.files, programs=build_programs(self.files, self.say), say=self.say)
        if inherited := self.farm.inherit():
            self.others_rely = True
            self.say(f"goes on with {inherited} running parts")

    def _turn(self) -> bool:
        """One turn; whether it was the last."""
        if self.told_to_stop or not self.files.keeper_lock.exists():
            # With its lock the home is gone: nobody could find the parts any more, to stop them.
            self._close_door()
            return True
        self._read_orders()
        changed = self.farm.turn()
        if (failure := self.farm.failure) is not None:
            self.failure = failure
            if not self.others_rely:
                return True
            self.farm.give_up_failed()
        if changed or self.phase is Phase.STARTING:
            self._export()
        self._bound_logs()
        return self._leave_if_unused()

    def _read_orders(self) -> None:
        try:
            stamp = self.files.orders.stat().st_mtime_ns
        except FileNotFoundError:
            stamp = 1
        if stamp == self._seen_orders_at:
            return
        self._seen_orders_at = stamp
        self._next_use_s = 0.0
        self.orders = read_orders(self.files.orders)
        self.farm.want(self.orders)
        self.failure = None
        self.phase = Phase.STARTING

    def _export(self) -> None:
        if self.farm.is_ready and self.phase is Phase.STARTING:
            write_document(self.files.home.farm_json, self.farm.address(self.orders, os.getpid()))
            self.phase = Phase.READY
            self.others_rely = True
        self.publish()

    def publish(self) -> None:
        """The state file says how things stand."""
        state = {
            "keeper": asdict(self.identity),
            "phase": self.phase,
            "order": self.orders.number,
            "stays": self.orders.stays,
            "steps": self.steps[-200:],
            "first_step": max(0, len(self.steps) - 200),
            "failure": asdict(self.failure) if self.failure else None,
            "parts": _describe(self.farm) if hasattr(self, "farm") else {},
        }
        # Boxes stop side by side, and each reports.
        with self._pen, suppress(OSError):  # as above
            if state != self._published:
                self._published = state
                write_document(self.files.state, state)

    def _bound_logs(self) -> None:
        if time.monotonic() >= self._next_logs_s:
            self._next_logs_s = time.monotonic() + _LOOK_AT_LOGS_S
            bound_logs(self.files.home.logs)

    def _leave_if_unused(self) -> bool:
        if self.orders.stays or time.monotonic() < self._next_use_s:
            return False
        with hold_gate(self.files.home):
            used = has_users(self.files.home)
        if used:
            self._next_use_s = time.monotonic() + _LOOK_FOR_USERS_S
            self._sweep_seen_s = time.monotonic()
            return False
        self._next_use_s = time.monotonic() + _LOOK_FOR_SWEEPS_S
        active = self._look_for_sweeps()
        with hold_gate(self.files.home):
            use = Use(
                stays=read_orders(self.files.orders).stays,
                has_users=has_users(self.files.home),
                has_active_sweep=active,
                blind_for_s=time.monotonic() - self._sweep_seen_s,
            )
            if not may_stop(use):
                return False
            self._close_door_within_gate()
        return True

    def _look_for_sweeps(self) -> bool | None:
        if self.farm.parts["schema"].state is not PartState.READY:
            return None
        try:
            active = has_active_sweep(self.farm.programs.postgres.url)
        except DatabaseError:
            return None
        self._sweep_seen_s = time.monotonic()
        return active

    def _close_door(self) -> None:
        if not self.files.home.farm.exists():
            self.phase = Phase.STOPPING
            return
        with hold_gate(self.files.home):
            self._close_door_within_gate()

    def _close_door_within_gate(self) -> None:
        # Whoever comes through the gate after this waits for our end and starts a farm anew.
        self.phase = Phase.STOPPING
        self.files.home.farm_json.unlink(missing_ok=True)
        self.files.orders.unlink(missing_ok=True)
        self.say("stopping")

    def _finish(self) -> None:
        has_failed = self.phase is not Phase.STOPPING
        if hasattr(self, "farm"):
            if has_failed:
                self._close_door()
            self.farm.stop()
        self.phase = Phase.FAILED if has_failed else Phase.STOPPED
        self.publish()


def _describe(farm: Farm) -> dict[str, dict[str, Any]]:
    rows: dict[str, dict[str, Any]] = {}
    for name, part in farm.parts.items():
        row: dict[str, Any] = {"state": part.state, "failure": asdict(part.failure) if part.failure else None}
        if isinstance(part, Part):
            row |= {
                "pid": part.child.identity.pid if part.child else None,
                "since": part.child.since if part.child else None,
                "restarts": part.restarts,
                "port": farm.programs.ports.kept(name),
            }
        rows[name] = row
    return rows


@click.command()
@click.option("--home", type=click.Path(path_type=Path), required=True, help="the farm's home folder")
@click.option("--lock", type=int, required=True, help="descriptor of the keeper's lock, held by who starts it")
@click.option("--stop", is_flag=True, help="go on with what runs only to stop it in order")
def main(home: Path, lock: int, *, stop: bool) -> None:
    """Keep the embedded farm of one home folder."""
    # The kernel ends the lock with the last process that has it: the parts must not have it too.
    os.set_inheritable(lock, False)  # noqa: FBT003 - the call has no names
    identity = identify(os.getpid())
    assert identity is not None  # noqa: S101 - this process lives
    keeper = Keeper(files=FarmFiles(home=FarmHome(root=home)), identity=identity, told_to_stop=stop)

    def hear(_number: int, _frame: object) -> None:
        keeper.told_to_stop = True
        os.write(keeper.waker[1], b"x")

    signal.signal(signal.SIGTERM, hear)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    code = keeper.run()
    # Nothing is kept any more: nobody need wait for the interpreter's own end, which takes a fifth of a second.
    os.close(lock)
    sys.exit(code)


if __name__ == "__main__":
    main()
