"""Rows of the harness before bv3: taken whole or not at all, and each kind of fault in them is named."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker.types import Bucket, Claim, Evidence, Seen
from grader.import_findings import find_faults, summarise
from grader.import_report import MOST_BAD_LINES, Imported, bad_json, bad_lines, import_json, import_lines
from grader.importer import Reading, collect_old_facts, read_file, split_parts
from grader.importing import read_old_file

EXTRA = os.environ.get("BV3_EXTRA_DATA")
published = pytest.mark.skipif(EXTRA is None, reason="BV3_EXTRA_DATA names no folder of published rows")

OldLine = Callable[..., bytes]


@pytest.fixture
def old_line() -> OldLine:
    """One row as the old harness wrote it, with changes; its four times are like no other's."""
    written = 0

    def write(**changes: Any) -> bytes:
        nonlocal written
        written += 1
        plain: dict[str, Any] = {
            "site": "x",
            "trial": written,
            "bucket": "ok",
            "wall_s": 11.7,
            "detail": "'post' <- 'Post text' on https://x.com/compose/post",
            "composer": True,
            "submit": True,
            "total_ms": 726 + written,
            "llm_ms": 0,
            "tools_ms": 680,
            "other_ms": 46 + written,
            "turns": 1,
            "artifact": f"results/{written}.log",
        }
        plain |= changes
        return json.dumps({name: value for name, value in plain.items() if value is not ...}).encode()

    return write


@pytest.fixture
def fail(old_line: OldLine) -> Callable[..., bytes]:
    """A row in which nothing was reached."""
    return lambda **changes: old_line(**{"bucket": "product_no_composer", "composer": False, "submit": False} | changes)


def _read(*lines: bytes, sites: tuple[str, ...] | None = ("x", "reddit", "gmail")) -> Reading:
    return read_file(b"\n".join(lines), suite="known", sites=sites)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"wall_s": ..., "turns": ...}, "missing: wall_s, turns"),
        ({"site": "facebook"}, "site 'facebook' is not in the suite 'known'"),
        ({"site": "X "}, "site must be a site's id"),
        ({"site": 7}, "site must be a site's id"),
        ({"trial": 0}, "trial must be 1 to 100000"),
        ({"trial": -3}, "trial must be 1 to 100000"),
        ({"trial": 1.0}, "trial must be a whole number"),
        ({"trial": True}, "trial must be a whole number"),
        ({"bucket": "product_sulked"}, "bucket 'product_sulked' is none of the old harness's"),
        ({"bucket": "product_false_success"}, "is none of the old harness's"),
        ({"bucket": ["ok"]}, "is none of the old harness's"),
        ({"wall_s": None}, "wall_s must be a number"),
        ({"wall_s": "11.7"}, "wall_s must be a number"),
        ({"wall_s": -0.1}, "wall_s must be 0 to"),
        ({"wall_s": 10**400}, "wall_s must be 0 to"),
        ({"total_ms": -1}, "total_ms must be 0 to"),
        ({"llm_ms": 0.5}, "llm_ms must be a whole number"),
        ({"tools_ms": "680"}, "tools_ms must be a whole number"),
        ({"prestage_ms": -1}, "prestage_ms must be 0 to"),
        ({"turns": False}, "turns must be a whole number"),
        ({"composer": 1}, "composer must be true or false"),
        ({"submit": None}, "submit must be true or false"),
        ({"detail": None}, "detail must be a text"),
        ({"artifact": 3}, "artifact must be a text or null"),
        ({"trial": 0, "turns": -1}, "trial must be 1 to 100000; turns must be 0 to"),
        ({"grader_version": 1}, "a row that bv3 itself has exported"),
    ],
)
def test_a_row_that_says_what_no_row_can_is_a_bad_line(
    old_line: OldLine, changes: dict[str, Any], problem: str
) -> None:
    reading = _read(old_line(), b"", old_line(**changes), old_line())
    assert len(reading.rows) == 2
    assert [bad.line for bad in reading.bad] == [3], "empty lines are counted and are none"
    assert problem in reading.bad[0].problem


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"no json", "not JSON: Expecting value at column 1"),
        (b"[1]", "not an object"),
        (b'"x"', "not an object"),
        (b'{"site": "x", "site": "y"}', "says twice: site"),
        (b'{"wall_s": NaN}', "NaN is no value"),
        (b'{"wall_s": -Infinity}', "-Infinity is no value"),
        (b'{"site": "\xff"}', "not UTF-8 at byte 10"),
        (b"[" * 100_000, "not JSON that anybody could have meant"),
        (b'{"wall_s": ' + b"9" * 5_000 + b"}", "not JSON that anybody could have meant"),
        (b"\xef\xbb\xbf{}", "not JSON"),
    ],
)
def test_bytes_that_are_no_row_are_a_bad_line(old_line: OldLine, line: bytes, problem: str) -> None:
    reading = _read(old_line(), line)
    assert [bad.line for bad in reading.bad] == [2]
    assert problem in reading.bad[0].problem


def test_a_number_too_large_for_a_float_is_a_bad_line(old_line: OldLine) -> None:
    (bad,) = _read(old_line().replace(b"11.7", b"1e999")).bad
    assert bad.problem.startswith("wall_s must be 0 to")


def test_bad_lines_are_listed_by_number_up_to_a_limit_and_counted_beyond() -> None:
    bad = _read(*[b"{"] * (MOST_BAD_LINES + 3)).bad
    lines = list(bad_lines("rows.jsonl", bad))
    assert lines[0].startswith("rows.jsonl:1: not JSON")
    assert lines[-1] == "and 3 more bad lines"
    document = bad_json(bad)
    assert (document["imported"], document["bad"], len(document["bad_lines"])) == (False, 23, 20)


def test_a_site_is_any_where_the_suite_does_not_ship(old_line: OldLine) -> None:
    assert _read(old_line(site="rentry"), sites=None).bad == ()


def test_line_separators_of_unicode_and_carriage_returns_end_no_row(old_line: OldLine) -> None:
    line = old_line(detail="a b\u2028c\x0cd").replace(b"\\u2028", "\u2028".encode())
    reading = _read(line + b"\r", old_line())
    assert (len(reading.rows), reading.bad) == (2, ())
    assert reading.rows[0].raw == line


def test_a_trial_that_comes_again_starts_the_next_part_and_the_rows_from_there_belong_to_it(old_line: OldLine) -> None:
    runs = [("x", 1), ("reddit", 1), ("x", 2), ("x", 1), ("reddit", 2), ("gmail", 1), ("reddit", 2)]
    reading = _read(*(old_line(site=site, trial=trial) for site, trial in runs))
    parts = {part.name: [row.run for row in part.rows] for part in split_parts(reading.rows)}
    assert parts == {
        "part-1": ["x 1", "reddit 1", "x 2"],
        "part-2": ["x 1", "reddit 2", "gmail 1"],
        "part-3": ["reddit 2"],
    }


@pytest.mark.parametrize(
    ("detail", "evidence", "is_explained"),
    [
        ("NOT MEASURABLE: signed out, PROVEN (password field on https://substack.com/)", Evidence.PROVEN, True),
        ("NOT MEASURABLE: wall claimed, UNVERIFIED (no evidence for https://x.com/)", Evidence.UNVERIFIED, True),
        ("NOT MEASURABLE: wall claimed, UNVERIFIED (no evidence for PROVEN)", Evidence.UNVERIFIED, True),
        ("NOT MEASURABLE: wall claimed (page says PROVEN)", Evidence.UNVERIFIED, False),
        ("NOT MEASURABLE: UNPROVEN", Evidence.UNVERIFIED, False),
        ("", Evidence.UNVERIFIED, False),
    ],
)
def test_an_exclusion_rests_on_the_word_before_its_evidence_and_on_none_is_unverified(
    fail: OldLine, detail: str, evidence: Evidence, is_explained: bool
) -> None:
    (row,) = _read(fail(bucket="not_measurable", detail=detail)).rows
    assert (row.evidence, row.is_explained) == (evidence, is_explained)
    assert [found.line for found in find_faults([row]).unexplained] == ([] if is_explained else [1])
    assert summarise([row]).unverified == int(evidence is Evidence.UNVERIFIED)


def test_an_old_ok_is_the_old_harness_s_word_and_what_it_does_not_say_is_named(old_line: OldLine) -> None:
    (row,) = _read(old_line(detail="NUL \x00 and PROVEN", prestage_ms=90)).rows
    facts = collect_old_facts(row)
    assert (row.bucket, row.evidence) == (Bucket.OK, None)
    assert "\x00" not in row.detail
    assert (facts.claim, facts.page) == (Claim.NONE, Seen.COULD_NOT_LOOK)
    assert {"claim", "page", "surface"} <= set(facts.unknown)
    assert all(hasattr(facts, name) for name in facts.unknown)
    assert (facts.wall_ms, facts.submit, facts.mode, facts.timing.prestage_ms) == (11_700, True, None, 90)


def test_neighbours_with_the_same_timings_are_named_and_a_pair_with_a_row_between_apart_from_them(
    old_line: OldLine,
) -> None:
    same = {"total_ms": 726, "llm_ms": 0, "tools_ms": 680, "other_ms": 46}
    unknown = dict.fromkeys((*same, "turns"))
    rows = _read(
        old_line(**same),
        old_line(**same),
        old_line(**same, turns=2),
        old_line(**same),
        old_line(),
        old_line(),
        old_line(**same),
        old_line(**unknown),
        old_line(**unknown),
    ).rows
    found = find_faults(rows)
    assert [(pair.first.line, pair.second.line) for pair in found.neighbours] == [(1, 2)]
    assert [(pair.first.line, pair.second.line) for pair in found.apart] == [(2, 4)]


def test_three_rows_in_a_row_with_the_same_timings_are_two_pairs_of_neighbours(old_line: OldLine) -> None:
    same = {"total_ms": 726, "llm_ms": 0, "tools_ms": 680, "other_ms": 46}
    found = find_faults(_read(*(old_line(**same) for _ in range(3))).rows)
    assert [(pair.first.line, pair.second.line) for pair in found.neighbours] == [(1, 2), (2, 3)]
    assert found.apart == ()


def test_an_artifact_that_is_named_again_was_overwritten(old_line: OldLine) -> None:
    names = ["a.log", "b.log", "a.log", None, None, "a.log"]
    found = find_faults(_read(*(old_line(artifact=name) for name in names)).rows)
    assert [(one.artifact, [row.line for row in one.rows]) for one in found.overwritten] == [("a.log", [1, 3, 6])]


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"total_ms": 726, "tools_ms": 680, "other_ms": 49}, "other 49 ms is not total - llm - tools = 46 ms"),
        ({"total_ms": 726, "tools_ms": 680, "other_ms": 48}, None),
        ({"total_ms": 726, "tools_ms": 900, "other_ms": 0}, None),
        ({"wall_s": 1.1, "total_ms": 1300, "other_ms": 620}, "wall 1.1 s is shorter than total 1300 ms"),
        ({"wall_s": 1.2, "total_ms": 1300, "other_ms": 620}, None),
        ({"llm_ms": None}, "some of total, llm, tools and other are null and some are not"),
        ({"composer": False, "submit": False}, "composer is false in the bucket ok"),
        ({"composer": False, "bucket": "product_no_composer"}, "submit without a composer"),
        ({"bucket": "infra_router"}, "composer is true in the bucket infra_router"),
    ],
)
def test_values_that_can_not_all_be_true_are_named(
    old_line: OldLine, changes: dict[str, Any], problem: str | None
) -> None:
    rows = _read(old_line(), old_line(**changes)).rows
    found = [(one.row.line, one.problem) for one in find_faults(rows).impossible]
    assert found == ([] if problem is None else [(2, problem)])


def test_fields_that_nobody_reads_are_named_with_how_many_rows_have_them(old_line: OldLine) -> None:
    found = find_faults(_read(old_line(note="a", lane="b"), old_line(note="c"), old_line(task_ms=4)).rows)
    assert found.unread == {"lane": 1, "note": 2}


def test_rates_have_their_counts_and_one_without_a_measurable_row_is_a_dash(fail: OldLine, old_line: OldLine) -> None:
    def told(*lines: bytes) -> str:
        rows = _read(*lines).rows
        done = Imported(
            sweep="s",
            suite="known",
            sha256="",
            summary=summarise(rows),
            parts=split_parts(rows),
            findings=find_faults(rows),
        )
        json.dumps(import_json(done), allow_nan=False)
        return "\n".join(import_lines(done, width=80))

    excluded = fail(bucket="not_measurable", detail="UNVERIFIED")
    alone = told(excluded)
    assert "known 1 row: reach -, not measurable 1, infra 0/1 = 0.0%" in alone
    assert "medians over ok rows: wall -, total -, llm -, tools -, other -" in alone
    assert "nothing that shows" in alone
    both = told(*(old_line() for _ in range(1_999)), fail(), fail(bucket="infra_router"), excluded)
    assert "reach 1999/2000 = 99.9%, not measurable 1, infra 1/2002 = 0.1%" in both, "never 100% by rounding"
    assert "with the 1 UNVERIFIED exclusions as misses: reach 1999/2001 = 99.9%" in both


@published
def test_the_published_known_rows_are_what_they_are_known_to_be() -> None:
    assert EXTRA is not None
    file = read_old_file(Path(EXTRA) / "seed_known_raw.jsonl", "known")
    summary, found = summarise(file.rows), find_faults(file.rows)
    assert (file.bad, len(file.rows)) == ((), 158)
    assert (summary.ok, summary.measured, summary.not_measurable, summary.infra) == (93, 102, 49, 7)
    assert summary.medians == {"wall_s": 12.7, "total_ms": 1211, "llm_ms": 0, "tools_ms": 1046, "other_ms": 25}
    assert [(part.name, len(part.rows)) for part in file.parts] == [("part-1", 60), ("part-2", 98)]
    assert [(pair.first.run, pair.second.run) for pair in found.neighbours] == [
        ("x 1", "linkedin 1"),
        ("linkedin 3", "reddit 3"),
        ("linkedin 6", "reddit 6"),
        ("substack 10", "twitch 10"),
    ]
    assert [(pair.first.run, pair.second.run) for pair in found.apart] == [("twitch 3", "linkedin 4")]
    assert len(found.overwritten) == 60
    assert (found.impossible, found.unexplained, found.unread) == ((), (), {})
    assert {row.evidence for row in file.rows if row.bucket is Bucket.NOT_MEASURABLE} == set(Evidence)
    done = Imported(sweep="s", suite="known", sha256=file.sha256, summary=summary, parts=file.parts, findings=found)
    told = "\n".join(import_lines(done, width=120))
    assert "known 158 rows: reach 93/102 = 91.2%, not measurable 49, infra 7/158 = 4.4%" in told
    assert "medians over ok rows: wall 12.7 s, total 1211 ms, llm 0 ms, tools 1046 ms, other 25 ms" in told
    assert "4 pairs of neighbours with the same timings: x 1 / linkedin 1 (lines 1, 2), linkedin 3 / reddit 3" in told
    assert "1 pair with a row between and the same timings: twitch 3 / linkedin 4" in told
    assert "60 artifacts named more than once" in told
    assert told.count("results/") == 60


@published
def test_the_published_holdout_rows_are_what_they_are_known_to_be() -> None:
    assert EXTRA is not None
    file = read_old_file(Path(EXTRA) / "seed_holdout_raw.jsonl", "holdout")
    summary, found = summarise(file.rows), find_faults(file.rows)
    assert (file.bad, len(file.rows), summary.ok, summary.measured) == ((), 20, 13, 15)
    assert (found.neighbours, found.apart, found.overwritten, found.impossible) == ((), (), (), ())


def test_sites_of_another_suite_are_no_rows_of_this_one(old_line: OldLine, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"\n".join((old_line(site="bsky"), old_line(site="x"))))
    file = read_old_file(path, "holdout")
    assert [(one.line, one.problem) for one in file.bad] == [(2, "site 'x' is not in the suite 'holdout'")]


def test_of_a_suite_that_nobody_knows_the_sites_of_another_are_no_rows(old_line: OldLine, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"\n".join((old_line(site="example"), old_line(site="x"))))
    file = read_old_file(path, "mine")
    assert [(one.line, one.problem) for one in file.bad] == [(2, "site 'x' is one of the suite 'known'")]


def test_a_line_with_thousands_of_keys_is_told_in_one_short_problem() -> None:
    keys = ",".join(f'"k{number % 19_999}":1' for number in range(20_000)) + "".join(
        f',"t{number}":1,"t{number}":2' for number in range(50)
    )
    (bad,) = _read(b"{" + keys.encode() + b"}").bad
    assert bad.problem.startswith("says twice: k0, t0, t1")
    assert len(bad.problem) < 200
