"""The faults that one run of the reference stack can meet, and the choice among them. Pure."""

import difflib
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from infra.reference.failure import ReferenceFailure

Place = Literal["stack", "page"]
ALL_SHARE = 0.02
_WHOLE = 1.0 + 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One way in which a run goes wrong."""

    name: str
    # What happens, in a sentence.
    sentence: str
    # Who makes it: the double and its processes, or the site's page.
    place: Place = "stack"
    # The bucket it leads to; None: the one that the run would have had without it.
    bucket: str | None = None
    # Only where something can be written: behind a wall it would never be met.
    needs_composer: bool = False
    # The sweep goes on after it, so that `all` may hold it.
    keeps_sweep: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A fault and the part of all runs that meets it."""

    fault: Fault
    part: float


Mix = tuple[Share, ...]


def _stack(
    name: str, sentence: str, bucket: str | None, *, needs_composer: bool = False, keeps_sweep: bool = True
) -> Fault:
    return Fault(name=name, sentence=sentence, bucket=bucket, needs_composer=needs_composer, keeps_sweep=keeps_sweep)


def _page(name: str, sentence: str) -> Fault:
    return Fault(name=name, sentence=sentence, place="page", needs_composer=True)


FAULTS: Mapping[str, Fault] = {
    fault.name: fault
    for fault in (
        _stack("renderer_killed", "The renderer's process group is killed in mid fill.", "infra_no_renderer"),
        _stack(
            "renderer_stopped",
            "The renderer's process group is stopped in mid run: its socket stays open and nothing is answered.",
            "infra_no_renderer",
        ),
        _stack("engine_killed", "The browser under the renderer is killed in mid fill.", "infra_no_renderer"),
        _stack(
            "command_hang",
            "What the first dispatch clicks or fills is never relayed; everything else works.",
            "product_command_timeout",
            needs_composer=True,
        ),
        _stack(
            "reads_hang",
            "The run's cards are never listed or read for the product; the renderer lives and bv3's own card answers.",
            "product_command_timeout",
            needs_composer=True,
        ),
        _stack("backend_restarted", "The backend kills itself in mid run.", "infra_backend"),
        _stack("no_router", "The backend finds no model router at all.", "infra_router"),
        _stack("no_provider", "The model router has no provider.", "infra_router"),
        _stack("provider_overloaded", "The provider answers 529 until the product gives up.", "infra_router"),
        _stack("rate_limited", "The provider answers with a rate limit.", "infra_router"),
        _stack(
            "card_reused",
            "A card of the task's host stands there before the first dispatch, which takes it and does not move it.",
            "infra_harness",
        ),
        _stack("foreign_session", "Another parent session logs its lines within the run.", "infra_harness"),
        _stack("metrics_leak", "Rows of foreign sessions, near in time and larger, stand in the metrics.", None),
        _stack("stale_skill", "Skill lines are logged as after an earlier recording on the host.", None),
        _stack(
            "audit_blind",
            "Once the run has ended its cards live but answer no script and no listing.",
            "product_unconfirmed",
            needs_composer=True,
        ),
        _stack(
            "no_claim",
            "The text stands in the page but the product takes its fill for failed: it claims it in its recovery only.",
            "product_fill_died",
            needs_composer=True,
        ),
        _stack(
            "claims_sent",
            "The product claims in a dry run that it sent.",
            "product_false_success",
            needs_composer=True,
            keeps_sweep=False,
        ),
        _page("page_404", "The entry answers 404."),
        _page("page_500", "The entry answers 500."),
        _page("page_204", "The entry answers 204, without a page."),
        _page("page_dropped", "The entry's connection is dropped."),
        _page("page_login_redirect", "The entry redirects to a login page with a password form."),
        _page("page_hash_change", "The address gets a fragment after the load."),
        _page("challenge_shown", "A visible bot challenge stands in the composer's place, with status 200."),
        _page("challenge_mention", "A script, a badge and words of reCAPTCHA stand on a page that works."),
        _page("footer_login", "A login word stands in the footer of a page that works."),
        _page("header_password", "A small login form stands in the header beside the composer."),
        _page("editor_reverts", "The editor takes the text and takes it back 300 ms later."),
        _page("editor_late", "The editor shows the text 1.5 s after it was entered."),
        _page("editor_old_text", "The editor holds an old draft of another run."),
        _page("editor_doubles", "The editor takes the text twice."),
        _page("editor_rejects", "The editor rejects what is entered."),
    )
}


def parse(text: str) -> Mix:
    """The mix that a text asks for: `none`, `all`, or `name` and `name:share` between commas.

    Bare names get equal parts of what the shares leave of the whole.

    Raises:
        ReferenceFailure: an unknown name (with the nearest known one), a name twice, or shares beyond the whole.
    """
    if text.strip() == "none":
        return ()
    if text.strip() == "all":
        return tuple(Share(fault=fault, part=ALL_SHARE) for fault in FAULTS.values() if fault.keeps_sweep)
    asked = [_read_item(item) for item in text.split(",")]
    names = [fault.name for fault, _ in asked]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ReferenceFailure(f"{', '.join(twice)} stands twice among the faults", hint="name each fault once")
    named = sum(part for _, part in asked if part is not None)
    bare = sum(part is None for _, part in asked)
    if named > _WHOLE or (bare and named >= 1):
        raise ReferenceFailure(
            f"the shares of {text!r} are more than the whole", hint="shares are parts of 1, such as 0.05"
        )
    return tuple(Share(fault=fault, part=(1 - named) / bare if part is None else part) for fault, part in asked)


def _read_item(item: str) -> tuple[Fault, float | None]:
    name, colon, share = (word.strip() for word in item.partition(":"))
    fault = FAULTS.get(name)
    if fault is None:
        near = difflib.get_close_matches(name, FAULTS, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise ReferenceFailure(
            f"no fault is called {name!r}", hint=f"{hint}`.venv/bin/python -m infra.reference faults` lists all"
        )
    if not colon:
        return fault, None
    try:
        part = float(share)
    except ValueError:
        part = -1.0
    if not 0 < part <= 1:
        raise ReferenceFailure(f"the share of {name} is {share!r}", hint="a share is more than 0 and at most 1")
    return fault, part


def choose(seed: int, key: str, mix: Mix) -> Fault | None:
    """The fault of the run with this key; the same seed, key and mix always give the same."""
    digest = hashlib.sha256(f"{seed}\n{key}".encode()).digest()
    point = int.from_bytes(digest[:8], "big") / 2**64
    for share in mix:
        point -= share.part
        if point < 0:
            return share.fault
    return None
