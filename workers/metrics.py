"""Rows of the product's tasks.jsonl and of the reference's truth file, joined by session id."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from broker.types import MetricsRow
from workers.logslice import FileMark, cut_slice


def read_rows(start: FileMark) -> Iterator[dict[str, Any]]:
    """The JSON objects written since `start`; what is no object is passed over, a missing file has none."""
    try:
        _, data = cut_slice(start)
    except FileNotFoundError:
        return
    for line in data.splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict):
            yield row


def join_metrics(rows: Iterator[dict[str, Any]], children: Sequence[str]) -> tuple[MetricsRow, ...]:
    """The rows of these children, in the children's order. A row of any other session is not ours."""
    by_child = {str(row["session_id"]): row for row in rows if str(row.get("session_id")) in children}
    return tuple(_to_row(child, by_child[child]) for child in children if child in by_child)


def find_truth(rows: Iterator[dict[str, Any]], session_id: str) -> bytes | None:
    """The session's last row as bytes: opaque to the box. An earlier one was written ahead of the truth."""
    last = None
    for row in rows:
        if row.get("session_id") == session_id:
            last = row
    return None if last is None else json.dumps(last, sort_keys=True).encode("ascii")


def _to_row(child: str, row: dict[str, Any]) -> MetricsRow:
    return MetricsRow(
        session_id=child,
        status=str(row.get("status", "")),
        path=str(row.get("path", "")),
        total_ms=_whole(row.get("total_ms")),
        llm_ms=_whole(row.get("llm_ms")),
        tools_ms=_whole(row.get("tools_ms")),
        other_ms=_whole(row.get("other_ms")),
        prestage_ms=_whole(row.get("prestage_ms")),
        task_ms=_whole(row.get("task_ms")),
        turns=_whole(row.get("turns")),
    )


def _whole(value: object) -> int | None:
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
