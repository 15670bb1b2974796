"""The farm's clock as a box learns it: by beats to a real PostgreSQL, from a machine whose clock is wrong."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from workers.beats import Pulse, Sign
from workers.clock import read_offset
from workers.conditions import Answer, judge_clock


@pytest.mark.parametrize(("skew_s", "answer"), [(0.0, Answer.OK), (3600.0, Answer.REFUSED), (-9.0, Answer.REFUSED)])
def test_skew_of_a_machine_is_known_after_its_first_beat(
    make_box: Callable[[str], Any], tmp_path: Path, wait_until: Callable[..., None], skew_s: float, answer: Answer
) -> None:
    box = make_box("box-a")

    def read_clock() -> datetime:
        return datetime.now(UTC) + timedelta(seconds=skew_s)

    pulse = Pulse(
        client=box.client,
        token=box.token,
        look=lambda: Sign(phase="ready", facts={}),
        hear=lambda _: None,
        folder=tmp_path,
        read_clock=read_clock,
    )
    pulse.open()
    try:
        wait_until(lambda: read_offset(tmp_path) is not None, "the farm's clock")
    finally:
        pulse.close()
    offset = read_offset(tmp_path)
    assert offset is not None
    # the database's clock is this machine's own
    assert abs(offset.offset_s + skew_s) <= offset.uncertainty_s + 0.01
    assert judge_clock(offset, 2.0 + offset.uncertainty_s, now=read_clock(), has_farm=True).answer is answer


def test_beat_is_heard_also_when_the_clock_can_t_be_noted(
    make_box: Callable[[str], Any], tmp_path: Path, wait_until: Callable[..., None]
) -> None:
    box = make_box("box-a")
    heard: list[Any] = []
    pulse = Pulse(
        client=box.client,
        token=box.token,
        look=lambda: Sign(phase="ready", facts={}),
        hear=heard.append,
        folder=tmp_path / "gone",
    )
    pulse.open()
    try:
        wait_until(lambda: bool(heard), "the answer")
    finally:
        pulse.close()
    assert heard[0].answer == "ok"
    assert read_offset(tmp_path / "gone") is None
