"""docs/reference/suites.md is what the suite files hold. `python THIS_FILE` writes it anew."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from broker.suites import Suite, load_suite
from broker.types import SiteTask

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reference" / "suites.md"
SUITES = ("known", "anon", "holdout", "shapes")
HEAD = """# The suites

Every task of every suite, from `broker/suites/`. A page is the right surface when its host is this one or a subdomain,
and its path fits the rule. What the columns mean: [the suite file](suite-file.md); what each suite is for:
[suites](../explanation/suites.md). `bv3-schedule suites` lists them too, with what each has measured.

This page is generated, and a test compares the two: `.venv/bin/python tests/unit/test_suites_page.py`.
"""


def make_page() -> str:
    return "\n".join([HEAD, *(line for name in SUITES for line in make_suite(load_suite(name)))])


def make_suite(suite: Suite) -> Iterator[str]:
    measured = [task for task in suite.tasks if task.retired is None]
    shapes = Counter(task.editor_shape for task in measured)
    frozen = ", frozen in groups" if suite.is_frozen else ""
    yield f"## {suite.name}\n"
    yield f"Version {suite.version}{frozen}: {len(suite.tasks)} sites, {len(shapes)} editor shapes.\n"
    yield from make_table(suite)
    yield ""
    for task in suite.tasks:
        if task.retired:
            yield f"{task.site} is retired since {task.retired.date} ({task.retired.evidence}).\n"


def make_table(suite: Suite) -> Iterator[str]:
    heads = ["site", "host", "path", "what is written", "shape", "flow", "the editor in words"]
    if suite.is_frozen:
        heads.insert(1, "group")
    yield f"| {' | '.join(heads)} |"
    yield f"| {' | '.join('---' for _ in heads)} |"
    for task in suite.tasks:
        yield f"| {' | '.join(make_row(task, has_group=suite.is_frozen))} |"


def make_row(task: SiteTask, *, has_group: bool) -> Iterator[str]:
    yield f"{task.site}{' (retired)' if task.retired else ''}"
    if has_group:
        yield task.group
    path = task.path_rule.replace("|", r"\|")
    kind = task.kind if task.visibility == "public" else f"{task.kind} ({task.visibility})"
    yield from (task.host, f"`{path}`", kind, task.editor_shape, task.flow, task.editor)


def test_the_page_is_what_the_suite_files_hold() -> None:
    assert PAGE.read_text("utf-8") == make_page(), f"write it anew: .venv/bin/python {Path(__file__).relative_to(ROOT)}"


if __name__ == "__main__":
    PAGE.write_text(make_page(), "utf-8")
