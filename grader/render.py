"""The scorecard as text for a terminal of 80 columns or more: plain words, units, counts beside every rate."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from broker.types import Evidence
from grader.facts import AttemptRow, VerdictFacts
from grader.importer import RULE_IMPORTED
from grader.ledger import ledger_lines
from grader.lines import DASH, Line, count, flow, printable, wrap, write_lines
from grader.marker_check import MarkerCheck
from grader.scorecard import Exclusion, Miss, Scorecard
from grader.tables import reach, tabulate_breakdowns, tabulate_claims, tabulate_comparisons, tabulate_criteria

__all__ = ["Line", "printable", "render_attempt", "render_scorecard", "write_lines"]

_NARROWEST = 80
_MAX_LISTED = 12
_RETIRED = "site_retired"


def render_scorecard(card: Scorecard, *, width: int, markers: int) -> tuple[Line, ...]:
    """The whole scorecard, no line longer than `width`. `markers`: how many the catalogue holds."""
    lines = (
        *_header(card, markers, width),
        Line(),
        *tabulate_criteria(card, width),
        *tabulate_comparisons(card.criteria),
        Line(),
        *_totals(card, width),
        *_exclusions(card, width),
        *ledger_lines(card.freezes, card.product_revisions),
        *tabulate_claims(card.claim_by_page),
        Line(),
        *tabulate_breakdowns(card, width),
        *_listed("misses:", card.misses, width),
        *_listed("infrastructure:", card.spoilt, width),
    )
    return tuple(piece for line in lines for piece in wrap(line, max(width, _NARROWEST)))


def _header(card: Scorecard, markers: int, width: int) -> Iterator[Line]:
    sweep = card.sweep
    revision = ", ".join(card.product_revisions) or "no product seen"
    renderer, lane = ", ".join(card.renderers) or DASH, ", ".join(card.lanes) or DASH
    what = f"{sweep.suite} suite x {sweep.trials}, {sweep.mode}, {revision}"
    title = f"{sweep.sweep}   {what}, renderer {renderer}, lane {lane}"
    if len(title) <= width:
        yield Line(text=title, style="bold")
    else:
        yield from flow((sweep.sweep, what, f"renderer {renderer}, lane {lane}"), width, style="bold")
    versions = ", ".join(map(str, card.grader_versions)) or DASH
    checked = card.markers or MarkerCheck(total=markers)
    times: tuple[str, ...] = ()
    if sweep.started_at:
        end = f"{sweep.finished_at:%H:%M:%S}" if sweep.finished_at else "now"
        times = (f"{sweep.started_at:%Y-%m-%d %H:%M:%S} - {end} UTC",)
    boxes = count(len(card.boxes), "box", "boxes")
    yield from flow((boxes, f"grader {versions}", checked.text, *times), width)
    if card.not_pooled:
        yield Line(text=f"no one sample, so no rates: {card.not_pooled}", style="bold yellow")
    if card.faults:
        yield Line(text=f"faults injected: {', '.join(card.faults)}", style="bold yellow")
    scales = [scale for scale in card.leash_scales if scale != 1.0]
    if scales:
        yield Line(text=f"the product's waits scaled by {', '.join(f'{scale:g}' for scale in scales)}", style="yellow")


def _totals(card: Scorecard, width: int) -> Iterator[Line]:
    sweep, tally = card.sweep, card.tally
    runs = f"{count(sweep.runs, 'run')}, {count(tally.attempts, 'attempt')}"
    families = f"ok {tally.ok}   product {tally.product}   infra {tally.infra}   not measurable {tally.not_measurable}"
    yield from flow((f"{runs} ({count(card.retries.attempts, 'retry', 'retries')})", families), width, gap=5)
    if card.retries.attempts:
        first = card.first_attempts
        yield Line(text=f"first attempts alone: {first.attempts}, reach {reach(first)}, infra {first.infra}")
    if sweep.ungraded or sweep.runs_closed < sweep.runs:
        yield Line(
            text=f"{sweep.state}: {sweep.runs_closed} of {count(sweep.runs, 'run')} over, "
            f"{count(sweep.ungraded, 'attempt')} not graded yet",
            style="yellow",
        )


def _exclusions(card: Scorecard, width: int) -> Iterator[Line]:
    living = [one for one in card.exclusions if one.rule not in {_RETIRED, RULE_IMPORTED}]
    proven = [one for one in living if one.evidence is Evidence.PROVEN]
    claimed = [one for one in living if one.evidence is not Evidence.PROVEN]
    if proven:
        yield from flow(("not measurable, on evidence bv3 read:", *_sites(proven)), width, gap=1)
    if claimed:
        title = "not measurable by the product's word alone (UNVERIFIED):"
        yield from flow((title, *_sites(claimed)), width, gap=1, style="yellow")
    for word in Evidence:
        old = [one for one in card.exclusions if one.rule == RULE_IMPORTED and one.evidence is word]
        if old:
            names = (f"{one.site} {one.attempts}{',' if one is not old[-1] else ''}" for one in old)
            yield from flow((f"not measurable, {word.value} by the old harness's word:", *names), width, gap=1)
    for site in card.sweep.retired:
        yield Line(text=f"retired since {site.date}, not in the suite's runs: {site.site} ({site.evidence})")
    for one in card.exclusions:
        if one.rule == _RETIRED:
            yield Line(text=f"retired, out of the denominator: {one.site} {one.attempts} ({one.detail})")


def _sites(exclusions: Sequence[Exclusion]) -> Iterator[str]:
    for position, one in enumerate(exclusions, start=1):
        yield f"{one.site} {one.attempts} ({one.rule}){',' if position < len(exclusions) else ''}"


def _listed(title: str, misses: tuple[Miss, ...], width: int) -> Iterator[Line]:
    if not misses:
        return
    yield Line()
    yield Line(text=title)
    for miss in misses[:_MAX_LISTED]:
        retry = f" (attempt {miss.attempt_no})" if miss.attempt_no > 1 else ""
        text = f"  {miss.run}{retry}  {miss.bucket.value}: {miss.detail}"
        pieces = textwrap.wrap(
            text, width, subsequent_indent="      ", break_on_hyphens=False, max_lines=2, placeholder=" ..."
        )
        yield from (Line(text=piece) for piece in pieces)
    if len(misses) > _MAX_LISTED:
        yield Line(text=f"  and {len(misses) - _MAX_LISTED} more")


def render_attempt(sweep: str, row: AttemptRow, *, width: int) -> tuple[Line, ...]:
    """One attempt: the verdict in a sentence, both sides, the lines that decided with their bytes."""
    facts, timing = row.facts, row.facts.timing
    evidence = f" {facts.evidence.value}" if facts.evidence else ""
    attempt = f"attempt {row.attempt_no} (id {row.attempt_id}) on {row.box or 'no box of ours'}"
    lines = [
        Line(text=f"{sweep} {row.name}   {attempt}", style="bold"),
        Line(text=f"{row.bucket.value}{evidence}: {row.detail}"),
        Line(text=f"rule {row.rule}, grader {row.grader_version} (docs/reference/buckets.md)"),
        Line(),
        *_sides(facts),
        Line(),
        Line(
            text="  ".join(
                f"{name} {DASH if value is None else f'{value} ms'}"
                for name, value in (
                    ("wall", facts.wall_ms),
                    ("total", timing.total_ms),
                    ("llm", timing.llm_ms),
                    ("tools", timing.tools_ms),
                    ("other", timing.other_ms),
                    ("prestage", timing.prestage_ms),
                )
            )
        ),
        Line(text=f"payload '{facts.payload}'   {facts.product_revision or DASH}"),
        Line(),
    ]
    return tuple(piece for line in lines for piece in wrap(line, max(width, _NARROWEST)))


def _sides(facts: VerdictFacts) -> Iterator[Line]:
    """What the product claims and what bv3 read; of another harness's row, that nobody knows."""
    if facts.unknown:
        yield Line(text=f"nobody knows its {', '.join(facts.unknown).replace('_', ' ')}")
        return
    yield Line(text=f"the product claims {facts.claim.value}" + (f", into '{facts.target}'" if facts.target else ""))
    yield from (Line(text=f"  {line.start:>8} - {line.end:<8} {line.text}") for line in facts.lines)
    yield Line(text=_window(facts))
    beyond = f"; {count(facts.page_frames_unread, 'frame')} could not be entered" if facts.page_frames_unread else ""
    part = "; not all that may hold it could be told" if facts.page_in_part else ""
    seen = f"{facts.page.value.replace('_', ' ')}, {count(facts.page_count, 'time')}"
    yield Line(text=f"bv3 read the payload: {seen}{beyond}{part}")
    yield Line(text=f"  url {facts.page_url or DASH}   box '{facts.page_label}'   surface {facts.surface.value}")


def _window(facts: VerdictFacts) -> str:
    if facts.window_end is None:
        return f"  the window is the whole slice, {facts.log_size} bytes; one dispatch"
    return f"  the window ends at byte {facts.window_end} of {facts.log_size}, where the next dispatch begins"
