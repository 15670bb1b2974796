"""A box whose reference stack wrecks its own renderer: each run ends, says what it saw, and the next starts clean."""

from __future__ import annotations

from typing import Any

import pytest

REFERENCE = 'faults = "renderer_stopped"\nseed = 7\nleash_scale = 0.05'
# One box: it must not be shared out between test processes.
pytestmark = pytest.mark.xdist_group("faulty_box")


def test_after_a_run_whose_renderer_stopped_the_box_heals_and_the_next_starts_clean(farm: Any) -> None:
    farm.dispatch()
    box = farm.add_box("box-a", reference=REFERENCE)
    box.start()
    box.wait_until(lambda: farm.phase_of("box-a") == "ready", "ready")
    sweep = farm.add_sweep("x", trials=2)
    box.wait_until(lambda: len(farm.records_of(sweep)) == 2, "both records", 120.0)
    for record in farm.records_of(sweep):
        assert (record.faults, record.leash_scale) == ("renderer_stopped seed 7", 0.05)
        assert record.probe_before.answered, "it began with a renderer that answers"
        assert not record.probe_after.answered
        assert record.parent.status == "completed"
        assert [error.kind for error in record.errors if error.phase == "reset"] == []
        assert "truth" in {reference.name for reference in record.evidence}
        assert record.wall_ms < 25_000
    assert [event.facts["part"] for event in farm.events_of("box-a", "healed")][:1] == ["renderer"]
    box.stop()
    assert box.list_processes() == []
