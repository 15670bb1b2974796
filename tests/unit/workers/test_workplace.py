from __future__ import annotations

from workers.workplace import _as_line


def test_what_is_said_of_a_refusal_is_one_short_line_of_ascii() -> None:
    said = _as_line("pid 9 (na\u00efve\n\x1b[31m\ud83d name)\t" + "x" * 9000)
    assert said.startswith("pid 9 (na\\xefve \\x1b[31m\\ud83d name) xxx".replace("\\x1b", "\x1b"))
    assert said.isascii()
    assert "\n" not in said
    # a pipe takes so much at once, whoever else writes
    assert len(said) < 4096
