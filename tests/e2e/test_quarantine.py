"""A box that spoils three attempts in a row proves itself well before it goes on, and the sweep still ends."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest

pytestmark = [pytest.mark.xdist_group("farm")]


@pytest.mark.timeout(290)
def test_a_sweep_whose_every_run_meets_an_infra_fault_holds_its_box_and_ends(farm: Any) -> None:
    told = {"BV3_REFERENCE_FAULTS": "no_router", "BV3_REFERENCE_SEED": "7", "BV3_LEASH_SCALE": "0.3"}

    def run(module: str, *arguments: str) -> None:
        done = subprocess.run(
            farm.command(module, *arguments),
            env={**farm.environment, **told},
            cwd=farm.results,
            capture_output=True,
            text=True,
            timeout=280,
            check=False,
        )
        assert done.returncode == 0, done.stderr

    # so that its rows can be read afterwards
    run("infra.cli", "up", "--boxes", "1")
    run("scheduler.cli", "c7", "--n", "1", "--site", "x", "--site", "reddit")
    assert len(farm.query("select id from attempts")) == 6, "two runs, each tried as often as its plan allows"
    holds = farm.query("select kind, held_by, reason, lifted_by, note from box_holds order by id")
    assert holds, "three infra attempts in a row"
    kind, held_by, reason, lifted_by, note = holds[0]
    assert (kind, held_by, lifted_by) == ("quarantined", "dispatcher", "health check")
    assert reason.startswith("three infra attempts in a row: ")
    assert reason.count(" infra_router") == 3
    assert note
    (first, *_) = farm.query("select facts from box_events where kind = 'health_check' order by id")
    assert (first[0]["passed"], first[0]["lifted"]) == (True, True)
