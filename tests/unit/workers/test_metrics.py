from __future__ import annotations

import json
from pathlib import Path

from workers.logslice import mark_end
from workers.metrics import find_truth, join_metrics, read_rows


def test_rows_are_joined_by_child_in_the_children_s_order(tmp_path: Path) -> None:
    rows = tmp_path / "tasks.jsonl"
    rows.write_text(json.dumps({"session_id": "c1", "total_ms": 999}) + "\n")
    mark = mark_end(rows)
    with rows.open("a") as file:
        for row in (
            {"session_id": "c2", "status": "error", "path": "llm", "total_ms": 20.0, "turns": 1},
            {"session_id": "neighbour", "total_ms": 5},
            {"session_id": "c1", "status": "error", "path": "llm", "total_ms": 10, "other_ms": None},
        ):
            file.write(json.dumps(row) + "\n")
        file.write("not JSON\n[1]\n")
    joined = join_metrics(read_rows(mark), ["c1", "c2", "c3"])
    assert [(row.session_id, row.total_ms, row.turns) for row in joined] == [("c1", 10, None), ("c2", 20, 1)]
    assert joined[0].prestage_ms is None


def test_file_that_never_came_has_no_rows(tmp_path: Path) -> None:
    assert join_metrics(read_rows(mark_end(tmp_path / "none.jsonl")), ["c1"]) == ()


def test_truth_is_the_row_of_the_session_alone(tmp_path: Path) -> None:
    file = tmp_path / "truth.jsonl"
    mark = mark_end(file)
    file.write_text('{"session_id": "other"}\n{"session_id": "s1", "bucket": "ok"}\n')
    assert find_truth(read_rows(mark), "s1") == b'{"bucket": "ok", "session_id": "s1"}'
    assert find_truth(read_rows(mark), "s2") is None
