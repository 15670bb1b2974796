"""The committed freezes are those of the shipped tasks, and a broken file of them is named."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from broker.errors import SuiteError
from broker.freezes import (
    UNFROZEN,
    Freeze,
    freeze_tasks,
    hash_tasks,
    load_freezes,
    load_freezes_file,
    write_entry,
    write_tasks,
)
from broker.suites import load_suite, suite_names
from broker.types import Retirement, SiteTask

HOLDOUT = load_suite("holdout")
QUILL = next(task for task in HOLDOUT.tasks if task.site == "quill")
FROZEN = Freeze(
    suite="holdout",
    group="editors",
    sha256=hash_tasks(freeze_tasks([QUILL])),
    frozen_at=datetime(2026, 11, 30, 8, 0, 0, 123456, UTC),
    product_revision="21a08c23",
    frozen_by="anna@mini-3",
    taken_over=False,
    tasks=freeze_tasks([QUILL]),
)
FOLLOWING = replace(
    FROZEN, group="editors-2", follows="editors", reason="the 'playground' moved — 🪶 \\ ''' to \"play\""
)


def test_each_group_of_a_frozen_suite_hashes_to_what_its_last_committed_freeze_says() -> None:
    committed = {(freeze.suite, freeze.group): freeze for freeze in load_freezes()}
    for name in suite_names():
        suite = load_suite(name)
        for group in {task.group for task in suite.tasks} - {""}:
            freeze = committed[name, group]
            while (after := next((one for one in committed.values() if one.follows == freeze.group), None)) is not None:
                freeze = after
            assert hash_tasks(freeze_tasks(task for task in suite.tasks if task.group == group)) == freeze.sha256


def test_the_old_groups_stand_with_their_old_dates_and_revisions_as_taken_over() -> None:
    old = [freeze for freeze in load_freezes() if freeze.taken_over]
    assert [(freeze.group, f"{freeze.frozen_at:%Y-%m-%d %Z}", freeze.product_revision) for freeze in old] == [
        ("first", "2026-08-02 UTC", "1508e03c"),
        ("anonymous", "2026-08-02 UTC", "ab898964"),
        ("editors", "2026-08-04 UTC", "e445ca3e"),
    ]


@pytest.mark.parametrize("field", [field.name for field in fields(SiteTask) if field.name not in UNFROZEN])
def test_one_character_in_any_field_of_a_task_is_another_hash(field: str) -> None:
    tasks = [task for task in HOLDOUT.tasks if task.group == "editors"]
    changed = [replace(task, **{field: getattr(task, field) + " "}) if task is QUILL else task for task in tasks]
    assert hash_tasks(freeze_tasks(changed)) != hash_tasks(freeze_tasks(tasks))


def test_neither_a_retirement_nor_the_order_in_the_file_is_part_of_the_hash() -> None:
    tasks = [task for task in HOLDOUT.tasks if task.group == "editors"]
    retired = [replace(task, retired=Retirement(date="2026-12-01", evidence="gone")) for task in reversed(tasks)]
    assert write_tasks(freeze_tasks(retired)) == write_tasks(freeze_tasks(tasks))


def test_what_is_printed_to_be_committed_reads_back_as_the_same_freeze(tmp_path: Path) -> None:
    east = FROZEN.frozen_at.astimezone(timezone(timedelta(hours=5)))
    odd = replace(QUILL, prompt=QUILL.prompt + " ''' \x7f é")
    awkward = replace(FOLLOWING, frozen_at=east, tasks=freeze_tasks([odd]), sha256=hash_tasks(freeze_tasks([odd])))
    empty = replace(FROZEN, group="none", tasks=(), sha256=hash_tasks(()))
    file = tmp_path / "freezes.toml"
    file.write_text("\n".join(write_entry(one) for one in (FROZEN, awkward, empty, load_freezes()[0])), "utf-8")
    assert load_freezes_file(file) == (FROZEN, replace(awkward, frozen_at=FROZEN.frozen_at), empty, load_freezes()[0])


@pytest.mark.parametrize(
    ("freezes", "old", "new", "says"),
    [
        ((FROZEN,), "quilljs.com", "quilljs.org", "its tasks hash to"),
        ((FROZEN,), FROZEN.sha256, "abc", r"freeze.0.sha256"),
        ((FROZEN,), "frozen_at = 2026-11-30T08:00:00.123456+00:00", "frozen_at = 2026-11-30T08:00:00", "its offset"),
        ((FROZEN,), "frozen_by", "frozen_bye", "frozen_by"),
        ((FROZEN,), "frozen_by = ", "frozen_by ", "line"),
        ((FROZEN,), '{"editor"', '["editor"', "tasks: "),
        ((FROZEN,), '"site"', '"sight"', "a JSON object with a site"),
        ((FROZEN, FROZEN), "", "", "stands twice"),
        ((FOLLOWING,), "", "", "'editors', which does not stand before it"),
        ((FROZEN, FOLLOWING, replace(FOLLOWING, group="editors-3")), "", "", "is followed by another already"),
        ((FROZEN, replace(FOLLOWING, reason=None)), "", "", "has a reason, and no other"),
        ((replace(FROZEN, reason="why not"),), "", "", "has a reason, and no other"),
    ],
)
def test_a_broken_file_of_freezes_is_refused(
    tmp_path: Path, freezes: tuple[Freeze, ...], old: str, new: str, says: str
) -> None:
    file = tmp_path / "freezes.toml"
    file.write_text("\n".join(write_entry(one) for one in freezes).replace(old, new, 1), "utf-8")
    with pytest.raises(SuiteError, match=says) as caught:
        load_freezes_file(file)
    assert str(file) in caught.value.message


def test_a_file_of_freezes_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SuiteError, match="can't be read"):
        load_freezes_file(tmp_path / "none.toml")
