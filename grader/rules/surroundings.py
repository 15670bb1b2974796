"""Rules on what the product stands on: bv3's own probes first, the product's word second."""

from __future__ import annotations

from broker.types import Bucket, Claim
from grader.evidence import Case
from grader.rules.finding import Finding, distinct, find_restart

# Parts that a run can lose and still have been seen to succeed; the backend is not one of them.
_PART_BUCKETS = {
    "renderer": Bucket.INFRA_NO_RENDERER,
    "router": Bucket.INFRA_ROUTER,
    # the pages of a reference stack
    "sites": Bucket.INFRA_HARNESS,
}


def part_restarted(case: Case) -> Finding | None:
    """Renderer or router ended and started again within the run, as the box's supervision saw it."""
    event = find_restart(case, *_PART_BUCKETS)
    if event is None:
        return None
    part = event.facts["part"]
    return Finding(bucket=_PART_BUCKETS[part], why=f"the {part} started again within the run, at {event.at}")


def renderer_silent(case: Case) -> Finding | None:
    """bv3's own audit card did not answer before or after the run: the renderer is dead or hangs."""
    probe = case.failed_probe
    if probe is None:
        return None
    return Finding(
        bucket=Bucket.INFRA_NO_RENDERER,
        why=f"bv3's own card did not answer within {probe.duration_ms} ms{probe.error and f': {probe.error[:200]}'}",
    )


def renderer_away(case: Case) -> Finding | None:
    """The product found no renderer, before or in the middle of its first dispatch."""
    if case.claim is not Claim.NONE:
        return None
    lines = (*case.window("dispatch_refused"), *case.errors_with("reply_no_dashboard"))
    if not lines:
        return None
    return Finding(bucket=Bucket.INFRA_NO_RENDERER, why="the product found no renderer connected", lines=lines)


def card_died(case: Case) -> Finding | None:
    """The run's own card was gone, never came alive, or could not be read."""
    if case.claim is not Claim.NONE:
        return None
    dead = case.window("perceives_dead", "card_unusable")
    lines = (*dead, *case.errors_with("reply_card_gone", "reply_page_busy"))
    if not lines:
        return None
    # Without an answer of bv3's own card, a card that perceives nothing is a renderer that does nothing.
    after = case.record.probe_after
    is_renderer = bool(dead) and (after is None or not after.answered)
    return Finding(
        bucket=Bucket.INFRA_NO_RENDERER if is_renderer else Bucket.INFRA_BROWSER,
        why="the run's card was dead",
        lines=distinct(lines),
    )


def no_provider(case: Case) -> Finding | None:
    """No model could be asked: no router, none behind it, or it pushed us back."""
    if case.claim is not Claim.NONE:
        return None
    lines = (
        *case.window("classifier_unavailable", "api_retry", "router_down", "router_died"),
        *case.errors_with(
            "reply_no_provider_connected",
            "reply_no_provider_configured",
            "reply_rate_limited",
            "reply_overloaded",
        ),
    )
    reply = case.record.parent.reply if case.record.parent else ""
    if not lines and "reply_router_not_running" not in case.catalogue.replies_in(reply):
        return None
    return Finding(bucket=Bucket.INFRA_ROUTER, why="the product could not ask a model", lines=distinct(lines))
