"""Lines are found by their heads as a reader would find them one by one, and at a cost that grows with the slice."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader.heads import compile_heads

LOGGED = [b"[a] ", b"[a] done ", b"[a-"]
RAW = [b"INFO: started (", b"9R", b"[a] "]
HEADS = compile_heads(logged=LOGGED, raw=RAW)


def find_one_by_one(log: bytes) -> list[tuple[int, int, int]]:
    found = []
    start = 0
    for line in log.split(b"\n"):
        message, heads = 0, RAW
        logger, colon, _ = line[11:].partition(b": ")
        is_name = colon and b":" not in logger and not any(byte in b" \t\n\r\f\v" for byte in logger)
        if line[2:3] == b":" and line[8:9] == b" " and line[10:11] == b" " and is_name:
            message, heads = 11 + len(logger) + 2, LOGGED
        if line.startswith(tuple(heads), message):
            found.append((start, start + message, start + len(line)))
        start += len(line) + 1
    return found


_NOISE = [b"\n", b"\r", b": ", b":", b" ", b"20:07:04 I a.b: ", b"20:07:04 I ", b"\x00", b"\xff", b"x"]
PIECES = st.sampled_from([*_NOISE, *LOGGED, *RAW])


@given(st.lists(PIECES, max_size=12).map(b"".join))
def test_lines_are_found_as_one_by_one(log: bytes) -> None:
    assert list(HEADS.find_lines(log)) == find_one_by_one(log)


@pytest.mark.parametrize(
    "piece",
    [
        b"\n",
        b"x",
        b"[a] d\n",
        b"20:07:04 I a:b:c\n",
        b"20:07:04 I ",
        b"20:07:04 I x: ",
        b":",
        b"[a] done \n",
        b"\x00\xff",
    ],
    ids=repr,
)
def test_slices_of_one_piece_over_and_over_cost_linear_time(piece: bytes) -> None:
    def seconds(size: int) -> float:
        log = piece * (size // len(piece))
        best = float("inf")
        for _ in range(3):
            began = time.process_time()
            for _line in HEADS.find_lines(log):
                pass
            best = min(best, time.process_time() - began)
        return best

    assert seconds(2_000_000) < 0.1 + seconds(200_000) * 30
