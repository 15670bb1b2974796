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
    """The product found no renderer, before or in the middle of its first dispatch, and did not get past that."""
    if case.claim is not Claim.NONE:
        return None
    lost = tuple(hit for hit in case.window("session_done") if hit.text("lost"))
    lines = (*case.window("dispatch_refused"), *case.errors_with("reply_no_dashboard"), *lost)
    lines = case.decisive(distinct(lines))
    if not lines:
        return None
    return Finding(bucket=Bucket.INFRA_NO_RENDERER, why="the product found no renderer connected", lines=lines)


def card_died(case: Case) -> Finding | None:
    """The run's own card was gone, never came alive, or could not be read.

    A card that perceives nothing because its commands were never answered is not dead: when bv3's own card
    answered, it is `command_timed_out`; without an answer of that one it is a renderer that does nothing.
    """
    if case.claim is not Claim.NONE:
        return None
    dead, gone = case.dead, case.errors_with("reply_card_gone", "reply_page_busy")
    lines = case.decisive(distinct((*dead, *gone)))
    after = case.record.probe_after
    is_renderer_alive = after is not None and after.answered
    if not lines:
        return None if is_renderer_alive else _renderer_wedged(case)
    if dead and not is_renderer_alive:
        return Finding(bucket=Bucket.INFRA_NO_RENDERER, why="the run's card was dead", lines=lines)
    if case.is_dead_by_silence and not gone:
        return None
    return Finding(bucket=Bucket.INFRA_BROWSER, why="the run's card was dead", lines=lines)


def _renderer_wedged(case: Case) -> Finding | None:
    """Without bv3's own probe: a card that never came alive, and commands on it that were never answered."""
    silent = tuple(hit for hit in case.window("spawn_ack") if hit.text("alive") == "False")
    lines = case.decisive(distinct((*silent, *case.unanswered))) if silent and case.unanswered else ()
    if not lines:
        return None
    return Finding(bucket=Bucket.INFRA_NO_RENDERER, why="the run's card never came alive", lines=lines)


def no_provider(case: Case) -> Finding | None:
    """No model could be asked: no router, none behind it, or it pushed us back; and the run did not get past that.

    A call that failed was got past when a box to fill was found all the same; a retry, or a router that was
    revived, already when the send script came to any end and no call had failed.
    """
    if case.claim is not Claim.NONE:
        return None
    failed = (
        # a time-out prints nothing; what else went wrong there is the product's own
        *(hit for hit in case.window("classifier_unavailable") if not hit.text("error")),
        *case.model_errors_with(
            "reply_no_provider_connected",
            "reply_no_provider_configured",
            "reply_rate_limited",
            "reply_overloaded",
            "reply_provider_away",
        ),
    )
    shaky = case.window("api_retry", "router_down", "router_died")
    if shaky:
        failed = (*failed, *(hit for hit in case.window("prestage_skipped") if hit.start > shaky[0].start))
    if case.outcome is not None:
        # what came after the outcome is no part of the trial, and a retry before it was answered
        failed, shaky = case.before_outcome(failed), ()
    lines = case.decisive(distinct((*failed, *shaky)))
    if not lines and not _is_router_missing(case):
        return None
    return Finding(bucket=Bucket.INFRA_ROUTER, why="the product could not ask a model", lines=lines)


def _is_router_missing(case: Case) -> bool:
    """Whether the session ended in an error that names the router; an answer that quotes it is none."""
    parent = case.record.parent
    return (
        parent is not None
        and parent.status == "error"
        and "reply_router_not_running" in case.catalogue.replies_in(parent.reply)
    )
