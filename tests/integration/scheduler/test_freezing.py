"""Every plan of the holdout is judged against what was frozen, and each use is a row: against a real PostgreSQL."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
import sqlalchemy as sa

from broker.errors import UsageError
from broker.freezes import Freeze, SearchedSource, freeze_tasks, hash_tasks, load_freezes
from broker.store.engine import begin
from broker.store.freezes import read_freezes, read_uses, save_freeze
from broker.store.sweeps import NewSweep, create_sweep
from broker.suites import Suite, load_suite
from broker.types import SiteTask
from scheduler.admission import admit_frozen, preview_frozen, read_known, search_hosts
from scheduler.freezing import plan_freezes
from scheduler.request import Request, prepare

HOLDOUT = load_suite("holdout")
SOURCE = SearchedSource(path="/src/openswarm", revision="21a08c23", files=1203, binaries=14)
Plan = Callable[..., str]


def change(site: str, **fields: Any) -> Suite:
    """The holdout with one task changed."""
    tasks = tuple(replace(task, **fields) if task.site == site else task for task in HOLDOUT.tasks)
    return replace(HOLDOUT, tasks=tasks)


def add(task: SiteTask, **fields: Any) -> Suite:
    """The holdout with one task more."""
    return replace(HOLDOUT, tasks=(*HOLDOUT.tasks, replace(task, **fields)))


QUILL = next(task for task in HOLDOUT.tasks if task.site == "quill")
# one more site, in a group of its own that nobody has frozen
WIDER = add(QUILL, site="hackmd", host="hackmd.io", entry="https://hackmd.io/new", group="later")


def new_sweep(suite: Suite, *sites: str, number: int = 0, mode: str = "dry") -> NewSweep:
    request = Request(plan="c8", n=1, sites=sites, boxes=None)
    sweep = prepare(request, datetime(2026, 11, 30, tzinfo=UTC), Random(number), "anna@mini-3").sweep
    tasks = {task.site: task for task in suite.tasks}
    runs = tuple(replace(run, task=tasks.get(run.site, run.task)) for run in sweep.runs)
    return replace(sweep, mode=mode, runs=runs)


@pytest.fixture
def plan(engine: sa.Engine) -> Plan:
    """Plan a sweep of this suite, as the command does; its id."""
    numbers = iter(range(1000))

    def do(suite: Suite, *sites: str, source: SearchedSource | None = None, mode: str = "dry") -> str:
        sweep = new_sweep(suite, *sites, number=next(numbers), mode=mode)
        with begin(engine) as connection:
            if mode != "live":  # the tables refuse that one by themselves
                create_sweep(connection, sweep)
            admit_frozen(connection, sweep, suite, source)
        return sweep.id

    return do


@pytest.fixture
def freeze(engine: sa.Engine) -> Callable[..., None]:
    """Freeze this suite at 21a08c23, as the command does."""

    def do(suite: Suite, reason: str | None = None) -> None:
        with begin(engine) as connection:
            known = read_known(connection, suite)
            for one in plan_freezes(suite, known, reason=reason, revision="21a08c23", by="anna@mini-3"):
                for each in one.writes:
                    save_freeze(connection, each)

    return do


def count_rows(engine: sa.Engine) -> tuple[int, ...]:
    """Sweeps, runs, freezes, uses."""
    with begin(engine) as connection:
        return tuple(
            int(connection.scalar(sa.text(f"select count(*) from {table}")) or 0)
            for table in ("sweeps", "site_runs", "freezes", "freeze_uses")
        )


def test_the_first_plan_takes_over_the_old_groups_with_their_dates_and_revisions(engine: sa.Engine, plan: Plan) -> None:
    sweep = plan(HOLDOUT, source=SOURCE)
    with begin(engine) as connection:
        rows, uses = read_freezes(connection), read_uses(connection)
    assert tuple(row.freeze for row in rows) == load_freezes()
    assert [row.uses for row in rows] == [1, 1, 1]
    assert [(use.sweep, use.freeze.group, use.number, use.source) for use in uses] == [
        (sweep, "first", 1, SOURCE),
        (sweep, "anonymous", 1, SOURCE),
        (sweep, "editors", 1, SOURCE),
    ]


def test_each_sweep_is_a_use_of_the_groups_that_it_has_sites_of(engine: sa.Engine, plan: Plan) -> None:
    plan(HOLDOUT)
    plan(HOLDOUT, "quill", "bsky")
    third = plan(HOLDOUT, "quill")
    with begin(engine) as connection:
        assert {row.freeze.group: row.uses for row in read_freezes(connection)} == {
            "first": 2,
            "anonymous": 1,
            "editors": 3,
        }
        assert [(use.freeze.group, use.number) for use in read_uses(connection, sweep_id=third)] == [("editors", 3)]


def test_a_retirement_that_comes_later_changes_no_freeze(engine: sa.Engine, plan: Plan) -> None:
    plan(HOLDOUT)
    retired = next(task.retired for task in HOLDOUT.tasks if task.retired)
    plan(change("quill", retired=retired))
    assert count_rows(engine)[2:] == (3, 6)


@pytest.mark.parametrize("is_on_record", [False, True])
@pytest.mark.parametrize(
    ("suite", "says"),
    [
        (
            change("quill", prompt=QUILL.prompt + "."),
            r"group 'editors' changed after it was frozen on 2026-08-04:\s+task 'quill', prompt: was \"Go to .*, is \"",
        ),
        (change("quill", path_rule="^/p"), r"task 'quill', path_rule: was \"\^/\", is \"\^/p\""),
        (replace(HOLDOUT, tasks=tuple(task for task in HOLDOUT.tasks if task is not QUILL)), "task 'quill' is gone"),
        (add(QUILL, site="hackmd", host="hackmd.io", entry="https://hackmd.io/new"), "task 'hackmd' is new"),
        (
            replace(HOLDOUT, tasks=tuple(task for task in HOLDOUT.tasks if task.group != "editors")),
            "'editors' changed after it was frozen on 2026-08-04:\n  task 'ckeditor' is gone",
        ),
        (change("quill", group="first"), "group 'first' changed .*\n  task 'quill' is new"),
        (WIDER, "the holdout group 'later' is not frozen"),
        (
            change("quill", host="old.reddit.com"),
            r"old\.reddit\.com of holdout site 'quill' stands in the suite 'known'",
        ),
        (change("bsky", host="google.com"), r"google\.com of holdout site 'bsky' stands in the suite 'anon'"),
    ],
)
def test_a_holdout_that_is_not_as_it_was_frozen_is_refused_and_nothing_is_written(
    engine: sa.Engine, plan: Plan, *, suite: Suite, says: str, is_on_record: bool
) -> None:
    if is_on_record:
        plan(HOLDOUT, "quill")
    before = count_rows(engine)
    with pytest.raises(UsageError, match=says) as caught:
        plan(suite, "bsky")
    assert caught.value.hint
    assert count_rows(engine) == before


THAWED = replace(HOLDOUT, is_frozen=False, tasks=tuple(replace(task, group="") for task in HOLDOUT.tasks))


@pytest.mark.parametrize(("committed", "where"), [(True, "in broker/freezes.toml"), (False, "on this farm's record")])
def test_a_suite_that_was_frozen_once_is_frozen_whatever_its_file_says(
    engine: sa.Engine, plan: Plan, monkeypatch: pytest.MonkeyPatch, *, committed: bool, where: str
) -> None:
    if not committed:
        plan(HOLDOUT, "quill")
        monkeypatch.setattr("scheduler.admission.load_freezes", tuple)
    before = count_rows(engine)
    with pytest.raises(UsageError, match=f"'holdout' has freezes {where}, and its file does not say") as caught:
        plan(THAWED, "quill")
    assert "restore broker/suites/holdout.toml" in str(caught.value.hint)
    with begin(engine) as connection, pytest.raises(UsageError, match=where):
        preview_frozen(connection, new_sweep(THAWED, "quill"), THAWED)
    assert count_rows(engine) == before
    assert search_hosts(THAWED, None) is None


def test_a_thawed_suite_is_searched_for_and_judged_without_a_record_too(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"has freezes in broker/freezes\.toml"):
        preview_frozen(None, new_sweep(THAWED, "quill"), THAWED)
    with pytest.raises(UsageError, match="is no checkout of git's"):
        search_hosts(THAWED, tmp_path)


def test_a_live_plan_of_the_holdout_is_refused(engine: sa.Engine, plan: Plan) -> None:
    with pytest.raises(UsageError, match="the holdout is never run live"):
        plan(HOLDOUT, mode="live")
    assert count_rows(engine) == (0, 0, 0, 0)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("frozen_at", datetime(2026, 8, 3, tzinfo=UTC)),
        ("product_revision", "1508e03d"),
        ("frozen_by", "somebody"),
        ("taken_over", False),
        ("sha256", "0" * 64),
    ],
)
def test_a_row_that_disagrees_with_the_committed_freeze_is_refused(
    engine: sa.Engine, plan: Plan, name: str, value: Any
) -> None:
    with begin(engine) as connection:
        save_freeze(connection, replace(load_freezes()[0], **{name: value}))
    with pytest.raises(UsageError, match=rf"'first' is frozen otherwise .* broker/freezes.toml: {name} is"):
        plan(HOLDOUT)
    assert count_rows(engine) == (0, 0, 1, 0)


def later(**fields: Any) -> Freeze:
    tasks = freeze_tasks([WIDER.tasks[-1]])
    values: dict[str, Any] = {"frozen_at": datetime.now(UTC), "product_revision": "21a08c23", "frozen_by": "anna"}
    return Freeze(
        suite="holdout", group="later", sha256=hash_tasks(tasks), taken_over=False, tasks=tasks, **values | fields
    )


FOLLOWS: dict[str, Any] = {"follows": "editors", "reason": "moved"}


def test_a_group_whose_freeze_is_still_to_come_is_refused(engine: sa.Engine, plan: Plan) -> None:
    with begin(engine) as connection:
        save_freeze(connection, later(frozen_at=datetime.now(UTC) + timedelta(days=1)))
    with pytest.raises(UsageError, match="its first run would be older than its freeze"):
        plan(WIDER)


def run_once(
    engine: sa.Engine, *, suite: str, task: dict[str, Any], site: str, kind: str = "dry", minutes: int = -60
) -> None:
    """A site was run an hour ago, in a sweep of this suite; or so many minutes from now."""
    statement = """
        with s as (insert into sweeps (id, plan, suite, suite_sha256, mode, trials, requested_by)
            values ('old-1', 'old', :suite, '', 'dry', 1, 'me') returning id),
        r as (insert into site_runs (sweep_id, arm, site, trial, order_key, kind, task, state)
            select id, 'default', :site, 1, 1, :kind, cast(:task as jsonb), 'closed' from s returning id)
        insert into attempts (run_id, number, nonce, payload, state, started_at)
            select id, 1, 'n', '', 'graded', now() + make_interval(mins => :minutes) from r"""
    with begin(engine) as connection:
        values = {"suite": suite, "site": site, "kind": kind, "task": json.dumps(task), "minutes": minutes}
        connection.execute(sa.text(statement), values)


@pytest.mark.parametrize(
    ("suite", "site", "host", "kind", "says"),
    [
        ("holdout", "hackmd", "hackmd.io", "dry", "site 'hackmd' was run at .* in sweep old-1"),
        ("holdout", "hackmd", None, "imported", "site 'hackmd' was imported at .* in sweep old-1"),
        ("quick", "notes", "hackmd.io", "dry", "site 'hackmd' was run at"),
        ("quick", "notes", "api.hackmd.io", "dry", "site 'hackmd' was run at"),
    ],
)
def test_a_group_with_a_site_that_was_run_before_it_was_frozen_is_refused(
    engine: sa.Engine,
    plan: Plan,
    freeze: Callable[..., None],
    *,
    suite: str,
    site: str,
    host: str | None,
    kind: str,
    says: str,
) -> None:
    with begin(engine) as connection:
        save_freeze(connection, later())
    run_once(engine, suite=suite, site=site, task={"host": host} if host else {}, kind=kind)
    with pytest.raises(UsageError, match=says) as caught:
        plan(WIDER, "quill")
    assert "frozen before its first run" in caught.value.message
    with pytest.raises(UsageError, match=says):
        freeze(replace(WIDER, tasks=(*HOLDOUT.tasks, replace(WIDER.tasks[-1], group="latest"))), reason="another name")


def test_runs_of_other_sites_and_of_hosts_that_only_look_alike_are_in_nobodys_way(
    engine: sa.Engine, plan: Plan
) -> None:
    with begin(engine) as connection:
        save_freeze(connection, later())
    run_once(engine, suite="quick", site="hackmd", task={"host": "myhackmd.io"})
    plan(WIDER, "quill")


def test_a_host_that_was_run_does_not_enter_behind_the_name_of_a_site_that_was_frozen_before(
    engine: sa.Engine, plan: Plan, freeze: Callable[..., None]
) -> None:
    plan(HOLDOUT)
    run_once(engine, suite="quick", site="notes", task={"host": "hackmd.io"})
    moved = change("quill", host="hackmd.io", entry="https://hackmd.io/new")
    with pytest.raises(UsageError, match=r"site 'quill' was run at .* on hackmd\.io or below it"):
        freeze(moved, reason="the playground moved")
    with begin(engine) as connection:
        tasks = freeze_tasks(task for task in moved.tasks if task.group == "editors")
        save_freeze(connection, replace(later(), group="editors-2", tasks=tasks, sha256=hash_tasks(tasks), **FOLLOWS))
    with pytest.raises(UsageError, match=r"site 'quill' was run at .* its group 'editors' was frozen at"):
        plan(moved)


def test_a_site_that_was_run_as_it_was_frozen_may_move_to_a_host_that_nobody_ran(
    engine: sa.Engine, plan: Plan, freeze: Callable[..., None]
) -> None:
    plan(HOLDOUT)
    run_once(engine, suite="holdout", site="quill", task={"host": QUILL.host})
    moved = change("quill", host="hackmd.io", entry="https://hackmd.io/new")
    freeze(moved, reason="the playground moved")
    plan(moved)


def test_a_site_that_was_run_before_is_taken_out_with_a_reason_and_then_nothing_is_in_the_way(
    engine: sa.Engine, plan: Plan, freeze: Callable[..., None]
) -> None:
    with begin(engine) as connection:
        save_freeze(connection, later())
    run_once(engine, suite="quick", site="notes", task={"host": "hackmd.io"})
    with pytest.raises(UsageError, match="was run at") as caught:
        plan(WIDER, "quill")
    assert str(caught.value.hint).endswith(
        "take it out of the suite's file, and freeze the group anew with --reason TEXT"
    )
    freeze(HOLDOUT, reason="hackmd was known")
    plan(HOLDOUT, "quill")
    with pytest.raises(UsageError, match="was run at"):
        freeze(WIDER, reason="and comes back")


@pytest.mark.parametrize("minutes", [-60, 60])
def test_an_imported_attempt_counts_as_one_of_before_however_late_it_was_imported(
    engine: sa.Engine, plan: Plan, minutes: int
) -> None:
    with begin(engine) as connection:
        save_freeze(connection, later())
    run_once(engine, suite="holdout", site="hackmd", task={}, kind="imported", minutes=minutes)
    with pytest.raises(UsageError, match="when it was run is not known, so it counts as before; its group 'later'"):
        plan(WIDER, "quill")


def test_imported_rows_of_a_site_that_was_taken_over_belong_to_its_freeze(
    engine: sa.Engine, plan: Plan, freeze: Callable[..., None]
) -> None:
    run_once(engine, suite="holdout", site="quill", task={}, kind="imported")
    plan(HOLDOUT)
    moved = change("quill", host="hackmd.io", entry="https://hackmd.io/new")
    freeze(moved, reason="the playground moved")
    plan(moved)


def test_a_changed_group_is_begun_anew_with_a_reason_and_its_uses_are_counted_from_one(
    engine: sa.Engine, plan: Plan, freeze: Callable[..., None]
) -> None:
    plan(HOLDOUT)
    plan(HOLDOUT)
    moved = change("quill", entry="https://quilljs.com/play")
    with pytest.raises(UsageError, match="task 'quill', entry"):
        freeze(moved)
    freeze(moved, reason="the playground moved")
    sweep = plan(moved)
    with begin(engine) as connection:
        uses = read_uses(connection, sweep_id=sweep)
    assert [(use.freeze.group, use.number, use.freeze.follows, use.freeze.reason) for use in uses] == [
        ("first", 3, None, None),
        ("anonymous", 3, None, None),
        ("editors-2", 1, "editors", "the playground moved"),
    ]
    with pytest.raises(UsageError, match=r"group 'editors-2' changed .*\n  task 'quill', entry"):
        plan(HOLDOUT)
    again = change("quill", entry="https://quilljs.com/played")
    freeze(again, reason="and moved again")
    with begin(engine) as connection:
        tip = read_freezes(connection)[-1].freeze
    assert (tip.group, tip.follows) == ("editors-3", "editors-2")


def test_a_group_may_leave_the_holdout_with_a_reason(
    engine: sa.Engine, plan: Plan, freeze: Callable[..., None]
) -> None:
    plan(HOLDOUT)
    without = replace(HOLDOUT, tasks=tuple(task for task in HOLDOUT.tasks if task.group != "editors"))
    freeze(without, reason="all of them are built against by now")
    plan(without, "bsky")
    with begin(engine) as connection:
        assert read_freezes(connection)[-1].freeze.tasks == ()


def test_two_planners_at_once_write_each_freeze_once_and_count_every_use(engine: sa.Engine, plan: Plan) -> None:
    with ThreadPoolExecutor(6) as pool:
        sweeps = [done.result(60) for done in [pool.submit(plan, HOLDOUT) for _ in range(6)]]
    with begin(engine) as connection:
        uses = read_uses(connection, suite="holdout")
    assert count_rows(engine)[2:] == (3, 18)
    assert len(set(sweeps)) == 6
    for group in ("first", "anonymous", "editors"):
        assert [use.number for use in uses if use.freeze.group == group] == [1, 2, 3, 4, 5, 6]


def test_what_is_on_record_reads_back_as_it_was_frozen(engine: sa.Engine) -> None:
    odd = later(frozen_by="ännä 🪶", product_revision="21a08c23+changes")
    with begin(engine) as connection:
        save_freeze(connection, odd)
        assert [row.freeze for row in read_freezes(connection, "holdout")] == [odd]
        assert asdict(read_freezes(connection)[0].freeze) == asdict(odd)
