"""The exported file: the old columns and ours, one row an attempt, each slice beside it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from broker.errors import UsageError
from broker.types import Bucket, Claim, Evidence, Seen
from grader.evidence import Timing
from grader.export import COLUMNS, write_export
from grader.facts import AttemptRow

Row = Callable[..., AttemptRow]
SWEEP = "c7-20261129T220003Z-k3f9"
OLD_COLUMNS = [
    "site",
    "trial",
    "bucket",
    "wall_s",
    "detail",
    "composer",
    "submit",
    "total_ms",
    "llm_ms",
    "tools_ms",
    "other_ms",
    "prestage_ms",
    "task_ms",
    "turns",
    "artifact",
]


def _read(out: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in out.read_text().splitlines()]


def test_old_columns_come_first_then_ours(row_of: Row, tmp_path: Path) -> None:
    out = tmp_path / "results" / f"{SWEEP}.jsonl"
    began = datetime(2026, 11, 29, 22, 0, 3, 250_000, tzinfo=UTC)
    facts = {
        "claim": Claim.FILLED,
        "page": Seen.SEEN,
        "submit": True,
        "wall_ms": 2_437,
        "timing": Timing(total_ms=236, other_ms=58, prestage_ms=136, turns=1),
    }
    assert write_export(out, SWEEP, [row_of(7, started_at=began, facts=facts)], lambda _row: b"line\n") == 1
    (row,) = _read(out)
    assert list(row)[: len(OLD_COLUMNS)] == OLD_COLUMNS
    assert tuple(row) == COLUMNS
    assert (row["composer"], row["submit"], row["wall_s"], row["total_ms"]) == (True, True, 2.437, 236)
    assert row["started_at"] == "2026-11-29T22:00:03.250+00:00"
    assert row["finished_at"] is None


@pytest.mark.parametrize("given", ["results", ".", "../elsewhere", "TMP/else/where"])
def test_each_slice_lies_where_its_row_says(
    given: str, row_of: Row, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path = tmp_path_factory.mktemp("above") / "here"
    tmp_path.mkdir()
    monkeypatch.chdir(tmp_path)
    folder = Path(given.replace("TMP", str(tmp_path)))
    rows = [row_of(number) for number in range(3)]
    write_export(folder / f"{SWEEP}.jsonl", SWEEP, rows, lambda row: f"slice of {row.attempt_id}\n".encode())
    artifacts = [str(row["artifact"]) for row in _read(folder / f"{SWEEP}.jsonl")]
    assert [Path(artifact).read_text() for artifact in artifacts] == [f"slice of {number}\n" for number in range(3)]
    beginning = re.escape(f"{folder}/" if given != "." else "")
    assert all(re.fullmatch(rf"{beginning}{SWEEP}/x_\d+_a\d+\.log", artifact) for artifact in artifacts)


def test_what_nobody_knows_of_a_row_is_null(row_of: Row, tmp_path: Path) -> None:
    out = tmp_path / "rows.jsonl"
    write_export(out, SWEEP, [row_of(1, facts={"unknown": ("claim", "page")}), row_of(2)], lambda _: None)
    imported, own = _read(out)
    assert (imported["claim"], imported["page"]) == (None, None)
    assert (own["claim"], own["page"]) == ("none", "could_not_look")


def test_an_attempt_without_a_slice_has_a_row_all_the_same(row_of: Row, tmp_path: Path) -> None:
    out = tmp_path / "results" / f"{SWEEP}.jsonl"
    lost = row_of(1, Bucket.INFRA_BOX_LOST, rule="box_lost")
    left_out = row_of(2, Bucket.NOT_MEASURABLE, facts={"evidence": Evidence.PROVEN})
    write_export(out, SWEEP, [lost, left_out], lambda _row: None)
    exported = _read(out)
    assert [(row["bucket"], row["artifact"], row["evidence"]) for row in exported] == [
        ("infra_box_lost", None, None),
        ("not_measurable", None, "PROVEN"),
    ]


def test_exporting_again_replaces_the_whole_file(row_of: Row, tmp_path: Path) -> None:
    out = tmp_path / "results" / f"{SWEEP}.jsonl"
    write_export(out, SWEEP, [row_of(number) for number in range(5)], lambda _row: b"a")
    write_export(out, SWEEP, [row_of(1)], lambda _row: b"a")
    assert len(_read(out)) == 1
    assert [path.name for path in out.parent.iterdir() if path.name.startswith(".")] == []


def test_a_folder_that_is_a_file_is_named_with_a_hint(row_of: Row, tmp_path: Path) -> None:
    (tmp_path / "results").write_text("not a folder")
    with pytest.raises(UsageError, match="can't write") as caught:
        write_export(tmp_path / "results" / "a.jsonl", SWEEP, [row_of(1)], lambda _row: b"")
    assert caught.value.hint
