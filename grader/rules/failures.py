"""Rules on the product's failures. Unknowns, timeouts and silence are failures, never omissions."""

from __future__ import annotations

from broker.types import Bucket, Claim, Seen
from grader.evidence import FAILED_FILLS, OTHER_DECLINES, Case
from grader.rules.finding import Finding, claim_lines, describe_fill, describe_line, distinct

_UNSENT = ("send_done", "receipt_withheld")


def budget_used(case: Case) -> Finding | None:
    """The run's time was used up before its session ended."""
    if not case.record.budget_used:
        return None
    return Finding(bucket=Bucket.PRODUCT_TIMEOUT, why=f"no end within {case.record.wall_ms / 1000:.0f} s")


def payload_absent(case: Case) -> Finding | None:
    """Claimed, and the page was read: it does not hold the payload exactly once."""
    if case.claim is not Claim.FILLED or case.page.payload is not Seen.ABSENT:
        return None
    found = f"{case.page.count} times" if case.page.count else "nowhere"
    if case.page_moved_on:
        return Finding(
            bucket=Bucket.PRODUCT_UNCONFIRMED,
            why=f"claimed; read only after a recovery dispatch, which may have moved the page: {found}",
            lines=claim_lines(case),
        )
    return Finding(
        bucket=Bucket.PRODUCT_UNVERIFIED_FILL,
        why=f"claimed, but bv3 read the payload {found} on {case.page.url[:120]}",
        lines=claim_lines(case),
    )


def page_unread(case: Case) -> Finding | None:
    """Claimed, and the page, or which page it was, could not be read."""
    if case.claim is not Claim.FILLED:
        return None
    return Finding(
        bucket=Bucket.PRODUCT_UNCONFIRMED,
        why=f"filled is claimed, but bv3 could not read the page; {describe_fill(case)}",
        lines=claim_lines(case),
    )


def sent_unproven(case: Case) -> Finding | None:
    """A live run says that it sent. The page it wrote on proves nothing of that: its destination would have to be read.

    Never `ok` on the product's word, and no false success without the destination's.
    """
    if case.claim is not Claim.SENT:
        return None
    return Finding(
        bucket=Bucket.PRODUCT_UNCONFIRMED,
        why=f"sent is claimed, but its destination has not been read; {describe_fill(case)}",
        lines=distinct((*claim_lines(case), *case.sent)),
    )


def command_timed_out(case: Case) -> Finding | None:
    """A command of the product's was never answered, though bv3's own card was.

    One slow command alone may have been answered at the last moment; beside an error that names the time-out,
    or a card that then perceived nothing, it was not.
    """
    errors = case.errors_with("reply_command_timeout", "reply_script_timeout")
    if not errors and not case.is_dead_by_silence and len(case.unanswered) < 2:  # noqa: PLR2004 - see above
        return None
    lines = case.decisive(distinct((*case.unanswered, *errors, *case.dead)))
    if not lines:
        return None
    return Finding(
        bucket=Bucket.PRODUCT_COMMAND_TIMEOUT,
        why="a browser command was not answered within its time",
        lines=lines,
    )


def fill_died(case: Case) -> Finding | None:
    """A box was found, and filling it, or in a live run sending what was filled, failed."""
    if case.outcome is not None and case.outcome.marker in (*FAILED_FILLS, *_UNSENT):
        return Finding(
            bucket=Bucket.PRODUCT_FILL_DIED,
            why=describe_line(case, case.outcome),
            lines=claim_lines(case),
        )
    if case.cut_off is None:
        return None
    return Finding(
        bucket=Bucket.PRODUCT_FILL_DIED,
        why=f"nothing was said after the fill of '{case.cut_off.name[:80]}' began",
        lines=(case.cut_off.hit,),
    )


def landed_elsewhere(case: Case) -> Finding | None:
    """The product saw itself that it stood on another kind of page."""
    if case.outcome is None or case.outcome.marker != "decline_content_type":
        return None
    return Finding(
        bucket=Bucket.PRODUCT_WRONG_SURFACE,
        why=describe_line(case, case.outcome),
        lines=(case.outcome,),
    )


def declined(case: Case) -> Finding | None:
    """The product found nothing to write into, or would not write."""
    if case.outcome is None or case.outcome.marker not in OTHER_DECLINES:
        return None
    return Finding(
        bucket=Bucket.PRODUCT_NO_COMPOSER,
        why=describe_line(case, case.outcome),
        lines=(case.outcome,),
    )


def nothing_tried(_case: Case) -> Finding | None:
    """No line of the first dispatch says that a composer was looked for. A silent failure is a failure."""
    return Finding(bucket=Bucket.PRODUCT_NO_COMPOSER, why="the product never tried to write")
