"""Rules on the run itself: a breach of safety, and whether the instrument may speak of it at all."""

from __future__ import annotations

from broker.types import Bucket, Claim, Evidence, HarnessError, Mode, Phase
from grader.evidence import Case
from grader.rules.finding import Finding, find_restart

_ERROR_BUCKETS = {
    "backend": Bucket.INFRA_BACKEND,
    "renderer": Bucket.INFRA_NO_RENDERER,
    "router": Bucket.INFRA_ROUTER,
    "contended": Bucket.INFRA_CONTENDED,
}
# What fails after the page was read leaves the run itself as it was.
_BEFORE_AUDIT = frozenset({Phase.PREFLIGHT, Phase.START, Phase.RESET, Phase.LAUNCH, Phase.WAIT})


def sent_in_dry_run(case: Case) -> Finding | None:
    """A dry run may never send: the box is held and the payload counts as stranded."""
    if case.planned_mode is not Mode.DRY or case.claim is not Claim.SENT:
        return None
    receipt = f", by the receipt '{case.receipt[:80]}' of its reply" if case.receipt else ""
    payload = f"'{case.record.payload}'" if case.record.payload else "its text"
    return Finding(
        bucket=Bucket.PRODUCT_FALSE_SUCCESS,
        why=f"the product says that it sent {payload} in a dry run{receipt}",
        lines=case.sent,
    )


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
    event = find_restart(case, "backend")
    lines = case.scan.find("backend_restarted", "server_started", "server_stopped", "backend_unreachable")
    if event is None and not lines:
        return None
    seen = f", started again at {event.at}" if event else ""
    return Finding(bucket=Bucket.INFRA_BACKEND, why=f"the backend went away within the run{seen}", lines=lines)


def wrong_mode(case: Case) -> Finding | None:
    """The backend ran in another mode than the plan's: by its environment, or by what only a dry one prints."""
    lines = case.scan.find("dryrun_filled") if case.planned_mode is Mode.LIVE else ()
    if lines:
        return Finding(
            bucket=Bucket.INFRA_HARNESS, why="the backend refused to send: it ran dry, the plan is live", lines=lines
        )
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
    # a renderer that fails the audit is told by the reads and the probes
    return error.phase in _BEFORE_AUDIT or (error.phase is Phase.AUDIT and error.kind != "renderer")


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
