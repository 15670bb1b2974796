"""What a plan costs and what it proves, as people and programs read it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from broker.store.coverage import Measurable
from scheduler.listing import SCHEMA, count, fold
from scheduler.power import Need
from scheduler.proof import Estimate, Ground, Proof, What

DASH = "-"
_MINUTES = 60
_SHORT_H = 1.5


def estimate_lines(estimates: Sequence[Estimate]) -> list[str]:
    """What `plan` prints: of each plan its runs, their cost, the proofs, and what the numbers rest on."""
    lines = [line for estimate in estimates for line in _estimate_lines(estimate)]
    if len(estimates) > 1:
        runs = sum(estimate.runs for estimate in estimates)
        lines.append(f"together: {count(runs, 'run')}, {_say_hours(_together(estimates))}")
    return [*lines, "nothing was written"]


def _together(estimates: Sequence[Estimate]) -> float | None:
    hours = [estimate.ground.hours(estimate.runs) for estimate in estimates]
    known = [hour for hour in hours if hour is not None]
    return sum(known) if len(known) == len(hours) else None


def _estimate_lines(estimate: Estimate) -> Iterator[str]:
    ground = estimate.ground
    sites = count(estimate.sites, "site")
    yield f"{estimate.plan}: {estimate.suite} suite, {sites}, {estimate.mode}"
    yield from _folded(
        f"as planned: {count(estimate.runs, 'run')} ({count(estimate.trials, 'trial')} a site),"
        f" {_say_cost(ground, estimate.runs)}"
    )
    for proof in estimate.proofs:
        yield from _proof_lines(proof, ground)
    yield from _folded(_say_ground(estimate))


def _folded(text: str) -> Iterator[str]:
    yield from (f"  {line}" for line in fold(text, indent=2))


def _proof_lines(proof: Proof, ground: Ground) -> Iterator[str]:
    claim = proof.claim
    sign = "<=" if claim.what is What.FLAKE else ">="
    yield from _folded(
        f"to prove {claim.what} {sign} {_percent(claim.target)} at 95%, should it truly be {_percent(claim.assumed)},"
        f" with a chance of {_percent(proof.power)} or more:"
    )
    if proof.need is None:
        yield from (f"    {line}" for line in fold(_say_never(claim.what, ground), indent=4))
    else:
        yield from (f"    {line}" for line in _need_lines(proof.need, proof, ground))
    if proof.steps:
        steps = ", ".join(f"{failures} of {runs}" for failures, runs in enumerate(proof.steps))
        yield f"    at most so many spoilt prove it: {steps}"
    if proof.given is not None and proof.given != proof.need:
        yield from (f"    {line}" for line in _need_lines(proof.given, proof, ground))


def _say_never(what: What, ground: Ground) -> str:
    known = ground.measurable
    if what is What.FLAKE or known is None or not known.unverified:
        return "no number of runs that a farm can do"
    return (
        f"no number of runs proves it while {known.unverified} of {known.judged} are UNVERIFIED, which count as misses"
    )


def _need_lines(need: Need, proof: Proof, ground: Ground) -> list[str]:
    runs = f"--n {need.trials}: {count(need.runs, 'run')}"
    if need.counted != need.runs:
        runs += f", {need.counted} of them measurable"
    if need.unverified:
        runs += f" and {need.unverified} UNVERIFIED, which count as misses"
    if need.allowed < 0:
        return fold(f"{runs}; too few to prove it, whatever comes of them; {_say_cost(ground, need.runs)}", indent=4)
    fails = "be spoilt" if proof.claim.what is What.FLAKE else "miss"
    may = f"{need.allowed} may {fails}" if need.allowed else f"none may {fails}"
    return fold(f"{runs}; {may}; chance {_percent(need.power)}; {_say_cost(ground, need.runs)}", indent=4)


def _say_cost(ground: Ground, runs: int) -> str:
    return f"{_say_hours(ground.hours(runs))} on {count(ground.boxes, 'box', 'boxes')}"


def _say_hours(hours: float | None) -> str:
    if hours is None:
        return DASH
    return f"about {hours * _MINUTES:.0f} min" if hours < _SHORT_H else f"about {hours:.1f} h"


def _say_ground(estimate: Estimate) -> str:
    ground = estimate.ground
    timed = "no run of this suite was timed here yet"
    if ground.time is not None:
        last = "the last run" if ground.time.runs == 1 else f"the median of the last {ground.time.runs} runs"
        timed = f"{ground.time.seconds:.1f} s from start to start, {last} here"
    parts = [timed, ground.boxes_from]
    if any(proof.claim.what is What.REACH for proof in estimate.proofs):
        known = ground.measurable
        parts.append(
            "which sites are measurable is not known, all are counted"
            if known is None
            else f"{known.measurable} of {known.judged} were measurable{_say_unverified(known)} in {known.sweep}"
        )
    return f"rests on: {'; '.join(parts)}"


def _say_unverified(known: Measurable) -> str:
    return f" and {known.unverified} UNVERIFIED" if known.unverified else ""


def _percent(share: float) -> str:
    return f"{share * 100:.4g}%" if share < 0.999 else f"{share * 100:.2f}%"  # noqa: PLR2004


def estimate_document(estimates: Sequence[Estimate], *, is_series: bool) -> dict[str, Any]:
    """What `plan --json` prints."""
    if not is_series:
        return {"schema": SCHEMA, **_one_document(estimates[0])}
    return {
        "schema": SCHEMA,
        "sweeps": [{"schema": SCHEMA, **_one_document(estimate)} for estimate in estimates],
        "runs": sum(estimate.runs for estimate in estimates),
        "hours": _together(estimates),
    }


def _one_document(estimate: Estimate) -> dict[str, Any]:
    ground = estimate.ground
    return {
        "plan": estimate.plan,
        "suite": estimate.suite,
        "mode": estimate.mode,
        "sites": estimate.sites,
        "trials": estimate.trials,
        "runs": estimate.runs,
        "hours": ground.hours(estimate.runs),
        "boxes": ground.boxes,
        "boxes_from": ground.boxes_from,
        "time": None if ground.time is None else asdict(ground.time),
        "measurable": None if ground.measurable is None else asdict(ground.measurable),
        "proofs": [_proof_document(proof, ground) for proof in estimate.proofs],
    }


def _proof_document(proof: Proof, ground: Ground) -> dict[str, Any]:
    return {
        "what": proof.claim.what.value,
        "target": proof.claim.target,
        "assumed": proof.claim.assumed,
        "power": proof.power,
        "need": _need_document(proof.need, ground),
        "given": _need_document(proof.given, ground),
        "steps": list(proof.steps),
    }


def _need_document(need: Need | None, ground: Ground) -> dict[str, Any] | None:
    return None if need is None else {**asdict(need), "hours": ground.hours(need.runs)}
