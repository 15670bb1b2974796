"""What freeze, freezes and a plan of the holdout print, and that every name of it is documented."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from broker.freezes import FreezeUse, SearchedSource, load_freezes
from broker.store.freezes import FreezeRow
from scheduler.freeze_listing import (
    freezes_document,
    freezes_lines,
    frozen_document,
    frozen_lines,
    standing_document,
    standing_lines,
)
from scheduler.freezing import Frozen, Lineage, Standing

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "freezes.md").read_text("utf-8")
SOURCE = SearchedSource(path="/src/open\x1b[1mswarm", revision="21a08c23", files=1, binaries=2)
NOW = datetime(2026, 11, 30, 10, tzinfo=UTC)
FIRST, ANONYMOUS, EDITORS = load_freezes()
ROW = FreezeRow(id=1, freeze=FIRST, recorded_at=NOW, uses=2)
USES = tuple(
    FreezeUse(sweep=f"c8-{number}", freeze=FIRST, number=number, used_at=NOW, requested_by="anna", source=source)
    for number, source in ((1, None), (2, SOURCE))
)


def _names(document: Any) -> Iterator[str]:
    if isinstance(document, dict):
        for name, value in document.items():
            yield name
            if name != "tasks":
                yield from _names(value)
    elif isinstance(document, list):
        for value in document:
            yield from _names(value)


def test_every_name_that_the_documents_hold_is_documented() -> None:
    frozen = Frozen(freeze=FIRST, writes=(FIRST,), is_new=False)
    names = {
        *_names(frozen_document([frozen], SOURCE, "")),
        *_names(freezes_document([ROW], [EDITORS], USES)),
    }
    assert {name for name in names if f"`{name}`" not in PAGE} == set()
    assert {"uses", "source", "is_new", "toml"} <= names


def test_each_freeze_is_listed_with_its_uses_in_lines_of_a_terminal() -> None:
    lines = freezes_lines([ROW], [EDITORS], USES)
    text = " ".join(" ".join(lines).split())
    assert "holdout first: frozen 2026-08-02 at 1508e03c, taken over from the old harness; 2 uses" in text
    assert "use 1 2026-11-30 10:00:00 UTC c8-1 by anna, source not searched" in text
    assert "use 2 2026-11-30 10:00:00 UTC c8-2 by anna, source 21a08c23 searched" in text
    assert "holdout editors: frozen 2026-08-04 at e445ca3e, taken over from the old harness; 0 uses" in text
    assert max(map(len, lines)) <= 80
    assert freezes_lines([], [], []) == ["nothing is frozen"]


def test_a_plan_tells_the_use_that_each_group_would_be_and_which_it_does_not_use() -> None:
    standings = [
        Standing(lineage=Lineage(freezes=(FIRST,), rows={"first": ROW}), is_used=True),
        Standing(lineage=Lineage(freezes=(EDITORS,), rows={}), is_used=False),
    ]
    text = " ".join(" ".join(standing_lines(standings, SOURCE)).split())
    assert "group first frozen 2026-08-02 at 1508e03c, taken over from the old harness; use 3 group editors" in text
    assert (
        "taken over from the old harness; not used by this plan the product's source at 21a08c23: 1 file read,"
        " 2 that are no text not searched; none names a host of the holdout" in text
    )
    document = standing_document(standings, SOURCE)
    assert document is not None
    assert [group["use"] for group in document["groups"]] == [3, None]
    assert (standing_lines([], SOURCE), standing_document([], SOURCE)) == ([], None)


def test_a_freeze_that_entered_from_the_file_is_told_apart_from_one_that_was_on_record() -> None:
    entered = " ".join(frozen_lines([Frozen(freeze=ANONYMOUS, writes=(ANONYMOUS,), is_new=False)]))
    stood = " ".join(frozen_lines([Frozen(freeze=ANONYMOUS, writes=(), is_new=False)]))
    new = " ".join(frozen_lines([Frozen(freeze=ANONYMOUS, writes=(ANONYMOUS,), is_new=True)]))
    assert "now on this farm's record" in " ".join(entered.split())
    assert "record" not in stood
    assert ANONYMOUS.sha256 in new
    assert json.loads(json.dumps(frozen_document([], None, "")))["toml"] is None
