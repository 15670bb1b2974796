"""Rules on what both sides say: the product claims a fill, and bv3 read the page."""

from __future__ import annotations

from broker.types import Bucket, Claim, Seen
from grader.evidence import Case
from grader.rules.finding import Finding, claim_lines, describe_fill
from grader.surface import Surface


def reached(case: Case) -> Finding | None:
    """Claimed in the window, read by bv3 exactly once in one editable, on the surface that was meant."""
    if not _claimed_and_seen(case) or case.surface is not Surface.RIGHT:
        return None
    if case.is_message_box or case.is_other_box:
        return None
    return Finding(bucket=Bucket.OK, why=describe_fill(case), lines=claim_lines(case))


def filled_message_box(case: Case) -> Finding | None:
    """The right page, but a private-message box where something public was wanted."""
    if case.claim is not Claim.FILLED or not case.is_message_box or case.record.budget_used:
        return None
    label = case.page.label or (case.fill.name if case.fill else "")
    return Finding(
        bucket=Bucket.PRODUCT_WRONG_SURFACE,
        why=f"the text went into the private-message box '{label[:80]}', the task wanted a public {case.task.kind}",
        lines=claim_lines(case),
    )


def filled_wrong_page(case: Case) -> Finding | None:
    """A fill was claimed on a page that was not meant, by bv3's reading of it or by the product's own word."""
    if case.claim is not Claim.FILLED or case.record.budget_used:
        return None
    is_wrong = case.claimed_surface is Surface.WRONG or (
        case.page.payload is Seen.SEEN and case.surface is Surface.WRONG
    )
    if not is_wrong:
        return None
    url = case.page.url if case.claimed_surface is not Surface.WRONG or case.fill is None else case.fill.url
    return Finding(
        bucket=Bucket.PRODUCT_WRONG_SURFACE,
        why=f"filled on {url[:120]}, the task wanted {case.task.host} {case.task.path_rule}",
        lines=claim_lines(case),
    )


def filled_other_box(case: Case) -> Finding | None:
    """The right page, but a box of another kind than the task's editor: a search box, a title, a plain field."""
    if not _claimed_and_seen(case) or not case.is_other_box:
        return None
    box = f"{case.page.kind} '{case.page.label[:80]}'"
    return Finding(
        bucket=Bucket.PRODUCT_WRONG_SURFACE,
        why=f"bv3 read the text in the {box}, the task's editor is {case.task.editor_shape}",
        lines=claim_lines(case),
    )


def _claimed_and_seen(case: Case) -> bool:
    # A run that used up its budget has not ended: a failure, whatever it had filled by then.
    return case.claim is Claim.FILLED and case.page.payload is Seen.SEEN and not case.record.budget_used
