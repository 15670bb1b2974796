"""What `bv3-box preflight` prints: every condition with its answer and its numbers."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence

from workers.conditions import Answer, Condition


def list_refusals(found: Sequence[Condition]) -> tuple[str, ...]:
    """The reasons that refuse, each once."""
    return tuple(dict.fromkeys(item.reason for item in found if item.answer is Answer.REFUSED))


def format_json(box: str, found: Sequence[Condition], *, duration_ms: int) -> str:
    """The same as data: fit, refused, and the conditions in the order in which they were looked at."""
    refused = list_refusals(found)
    plain = {
        "box": box,
        "fit": not refused,
        "refused": list(refused),
        "duration_ms": duration_ms,
        "conditions": [dataclasses.asdict(item) for item in found],
    }
    return json.dumps(plain, indent=1)


def format_lines(box: str, found: Sequence[Condition], *, duration_ms: int) -> Iterator[str]:
    """One line each, and the sum at the end."""
    for item in found:
        yield f"{item.answer:<15} {item.reason:<14} {item.said}"
    refused = list_refusals(found)
    word = f"refused: {', '.join(refused)}" if refused else "fit"
    yield f"{box}: {word} (looked for {duration_ms} ms)"
