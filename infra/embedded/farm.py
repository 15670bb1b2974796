"""The farm as the keeper drives it: wanted parts come up in order, stay up, and go down in order."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from broker.queues import RESULTS
from infra.embedded.boxes import index_of_box
from infra.embedded.database import migrate
from infra.embedded.files import FarmFiles
from infra.embedded.flower import USER
from infra.embedded.orders import Orders
from infra.embedded.parts import Failure, Part, PartState
from infra.embedded.processes import Child, ProcessTable, end_marked, wait_until
from infra.embedded.programs import Programs, stopping_order
from infra.embedded.schema import Schema
from infra.embedded.services import REPOSITORY, Say
from infra.embedded.sockets import drop_folder

# Records that the boxes sent at the end are stored within this, or wait on the boxes for the next farm.
_DRAIN_LIMIT_S = 30.0


@dataclass(slots=True, kw_only=True)
class Farm:
    """Its parts and what is wanted of them."""

    files: FarmFiles
    programs: Programs
    say: Say
    parts: dict[str, Part | Schema] = field(default_factory=dict)
    _table: ProcessTable = field(init=False)
    _inherited: dict[str, Child] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """The table of processes lies in the farm's folder."""
        self._table = ProcessTable(path=self.files.processes)

    def inherit(self) -> int:
        """What an earlier keeper left running is ours; what it left unrecorded is ended; how many are ours."""
        self._inherited = self._table.living()
        if ended := end_marked(self._farm_id, but=self._inherited):
            self.say(f"ended {ended} left-over processes")
        if inherited := len(self._inherited):
            self.want(_orders_behind(self._inherited))
        return inherited

    def want(self, orders: Orders) -> None:
        """The parts for these orders exist; those that were there before stay."""
        self.parts.setdefault("schema", Schema(migrate=lambda: migrate(self.programs.postgres.url)))
        for service in self.programs.wanted(boxes=orders.boxes, full=orders.full):
            if service.name not in self.parts:
                self._add(
                    Part(service=service, log=self.files.log(service.name), mark=f"{self._farm_id}/{service.name}")
                )

    @property
    def _farm_id(self) -> str:
        return self.programs.credentials.farm_id

    def _add(self, part: Part) -> None:
        self.parts[part.name] = part
        if (child := self._inherited.pop(part.name, None)) is not None:
            part.adopt(child)

    def turn(self) -> bool:
        """One step for every part; whether anything changed."""
        changed = [part for part in self.parts.values() if self._turn_part(part)]
        if changed:
            self._record()
        for part in changed:
            self._report(part)
        return bool(changed)

    def _turn_part(self, part: Part | Schema) -> bool:
        ready = all(need in self.parts and self.parts[need].state is PartState.READY for need in part.needs)
        return part.turn(needs_ready=ready, may_move=not self._is_address_known(part))

    def _is_address_known(self, part: Part | Schema) -> bool:
        """Whether somebody was told where `part` listens, so that it can't go elsewhere."""
        if isinstance(part, Schema) or part.has_served:
            return True
        # Who needs the schema needs PostgreSQL.
        names = {part.name, "schema"} if part.name == "postgres" else {part.name}
        return any(other.is_alive and names.intersection(other.needs) for other in self._processes())

    def _report(self, part: Part | Schema) -> None:
        if part.state is PartState.READY and isinstance(part, Part) and part.is_adopted:
            self.say(f"{part.name} goes on")
        elif part.state is PartState.READY:
            came_up, remark = (part.service.came_up, part.service.remark) if isinstance(part, Part) else ("ready", "")
            self.say(f"{part.name} {came_up} {part.ready_after_s or 0.0:.1f} s {remark}".rstrip())
        elif part.state in (PartState.RESTING, PartState.FAILED) and part.failure is not None:
            self.say(f"{part.name} {part.state}: {part.failure.message}")

    def _record(self) -> None:
        running = {part.name: part.child for part in self._processes() if part.child is not None}
        try:
            self._table.write(running | self._inherited)
        except OSError as error:
            # A full disk must not end the farm; a keeper to come finds the processes by their mark.
            print(f"the table of processes can't be written: {error}", file=sys.stderr)  # noqa: T201 - its log

    def _processes(self) -> list[Part]:
        return [part for part in self.parts.values() if isinstance(part, Part)]

    @property
    def is_ready(self) -> bool:
        """Whether every wanted part serves."""
        return bool(self.parts) and all(part.state is PartState.READY for part in self.parts.values())

    @property
    def failure(self) -> Failure | None:
        """Why a part won't come up; None while all may."""
        failed = (part for part in self.parts.values() if part.state is PartState.FAILED)
        return next((part.failure for part in failed), None)

    def give_up_failed(self) -> None:
        """Parts that won't come up are no parts any more; the others are left alone."""
        self.parts = {name: part for name, part in self.parts.items() if part.state is not PartState.FAILED}

    def stop(self) -> None:
        """Nothing of the farm runs any more."""
        parts = {part.name: part for part in self._processes()}
        for group in stopping_order(parts):
            if "grader" in group:
                self._drain(parts)
            with ThreadPoolExecutor(max_workers=len(group)) as pool:
                list(pool.map(self._stop_part, [parts[name] for name in group]))
            self._record()
        end_marked(self._farm_id)
        self.files.processes.unlink(missing_ok=True)
        drop_folder(self.files)

    def _stop_part(self, part: Part) -> None:
        if not part.is_alive:
            part.child = None
            return
        began = time.monotonic()
        orderly = part.stop()
        part.child = None
        part.state = PartState.WAITING
        killed = "" if orderly else ", killed"
        self.say(f"{part.name} stopped {time.monotonic() - began:.1f} s{killed}")

    def _drain(self, parts: dict[str, Part]) -> None:
        if not (parts["grader"].is_alive and "valkey" in parts and parts["valkey"].is_alive):
            return
        if not wait_until(lambda: self.programs.valkey.count_waiting(RESULTS) in (0, None), _DRAIN_LIMIT_S):
            self.say("records wait for the next farm")

    def address(self, orders: Orders, keeper_pid: int) -> dict[str, Any]:
        """What farm.json says."""
        programs = self.programs
        address: dict[str, Any] = {
            "schema": 1,
            "keeper_pid": keeper_pid,
            "database_url": programs.postgres.url,
            "database_socket_url": programs.postgres.socket_url,
            "boxes": [name for name in self.parts if name.startswith("box-")],
            "stays": orders.stays,
            "repository": str(REPOSITORY),
        }
        if "flower" in self.parts:
            address |= {
                "broker_url": programs.valkey.url,
                "broker_socket_url": programs.valkey.socket_url,
                "flower_url": programs.flower.url,
                "flower_user": USER,
                "flower_password": programs.credentials.flower,
            }
        return address


def _orders_behind(running: Iterable[str]) -> Orders:
    boxes = [index_of_box(name) + 1 for name in running if name.startswith("box-")]
    return Orders(boxes=max(boxes, default=0), full=set(running) > {"postgres"})
