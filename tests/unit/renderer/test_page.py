"""docs/reference/renderer.md names every action that the renderer carries out, and no other."""

from __future__ import annotations

import re
from pathlib import Path

from workers.renderer.actions import ACTIONS, CARDLESS

PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "renderer.md"


def test_page_has_a_row_for_each_action_and_for_no_other() -> None:
    rows = re.findall(r"^\| `(\w+)` \|", PAGE.read_text("utf-8"), re.MULTILINE)
    assert sorted(rows) == sorted([*ACTIONS, *CARDLESS])
