"""The pure step costs what its slice is long, and far less than looking for each pattern in each line.

Ratios within one process only: seconds say nothing on a machine that others share.
"""

from __future__ import annotations

import importlib.util
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

from grader.grading import grade_record

pytestmark = [pytest.mark.xdist_group("quiet")]

_FILE = Path(__file__).parents[3] / "benchmarks" / "grading.py"


@pytest.fixture(scope="module")
def grading() -> ModuleType:
    """The benchmark, which is no part of any package."""
    spec = importlib.util.spec_from_file_location("benchmarks_grading", _FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # its dataclasses look their module up
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_the_slices_that_are_measured_are_ok_and_failed_runs(grading: ModuleType) -> None:
    attempts = grading.make_attempts(60)
    assert Counter(grading.grade_all(attempts)) == {
        "ok": 30,
        "product_no_composer": 10,
        "product_command_timeout": 10,
        "infra_no_renderer": 10,
    }
    assert len({one.log for one in attempts}) == 60
    assert all(7_000 < len(one.log) < 9_000 for one in attempts)


def test_ten_times_the_slice_costs_no_more_than_fifteen_times(grading: ModuleType) -> None:
    small, large = grading.measure_sizes((1, 10))
    assert large.seconds <= 0.05 + 15 * small.seconds


@pytest.mark.parametrize("piece", [b"x", b"\n", b"20:07:04 I a.b: [browser-sendscript] ", b"[browser-agent "])
def test_a_slice_of_one_hostile_piece_over_and_over_costs_no_more_than_fifteen_times(
    grading: ModuleType, piece: bytes
) -> None:
    def seconds(size: int) -> float:
        one = grading.make_attempts(1)[0]
        log = one.log + piece * (size // len(piece))
        best: float = grading.best_seconds(lambda: grade_record(one.record, log, grading.TASK), 3)
        return best

    assert seconds(10_000_000) <= 0.05 + 15 * seconds(1_000_000)


def test_it_is_faster_than_a_search_of_each_pattern_in_each_line(grading: ModuleType) -> None:
    attempts = grading.make_attempts(60)
    own = grading.best_seconds(lambda: grading.grade_all(attempts), 5)
    plain = grading.best_seconds(lambda: grading.search_all(attempts), 3)
    assert plain > 1.5 * own, f"{plain / own:.2f} times"
