"""The rows of ``browser_metrics/tasks.jsonl``: one per finished dispatch."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from infra.reference.backend.storage import append_json

TASK_CHARS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRow:
    """What one dispatch cost; all times in ms."""

    session_id: str
    browser_id: str
    # The child's whole prompt, the routing brief included.
    task: str
    task_sig: str
    status: str
    # From the end of the prestage to the end of the dispatch.
    total_ms: int
    # Waiting for browser commands within ``total_ms``.
    tools_ms: int
    prestage_ms: int
    # From the choice of the card to the end of the dispatch.
    task_ms: int
    # Commands by tier.
    tiers: Mapping[str, int]


class Metrics:
    """The metrics file of one data root."""

    def __init__(self, data_root: Path) -> None:
        self._path = data_root / "browser_metrics" / "tasks.jsonl"

    def add(self, row: TaskRow) -> None:
        """Append a row; it is on its way to the disk when this returns."""
        append_json(
            self._path,
            {
                "ts": time.time(),
                "session_id": row.session_id,
                "browser_id": row.browser_id,
                "task": row.task[:TASK_CHARS],
                "task_sig": row.task_sig,
                "path": "llm",
                "playbook_seeded": False,
                "status": row.status,
                "completed": row.status == "completed",
                "total_ms": row.total_ms,
                "llm_ms": 0,
                "tools_ms": row.tools_ms,
                "other_ms": max(0, row.total_ms - row.tools_ms),
                "turns": 1,
                "tool_calls": sum(row.tiers.values()),
                "tokens_in": 0,
                "tokens_out": 0,
                "by_tier": {
                    tier: {"calls": calls, "total_ms": 0, "errors": 0, "avg_ms": 0.0}
                    for tier, calls in row.tiers.items()
                },
                "recurring_errors": [],
                "prestage_ms": row.prestage_ms,
                "task_ms": row.task_ms,
            },
        )
