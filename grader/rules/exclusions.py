"""Rules on what leaves the denominator: on what bv3 read itself, or, UNVERIFIED, on the product's word."""

from __future__ import annotations

from broker.types import Bucket, Claim, Evidence, Seen
from grader.evidence import WALL_DECLINES, Case
from grader.markers import Hit
from grader.rules.finding import Finding, describe_line
from grader.surface import Surface, is_sign_in


def challenge_shown(case: Case) -> Finding | None:
    """bv3 read a visible bot-detection challenge on the run's page."""
    if case.claim is not Claim.NONE or case.page.challenge is not Seen.SEEN:
        return None
    return _excluded(f"challenge on {case.page.url[:120]}")


def sign_in_page(case: Case) -> Finding | None:
    """bv3 read a sign-in page's URL where the task's page was meant."""
    if case.claim is not Claim.NONE or not is_sign_in(case.page.url, case.task):
        return None
    return _excluded(f"sign-in URL {case.page.url[:120]}")


def password_form(case: Case) -> Finding | None:
    """bv3 read a visible password field in a sign-in form on the run's page."""
    if case.claim is not Claim.NONE or case.page.password_form is not Seen.SEEN:
        return None
    return _excluded(f"password form on {case.page.url[:120]}")


def _excluded(why: str) -> Finding:
    return Finding(bucket=Bucket.NOT_MEASURABLE, why=why, evidence=Evidence.PROVEN)


def wall_claimed(case: Case) -> Finding | None:
    """The product says that it met a sign-in wall or a challenge, and bv3's own reading does not refute it."""
    if case.claim is not Claim.NONE or case.record.budget_used:
        return None
    lines = _wall_lines(case)
    if not lines or _is_refuted(case, lines):
        return None
    return Finding(
        bucket=Bucket.NOT_MEASURABLE,
        why=f"wall by the product's word alone: {describe_line(case, lines[-1])}",
        lines=lines,
        evidence=Evidence.UNVERIFIED,
    )


def wall_refuted(case: Case) -> Finding | None:
    """The product says sign-in wall; bv3 read the intended page, and no wall on it: not excluded."""
    if case.claim is not Claim.NONE or case.record.budget_used:
        return None
    lines = _wall_lines(case)
    if not lines or not _is_refuted(case, lines):
        return None
    return Finding(
        bucket=Bucket.PRODUCT_NO_COMPOSER,
        why=f"the product names a sign-in wall, bv3 read none on {case.page.url[:120]}",
        lines=lines,
    )


def _wall_lines(case: Case) -> tuple[Hit, ...]:
    is_last = case.outcome is not None and case.outcome.marker in WALL_DECLINES
    return (*((case.outcome,) if is_last and case.outcome else ()), *case.window("challenge_detected"))


def _is_refuted(case: Case, lines: tuple[Hit, ...]) -> bool:
    """A wall named by its URL or its password field is one that bv3 would have read.

    One named by its words is not: a page may withhold its composer and offer a sign-in link alone.
    """
    triggers = [case.catalogue.replies_in(line.text("trigger")) for line in lines]
    readable = all(found.intersection(("wall_by_url", "wall_by_password_field")) for found in triggers)
    looked = case.page.password_form is Seen.ABSENT and case.page.challenge is Seen.ABSENT
    return readable and looked and case.surface is Surface.RIGHT
