"""What sites there are: one folder each, with ``site.toml``, ``data.json`` and the page templates."""

import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What a path (with its query, if any) answers: a template or a redirect."""

    pattern: re.Pattern[str]
    # On this host alone; None: on each of the site's.
    host: str | None
    template: str | None
    redirect: str | None
    # Name of the list in the site's data that the pattern's ``id`` group picks from; an unknown id is a 404.
    items: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """What an all-knowing judge knows about a site before any run."""

    # The site in words: which editor, how it appears.
    shape: str
    # The bucket of a run that does everything right.
    bucket: str
    # Why nothing can be measured here: sign_in_url, password_form, challenge, or retired for a service that is no more
    # (its page has nothing to write in, and no plan has a run for it); None where something can.
    not_measurable: str | None
    # The path of the surface a payload belongs on.
    surface: re.Pattern[str]
    # CSS path of the one intended editor; `` >>> `` enters an open shadow root. None where there is none, and where
    # the page itself names it by ``reference.intend``.
    editor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """One site of the suite, as its folder describes it."""

    name: str
    # What the site calls itself.
    brand: str
    # The host of the suite's task; further hosts are those it redirects to.
    host: str
    hosts: frozenset[str]
    # Whether its pages may show frames of its other hosts.
    has_frames: bool
    pages: tuple[Page, ...]
    data: Mapping[str, Any]
    truth: Truth

    def owns(self, host: str) -> bool:
        """Whether the host is one of the site's, or a subdomain of one."""
        return any(host == own or host.endswith(f".{own}") for own in self.hosts)


@cache
def load_sites() -> tuple[Site, ...]:
    """Every site, ordered by name."""
    return tuple(_load(path.parent) for path in sorted(ROOT.glob("*/site.toml")))


def find_site(host: str) -> Site | None:
    """The site that owns a host name, or None."""
    return next((site for site in load_sites() if site.owns(host.lower())), None)


def _load(folder: Path) -> Site:
    facts = tomllib.loads((folder / "site.toml").read_text())
    truth = facts["truth"]
    return Site(
        name=folder.name,
        brand=facts.get("brand", folder.name),
        host=facts["host"],
        hosts=frozenset([facts["host"], *facts.get("other_hosts", [])]),
        has_frames=bool(facts.get("frames", False)),
        pages=tuple(_page(folder, row) for row in facts["page"]),
        data=_read_data(folder),
        truth=Truth(
            shape=truth["shape"],
            bucket=truth["bucket"],
            not_measurable=truth.get("not_measurable"),
            surface=re.compile(truth["surface"]),
            editor=truth.get("editor"),
        ),
    )


def _read_data(folder: Path) -> Mapping[str, Any]:
    """What the templates show; a page without any needs no file."""
    path = folder / "data.json"
    return json.loads(path.read_text()) if path.is_file() else {}


def _page(folder: Path, row: Mapping[str, str]) -> Page:
    template = row.get("template")
    return Page(
        pattern=re.compile(row["path"]),
        host=row.get("host"),
        template=f"{folder.name}/{template}" if template else None,
        redirect=row.get("redirect"),
        items=row.get("items"),
    )
