"""JSON files that are complete or absent, never half written."""

import json
import os
from pathlib import Path
from typing import Any


def write_json(path: Path, value: object) -> None:
    """Replace a file's content in one step; folders are made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.write_text(json.dumps(value))
    fresh.replace(path)


def read_json(path: Path) -> Any | None:
    """The content of a JSON file; None when there is none or it can't be read as JSON."""
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return None


def append_json(path: Path, row: object) -> None:
    """Add one line to a JSON-lines file, flushed to the operating system before the return."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(json.dumps(row) + "\n")
