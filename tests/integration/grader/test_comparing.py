"""Two stored sweeps side by side: criterion 6 against a baseline, criterion 8 with its gap."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from broker.suites import load_suite

KNOWN = ("x", "linkedin", "reddit", "gmail", "youtube", "instagram", "tiktok", "substack", "twitch")
HOLDOUT = tuple(task.site for task in load_suite("holdout").tasks if task.retired is None)
TIMES = {"total_ms": 3_000, "llm_ms": 0, "tools_ms": 1_000, "other_ms": 2_000}
Grade = Callable[..., Any]


@pytest.fixture
def import_rows(tmp_path: Path, bv3_grade: Grade) -> Callable[..., str]:
    """Imports ok rows of these sites, `trials` of each, every eleventh a miss; the sweep's id."""

    def take(name: str, suite: str, sites: Sequence[str], trials: int, **times: int) -> str:
        rows = []
        for number in range(len(sites) * trials):
            is_hit = number % 11 != 10
            row = {
                "site": sites[number % len(sites)],
                "trial": number // len(sites) + 1,
                "bucket": "ok" if is_hit else "product_no_composer",
                "wall_s": 12.0 + number / 100,
                "detail": "",
                "composer": is_hit,
                "submit": is_hit,
                "turns": 1,
                "artifact": f"results/{name}_{number}.log",
            }
            rows.append(row | {key: value + number for key, value in (TIMES | times).items()})
        file = tmp_path / f"{name}.jsonl"
        file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        done = bv3_grade("import", str(file), "--suite", suite, "--name", name, "--json")
        assert done.code in {0, 1}, done.stderr
        return str(json.loads(done.stdout)["sweep"])

    return take


def _cell(done: Any, number: int) -> dict[str, Any]:
    cell: dict[str, Any] = json.loads(done.stdout)["criteria"][number - 1]
    return cell


@pytest.mark.usefixtures("engine")
def test_other_ms_is_set_against_a_stored_sweep_and_a_shift_fails_the_gate(
    import_rows: Callable[..., str], bv3_grade: Grade
) -> None:
    before = import_rows("before", "known", KNOWN, 12)
    after = import_rows("after", "known", KNOWN, 12, total_ms=1_500, other_ms=500)
    done = bv3_grade("scorecard", after, "--baseline", before, "--json", "--gate")
    cell = _cell(done, 6)
    # the wall is the same in both: what other_ms lost has gone elsewhere
    assert (cell["mark"], cell["against"], done.code) == ("FAIL", before, 1)
    assert cell["hint"].startswith("time moved into ")
    assert cell["value"] < -0.5
    assert [one["label"] for one in cell["compared"]][:2] == ["wall", "prestage"]
    shown = bv3_grade("scorecard", after, "--baseline", before[: len(before) - 1], COLUMNS="80").stdout
    assert f"against {before}" in shown
    assert max(map(len, shown.splitlines())) <= 80
    assert _cell(bv3_grade("scorecard", after, "--json"), 6)["mark"] == "OPEN"


@pytest.mark.usefixtures("engine")
def test_the_holdouts_gap_is_taken_from_a_stored_sweep_of_the_known_suite(
    import_rows: Callable[..., str], bv3_grade: Grade
) -> None:
    known = import_rows("before", "known", KNOWN, 12)
    holdout = import_rows("frozen", "holdout", HOLDOUT, 2)
    alone = _cell(bv3_grade("scorecard", holdout, "--json"), 8)
    assert (alone["mark"], alone["numerator"], alone["denominator"]) == ("OPEN", 28, 30)
    assert "--known SWEEP" in alone["hint"]
    cell = _cell(bv3_grade("scorecard", holdout, "--known", known, "--json"), 8)
    assert (cell["mark"], cell["proven"], cell["against"]) == ("PASS", False, known)
    assert cell["compared"][0]["change"] == pytest.approx(99 / 108 - 28 / 30)
    other = import_rows("other", "anon", ("deepl", "regex101"), 9)
    wrong = _cell(bv3_grade("scorecard", holdout, "--known", other, "--json"), 8)
    assert (wrong["mark"], wrong["compared"]) == ("OPEN", [])
    assert "not known" in wrong["hint"]


@pytest.mark.usefixtures("engine")
def test_a_sweep_is_not_set_against_itself_or_against_one_that_is_not_there(
    import_rows: Callable[..., str], bv3_grade: Grade
) -> None:
    sweep = import_rows("before", "known", KNOWN, 1)
    for option in ("--baseline", "--known"):
        done = bv3_grade("scorecard", sweep, option, sweep)
        assert (done.code, done.stdout) == (2, "")
        assert "the sweep itself" in done.stderr
        assert bv3_grade("scorecard", sweep, option, "nowhere").code == 2
