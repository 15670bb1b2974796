"""`bv3-grade verify` as a user runs it: what it says, what it stores, what the scorecard makes of that."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from broker.errors import DatabaseError
from broker.store.engine import begin
from broker.store.marker_checks import NewMarkerCheck, find_latest, save_check
from grader.markers import Origin, load_catalogue
from grader.storing import grade_pending, keep_record

Command = Callable[..., Any]
MARKERS = load_catalogue().markers
TOTAL = len(MARKERS)
# no source can prove the listing's row: its words are too few
PROVEN = TOTAL - 1
VALUE = re.compile(r"(?<!\{)\{(?!\{)[^{}]*\}")


@pytest.fixture
def product(tmp_path: Path) -> Path:
    """A folder whose files print every marker as the catalogue has it."""
    root = tmp_path / "product"
    for marker in MARKERS:
        if marker.origin in {Origin.SOURCE, Origin.REPLY}:
            path = root / "backend" / "apps" / (marker.source or "answers.py")
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a") as file:
                file.write(f"logger.info({VALUE.sub('%s', marker.template)!r}, *values)  # {marker.name}\n")
    return root


def _git(root: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", *identity, *arguments], cwd=root, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def checkout(product: Path) -> Path:
    """The same, committed."""
    _git(product, "init", "--quiet")
    _git(product, "add", ".")
    _git(product, "commit", "--quiet", "--message", "all lines")
    return product


def _break(root: Path, marker: str) -> None:
    path = next(path for path in root.rglob("*.py") if f"# {marker}\n" in path.read_text())
    path.write_text(
        "".join(
            line.swapcase() if line.endswith(f"# {marker}\n") else line
            for line in path.read_text().splitlines(keepends=True)
        )
    )


def _checks(engine: sa.Engine) -> list[sa.Row[Any]]:
    with begin(engine) as connection:
        query = "select product_revision, total, alive, facts, checked_by from marker_checks order by id"
        return list(connection.execute(sa.text(query)))


def test_a_product_that_prints_all_passes_and_is_stored_under_its_commit(
    engine: sa.Engine, checkout: Path, bv3_grade: Command
) -> None:
    done = bv3_grade("verify", "--source", str(checkout))
    head = _git(checkout, "rev-parse", "--short=8", "HEAD")
    assert done.code == 0, done.stderr
    assert f"markers {PROVEN}/{TOTAL} at {head}, 1 unproven\n" in done.stdout
    assert "stored as check 1\n" in done.stdout
    (row,) = _checks(engine)
    assert (row.product_revision, row.total, row.alive) == (head, TOTAL, PROVEN)
    assert list(row.facts["unproven"]) == ["reply_listed_value"]
    assert "@" in row.checked_by


def test_a_dead_marker_is_named_with_where_it_was_looked_for(
    engine: sa.Engine, checkout: Path, bv3_grade: Command
) -> None:
    _break(checkout, "ghost")
    done = bv3_grade("verify", "--source", str(checkout))
    assert done.code == 1
    said = " ".join(done.stdout.split())
    assert re.search(r"DEAD ghost in another case at backend/apps/browser_agent.py:\d+: '", said)
    assert re.search(rf"markers {PROVEN - 1}/{TOTAL} at [0-9a-f]{{8}}\+changes, 1 unproven, DEAD", said)
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert list(_checks(engine)[0].facts["dead"]) == ["ghost"]


def test_the_json_form_holds_every_marker_and_the_counts_of_the_logs(
    product: Path, tmp_path: Path, bv3_grade: Command
) -> None:
    by_name = {marker.name: marker for marker in MARKERS}
    lines = [by_name["ghost"].example, by_name["fill_errored"].example, "noise", by_name["ghost"].example]
    (tmp_path / "one.log").write_text("\n".join(lines))
    (tmp_path / "two.log").write_bytes(b"\xff\x00\x1b[2J" * 1000 + f"\n{by_name['ghost'].example}\r\n".encode())
    logs = [str(tmp_path / name) for name in ("one.log", "two.log")]
    options = [option for log in logs for option in ("--log", log)]
    done = bv3_grade("verify", "--source", str(product), "--revision", "r1", "--json", *options)
    told = json.loads(done.stdout)
    assert done.code == 0
    assert (told["total"], told["alive"], told["unproven"], told["state"], told["revision"], told["stored"]) == (
        TOTAL, PROVEN, 1, "verified", "r1", 1,
    )  # fmt: skip
    found = {one["name"]: one for one in told["markers"]}
    assert list(found) == [marker.name for marker in MARKERS]
    assert found["ghost"]["matched"] == 3
    assert found["reply_command_timeout"]["matched"] == 1
    assert found["api_retry"]["matched"] == 0
    assert "in no line of the logs" in found["api_retry"]["detail"]
    assert [(one["log"], one["matched"]["ghost"]) for one in told["logs"]] == [(logs[0], 2), (logs[1], 1)]


def test_a_log_is_read_piece_by_piece_with_lines_across_the_pieces(
    product: Path, tmp_path: Path, bv3_grade: Command
) -> None:
    line = next(marker.example for marker in MARKERS if marker.name == "ghost") + "\n"
    count = 9 * 2**20 // len(line)
    (tmp_path / "long.log").write_text(line * count)
    done = bv3_grade("verify", "--source", str(product), "--no-store", "--log", str(tmp_path / "long.log"), "--json")
    assert {one["name"]: one["matched"] for one in json.loads(done.stdout)["markers"]}["ghost"] == count


@pytest.mark.parametrize(
    ("arguments", "cause", "hint"),
    [
        ((), "error: either --source CHECKOUT or --reference", "hint: "),
        (("--source", "{tmp}/none", "--reference"), "error: either --source CHECKOUT or --reference", ""),
        (("--source", "{tmp}/none"), "none is no folder", "hint: --source CHECKOUT"),
        (("--source", "{tmp}/product"), "is no git checkout, so its revision is unknown", "--revision"),
        (("--source", "{tmp}/product", "--revision", " "), "names no revision", "21a08c23"),
        (("--source", "{tmp}/product", "--no-store", "--log", "{tmp}/none.log"), "can't read the log", ""),
        (("--source", "{tmp}/product", "--no-store", "--log", "{tmp}"), "can't read the log", ""),
    ],
)
def test_a_wrong_request_is_answered_with_its_cause(
    product: Path, tmp_path: Path, bv3_grade: Command, arguments: tuple[str, ...], cause: str, hint: str
) -> None:
    assert product.is_dir()
    done = bv3_grade("verify", *(argument.format(tmp=tmp_path) for argument in arguments))
    assert done.code == 2, done.stdout
    assert cause in done.stderr
    assert hint in done.stderr
    assert done.stdout == ""


def test_without_git_a_check_that_is_not_stored_needs_no_revision(
    engine: sa.Engine, product: Path, bv3_grade: Command
) -> None:
    done = bv3_grade("verify", "--source", str(product), "--no-store")
    assert done.code == 0, done.stderr
    assert "not stored" in done.stdout
    assert _checks(engine) == []


def test_a_folder_within_another_repository_is_not_named_after_its_commit(checkout: Path, bv3_grade: Command) -> None:
    done = bv3_grade("verify", "--source", str(checkout / "backend"))
    assert done.code == 2
    assert "no git checkout" in done.stderr


def test_files_that_can_not_be_read_are_named_and_nothing_outside_is(
    product: Path, tmp_path: Path, bv3_grade: Command
) -> None:
    apps = product / "backend" / "apps"
    words = "# an electron webview that is not found"
    (apps / "broken.py").write_text(f"def f(: {words}\n")
    (apps / "latin.py").write_bytes(b"x = '\xff' " + words.encode())
    (apps / "page.ts").write_bytes(b"const a = `\xff` " + words.encode())
    (tmp_path / "outside.py").write_text("print('outside')")
    (apps / "link.py").symlink_to(tmp_path / "outside.py")
    (apps / "linked").symlink_to(tmp_path)
    os.mkfifo(apps / "pipe.py")
    (apps / "huge.py").write_bytes(b"#" * (9 * 2**20))
    Path(os.fsdecode(os.fsencode(apps) + b"/\xff\x1b[2J\n")).mkdir()
    Path(os.fsdecode(os.fsencode(apps) + b"/\xff\x1b[2J\n/\xfe.py")).write_text(f"def f(: {words}\n")
    done = bv3_grade("verify", "--source", str(product), "--no-store", "--json")
    told = json.loads(done.stdout)
    unread = {Path(one["path"]).name: one["reason"] for one in told["unread"]}
    assert set(unread) == {"broken.py", "latin.py", "page.ts", "link.py", "pipe.py", "huge.py", "\\xfe.py"}
    assert "line 1" in unread["broken.py"]
    assert unread["huge.py"] == "larger than 8 MB"
    assert unread["link.py"] == "a symbolic link"
    assert unread["pipe.py"] == "not a regular file"
    text = bv3_grade("verify", "--source", str(product), "--no-store")
    assert text.code == 0
    assert "\x1b" not in text.stdout
    assert "broken.py: line 1" in text.stdout


def test_nothing_of_a_checkout_is_ever_run(checkout: Path, tmp_path: Path, bv3_grade: Command) -> None:
    trap = tmp_path / "trap"
    trap.write_text(f"#!/bin/sh\necho sprung >>{tmp_path}/sprung\n")
    trap.chmod(0o755)
    for name in ("core.fsmonitor", "core.pager", "filter.a=b.clean", "filter.plain.process", "filter.plain.clean"):
        _git(checkout, "config", name, str(trap))
    _git(checkout, "config", "filter.plain.required", "true")
    _git(checkout, "config", "core.hooksPath", str(tmp_path))
    trap.rename(tmp_path / "post-index-change")
    trap.symlink_to(tmp_path / "post-index-change")
    (checkout / ".gitattributes").write_text("*.py filter=plain\n*.md filter=a=b\n")
    module = checkout / "backend" / "apps" / "__init__.py"
    module.write_text(f"open({str(tmp_path / 'sprung')!r}, 'a').write('imported')\n")
    os.utime(checkout / "backend" / "apps" / "browser_agent.py", (1, 1))
    done = bv3_grade("verify", "--source", str(checkout))
    assert done.code == 0, done.stderr
    assert "+changes" in done.stdout
    assert not (tmp_path / "sprung").exists()


def test_the_reference_stack_lacks_markers_and_has_none_dead(engine: sa.Engine, bv3_grade: Command) -> None:
    done = bv3_grade("verify", "--reference", "--json")
    told = json.loads(done.stdout)
    assert done.code == 0, done.stderr
    assert told["state"] == "partial"
    states = {one["name"]: one["state"] for one in told["markers"]}
    assert {states[name] for name in ("dryrun_filled", "fill_target", "recovery_dispatch", "ghost")} == {"alive"}
    assert told["alive"] == sum(state == "alive" for state in states.values()) < TOTAL
    assert re.fullmatch("reference-[0-9a-f]{12}", told["revision"])
    (row,) = _checks(engine)
    assert (row.product_revision, row.alive) == (told["revision"], told["alive"])
    assert row.facts["dead"] == {}


def test_a_database_that_is_away_costs_the_row_and_not_the_result(product: Path, bv3_grade: Command) -> None:
    away = {"BV3_DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none"}
    done = bv3_grade("verify", "--source", str(product), "--revision", "r1", **away)
    assert done.code == DatabaseError.exit_code
    assert "not stored" in done.stdout
    assert "error: " in done.stderr


def _scorecard(bv3_grade: Command) -> tuple[str, dict[str, Any]]:
    text = " ".join(bv3_grade("scorecard", "last").stdout.split())
    return text, json.loads(bv3_grade("scorecard", "last", "--json").stdout)["markers"]


def test_the_latest_check_of_the_sweeps_revision_stands_on_its_scorecard(
    engine: sa.Engine,
    sweep: str,
    start_all: dict[str, Any],
    send: Callable[..., bytes],
    log_of: Callable[..., bytes],
    product: Path,
    bv3_grade: Command,
) -> None:
    attempt = start_all["x"]
    raw = send(attempt, log_of("x", "filled"), product_revision="21a08c23")
    keep_record(engine, box=attempt.box.name, attempt=attempt.attempt, raw=raw)
    grade_pending(engine)
    unverified = {"total": TOTAL, "alive": None, "unproven": 0, "revision": None, "state": "unverified"}
    text, told = _scorecard(bv3_grade)
    assert f"markers {TOTAL}, unverified" in text
    assert told == unverified

    assert bv3_grade("verify", "--source", str(product), "--revision", "another").code == 0
    assert _scorecard(bv3_grade)[1] == unverified

    assert bv3_grade("verify", "--source", str(product), "--revision", "21a08c23").code == 0
    text, told = _scorecard(bv3_grade)
    assert f"markers {PROVEN}/{TOTAL} at 21a08c23, 1 unproven" in text
    assert "DEAD" not in text
    assert told == {"total": TOTAL, "alive": PROVEN, "unproven": 1, "revision": "21a08c23", "state": "verified"}

    _break(product, "ghost")
    assert bv3_grade("verify", "--source", str(product), "--revision", "21a08c23").code == 1
    text, told = _scorecard(bv3_grade)
    assert f"markers {PROVEN - 1}/{TOTAL} at 21a08c23, 1 unproven, DEAD" in text
    assert told["state"] == "dead"

    attempt = start_all["reddit"]
    raw = send(attempt, log_of("reddit", "filled"), product_revision="22b19d34")
    keep_record(engine, box=attempt.box.name, attempt=attempt.attempt, raw=raw)
    grade_pending(engine)
    assert _scorecard(bv3_grade)[1] == unverified, "of two revisions neither is the sweep's"


def test_a_check_of_another_catalogue_is_none(engine: sa.Engine) -> None:
    def save(sha256: str, alive: int) -> int:
        with begin(engine) as connection:
            new = NewMarkerCheck(
                product_revision="r1",
                catalogue_sha256=sha256,
                total=9,
                alive=alive,
                facts={"dead": {}},
                checked_by="a@b",
            )
            return save_check(connection, new)

    assert save("a", 9) < save("a", 8)
    with begin(engine) as connection:
        latest = find_latest(connection, product_revision="r1", catalogue_sha256="a")
        assert find_latest(connection, product_revision="r1", catalogue_sha256="b") is None
        assert find_latest(connection, product_revision="r2", catalogue_sha256="a") is None
    assert latest is not None
    assert (latest.alive, latest.total, latest.checked_by) == (8, 9, "a@b")
