"""Lines are sorted by their heads as a reader would do it one by one, and at a cost that grows with the slice."""

from __future__ import annotations

import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader.heads import compile_heads

LOGGED = {
    "open": b"[a] ",
    "done": b"[a] done ",
    "done too": b"[a] done ",
    "agent": b"[a-",
}
RAW = {"plain": b"INFO: started (", "short": b"9R", "raw open": b"[a] "}
SORTER = compile_heads(logged=LOGGED, raw=RAW)


def sort_one_by_one(log: bytes) -> dict[str, list[tuple[int, int, int]]]:
    found: dict[str, list[tuple[int, int, int]]] = {}
    start = 0
    for line in log.split(b"\n"):
        message, heads = 0, RAW
        if line[2:3] == b":" and line[8:9] == b" " and (colon := line.find(b": ", 11)) > 0:
            message, heads = colon + 2, LOGGED
        for name, head in heads.items():
            if line.startswith(head, message):
                found.setdefault(name, []).append((start, start + message, start + len(line)))
        start += len(line) + 1
    return found


_NOISE = [b"\n", b"\r", b": ", b":", b" ", b"20:07:04 I a.b: ", b"20:07:04 I ", b"\x00", b"\xff", b"x"]
PIECES = st.sampled_from([*_NOISE, *LOGGED.values(), *RAW.values()])


@given(st.lists(PIECES, max_size=12).map(b"".join))
def test_lines_are_sorted_as_one_by_one(log: bytes) -> None:
    assert SORTER.sort_lines(log) == sort_one_by_one(log)


def test_a_line_of_two_heads_stands_under_both_and_under_each_name_of_one() -> None:
    assert set(SORTER.sort_lines(b"20:07:04 I a.b: [a] done in 3")) == {"open", "done", "done too"}


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
            SORTER.sort_lines(log)
            best = min(best, time.process_time() - began)
        return best

    assert seconds(1_000_000) < 0.02 + seconds(100_000) * 30


def test_the_order_of_chunks_of_noise_changes_nothing_about_what_is_found() -> None:
    lines = [b"20:07:04 I a.b: [a] done in 3", b"INFO: started (1)", b"noise", b"", b"9Router"]
    counts = []
    for seed in range(5):
        random.Random(seed).shuffle(lines)
        counts.append({name: len(found) for name, found in SORTER.sort_lines(b"\n".join(lines)).items()})
    assert counts == counts[:1] * 5
