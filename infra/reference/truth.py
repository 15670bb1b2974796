"""What each run really was: one row per parent session in ``truth.jsonl``, written before the parent ends."""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from infra.reference.sites.catalogue import Site, find_site

Evaluate = Callable[[str, str, dict[str, Any]], Awaitable[Mapping[str, Any]]]
_READ_PAGE = (Path(__file__).parent / "truth.js").read_text()
_BUCKETS = {
    "declined": "product_no_composer",
    "fill_died": "product_fill_died",
    "timed_out": "product_command_timeout",
    "unseen": "product_fill_died",
    None: "product_no_composer",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What the double knows of a run when it ends."""

    session_id: str
    entry: str
    payload: str | None
    # How the send script of the first dispatch ended; None when it never did.
    end: str | None
    # The card of the first dispatch; None when there was no dispatch.
    card: str | None
    # The renderer was gone, or showed nothing.
    lost: bool


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


def judge(run: Run, site: Site | None, page: Page | None) -> str | None:
    """The bucket an all-knowing judge gives; None for a page that is none of the sites'."""
    if run.lost:
        return "infra_browser" if run.card else "infra_no_renderer"
    if site is None:
        return None
    if site.truth.not_measurable:
        return "not_measurable"
    if run.end != "filled":
        return _BUCKETS[run.end]
    return _judge_claim(site, page)


def _judge_claim(site: Site, page: Page | None) -> str:
    """The bucket of a run that says the composer was filled."""
    if page is None:
        return "product_unconfirmed"
    if not _is_surface(site, page) or (page.elsewhere and not page.intended):
        return "product_wrong_surface"
    return "ok" if (page.intended, page.elsewhere) == (1, 0) else "product_unverified_fill"


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
            {
                "session_id": run.session_id,
                "site": site.name if site else None,
                "host": host,
                "mode": self._mode,
                "claim": "filled" if run.end == "filled" else "none",
                "bucket": judge(run, site, page),
                "not_measurable": site.truth.not_measurable if site else None,
                "surface_ok": bool(site and page and _is_surface(site, page)),
                "payload_on_page": bool(page and page.intended + page.elsewhere),
                "filled_element": page.element if page else None,
            }
        )

    def add_unstarted(self, *, session_id: str, host: str) -> None:
        """Append the row of a session that no model could be asked for."""
        site = find_site(host)
        self._append(
            {
                "session_id": session_id,
                "site": site.name if site else None,
                "host": host,
                "mode": self._mode,
                "claim": "none",
                "bucket": "infra_router",
                "not_measurable": site.truth.not_measurable if site else None,
                "surface_ok": False,
                "payload_on_page": False,
                "filled_element": None,
            }
        )

    async def _read(self, run: Run, site: Site | None) -> Page | None:
        if run.card is None or run.lost:
            return None
        editor = site.truth.editor if site else None
        call = f"{_READ_PAGE}({json.dumps(run.payload or '')}, {json.dumps(editor)})"
        reply = await self._evaluate("evaluate", run.card, {"expression": call})
        try:
            found = json.loads(str(reply.get("text")))
        except ValueError:
            return None
        return Page(**found)

    def _append(self, row: Mapping[str, Any]) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a") as file:
            file.write(json.dumps(row) + "\n")


def _is_surface(site: Site, page: Page) -> bool:
    address = urlsplit(page.url)
    return site.owns(address.hostname or "") and bool(site.truth.surface.search(address.path))
