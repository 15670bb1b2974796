"""docs/reference/reference-sites.md: its table is what the sites' folders say. `python THIS_FILE` writes it anew."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path

from infra.reference.sites.catalogue import ROOT, Site, load_sites

PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "reference-sites.md"
HEAD = "\n## All sites\n\n"


def make_table() -> str:
    return (
        "\n".join(
            [HEAD + "| site | hosts | what makes it what it is | a right run |", "| --- | --- | --- | --- |", *_rows()]
        )
        + "\n"
    )


def _rows() -> Iterator[str]:
    for site in load_sites():
        hosts = ", ".join([site.host, *sorted(site.hosts - {site.host})])
        yield f"| {site.name} | {hosts} | {site.truth.shape} | {_right(site)} |"


def _right(site: Site) -> str:
    reason = site.truth.not_measurable
    return f"`{site.truth.bucket}`" + (f" ({reason})" if reason else "")


def test_table_is_what_the_folders_say() -> None:
    written = PAGE.read_text("utf-8")
    assert written[written.index(HEAD) :] == make_table(), (
        "write it anew: .venv/bin/python tests/unit/reference/test_sites_page.py"
    )


def test_every_key_that_a_site_uses_is_explained() -> None:
    files = [tomllib.loads(path.read_text()) for path in ROOT.glob("*/site.toml")]
    used = {key for file in files for key in file} - {"page", "truth"}
    used |= {key for file in files for page in file["page"] for key in page}
    used |= {key for file in files for key in file["truth"]}
    explained = PAGE.read_text("utf-8").partition(HEAD)[0]
    assert sorted(key for key in used if f"| `{key}` |" not in explained) == []


if __name__ == "__main__":
    PAGE.write_text(PAGE.read_text("utf-8").partition(HEAD)[0] + make_table(), "utf-8")
