"""The conditions under which a run may begin, each judged from what was read. Pure.

A condition has four answers: it holds, it refuses, nobody could look, nobody looked. Only the second keeps a run
from beginning: what could not be seen is said, and is no reason against it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from broker.types import Mode, Seen
from workers.clock import Offset

# An older note says nothing of the clock now; a farm that answers gives a new one every few seconds.
OFFSET_LASTS = timedelta(seconds=60)
# So much of a commit's name tells it from all others.
_LEAST_COMMIT_CHARS = 8

# Why a box may refuse, in the order in which it is looked at.
REASONS: Mapping[str, str] = {
    "space": "less is free where the box's folder lies than `limits.free_mb`",
    "inodes": "fewer files can be made there than `limits.free_inodes`",
    "shm": "less of /dev/shm is free than `limits.shm_mb`",
    "memory": "less memory is available than `limits.memory_mb`",
    "zombies": "more ended processes wait to be reaped than `limits.zombies`",
    "load": "the load average per core is above `limits.load_per_core`",
    "clock": "this machine's clock is further from the farm's than `limits.clock_offset_s`",
    "backend": "the backend that this box started does not run, does not listen, or does not answer",
    "build": "the backend is another executable, in another folder or with other words, or the checkout moved on",
    "mode": "the backend runs dry and the order is live, or the reverse",
    "log": "the backend does not write the log that the slices are cut from",
    "backend_count": "another backend runs, or another socket listens on its port",
    "foreign": "somebody listens on a port of `ports.foreign`",
    "router": "the router does not answer, or another process answers in its place",
    "by_hand": "somebody uses the product by hand: bv3-box probe or health-check",
    "clean_start": "a session, child or card of an earlier run is there and can't be removed",
    "busy": "the product works on a session that is no run's",
    "renderer": "bv3's own card does not answer",
    "harness": "a check itself failed, by a bug of ours or a machine that can't be read: the log says more",
}


# What is looked at each time: all but the one that says that looking itself failed.
LOOKED_AT = tuple(reason for reason in REASONS if reason != "harness")


class Answer(StrEnum):
    """What was found of a condition."""

    OK = "ok"
    REFUSED = "refused"
    COULD_NOT_LOOK = "could not look"
    NOT_LOOKED_AT = "not looked at"


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One condition, what was found, and its numbers."""

    reason: str
    answer: Answer
    said: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendView:
    """The backend that this box started, as it runs now. None: could not be read."""

    pid: int
    executable: str | None
    folder: str | None
    words: tuple[str, ...]
    mode: Mode


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendWanted:
    """The backend as it was when the stack was booted."""

    executable: str
    folder: str
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A process that runs the program that was looked for."""

    pid: int
    parent: int
    group: int
    # the folder of the box that started it; None: no box, or it can't be told
    box_folder: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramWords:
    """How a program is told from others: its interpreter, and the arguments behind that, one by one."""

    executable: str
    words: tuple[str, ...]

    def match(self, executable: str, arguments: Sequence[str]) -> bool:
        """Whether it is this program, on whatever port, with whatever options behind.

        A shell, a supervisor or a search that quotes the command line has it within one argument, or runs
        another executable, and is none.
        """
        if family_of(executable) != family_of(self.executable):
            return False
        program = self._leading()
        told = tuple(arguments[1:])
        if program[:1] == ("-m",) and told[:1] != ("-m",) and told:
            # the module's own script, run by the same interpreter
            told = ("-m", os.path.basename(told[0]), *told[1:])  # noqa: PTH119  # arguments are no paths
        return bool(program) and told[: len(program)] == program

    def _leading(self) -> tuple[str, ...]:
        """The words up to the first option: what is run, not how."""
        start = 1 if self.words[:1] == ("-m",) else 0
        count = next((at for at, word in enumerate(self.words) if at >= start and word.startswith("-")), None)
        return self.words[:count]


def family_of(executable: str) -> str:
    """`python` of /usr/bin/python3.11: another version of the interpreter runs the same program."""
    return re.sub(r"[\d.]*( \(deleted\))?$", "", os.path.basename(executable))  # noqa: PTH119  # a kernel's text


def choose_others(
    found: Sequence[Program], *, ours: int | None, folder: str, is_alone_in_namespace: bool
) -> tuple[Program, ...]:
    """Backends that are not ours, nor children of ours that have not become something else yet.

    Where boxes share the network namespace, each with its block of ports, others' backends are no business of
    this box: it has a second one when that carries its own mark.
    """
    others = [item for item in found if ours not in {item.pid, item.parent, item.group}]
    return tuple(item for item in others if is_alone_in_namespace or item.box_folder == folder)


def hold(reason: str, said: str) -> Condition:
    """The condition holds."""
    return Condition(reason=reason, answer=Answer.OK, said=said)


def refuse(reason: str, said: str) -> Condition:
    """The condition refuses."""
    return Condition(reason=reason, answer=Answer.REFUSED, said=said)


def could_not_look(reason: str, why: str) -> Condition:
    """Nobody can tell."""
    return Condition(reason=reason, answer=Answer.COULD_NOT_LOOK, said=why)


def not_looked_at(reason: str, why: str) -> Condition:
    """Nobody asked for it."""
    return Condition(reason=reason, answer=Answer.NOT_LOOKED_AT, said=why)


def judge_least(reason: str, have: int | None, least: int | None, what: str) -> Condition:
    """There is as much left as there must be."""
    if least is None:
        return not_looked_at(reason, "the box file sets no limit")
    if have is None:
        return could_not_look(reason, f"{what}: not counted here")
    said = f"{have} {what}, {least} are needed"
    return hold(reason, said) if have >= least else refuse(reason, said)


def judge_most(reason: str, have: float, most: float | None, what: str) -> Condition:
    """There is no more than there may be."""
    if most is None:
        return not_looked_at(reason, "the box file sets no limit")
    said = f"{have:.4g} {what}, {most:.4g} at most"
    return hold(reason, said) if have <= most else refuse(reason, said)


def judge_clock(offset: Offset | None, most_s: float, *, now: datetime, has_farm: bool) -> Condition:
    """The clocks are not known to be further apart than they may be. A box without a farm has none to compare with."""
    if not has_farm:
        return not_looked_at("clock", "the box belongs to no farm")
    if offset is None:
        return could_not_look("clock", "the farm has not told its clock yet")
    if abs(now - offset.noted_at) > OFFSET_LASTS:
        return could_not_look("clock", f"the farm last told its clock at {offset.noted_at:%Y-%m-%d %H:%M:%S%z}")
    said = (
        f"the farm's clock is {offset.offset_s:+.3f} s from this machine's"
        f" (give or take {offset.uncertainty_s:.3f} s), {most_s:g} s at most"
    )
    return hold("clock", said) if offset.least_s <= most_s else refuse("clock", said)


def judge_build(seen: BackendView, wanted: BackendWanted) -> Condition:
    """The process is what was booted."""
    said = f"pid {seen.pid} runs {seen.executable} in {seen.folder}"
    if seen.executable is not None and seen.executable != wanted.executable:
        return refuse("build", f"{said}, not {wanted.executable}")
    if seen.folder is not None and seen.folder != wanted.folder:
        return refuse("build", f"{said}, not in {wanted.folder}")
    if seen.words != wanted.words:
        return refuse("build", f"pid {seen.pid} was started with {' '.join(seen.words)}, not {' '.join(wanted.words)}")
    if seen.executable is None or seen.folder is None:
        return could_not_look("build", f"{said}: not all of it can be read")
    return hold("build", said)


def judge_revision(head: str | None, revision: str) -> Condition:
    """The checkout is still at the commit that was booted."""
    if head is None:
        return could_not_look("build", "the checkout does not tell its commit")
    # a tree with changes of its own is told by a word behind its commit
    revision = revision.partition("+")[0]
    if len(revision) < _LEAST_COMMIT_CHARS:
        return could_not_look("build", f"the stack was booted as {revision or 'nothing'}, which names no commit")
    if not head.startswith(revision) and not revision.startswith(head):
        return refuse("build", f"the checkout is at {head[:12]} now, and {revision[:12]} was booted")
    return hold("build", f"the checkout is at {head[:12]}")


def judge_mode(seen: Mode, wanted: Mode) -> Condition:
    """The backend runs as the order wants it."""
    if seen is not wanted:
        return refuse("mode", f"the backend runs {seen}, the order wants {wanted}")
    return hold("mode", f"{seen}, by the backend's environment")


def judge_log(seen: Seen, path: str) -> Condition:
    """What the backend says goes into the file that slices are cut from."""
    if seen is Seen.COULD_NOT_LOOK:
        return could_not_look("log", f"whether the backend writes {path} can't be seen here")
    if seen is Seen.ABSENT:
        return refuse("log", f"the backend does not write {path}: it was moved, removed or replaced")
    return hold("log", f"the backend writes {path}")


def judge_alone(others: Sequence[str], intruders: str, *, port: int, count: int) -> Condition:
    """There is one backend. `others`: some of the `count` more, described; `intruders`: who else has its port."""
    if others:
        more = f" and {count - len(others)} more" if count > len(others) else ""
        return refuse("backend_count", f"{count} backends run beside ours: {', '.join(others)}{more}")
    if intruders:
        return refuse("backend_count", f"port {port} is also listened on by {intruders}")
    return hold("backend_count", f"one backend, on port {port}")


def judge_foreign(holders: Mapping[int, str], ports: Collection[int]) -> Condition:
    """Nobody listens on a port of a stack that is not ours. `holders`: who listens, by port."""
    if not ports:
        return not_looked_at("foreign", "the box file names no port in ports.foreign")
    if holders:
        return refuse("foreign", "; ".join(f"{who} listens on port {port}" for port, who in sorted(holders.items())))
    return hold("foreign", f"nobody listens on {', '.join(str(port) for port in sorted(ports))}")
