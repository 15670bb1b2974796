"""bv3-box probe and health-check: one session by hand, outside the farm."""

from __future__ import annotations

import json
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from broker.errors import EXIT_GATE, EXIT_OK, EXIT_SERVICE, UsageError
from broker.terminal import print_inert
from workers.options import box_option

if TYPE_CHECKING:
    from workers.boxfile import BoxFile
    from workers.preflight import Preflight
    from workers.probe import Place
    from workers.trial import TrialReport

_NONCE_BYTES = 5


@click.command()
@box_option
@click.argument("prompt")
@click.argument("needle")
@click.option("--json", "as_json", is_flag=True, help="one JSON object on stdout, texts exactly as they are")
@click.option("--live", is_flag=True, help="on a live stack: the product may really post what the prompt says")
@click.option(
    "--budget",
    "budget_s",
    type=click.FloatRange(min=5),
    default=200.0,
    show_default=True,
    help="seconds until the session is given up",
)
def probe(*, box_file: Path, prompt: str, needle: str, as_json: bool, live: bool, budget_s: float) -> None:
    r"""Run PROMPT once and show where NEEDLE, a text of its page, surfaces: answers, tools, children, page, log.

    For a box whose stack is up and whose queue nobody works. Afterwards everything of the session is removed.
    Exit 0 when it was found beyond what was said to the product, 1 when nowhere, 3 when nowhere and not every
    place could be looked at.

    \b
    bv3-box probe --box box.toml 'Go to https://x.com/ and publish a post with exactly this text: "k3f9x"' "First light"
    """
    from workers.preflight import Refusal
    from workers.probe import find_places, judge_places
    from workers.trial import TrialOrder, hold_product, run_trial, say_unfit

    if not needle.strip():
        raise UsageError("an empty NEEDLE stands everywhere", hint="give a text that only the page has")
    order = TrialOrder(
        name=f"probe {secrets.token_hex(_NONCE_BYTES)}", prompt=prompt, payload=needle, budget_s=budget_s
    )
    try:
        with _open(box_file) as (box, preflight), hold_product(box, preflight, "a probe") as mode:
            refuse_live(mode.value, live=live)
            print_inert(f"one session on {box.name}, {mode.value}, for at most {budget_s:.0f} s", err=True)
            report = run_trial(preflight.product, preflight.facts, order)
    except Refusal as refusal:
        raise say_unfit(refusal) from refusal
    places = find_places(report, needle)
    _show(report, places, mode=mode.value, as_json=as_json)
    found = judge_places(places)
    sys.exit(EXIT_SERVICE if found is None else EXIT_OK if found else EXIT_GATE)


def refuse_live(mode: str, *, live: bool) -> None:
    """Raises UsageError, with what it means, for a session on a live stack that nobody asked for by name."""
    if mode == "live" and not live:
        raise UsageError(
            "the stack is live: the product may really post what the prompt says, under the profile's accounts",
            hint="--live, when that is what you want; what is posted stays until you delete it, no ledger knows it",
        )


def _show(report: TrialReport, places: tuple[Place, ...], *, mode: str, as_json: bool) -> None:
    if report.stayed:
        print_inert(f"not everything was removed: {report.stayed}", err=True)
    if as_json:
        facts = {name: getattr(report, name) for name in ("session_id", "status", "ended_by", "wall_ms", "stayed")}
        click.echo(json.dumps({"mode": mode, **facts, "places": [asdict(place) for place in places]}))
        return
    print_inert(f"session {report.session_id} {report.status} by {report.ended_by} in {report.wall_ms} ms", err=True)
    width = max(len(place.name) for place in places)
    for place in places:
        times = "?" if place.count is None else str(place.count)
        note = (
            "could not look: "
            if place.count is None
            else "(said to the product) "
            if place.is_own and place.count
            else ""
        )
        print_inert(f"{place.name:{width}}  {times:>3}  {note}{place.excerpt}".replace("\n", " ").rstrip())


@click.command("health-check")
@box_option
@click.option("--json", "as_json", is_flag=True, help="one JSON object on stdout")
@click.option(
    "--budget",
    "budget_s",
    type=click.FloatRange(min=5),
    default=90.0,
    show_default=True,
    help="seconds until the session is given up",
)
@click.option("--live", "may_post", is_flag=True, help="on a live stack, run the session too: it really writes")
def health_check(*, box_file: Path, as_json: bool, budget_s: float, may_post: bool) -> None:
    r"""Check that the box can do a run: a preflight, then one session on a page that this command serves itself.

    The page is on loopback; a live stack is asked the preflight alone unless --live is said, since the product
    chooses where it writes. Exit 0 when the text was read back exactly once and everything was removed, 1 with the
    reason when not, 3 when the stack is not up or somebody works on the product.

    \b
    bv3-box health-check --box box.toml --json
    """
    from workers.health import check_health

    with _open(box_file) as (box, preflight):
        report = check_health(
            box, preflight, nonce=secrets.token_hex(_NONCE_BYTES), budget_s=budget_s, may_post=may_post
        )
    if as_json:
        click.echo(json.dumps(asdict(report)))
    else:
        print_inert(f"{'passed' if report.passed else 'failed'} in {report.duration_ms} ms: {report.detail}")
    sys.exit(EXIT_OK if report.passed else EXIT_GATE)


@contextmanager
def _open(box_file: Path) -> Iterator[tuple[BoxFile, Preflight]]:
    from workers.boxfile import open_box
    from workers.stack.driver import facts_path
    from workers.stack.facts import read_facts
    from workers.workplace import make_preflight

    box = open_box(box_file)
    preflight = make_preflight(box, read_facts(facts_path(box)))
    with preflight.product, preflight.router:
        yield box, preflight


COMMANDS: tuple[click.Command, ...] = (probe, health_check)
