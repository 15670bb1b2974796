from __future__ import annotations

import hashlib
import time
from pathlib import Path

import pytest

from workers.logslice import cut_slice, mark_end


def test_slice_holds_exactly_what_was_written_since_the_mark(tmp_path: Path) -> None:
    log = tmp_path / "backend.log"
    log.write_bytes(b"before\n")
    mark = mark_end(log)
    with log.open("ab") as file:
        file.write(b"first\nsec\x00ond")
    cut, data = cut_slice(mark)
    assert data == b"first\nsec\x00ond"
    assert (cut.start, cut.end, cut.torn) == (7, 7 + len(data), False)
    assert cut.sha256 == hashlib.sha256(data).hexdigest()
    assert cut.inode == log.stat().st_ino


def test_slice_of_a_replaced_log_is_torn_and_holds_the_new_file(tmp_path: Path) -> None:
    log = tmp_path / "backend.log"
    log.write_bytes(b"old and long\n")
    mark = mark_end(log)
    log.rename(tmp_path / "backend.log.1")
    log.write_bytes(b"new\n")
    cut, data = cut_slice(mark)
    assert cut.torn
    assert data == b"new\n"


def test_slice_of_a_shortened_log_is_torn(tmp_path: Path) -> None:
    log = tmp_path / "backend.log"
    log.write_bytes(b"old and long\n")
    mark = mark_end(log)
    log.write_bytes(b"x")
    assert cut_slice(mark)[0].torn


def test_log_that_was_not_there_at_the_mark_is_read_from_its_beginning(tmp_path: Path) -> None:
    log = tmp_path / "backend.log"
    mark = mark_end(log)
    log.write_bytes(b"all\n")
    cut, data = cut_slice(mark)
    assert (data, cut.torn) == (b"all\n", False)


def test_missing_log_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        cut_slice(mark_end(tmp_path / "none.log"))


def test_cutting_a_huge_log_costs_what_its_end_costs(tmp_path: Path) -> None:
    log = tmp_path / "backend.log"
    with log.open("wb") as file:
        file.truncate(8 * 2**30)  # a sparse file
    begun_s = time.monotonic()
    mark = mark_end(log)
    with log.open("ab") as file:
        file.write(b"end\n")
    assert cut_slice(mark)[1] == b"end\n"
    assert time.monotonic() - begun_s < 1.0


def test_slice_beyond_the_limit_is_its_beginning_and_torn(tmp_path: Path) -> None:
    log = tmp_path / "backend.log"
    log.write_bytes(b"before\n")
    mark = mark_end(log)
    with log.open("ab") as file:
        file.write(b"0123456789")
    cut, data = cut_slice(mark, limit_bytes=4)
    assert (data, cut.start, cut.end, cut.torn) == (b"0123", 7, 11, True)
    assert not cut_slice(mark, limit_bytes=10)[0].torn
