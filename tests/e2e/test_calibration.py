"""Faults that really happen, in a real farm, and verdicts that say so: set against the truth, none is wrong."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

pytestmark = [pytest.mark.xdist_group("farm")]

# Quick ones of each kind, in equal parts, so that no run is without one: what the stack stands on (which is tried
# again), what the product does and writes down, and what the page does.
FAULTS = "no_router,metrics_leak,no_claim,audit_blind,page_404,editor_doubles"
# Of faults that cost no wait it shortens nothing; a busy machine has time for all that must be answered.
SCALE = 0.3


@pytest.mark.timeout(280)
def test_no_verdict_on_injected_faults_is_misgraded(farm: Any) -> None:
    told = {"BV3_REFERENCE_FAULTS": FAULTS, "BV3_REFERENCE_SEED": "7", "BV3_LEASH_SCALE": str(SCALE)}

    def run(module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            farm.command(module, *arguments),
            env={**farm.environment, **told},
            cwd=farm.results,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )

    swept = run("scheduler.cli", "c7", "--n", "2", "--site", "x", "--site", "reddit")
    assert swept.returncode == 0, swept.stderr
    done = run("grader.cli", "calibrate", "last", "--json")
    assert done.returncode in {0, 1}, done.stderr
    document = json.loads(done.stdout)
    assert (document["misgraded"], done.returncode) == ([], 0)
    # a busy machine may cost a run its start, and then there is no truth; nearly all have one
    assert document["compared"] >= 3, document["untold"]
    assert document["leash_scales"] == [SCALE]
    assert list(document["mixes"]) == [f"{FAULTS} seed 7"]
    # a busy machine may also end a run before its fault could happen; nearly all have met theirs
    hurt = {one["fault"]: one["attempts"] for one in document["faults"] if one["fault"] != "none"}
    assert sum(hurt.values()) >= 2, document["faults"]
