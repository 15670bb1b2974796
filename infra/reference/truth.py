"""What each run really was, in ``truth.jsonl``: the last row of a parent session counts.

A row is written before the parent ends, and one ahead when the session is to meet a fault: it may end the double.
"""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from infra.reference.faults import Fault
from infra.reference.sites.catalogue import Site, find_site
from infra.reference.sites.natures import NATURES, find_ruling

Evaluate = Callable[[str, str, dict[str, Any]], Awaitable[Mapping[str, Any]]]
#: An expression: a function of payload and path, whose value is a promise of what stands on the page, as JSON.
SURVEY = (Path(__file__).parent / "truth.js").read_text()
_BUCKETS = {
    "declined": "product_no_composer",
    "walled": "product_no_composer",
    "astray": "product_wrong_surface",
    "fill_died": "product_fill_died",
    "timed_out": "product_command_timeout",
    "unseen": "product_fill_died",
    "overrun": "product_command_timeout",
    None: "product_no_composer",
}
_CLAIMS = {"filled": "filled", "sent": "sent"}
# A page under load may miss a leash; what is true of it does not change for that.
_TRIES = 3
# Natures change a text for the last time 1.5 s after it came; a page that never comes to rest is read as it is.
_OWING_S = 4.0
_PAUSE_S = 0.05
_OF_CLAIMS = frozenset({"audit_blind", "claims_sent"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What the double knows of a run when it ends."""

    session_id: str
    entry: str
    payload: str | None
    # How the send script of the first dispatch ended; None when it never began.
    end: str | None
    # The card of the first dispatch; None when there was no dispatch.
    card: str | None
    # The renderer was gone.
    lost: bool
    # What the first child's metrics row says; None without a row.
    total_ms: int | None = None
    # How many commands of the first dispatch had no answer within their leash, since it began to fill a box.
    unanswered: int = 0
    # The fault that this session was to meet, and whether it happened.
    chosen: Fault | None = None
    struck: bool = False
    # Why it could not happen.
    failed: str = ""
    # The natures that its pages had, the fault's own among them.
    natures: tuple[str, ...] = ()
    # A recovery worked on the page before the run ended; a dispatch that only looks is none.
    recovered: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What really stands on the card's page."""

    url: str
    # How often the payload stands in the one intended editor.
    intended: int
    # How often it stands in any other editable.
    elsewhere: int
    # The element that holds it, as a selector of its own; None when none does.
    element: str | None
    # A nature has still to change the text that is there.
    owing: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruling:
    """The bucket an all-knowing judge gives, and why; None for a page that is none of the sites'."""

    bucket: str | None
    why: str
    # On what an exclusion rests.
    evidence: str | None = None


def judge(run: Run, site: Site | None, page: Page | None) -> Ruling:
    """What an all-knowing judge says, who knows what the double, its processes and the page really did."""
    fault = run.chosen if run.struck else None
    if fault and fault.bucket and fault.bucket.startswith("infra_"):
        return Ruling(bucket=fault.bucket, why=fault.sentence)
    if run.lost:
        return Ruling(bucket="infra_no_renderer", why="the renderer was gone")
    if site is None:
        return Ruling(bucket=None, why="the host is none of the sites'")
    if site.truth.not_measurable:
        return Ruling(bucket="not_measurable", why=site.truth.not_measurable, evidence="PROVEN")
    if fault and fault.bucket and (fault.name not in _OF_CLAIMS or run.end in _CLAIMS):
        return Ruling(bucket=fault.bucket, why=fault.sentence)
    return _judge_natures(run) or _judge_product(run, site, page)


def _judge_natures(run: Run) -> Ruling | None:
    """What the page's natures make true by themselves; None where the run and its page must say it.

    Only a nature that leaves nothing of the page rules alone, the first of the catalogue, and not over a run that
    got through. All others, alone or together, change what the page holds or what the agent does: that is read.
    """
    ruling = find_ruling(NATURES[name] for name in run.natures)
    if ruling is None or ruling.expected is None or run.end in _CLAIMS:
        return None
    expected = ruling.expected
    return Ruling(bucket=expected.bucket, why=expected.why, evidence=expected.evidence)


def _judge_product(run: Run, site: Site, page: Page | None) -> Ruling:
    """A run on a site where something can be written, whatever it met."""
    if run.end in _CLAIMS:
        return Ruling(bucket=_judge_claim(run, site, page), why="where the payload stands on the page")
    # One that hung alone was got over where the script came to an end of its own.
    enough = {None: 1, "declined": 2, "astray": 2, "unseen": 2}.get(run.end)
    if enough is not None and run.unanswered >= enough:
        return Ruling(bucket="product_command_timeout", why="commands of the first dispatch had no answer in time")
    return Ruling(bucket=_BUCKETS[run.end], why=f"the first dispatch ended: {run.end or 'nothing to write in'}")


def foretell(fault: Fault, site: Site | None) -> Ruling:
    """What is true if the fault happens and nobody is left to say so."""
    why = f"written ahead: {fault.sentence}"
    expected = NATURES[fault.name].expected if fault.place == "page" else None
    if expected and site:
        return Ruling(bucket=expected.bucket, why=why, evidence=expected.evidence)
    bucket = fault.bucket or (site.truth.bucket if site else None)
    return Ruling(bucket=bucket, why=why, evidence="PROVEN" if bucket == "not_measurable" else None)


def _judge_claim(run: Run, site: Site, page: Page | None) -> str:
    """The bucket of a run that says the composer was filled.

    Another dispatch may have moved the page on, so that a text which is not there says nothing for sure.
    """
    if page is None:
        return "product_unconfirmed"
    if not _is_surface(site, page) or (page.elsewhere and not page.intended):
        return "product_wrong_surface"
    if (page.intended, page.elsewhere) == (1, 0):
        return "ok"
    return "product_unconfirmed" if run.recovered else "product_unverified_fill"


class TruthBook:
    """The truth file of one data root. It reads pages by itself and never by the agent's eyes."""

    def __init__(self, *, path: Path, mode: str, evaluate: Evaluate) -> None:
        self._path = path
        self._mode = mode
        self._evaluate = evaluate

    async def add(self, run: Run) -> None:
        """Read the page of a run's card, and append the run's row."""
        host = urlsplit(run.entry).hostname or ""
        site = find_site(host)
        page = await self._read(run, site)
        self._append(
            session_id=run.session_id,
            host=host,
            fault=run.chosen if run.struck else None,
            natures=run.natures,
            ruling=judge(run, site, page),
            claim=_CLAIMS.get(run.end or "", "none"),
            total_ms=run.total_ms,
            chosen=run.chosen.name if run.chosen else None,
            failed=run.failed or None,
            surface_ok=bool(site and page and _is_surface(site, page)),
            payload_on_page=bool(page and page.intended + page.elsewhere),
            filled_element=page.element if page else None,
        )

    def add_ahead(self, *, session_id: str, host: str, fault: Fault) -> None:
        """Append the row of a session that is to meet a fault."""
        self._append(session_id=session_id, host=host, fault=fault, ruling=foretell(fault, find_site(host)))

    def add_unstarted(self, *, session_id: str, host: str, fault: Fault | None) -> None:
        """Append the row of a session that no model could be asked for."""
        why = fault.sentence if fault else "no model could be asked"
        self._append(session_id=session_id, host=host, fault=fault, ruling=Ruling(bucket="infra_router", why=why))

    async def _read(self, run: Run, site: Site | None) -> Page | None:
        if run.card is None or run.lost:
            return None
        editor = site.truth.editor if site else None
        call = f"{SURVEY.rstrip()}({json.dumps(run.payload or '')}, {json.dumps(editor)})"
        page: Page | None = None
        tries, until = 0, time.monotonic() + _OWING_S
        while tries < _TRIES:
            reply = await self._evaluate("evaluate", run.card, {"expression": call})
            try:
                page = Page(**json.loads(str(reply.get("text"))))
            except ValueError:
                tries += 1
                continue
            # What the page is still to become only matters for what was claimed of it.
            if not page.owing or run.end not in _CLAIMS or time.monotonic() > until:
                break
            await asyncio.sleep(_PAUSE_S)
        return page

    def _append(
        self,
        *,
        session_id: str,
        host: str,
        fault: Fault | None,
        ruling: Ruling,
        natures: tuple[str, ...] = (),
        claim: str = "none",
        total_ms: int | None = None,
        **more: object,
    ) -> None:
        site = find_site(host)
        row = {
            "session_id": session_id,
            "fault": fault.name if fault else None,
            "natures": list(natures),
            "site": site.name if site else None,
            "host": host,
            "mode": self._mode,
            "claim": claim,
            "bucket": ruling.bucket,
            "evidence": ruling.evidence,
            "total_ms": total_ms,
            "why": ruling.why,
            "not_measurable": site.truth.not_measurable if site else None,
            "surface_ok": False,
            "payload_on_page": False,
            "filled_element": None,
            **more,
        }
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a") as file:
            file.write(json.dumps(row) + "\n")


def _is_surface(site: Site, page: Page) -> bool:
    address = urlsplit(page.url)
    return site.owns(address.hostname or "") and bool(site.truth.surface.search(address.path))
