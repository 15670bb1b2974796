"""The rules, in the order in which they are asked. Pure, and no model is consulted.

A rule looks at one `Case` and says what it found, or None: then the next one is asked. Its name stands
in the verdict, with the lines it rests on; docs/reference/buckets.md has an entry for each.

The order is the argument: breaches of safety; whether the instrument may speak at all; what both sides
agree on; bv3's own probes; the product's word on its surroundings; exclusions; the product's failures.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from broker.types import Bucket, Claim, Evidence, HarnessError, Mode, Phase, Seen
from grader.evidence import FAILED_FILLS, OTHER_DECLINES, WALL_DECLINES, Case
from grader.markers import Hit
from grader.surface import Surface, is_sign_in

GRADER_VERSION = 1

# A command that took this long was given up by the product, not answered.
_LEASH_MS = 15_000
_BACKEND_EVENTS = frozenset({"backend_restarted", "backend_died"})
_PART_EVENTS = {
    "renderer_restarted": Bucket.INFRA_NO_RENDERER,
    "renderer_died": Bucket.INFRA_NO_RENDERER,
    "router_restarted": Bucket.INFRA_ROUTER,
    "router_died": Bucket.INFRA_ROUTER,
}
_ERROR_BUCKETS = {
    "backend": Bucket.INFRA_BACKEND,
    "renderer": Bucket.INFRA_NO_RENDERER,
    "router": Bucket.INFRA_ROUTER,
    "contended": Bucket.INFRA_CONTENDED,
}
# What fails while the page is read or later leaves the run itself as it was: then the reads decide.
_BEFORE_AUDIT = frozenset({Phase.PREFLIGHT, Phase.START, Phase.RESET, Phase.LAUNCH, Phase.WAIT})


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What a rule found: the bucket, why in one sentence, the lines it rests on."""

    bucket: Bucket
    why: str
    lines: tuple[Hit, ...] = ()
    evidence: Evidence | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The finding of the first rule that found anything."""

    bucket: Bucket
    rule: str
    why: str
    lines: tuple[Hit, ...]
    evidence: Evidence | None
    grader_version: int = GRADER_VERSION


Rule = Callable[[Case], Finding | None]


# --- breaches of safety


def sent_in_dry_run(case: Case) -> Finding | None:
    """A dry run may never send: the box is held and the payload counts as stranded."""
    if case.planned_mode is not Mode.DRY or case.claim is not Claim.SENT:
        return None
    return Finding(
        bucket=Bucket.PRODUCT_FALSE_SUCCESS,
        why=f"the product says it sent '{case.record.payload}' in a dry run",
        lines=case.sent,
    )


# --- whether the instrument may speak


def site_retired(case: Case) -> Finding | None:
    """The site has left the suite, on evidence fetched directly; never on the product's word."""
    retired = case.task.retired
    if retired is None:
        return None
    return Finding(
        bucket=Bucket.NOT_MEASURABLE,
        why=f"the site is retired since {retired.date}: {retired.evidence}",
        evidence=Evidence.PROVEN,
    )


def box_contended(case: Case) -> Finding | None:
    """Somebody else's backend or load was seen on the box during or after the run: its times are noise."""
    event = next((event for event in case.record.events if event.kind == "contended"), None)
    if event is None:
        return None
    seen = ", ".join(f"{key}={value}" for key, value in sorted(event.facts.items()))
    return Finding(bucket=Bucket.INFRA_CONTENDED, why=f"the box was not this run's alone{seen and f' ({seen})'}")


def backend_restarted(case: Case) -> Finding | None:
    """The backend ended or started again within the run: by the box's own supervision, else by the slice."""
    event = next((event for event in case.record.events if event.kind in _BACKEND_EVENTS), None)
    lines = case.scan.find("backend_restarted", "server_started", "server_stopped", "backend_unreachable")
    if event is None and not lines:
        return None
    seen = f", seen at {event.at}" if event else ""
    return Finding(bucket=Bucket.INFRA_BACKEND, why=f"the backend went away within the run{seen}", lines=lines)


def wrong_mode(case: Case) -> Finding | None:
    """The backend's environment said another mode than the plan."""
    if case.record.mode is case.planned_mode:
        return None
    return Finding(
        bucket=Bucket.INFRA_HARNESS,
        why=f"the backend ran {case.record.mode}, the plan is {case.planned_mode}",
    )


def step_failed(case: Case) -> Finding | None:
    """A step of the instrument's own failed before the run could end."""
    error = next(filter(_spoils_run, case.record.errors), None)
    if error is None:
        return None
    return Finding(
        bucket=_ERROR_BUCKETS.get(error.kind, Bucket.INFRA_HARNESS),
        why=f"{error.phase} failed ({error.kind}): {error.message[:300]}",
    )


def _spoils_run(error: HarnessError) -> bool:
    if error.kind == "budget":
        return False
    return error.phase in _BEFORE_AUDIT or (error.kind in {"backend", "contended"} and error.phase is Phase.AUDIT)


def no_session(case: Case) -> Finding | None:
    """No session of the product belongs to this run."""
    if case.record.parent is not None:
        return None
    return Finding(bucket=Bucket.INFRA_HARNESS, why="the run has no session of the product")


def log_missing(case: Case) -> Finding | None:
    """There is no slice, it is empty, or the file was replaced in between."""
    log = case.record.log
    if log is not None and log.torn:
        return Finding(bucket=Bucket.INFRA_HARNESS, why="the log was replaced or cut short within the run")
    if log is None or not case.log.strip():
        return Finding(bucket=Bucket.INFRA_HARNESS, why="the log slice is empty")
    return None


def foreign_session(case: Case) -> Finding | None:
    """Lines without an id can't be told apart, so one foreign session spoils the whole slice."""
    lines = case.foreign_lines
    if not lines:
        return None
    return Finding(
        bucket=Bucket.INFRA_HARNESS,
        why=f"the slice holds lines of session {lines[0].text('sid')[:64]}, which is not this run's",
        lines=lines,
    )


def wrong_log(case: Case) -> Finding | None:
    """The slice never names this run's session: it is another process's log."""
    if case.is_own_log:
        return None
    return Finding(bucket=Bucket.INFRA_HARNESS, why="the slice does not name this run's session")


def reused_card(case: Case) -> Finding | None:
    """The first dispatch took an old card over, which is not moved to the task's page."""
    lines = case.window("reused_card")
    if not lines:
        return None
    return Finding(
        bucket=Bucket.INFRA_HARNESS,
        why=f"the first dispatch reused card {lines[0].text('card')} of an earlier run",
        lines=lines,
    )


def foreign_card(case: Case) -> Finding | None:
    """The first dispatch acted on a card that this run's session did not spawn."""
    lines = case.foreign_card_lines
    if not lines:
        return None
    return Finding(
        bucket=Bucket.INFRA_HARNESS,
        why=f"the first dispatch acted on card {lines[0].text('card')[:64]}, which is not this run's",
        lines=lines,
    )


def wrong_payload(case: Case) -> Finding | None:
    """The run wrote another text than its start gave out, so nothing that was read speaks for it."""
    record = case.record
    if record.payload == case.planned_payload and record.prompt.count(f'"{record.payload}"') == 1:
        return None
    return Finding(bucket=Bucket.INFRA_HARNESS, why="the prompt does not hold exactly this attempt's payload")


# --- what both sides agree on


def reached(case: Case) -> Finding | None:
    """Claimed in the window, read by bv3 exactly once in one editable, on the surface that was meant."""
    if not _claimed_and_seen(case) or case.surface is not Surface.RIGHT or case.is_message_box:
        return None
    return Finding(bucket=Bucket.OK, why=describe_fill(case), lines=_claim_lines(case))


def filled_message_box(case: Case) -> Finding | None:
    """The right page, but a private-message box where something public was wanted."""
    if case.claim is not Claim.FILLED or not case.is_message_box or case.record.budget_used:
        return None
    label = case.page.label or (case.fill.name if case.fill else "")
    return Finding(
        bucket=Bucket.PRODUCT_WRONG_SURFACE,
        why=f"the text went into the private-message box '{label[:80]}', the task wanted a public {case.task.kind}",
        lines=_claim_lines(case),
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
        lines=_claim_lines(case),
    )


def _claimed_and_seen(case: Case) -> bool:
    # A run that used up its budget has not ended: a failure, whatever it had filled by then.
    return case.claim is Claim.FILLED and case.page.payload is Seen.SEEN and not case.record.budget_used


def _claim_lines(case: Case) -> tuple[Hit, ...]:
    lines = (case.fill.hit if case.fill else None, case.outcome)
    return tuple(line for line in lines if line is not None)


def describe_fill(case: Case) -> str:
    """`'submit' <- 'box' on url`: what was filled and which control would have sent it."""
    submit = case.outcome.text("submit") if case.outcome else ""
    box = case.fill.name if case.fill else "?"
    return f"{submit[:60] or None} <- '{box[:80]}' on {(case.page.url or (case.fill.url if case.fill else ''))[:120]}"


# --- bv3's own probes, then the product's word on what it stands on


def part_restarted(case: Case) -> Finding | None:
    """The renderer or the router ended or started again within the run, as the box's supervision saw it."""
    event = next((event for event in case.record.events if event.kind in _PART_EVENTS), None)
    if event is None:
        return None
    return Finding(
        bucket=_PART_EVENTS[event.kind],
        why=f"{event.kind.replace('_', ' ')} within the run, at {event.at}",
    )


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
        lines=_distinct(lines),
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
    return Finding(bucket=Bucket.INFRA_ROUTER, why="the product could not ask a model", lines=_distinct(lines))


def _distinct(lines: tuple[Hit, ...]) -> tuple[Hit, ...]:
    return tuple(sorted({line.start: line for line in lines}.values(), key=lambda line: line.start))


# --- exclusions: on what bv3 read itself; on the product's word only as UNVERIFIED


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


# --- the product's failures


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
            lines=_claim_lines(case),
        )
    return Finding(
        bucket=Bucket.PRODUCT_UNVERIFIED_FILL,
        why=f"claimed, but bv3 read the payload {found} on {case.page.url[:120]}",
        lines=_claim_lines(case),
    )


def page_unread(case: Case) -> Finding | None:
    """Claimed, and the page, or which page it was, could not be read."""
    if case.claim is Claim.NONE:
        return None
    return Finding(
        bucket=Bucket.PRODUCT_UNCONFIRMED,
        why=f"{case.claim} is claimed, but bv3 could not read the page; {describe_fill(case)}",
        lines=_claim_lines(case),
    )


def command_timed_out(case: Case) -> Finding | None:
    """A command of the product's was never answered, though bv3's own card was."""
    lines = case.errors_with("reply_command_timeout", "reply_script_timeout")
    slow = tuple(hit for hit in case.window("slow_command") if (hit.number("ms") or 0) >= _LEASH_MS)
    if not lines and len(slow) < 2:  # noqa: PLR2004 - one slow command may still have been answered
        return None
    return Finding(
        bucket=Bucket.PRODUCT_COMMAND_TIMEOUT,
        why="a browser command was not answered within its time",
        lines=_distinct((*slow, *lines)),
    )


def fill_died(case: Case) -> Finding | None:
    """A box was found, and filling it failed."""
    if case.outcome is not None and case.outcome.marker in FAILED_FILLS:
        return Finding(
            bucket=Bucket.PRODUCT_FILL_DIED,
            why=describe_line(case, case.outcome),
            lines=_claim_lines(case),
        )
    if case.fill is None or (case.outcome is not None and case.outcome.start > case.fill.hit.start):
        return None
    return Finding(
        bucket=Bucket.PRODUCT_FILL_DIED,
        why=f"nothing was said after the fill of '{case.fill.name[:80]}' began",
        lines=(case.fill.hit,),
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


def describe_line(case: Case, hit: Hit) -> str:
    """The message of a line, without the logger's prefix, shortened."""
    line = case.log[hit.start : min(hit.end, hit.start + 400)].decode("utf-8", "replace")
    message = line.partition("] ")[2] or line
    return message.strip()[:200]


RULES: tuple[Rule, ...] = (
    sent_in_dry_run,
    site_retired,
    box_contended,
    backend_restarted,
    wrong_mode,
    step_failed,
    no_session,
    log_missing,
    foreign_session,
    wrong_log,
    reused_card,
    foreign_card,
    wrong_payload,
    reached,
    filled_message_box,
    filled_wrong_page,
    part_restarted,
    renderer_silent,
    renderer_away,
    card_died,
    no_provider,
    challenge_shown,
    sign_in_page,
    password_form,
    wall_claimed,
    wall_refuted,
    budget_used,
    payload_absent,
    page_unread,
    command_timed_out,
    fill_died,
    landed_elsewhere,
    declined,
    nothing_tried,
)

# Verdicts given without a case: what no rule can look at.
RULE_BOX_LOST = "box_lost"
RULE_UNREADABLE = "unreadable_record"


def decide(case: Case) -> Verdict:
    """The verdict of the first rule that finds anything; the last one always does."""
    for rule in RULES:
        if (found := rule(case)) is not None:
            return Verdict(
                bucket=found.bucket,
                rule=rule.__name__,
                why=found.why,
                lines=found.lines,
                evidence=found.evidence,
            )
    raise AssertionError("the last rule found nothing")
