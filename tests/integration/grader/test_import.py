"""Rows of the harness before bv3 as a sweep that is over: harmless to whatever looks at sweeps."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from broker.errors import UsageError
from broker.store import dispatching, grading, losing
from broker.store.engine import begin
from broker.store.progress import read_progress
from broker.store.sweeps import find_sweep, has_active_sweep, list_sweeps, order
from broker.types import Bucket, Family
from grader.importing import name_import, read_old_file, save_old_file
from grader.reading import read_attempts
from grader.storing import grade_pending
from scheduler import cli as scheduler_cli

Grade = Callable[..., Any]
TABLES = ("sweeps", "site_runs", "attempts", "records", "verdicts")


def _line(site: str, trial: int, bucket: str = "ok", **changes: Any) -> dict[str, Any]:
    is_ok = bucket == "ok"
    return {
        "site": site,
        "trial": trial,
        "bucket": bucket,
        "wall_s": 11.7,
        "detail": "as it was",
        "composer": is_ok,
        "submit": is_ok,
        "total_ms": 700 + trial,
        "llm_ms": 0,
        "tools_ms": 700,
        "other_ms": trial,
        "turns": 1,
        "artifact": f"results/{site}_{trial}.log",
    } | changes


ROWS = (
    _line("x", 1),
    _line("reddit", 1, "product_no_composer"),
    _line("gmail", 1, "not_measurable", detail="signed out, PROVEN (sign-in URL)"),
    _line("x", 2, "infra_router", total_ms=None, llm_ms=None, tools_ms=None, other_ms=None, turns=None),
    _line("x", 1, "product_wrong_surface"),
)


@pytest.fixture
def old_file(tmp_path: Path) -> Path:
    """Five rows, the last of which starts a second part."""
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in ROWS))
    return path


@pytest.fixture
def imported(old_file: Path, bv3_grade: Grade) -> str:
    """The id of the sweep that those rows are."""
    done = bv3_grade("import", str(old_file), "--suite", "known", "--json")
    assert (done.code, done.stderr) == (0, "")
    sweep: str = json.loads(done.stdout)["sweep"]
    return sweep


def _count_all(engine: sa.Engine) -> dict[str, int]:
    with begin(engine) as connection:
        return {table: int(connection.scalar(sa.text(f"select count(*) from {table}")) or 0) for table in TABLES}


def test_each_row_is_a_closed_run_with_a_verdict_of_rule_imported_and_its_line_is_kept(
    engine: sa.Engine, imported: str
) -> None:
    with begin(engine) as connection:
        sweep = find_sweep(connection, imported)
        rows, ungraded = read_attempts(connection, sweep)
        raw = [bytes(one) for one in connection.scalars(sa.text("select raw from records order by id"))]
        kinds = set(connection.execute(sa.text("select kind, state, closed_at is not null from site_runs")).all())
    assert (sweep.plan, sweep.suite, sweep.mode, sweep.state, sweep.trials) == ("import", "known", "dry", "finished", 2)
    assert sweep.finished_at is not None
    assert [tuple(kind) for kind in kinds] == [("imported", "closed", True)]
    assert ungraded == 0
    assert [(row.arm, row.name, row.bucket.value) for row in rows] == [
        ("part-1", "x#1", "ok"),
        ("part-1", "reddit#1", "product_no_composer"),
        ("part-1", "gmail#1", "not_measurable"),
        ("part-1", "x#2", "infra_router"),
        ("part-2", "x#1", "product_wrong_surface"),
    ]
    assert {(row.rule, row.grader_version, row.box, row.attempt_no) for row in rows} == {("imported", 0, "", 1)}
    assert {(row.started_at, row.finished_at) for row in rows} == {(None, None)}, "when they ran is not known"
    assert [json.loads(line) for line in raw] == list(ROWS)
    assert rows[0].facts.timing.total_ms == 701
    assert rows[0].editor_shape
    assert rows[3].facts.timing.total_ms is None


def test_its_scorecard_counts_the_rows(imported: str, bv3_grade: Grade) -> None:
    done = bv3_grade("scorecard", imported, "--json")
    card = json.loads(done.stdout)
    assert (done.code, done.stderr) == (0, "")
    tally = {family: card["tally"][family] for family in ("attempts", "ok", "product", "infra", "not_measurable")}
    assert tally == {"attempts": 5, "ok": 1, "product": 2, "infra": 1, "not_measurable": 1}
    assert card["boxes"] == []
    assert card["by_box"] == []
    assert {cell["attempts"] for cell in card["claim_by_page"]} == {0}, "what they claimed is not known"
    text = bv3_grade("scorecard", imported).stdout
    assert "not measurable, PROVEN by the old harness's word: gmail 1" in text
    assert "on evidence bv3 read" not in text


def test_show_and_export_say_what_is_not_known(imported: str, bv3_grade: Grade, tmp_path: Path) -> None:
    shown = bv3_grade("show", imported, "x#1")
    assert (shown.code, shown.stdout.count("nobody knows its claim, page,")) == (0, 2)
    assert "on no box of ours" in shown.stdout
    assert "the product claims" not in shown.stdout
    assert "bv3 read" not in shown.stdout
    out = tmp_path / "out.jsonl"
    assert bv3_grade("export", imported, "--out", str(out)).code == 0
    exported = [json.loads(line) for line in out.read_text().splitlines()]
    kept = (
        "site",
        "trial",
        "bucket",
        "wall_s",
        "detail",
        "submit",
        "total_ms",
        "llm_ms",
        "tools_ms",
        "other_ms",
        "turns",
    )
    assert [[row[name] for name in kept] for row in exported] == [[row[name] for name in kept] for row in ROWS]
    assert {row["artifact"] for row in exported} == {None}
    again = bv3_grade("import", str(out), "--suite", "known")
    assert (again.code, "out.jsonl:1: a row that bv3 itself has exported" in again.stderr) == (2, True)


def test_neither_grader_nor_dispatcher_picks_it_up(engine: sa.Engine, imported: str) -> None:
    before = _count_all(engine)
    assert grade_pending(engine, max_tries=None).graded == 0
    with begin(engine) as connection:
        assert dispatching.read_board(connection, planned_limit=9).planned == ()
        assert dispatching.settle_graded(connection) == 0
        assert dispatching.finish_sweeps(connection) == ()
        assert not dispatching.needs_grading(connection)
        assert losing.read_unreported(connection) == frozenset()
        assert not has_active_sweep(connection)
        progress = read_progress(connection, imported, 0)
    assert _count_all(engine) == before
    assert (progress.state, progress.total, progress.over, progress.ungraded) == ("finished", 5, 5, 0)
    assert progress.families == {Family.OK: 1, Family.PRODUCT: 2, Family.INFRA: 1, Family.NOT_MEASURABLE: 1}


@pytest.mark.parametrize("what", ["pause", "resume", "cancel"])
def test_it_takes_no_order(engine: sa.Engine, imported: str, what: Any) -> None:
    with pytest.raises(UsageError, match="was imported"), begin(engine) as connection:
        order(connection, imported, what, "by hand")


@pytest.mark.parametrize(("words", "code"), [("list", 0), ("status", 0), ("follow", 0), ("resume", 2), ("cancel", 2)])
def test_the_scheduler_s_commands_bear_it(
    imported: str,
    words: str,
    code: int,
    database: str,
    valkey: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BV3_DATABASE_URL", database)
    monkeypatch.setenv("BV3_BROKER_URL", valkey)
    capsys.readouterr()
    assert scheduler_cli.run([words] if words == "list" else [words, imported]) == code
    printed = capsys.readouterr()
    if code:
        assert f"error: sweep {imported} was imported: " in printed.err
        assert "Traceback" not in printed.err
    elif words != "follow":
        assert imported in printed.out


def test_last_is_never_an_imported_sweep(engine: sa.Engine, sweep: str, imported: str) -> None:
    with begin(engine) as connection:
        assert [row.id for row in list_sweeps(connection, 9)] == [imported, sweep]
        assert find_sweep(connection, "last").id == sweep


def test_where_every_sweep_was_imported_last_is_none(imported: str, bv3_grade: Grade) -> None:
    done = bv3_grade("scorecard", "last")
    assert (done.code, "there is no sweep 'last': `last` is none that was imported" in done.stderr) == (2, True)


def test_the_same_file_is_taken_twice_only_when_asked_to(
    engine: sa.Engine, imported: str, old_file: Path, bv3_grade: Grade
) -> None:
    before = _count_all(engine)
    done = bv3_grade("import", str(old_file), "--suite", "known")
    assert done.code == 2
    assert f"the very same file was imported into known before, as {imported}" in done.stderr
    assert _count_all(engine) == before
    sites = {"anon": ("deepl", "regex101", "w3schools"), "holdout": ("rentry", "quill", "txti")}
    for suite, names in sites.items():
        strange, text = old_file.with_name(f"{suite}.jsonl"), old_file.read_text()
        for old, new in zip(("x", "reddit", "gmail"), names, strict=True):
            text = text.replace(f'"site": "{old}"', f'"site": "{new}"')
        strange.write_text(text)
        other = bv3_grade("import", str(strange), "--suite", suite, "--name", suite)
        assert (other.code, f"-{suite}: verdicts of rule imported" in other.stdout) == (0, True)
    again = bv3_grade("import", str(old_file), "--suite", "known", "--again")
    assert again.code == 0
    assert _count_all(engine) == {name: 4 * count for name, count in before.items()}


def test_one_bad_line_and_nothing_is_taken(engine: sa.Engine, old_file: Path, bv3_grade: Grade) -> None:
    with old_file.open("a") as file:
        file.write('{"site": "x"}\nno json\n')
    done = bv3_grade("import", str(old_file), "--suite", "known")
    assert (done.code, done.stdout) == (2, "")
    assert "rows.jsonl:6: missing: trial" in done.stderr
    assert "rows.jsonl:7: not JSON" in done.stderr
    assert "2 bad lines" in done.stderr
    machine = bv3_grade("import", str(old_file), "--suite", "known", "--json")
    assert machine.code == 2
    assert [bad["line"] for bad in json.loads(machine.stdout)["bad_lines"]] == [6, 7]
    assert _count_all(engine) == dict.fromkeys(TABLES, 0)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("nowhere.jsonl", "--suite", "known"), "does not exist"),
        (("ROWS", "--suite", "knwon"), "'knwon' is not one of"),
        (("ROWS",), "Missing option '--suite'"),
        (("ROWS", "--suite", "known", "--name", "A b"), "'A b' can't end an id"),
        (("EMPTY", "--suite", "known"), "holds no rows"),
    ],
)
def test_a_wrong_request_is_told_its_cause(
    engine: sa.Engine, old_file: Path, bv3_grade: Grade, arguments: tuple[str, ...], said: str
) -> None:
    empty = old_file.with_name("empty.jsonl")
    empty.write_bytes(b"\n\r\n")
    files = {"ROWS": str(old_file), "EMPTY": str(empty)}
    done = bv3_grade("import", *(files.get(word, word) for word in arguments))
    assert (done.code, said in done.stderr) == (2, True)
    assert "Traceback" not in done.stderr
    assert _count_all(engine) == dict.fromkeys(TABLES, 0)


def test_an_id_that_is_taken_is_refused(engine: sa.Engine, old_file: Path) -> None:
    file = read_old_file(old_file, "known")
    sweep_id = name_import(datetime(2026, 11, 29, 22, 0, 3, tzinfo=UTC), Random(1), "seed")
    assert sweep_id == "import-20261129T220003Z-seed"
    with begin(engine) as connection:
        save_old_file(connection, file, sweep_id=sweep_id, requested_by="test", again=False)
    with pytest.raises(UsageError, match="already"), begin(engine) as connection:
        save_old_file(connection, file, sweep_id=sweep_id, requested_by="test", again=True)


def test_a_regrade_of_imported_rows_is_refused(engine: sa.Engine, imported: str, bv3_grade: Grade) -> None:
    before = _count_all(engine)
    done = bv3_grade("regrade", imported, "--adopt")
    assert (done.code, "its evidence is gone" in done.stderr) == (2, True)
    assert _count_all(engine) == before


def test_a_box_can_send_no_record_for_an_imported_attempt(engine: sa.Engine, imported: str, make_box: Any) -> None:
    box = make_box("box-a")
    with begin(engine) as connection:
        attempt = connection.scalar(sa.text("select max(id) from attempts"))
        saved = grading.save_record(connection, box=box.name, attempt=attempt, raw=b"{}", record=None)
    assert saved.status == "unknown"


_values = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20))
_rows = st.builds(
    lambda base, changes: {**base, **changes},
    st.sampled_from(ROWS),
    st.dictionaries(st.sampled_from([*ROWS[0], "prestage_ms", "note", "\x00\ud800"]), _values, max_size=2),
)
_lines = st.one_of(
    st.sampled_from(ROWS).map(lambda row: json.dumps(row).encode()),
    _rows.map(lambda row: json.dumps(row).encode()),
    _rows.map(lambda row: json.dumps(row, ensure_ascii=False).encode("utf-8", "surrogatepass")),
    st.binary(max_size=60),
)


@pytest.fixture
def old_bytes(tmp_path: Path) -> Callable[[bytes], Path]:
    """A file with these bytes."""
    path = tmp_path / "any.jsonl"

    def write(data: bytes) -> Path:
        path.write_bytes(data)
        return path

    return write


@given(data=st.one_of(st.binary(max_size=200), st.lists(_lines, max_size=6).map(b"\n".join)))
@settings(
    max_examples=int(os.environ.get("HYPOTHESIS_EXAMPLES", "60")),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_any_bytes_are_taken_whole_or_not_at_all(
    engine: sa.Engine, old_bytes: Callable[[bytes], Path], bv3_grade: Grade, data: bytes
) -> None:
    before = _count_all(engine)
    done = bv3_grade("import", str(old_bytes(data)), "--suite", "known", "--again", "--json")
    after = _count_all(engine)
    document: dict[str, Any] = json.loads(done.stdout) if done.stdout else {}
    if done.code == 0:
        rows = document["rows"]
        assert rows == sum(bool(line.strip()) for line in data.split(b"\n"))
        assert {name: after[name] - before[name] for name in TABLES} == {
            name: 1 if name == "sweeps" else rows for name in TABLES
        }
        with begin(engine) as connection:
            buckets = connection.scalars(
                sa.text(
                    "select v.bucket from verdicts v join attempts a on a.id = v.attempt_id"
                    " join site_runs r on r.id = a.run_id where r.sweep_id = :id"
                ),
                {"id": document["sweep"]},
            )
            families = [Bucket(bucket).family for bucket in buckets]
        assert families.count(Family.OK) == document["ok"]
        assert families.count(Family.INFRA) == document["infra"]
        assert families.count(Family.NOT_MEASURABLE) == document["not_measurable"]
        assert len(families) == document["measured"] + document["infra"] + document["not_measurable"]
    else:
        assert done.code == 2
        assert after == before
        assert "Traceback" not in done.stderr
        assert not document or document["bad"] >= len(document["bad_lines"]) > 0
