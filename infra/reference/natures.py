"""Which natures the page of one run has: the text that asks for them, and the draw. Pure.

Unlike faults, of which a run meets one at most, natures are drawn one by one: a run's page has a set of them.
"""

import difflib
import hashlib
from dataclasses import dataclass

from infra.reference.failure import ReferenceFailure
from infra.reference.sites.natures import NATURES, Nature

_HINT = "`.venv/bin/python -m infra.reference natures` lists all"


@dataclass(frozen=True, slots=True, kw_only=True)
class Chance:
    """A nature and the part of all runs whose page has it."""

    nature: Nature
    rate: float


Chances = tuple[Chance, ...]


def parse(text: str) -> Chances:
    """What a text asks for: `none`, `all`, `all:rate`, or `name` and `name:rate` between commas.

    `all` is every nature that leaves the page its own, each at its own rate. A bare name is on in every run.

    Raises:
        ReferenceFailure: an unknown name (with the nearest known one), a name twice, or a rate that is none.
    """
    if text.strip() == "none":
        return ()
    name, colon, rate = (word.strip() for word in text.partition(":"))
    if name == "all" and "," not in text:
        usual = [nature for nature in NATURES.values() if nature.rate]
        return tuple(Chance(nature=nature, rate=_read_rate(name, rate) if colon else nature.rate) for nature in usual)
    asked = tuple(_read_item(item) for item in text.split(","))
    names = [chance.nature.name for chance in asked]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ReferenceFailure(f"{', '.join(twice)} stands twice among the natures", hint="name each nature once")
    return asked


def _read_item(item: str) -> Chance:
    name, colon, rate = (word.strip() for word in item.partition(":"))
    nature = NATURES.get(name)
    if name == "all":
        raise ReferenceFailure("all stands beside other natures", hint="say all or all:RATE, or name each nature")
    if nature is None:
        near = difflib.get_close_matches(name, NATURES, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise ReferenceFailure(f"no nature is called {name!r}", hint=f"{hint}{_HINT}")
    return Chance(nature=nature, rate=_read_rate(name, rate) if colon else 1.0)


def _read_rate(name: str, text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = -1.0
    if not 0 < rate <= 1:
        raise ReferenceFailure(f"the rate of {name} is {text!r}", hint="a rate is more than 0 and at most 1")
    return rate


def draw(seed: int, key: str, chances: Chances) -> tuple[Nature, ...]:
    """The natures of the run with this key, in the order of the catalogue.

    The same seed, key and rate give a nature the same answer whatever else is asked for.
    """
    met = {chance.nature.name for chance in chances if _is_drawn(seed, key, chance)}
    return tuple(nature for name, nature in NATURES.items() if name in met)


def _is_drawn(seed: int, key: str, chance: Chance) -> bool:
    digest = hashlib.sha256(f"{seed}\n{key}\n{chance.nature.name}".encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64 < chance.rate
