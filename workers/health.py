"""Is this box well enough to measure? A preflight, then one real session on a page that the check itself serves.

The text is read back in the page by bv3's own audit; everything is removed again. What ends a hold rests on it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from broker.types import Mode, Seen
from workers.boxfile import BoxFile
from workers.client.errors import ProductError
from workers.healthpage import serve_page
from workers.pagewords import count_payload
from workers.preflight import Preflight, Refusal
from workers.trial import TrialOrder, TrialReport, hold_product, run_trial

BUDGET_S = 90.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthReport:
    """Passed or not, and why, in a line."""

    passed: bool
    detail: str
    duration_ms: int


def check_health(
    box: BoxFile, preflight: Preflight, *, nonce: str, budget_s: float = BUDGET_S, may_post: bool = False
) -> HealthReport:
    """Whether the box can do one run from beginning to end. `nonce` has been in no text before.

    A live stack is asked no more than the preflight unless `may_post`: the check's page is on loopback, but the
    product chooses where it writes, with accounts that it is signed in to. Raises BoxHeldError when a run, or
    somebody else, works on the product.
    """
    begun_s = time.monotonic()
    passed = "a text was written and read back"
    try:
        with hold_product(box, preflight, "a health check", may_be_worked=True) as mode:
            if mode is Mode.LIVE and not may_post:
                problem, passed = "", "live: the preflight alone, no session was run"
            else:
                problem = _try_once(preflight, mode, nonce, budget_s)
    except Refusal as refusal:
        problem = f"preflight refused: {refusal.message}"
    except ProductError as error:
        problem = f"no session could be had: {error.message}"
    duration_ms = round((time.monotonic() - begun_s) * 1000)
    return HealthReport(passed=not problem, detail=problem or passed, duration_ms=duration_ms)


def _try_once(preflight: Preflight, mode: Mode, nonce: str, budget_s: float) -> str:
    payload = f"check {nonce} of this box"
    with serve_page(nonce) as page:
        prompt = f'Go to {page.url} and publish a post with exactly this text: "{payload}"'
        order = TrialOrder(name=f"health check {nonce}", prompt=prompt, payload=payload, budget_s=budget_s)
        report = run_trial(preflight.product, preflight.facts, order)
        return judge_trial(report, payload, mode=mode, posts=tuple(page.posts))


def judge_trial(report: TrialReport, payload: str, *, mode: Mode, posts: Sequence[str]) -> str:
    """What is wrong with the box after this trial; empty when nothing is."""
    if mode is Mode.DRY and posts:
        return f"the stack is dry and pressed the button all the same: {len(posts)} posts"
    if report.ended_by == "budget":
        return f"the session had not ended after {report.wall_ms / 1000:.0f} s"
    if not report.children:
        return f"no browser was used: the session ended {report.status}"
    if not report.cards:
        return "the session showed no page"
    if problem := _judge_text(report, payload, posts):
        return problem
    return f"not everything could be removed: {report.stayed}" if report.stayed else ""


def _judge_text(report: TrialReport, payload: str, posts: Sequence[str]) -> str:
    if posts:
        posted = sum(count_payload(post, payload) for post in posts)
        return "" if posted == len(posts) == 1 else f"the text was posted {posted} times in {len(posts)} posts"
    if not report.reads:
        return "the page was not read"
    last = report.reads[-1]
    if last.payload is Seen.COULD_NOT_LOOK:
        return f"the page could not be looked at: {last.error or 'a part of it stayed unread'}"
    return "" if last.payload_count == 1 else f"the text is {last.payload_count} times in the page's editables"
