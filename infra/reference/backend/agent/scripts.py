"""The scripts that run in the page, as expressions for ``evaluate``."""

import json
from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).parent / "js"


def find_first_thing(kind: str) -> str:
    """An expression whose value is the address of the first thing of a kind, or an empty text."""
    return f"{_read('first_thing.js')}({json.dumps(kind)})"


def find_submit(payload: str) -> str:
    """An expression whose value is JSON: where the payload stands and what would send it."""
    return f"{_read('submit.js')}({json.dumps(payload)})"


@cache
def _read(name: str) -> str:
    rows = (_FOLDER / name).read_text().splitlines()
    return "\n".join(row for row in rows if not row.startswith("//"))
