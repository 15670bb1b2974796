"""Small JSON documents of the farm: written whole or not at all, readable by their owner alone."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


def read_document(path: Path) -> dict[str, Any] | None:
    """The document at `path`; None when there is none or it is no JSON object (a crash, a hand edit)."""
    try:
        plain = json.loads(path.read_text("utf-8"))
    except (FileNotFoundError, ValueError):
        return None
    return plain if isinstance(plain, dict) else None


def write_document(path: Path, document: dict[str, Any], *, durable: bool = False) -> None:
    """`path` holds `document` afterwards, mode 0600; a reader sees the old one or the new one.

    `durable`: on disk before the call returns, for what can't be made again (passwords).
    """
    write_private(path, json.dumps(document, indent=1), durable=durable)


def write_private(path: Path, text: str, *, durable: bool = False) -> None:
    """`path` holds `text` afterwards, mode 0600, replaced in one step."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    # Made private from the first byte: a chmod afterwards would leave a moment in which it is not.
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        if durable:
            file.flush()
            os.fsync(file.fileno())
    beside.replace(path)
