"""The docs name only what is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_file_folder_and_link_that_a_page_names_exists(page: Path) -> None:
    text = page.read_text("utf-8")
    # a line that is a path and a colon names a file that the page has its reader write
    named = set(
        re.findall(r"`((?:broker|scheduler|workers|grader|infra|tests|docs|benchmarks)/[\w./-]*)`(?!:\n)", text)
    )
    linked = {match for match in re.findall(r"\]\(([^)#]+)", text) if "://" not in match}
    missing = {name for name in named if "NNNN" not in name and not (ROOT / name).exists()}
    missing |= {link for link in linked if not (page.parent / link).exists()}
    assert missing == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_module_that_a_page_names_exists(page: Path) -> None:
    named = re.findall(r"`((?:broker|scheduler|workers|grader|infra)(?:\.[a-z_]+)+)`", page.read_text("utf-8"))
    for name in set(named):
        parts = name.split(".")
        found = any(
            (ROOT / Path(*parts[:length])).is_dir() or (ROOT / Path(*parts[:length])).with_suffix(".py").is_file()
            for length in (len(parts), len(parts) - 1)
        )
        assert found, name
