"""A scorecard of a frozen suite says what each group was frozen with, and the how-manieth use of it this is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from broker.freezes import FreezeUse, SearchedSource, count_files, load_freezes
from grader.ledger import ledger_lines, to_group
from grader.render import render_scorecard
from grader.scorecard import build_scorecard, to_json

SOURCE = SearchedSource(path="/src/openswarm", revision="21a08c23", files=1203, binaries=14)
FIRST, _, EDITORS = load_freezes()
ANEW = replace(
    EDITORS,
    group="editors-2",
    follows="editors",
    reason="moved",
    taken_over=False,
    frozen_by="anna@mini-3",
    frozen_at=datetime(2026, 11, 30, 9, 10, 11, 5, UTC),
    product_revision="21a08c23",
)


def use(freeze: Any, number: int, source: SearchedSource | None = SOURCE) -> FreezeUse:
    moment = datetime(2026, 11, 30, 10, tzinfo=UTC)
    return FreezeUse(sweep="c8-1", freeze=freeze, number=number, used_at=moment, requested_by="anna", source=source)


def lines(*uses: FreezeUse, revisions: tuple[str, ...] = ("21a08c23",)) -> list[str]:
    return [line.text for line in ledger_lines([to_group(one) for one in uses], revisions)]


def test_each_group_is_printed_with_its_freeze_and_its_use() -> None:
    assert lines(use(FIRST, 3), use(ANEW, 1)) == [
        "group first      frozen 2026-08-02 at 1508e03c, taken over from the old harness; use 3",
        "group editors-2  frozen 2026-11-30 09:10:11 UTC at 21a08c23 by anna@mini-3, in place of editors: moved; use 1",
        f"none of the suite's hosts in the product's source at 21a08c23, {count_files(SOURCE)}",
    ]


@pytest.mark.parametrize(
    ("source", "revisions", "last"),
    [
        (None, ("21a08c23",), "the product's source was not searched for the suite's hosts"),
        (SOURCE, ("21a08c24", "21a08c23"), "14 that are no text not searched; what ran is 21a08c24"),
        (replace(SOURCE, files=1, binaries=0), (), "21a08c23, 1 file read"),
        (replace(SOURCE, binaries=1), (), "1203 files read, 1 that is no text not searched"),
    ],
)
def test_a_source_that_was_not_searched_or_is_not_what_ran_is_told(
    source: SearchedSource | None, revisions: tuple[str, ...], last: str
) -> None:
    assert lines(use(FIRST, 1, source), revisions=revisions)[-1].endswith(last)


def test_a_sweep_of_a_frozen_suite_that_is_in_no_ledger_says_so_and_another_suite_says_nothing() -> None:
    assert [line.text for line in ledger_lines((), ())] == [
        "no freeze is on record for this sweep: it was not planned by bv3"
    ]
    assert list(ledger_lines(None, ())) == []


def test_the_ledger_stands_on_the_scorecard_and_in_its_json(row_of: Callable[..., Any], sweep_of: Any) -> None:
    freezes = (to_group(use(FIRST, 2)),)
    card = build_scorecard(sweep_of(1), [row_of(1)], freezes=freezes)
    shown = "\n".join(line.text for line in render_scorecard(card, width=120, markers=98))
    assert "group first  frozen 2026-08-02 at 1508e03c, taken over from the old harness; use 2" in shown
    (group,) = to_json(card)["freezes"]
    assert (group["frozen_at"], group["use"], group["taken_over"]) == ("2026-08-02T00:00:00+00:00", 2, True)
    assert group["source"] == {"path": "/src/openswarm", "revision": "21a08c23", "files": 1203, "binaries": 14}
    assert to_json(build_scorecard(sweep_of(1), [row_of(1)]))["freezes"] is None
