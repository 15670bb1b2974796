"""What a false success holds, told by name; let go only when that was asked for."""

from __future__ import annotations

import sqlalchemy as sa

from broker.errors import UsageError
from broker.requester import name_requester
from broker.store.breaches import Breach, Lifted, lift_breaches, lock_breaches
from broker.store.sweeps import find_sweep
from scheduler.launcher import call
from scheduler.listing import count
from scheduler.wording import clean


def refuse_breaches(connection: sa.Connection, sweep_id: str) -> None:
    """Raises UsageError with every open breach of the sweep, and the command that lifts them."""
    breaches = lock_breaches(connection, sweep_id)
    sweep = find_sweep(connection, sweep_id)
    if not breaches and sweep.state != "halted":
        return
    named = "; ".join(_describe(breach) for breach in breaches) or clean(sweep.order_reason or "")
    found = count(max(1, len(breaches)), "false success", "false successes")
    shows = " and ".join(f"bv3-grade show {sweep_id} {run}" for run in _runs_of(breaches))
    raise UsageError(
        f"sweep {sweep_id} is held for {found}: {named}",
        hint=f"{f'look first, {shows}; ' if shows else ''}then {call('resume', sweep_id, '--after-breach')}",
    )


def clear_breaches(connection: sa.Connection, sweep_id: str, *, after_breach: bool) -> tuple[str, ...]:
    """No breach of the sweep is open; a line for each that was lifted and each box it held.

    Raises UsageError, with nothing changed, when there is one and `after_breach` was not said.
    """
    if not after_breach:
        refuse_breaches(connection, sweep_id)
        return ()
    return _tell(lift_breaches(connection, sweep_id, name_requester()))


def _runs_of(breaches: tuple[Breach, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(breach.run_name for breach in breaches))


def _describe(breach: Breach) -> str:
    return f"{breach.run_name} (attempt {breach.attempt_id}) on {breach.box}: {clean(breach.said)}"


def _tell(lifted: Lifted) -> tuple[str, ...]:
    return (
        *(f"false success lifted: {_describe(breach)}" for breach in lifted.breaches),
        *(f"{box} works again" for box in lifted.freed),
        *(f"{box} stays held: {clean(reason)}" for box, reason in lifted.held),
    )
