"""Every task of every suite, on the site that stands in for it: the write agent reaches the one intended editor.

The table is the suites' own: a site that is added to one, and served here, is tried without a line of this file.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from broker.suites.loader import load_suite, suite_names
from broker.types import SiteTask
from infra.reference.sites.catalogue import load_sites

OPEN = {site.name for site in load_sites() if site.truth.not_measurable is None}
TASKS = {
    f"{name}-{task.site}": task
    for name in suite_names()
    for task in load_suite(name).tasks
    if task.retired is None and task.site in OPEN
}


@pytest.fixture(scope="module")
def double(start_double: Callable[..., Any], sites: Any, start_renderer: Callable[..., Any]) -> Any:
    """A double with a renderer attached, and the sites behind its browser."""
    started = start_double()
    start_renderer(started, sites)
    return started


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS.keys())
def test_the_agent_reaches_the_intended_editor(double: Any, task: SiteTask) -> None:
    payload = task.payload.replace("{nonce}", "k3f9x")
    start = len(double.process.output)
    session, _ = double.run(task.prompt.replace("{payload}", payload))
    log = "\n".join(line for line in double.process.output[start:].splitlines() if "browser" in line)
    (truth,) = [row for row in double.rows("truth.jsonl") if row["session_id"] == session]
    assert (truth["site"], truth["bucket"]) == (task.site, "ok"), f"{truth['why']}\n{log}"
    assert truth["claim"] == "filled", log
