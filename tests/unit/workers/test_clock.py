from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from workers.clock import measure_offset, note_offset, read_offset

NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)


@pytest.mark.parametrize("skew_s", [-3600.0, -2.5, 0.0, 0.4, 7.0])
def test_skew_of_the_machine_is_told_within_half_the_round_trip(skew_s: float) -> None:
    here = NOON + timedelta(seconds=skew_s)
    # the farm looked at its clock early, and the answer took long
    offset = measure_offset(NOON + timedelta(seconds=0.1), here, here + timedelta(seconds=1))
    assert abs(offset.offset_s - -skew_s) <= offset.uncertainty_s == 0.5
    assert offset.least_s <= abs(skew_s)


def test_clocks_that_may_agree_are_not_apart() -> None:
    assert measure_offset(NOON, NOON - timedelta(seconds=4), NOON).least_s == 0


def test_note_is_read_as_it_was_written_and_no_half_of_it_stays(tmp_path: Path) -> None:
    noted = note_offset(tmp_path, NOON, NOON + timedelta(seconds=9), NOON + timedelta(seconds=9.5))
    assert noted.offset_s == -9.25
    assert read_offset(tmp_path) == noted
    assert [path.name for path in tmp_path.iterdir()] == ["clock.json"]


@pytest.mark.parametrize("text", [None, "", "{", "[]", '{"offset_s": 1}', '{"offset_s": "x"}', "\u00fc"])
def test_unreadable_note_is_no_offset(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "clock.json").write_text(text, "utf-8")
    assert read_offset(tmp_path) is None
