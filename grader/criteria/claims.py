"""Criteria 2, 3 and 9: what the product claims, and what it has learned; a dry sweep settles none of them."""

from __future__ import annotations

from dataclasses import replace

from broker.types import Bucket, Claim, Family, Mode
from grader.criteria.cells import Cell, Mark, Sample


def judge_verified_writes(_sample: Sample) -> Cell:
    """2: verified writes; a dry run writes nothing."""
    return Cell(
        number=2, name="verified writes", target=">=95%", baseline="no honest data", hint="live rounds: plan c2"
    )


def judge_false_success(sample: Sample) -> Cell:
    """3: false success claims. One is enough to fail; none in a dry sweep settles nothing."""
    claims = false = sample.sweep.late_breaches
    for group, times in sample.groups.items():
        is_false = group.bucket is Bucket.PRODUCT_FALSE_SUCCESS
        # what the infrastructure spoilt enters no rate; a false success is a claim by itself
        has_claimed = group.claim is not Claim.NONE and group.bucket.family is not Family.INFRA
        claims += times * (has_claimed or is_false)
        false += times * is_false
    cell = Cell(
        number=3,
        name="false success claims",
        target="exactly 0",
        baseline="unknown",
        value=float(false) if claims else None,
        unit="count",
        numerator=false,
        denominator=claims,
        hint="not by a dry sweep: plan c2" if _is_dry(sample) else "live rounds: plan c2",
    )
    return replace(cell, mark=Mark.FAIL, proven=True, hint="a claim without a postcondition") if false else cell


def _is_dry(sample: Sample) -> bool:
    return sample.sweep.mode is Mode.DRY


def judge_fast_path(sample: Sample) -> Cell:
    """9: the learned fast path. A dry log holds no recording, so that it can neither pass nor fail."""
    skills = sample.skills
    refused = ", ".join(f"{name} {times}" for name, times in skills.refusals.items()) or "none"
    replayed = f"replayed {skills.replays} ({skills.replays_succeeded} succeeded)"
    return Cell(
        number=9,
        name="learned fast path",
        target=">=50% or gone",
        baseline="0 of 55",
        hint="no dry log records: plan c2" if _is_dry(sample) else "live rounds: plan c2",
        notes=(f"recorded {skills.recorded}, {replayed}, refused: {refused}",),
    )
