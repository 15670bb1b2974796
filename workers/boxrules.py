"""What the words of a box file say to each other: the rules that no single word can break."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workers.boxfile import BoxFile

# They can be told to go wrong, and only run dry; neither is so of the product itself.
STAND_INS = frozenset({"reference"})

# Where a stack that is not ours is known to listen: the product's usual ports. Seed: a second one evicts the router.
USUAL_FOREIGN_PORTS = (8324, 3000)


class MisfitError(ValueError):
    """Two words of the file contradict each other; `where` is the one to look at."""

    def __init__(self, said: str, where: tuple[str, ...]) -> None:
        super().__init__(said)
        self.where = where


def find_misfit(box: BoxFile) -> MisfitError | None:
    """The first contradiction in the file; None when there is none."""
    rules = (_judge_isolation, _judge_stack, _judge_renderer, _judge_farm, _judge_ports)
    return next((misfit for rule in rules for misfit in rule(box)), None)


def _judge_isolation(box: BoxFile) -> Iterator[MisfitError]:
    if box.isolation == "ports" and box.stack != "reference":
        said = 'isolation = "ports" is for the stack reference alone: the product shares its router and home'
        yield MisfitError(said, ("isolation",))
    if (box.isolation == "netns") != (box.netns is not None):
        said = 'netns names the namespace of isolation = "netns", and that needs one'
        yield MisfitError(said, ("netns",) if box.netns is not None else ("isolation",))


def _judge_stack(box: BoxFile) -> Iterator[MisfitError]:
    if "reference" in box.model_fields_set and box.stack not in STAND_INS:
        yield MisfitError(
            f"faults, natures and scaled leashes are for the stack reference, not for {box.stack}", ("reference",)
        )
    if box.stack == "openswarm" and box.checkout is None:
        yield MisfitError("the stack openswarm needs checkout, the folder that it is started from", ("stack",))
    if box.stack == "reference" and box.checkout is not None:
        yield MisfitError("checkout is for the stack openswarm: the reference stack is bv3's own", ("checkout",))
    if box.stack == "reference" and "product" in box.model_fields_set:
        yield MisfitError("[product] is for the stack openswarm: the reference stack is bv3's own", ("product",))
    if box.stack == "reference" and box.pages == "web":
        yield MisfitError('the stack reference shows loopback pages only: set pages = "loopback"', ("pages",))


def _judge_renderer(box: BoxFile) -> Iterator[MisfitError]:
    if box.renderer != "electron":
        return
    where = ("renderer",)
    if box.stack != "openswarm":
        yield MisfitError('renderer = "electron" is for the stack openswarm', where)
    if box.profile.policy == "fresh":
        yield MisfitError('renderer = "electron" keeps one profile: set profile.policy = "persistent"', where)
    if box.pages == "loopback":
        said = 'renderer = "electron" can\'t show loopback pages, for it resolves names as the machine does'
        yield MisfitError(f'{said}: set pages = "web"', where)
    if box.record != "none":
        yield MisfitError('only renderer = "playwright" records: set record = "none"', ("record",))


def _judge_farm(box: BoxFile) -> Iterator[MisfitError]:
    if (box.database_url is None) != (box.broker_url is None):
        there = "broker_url" if box.database_url is None else "database_url"
        yield MisfitError("database_url and broker_url belong together: set both, or neither", (there,))


def _judge_ports(box: BoxFile) -> Iterator[MisfitError]:
    owners: dict[int, str] = {}
    for name, port in box.ports.listened(electron=box.renderer == "electron").items():
        if port in owners:
            yield MisfitError(f"port {port} is {owners[port]}'s already", ("ports", name))
        owners[port] = name
    for port in box.ports.foreign:
        if port in owners:
            said = f"{port} is the box's own port {owners[port]}: foreign ones are those where nobody may listen"
            yield MisfitError(said, ("ports", "foreign"))
