"""What was asked to be proven, and by how many runs, at which cost it can be. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from broker.errors import UsageError
from broker.store.coverage import Measurable, RunTime
from scheduler.power import Need, fewest_runs, need_for_flake, need_for_reach, weigh_flake, weigh_reach

_SHARE = re.compile(r"(?P<number>\d{1,3}(\.\d{1,6})?)%|(?P<share>0?\.\d{1,8})")
_HOUR_S = 3600
_MOST_STEPS = 4


class What(StrEnum):
    """What a number of runs can prove."""

    FLAKE = "flake"
    REACH = "reach"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Flake is at most this share, or reach at least; shown at 95%, should the true share be `assumed`."""

    what: What
    target: float
    assumed: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What a cost and a share of measurable runs rest on."""

    # boxes that are at work, or as many as asked for; `boxes_from` says which
    boxes: int
    boxes_from: str
    # None: no run of the suite was timed here yet
    time: RunTime | None = None
    # None: no sweep of all sites is over yet, so that all are counted as measurable
    measurable: Measurable | None = None

    @property
    def share(self) -> float:
        """The share of runs that can be measured."""
        return self.measurable.measurable / self.measurable.judged if self.measurable else 1.0

    @property
    def unverified(self) -> float:
        """The share of runs that are excluded on the product's word alone."""
        return self.measurable.unverified / self.measurable.judged if self.measurable else 0.0

    def hours(self, runs: int) -> float | None:
        """What so many runs take on the boxes; None: nothing was timed yet."""
        return None if self.time is None else runs * self.time.seconds / self.boxes / _HOUR_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """A claim, the least that proves it with the power asked for (None: nothing does), and what was given by `--n`."""

    claim: Claim
    power: float
    need: Need | None
    given: Need | None
    # of flake: the fewest runs with no failure, with one, and so on up to what `need` allows
    steps: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """One plan's runs, what they cost, and what is to be proven by it."""

    plan: str
    suite: str
    mode: str
    sites: int
    trials: int
    ground: Ground
    proofs: tuple[Proof, ...] = ()

    @property
    def runs(self) -> int:
        """How many runs the plan has."""
        return self.trials * self.sites


def read_share(text: str, *, option: str) -> float:
    """`1%` or `0.01` as 0.01. Raises UsageError for anything that is no share between 0 and 1."""
    found = _SHARE.fullmatch(text.strip())
    share = 0.0
    if found is not None:
        share = float(found["number"]) / 100 if found["number"] else float(found["share"])
    if not 0.0 < share < 1.0:
        raise UsageError(
            f"{option} {text!r} is no share between 0% and 100%", hint="with a per cent sign, 1%, or as in 0.01"
        )
    return share


def read_claims(texts: Sequence[str], assume: str | None) -> tuple[Claim, ...]:
    """What `--prove` asked for. Raises UsageError for what can't be proven, or not under what is assumed."""
    claims = []
    for text in texts:
        name, _, target = text.partition("=")
        if name not in set(What) or not target:
            raise UsageError(
                f"--prove {text!r} is nothing that can be proven", hint="--prove flake=1%, --prove reach=90%"
            )
        claims.append(_make_claim(What(name), read_share(target, option="--prove"), assume))
    if assume is not None and len(claims) != 1:
        raise UsageError("--assume is for one --prove", hint="ask for each by itself")
    return tuple(claims)


def _make_claim(what: What, target: float, assume: str | None) -> Claim:
    if assume is not None:
        assumed = read_share(assume, option="--assume")
    else:
        assumed = target / 5 if what is What.FLAKE else (1.0 + target) / 2
    is_within = assumed < target if what is What.FLAKE else assumed > target
    if not is_within:
        side = "below" if what is What.FLAKE else "above"
        raise UsageError(
            f"--assume must be {side} what is to be proven: a true {what} at it is proven by no number of runs"
        )
    return Claim(what=what, target=target, assumed=assumed)


def prove(claim: Claim, *, sites: int, share: float, power: float, given: int | None, unverified: float = 0.0) -> Proof:
    """The fewest trials that prove the claim with this power, and what the `given` number of trials promises."""
    if claim.what is What.FLAKE:
        need = need_for_flake(sites, target=claim.target, assumed=claim.assumed, power=power)
        most = -1 if need is None else min(need.allowed, _MOST_STEPS)
        steps = tuple(fewest_runs(failures, claim.target) for failures in range(most + 1))
    else:
        need = need_for_reach(
            sites, measurable=share, unverified=unverified, target=claim.target, assumed=claim.assumed, power=power
        )
        steps = ()
    weighed = None if given is None else _weigh(claim, given, sites=sites, share=share, unverified=unverified)
    return Proof(claim=claim, power=power, need=need, given=weighed, steps=steps)


def _weigh(claim: Claim, trials: int, *, sites: int, share: float, unverified: float) -> Need:
    if claim.what is What.FLAKE:
        return weigh_flake(trials, sites, target=claim.target, assumed=claim.assumed)
    return weigh_reach(
        trials, sites, measurable=share, unverified=unverified, target=claim.target, assumed=claim.assumed
    )
