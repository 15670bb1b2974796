"""The last words of a part's log, as an error shows them."""

from __future__ import annotations

from pathlib import Path

import pytest

from workers.processes import ProcessBook
from workers.stack.parts import PartsTable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", ""),
        ("one line\n", "one line"),
        ("x" * 295 + "\nOSW_SENDSCRIPT\nlast\n", "OSW_SENDSCRIPT\nlast"),
        ("y" * 400, "y" * 300),
    ],
    ids=["empty", "short", "cut at a line", "one long line"],
)
def test_no_word_is_cut_in_two_where_there_is_a_line_to_begin_with(tmp_path: Path, text: str, shown: str) -> None:
    table = PartsTable(tmp_path, ProcessBook(folder=tmp_path))
    assert table.read_tail("backend") == ""
    table.log_of("backend").write_text(text)
    assert table.read_tail("backend") == shown
