"""Verdicts against the truth: every attempt is somewhere, and what is wrong is found and named."""

from __future__ import annotations

import ast
import json
import random
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker.errors import UsageError
from broker.types import Bucket, Evidence, EvidenceRef
from grader import evidence, rules
from grader.calibration import Witnessed, calibrate, read_truth, to_json
from grader.calibration_tables import render_calibration, write_markdown
from grader.evidence import Timing
from grader.facts import AttemptRow

ROOT = Path(__file__).parents[3]
SWEEP = "c7-20261129T220003Z-k3f9"
TABLE = ROOT / "docs" / "reference" / "calibration-table.md"

RowOf = Callable[..., AttemptRow]


def told(bucket: str = "ok", **changes: Any) -> bytes:
    values = {"fault": None, "bucket": bucket, "evidence": None, "total_ms": 236, "why": "", "site": "x"}
    return json.dumps(values | changes).encode()


@pytest.fixture
def witness(row_of: RowOf) -> Callable[..., Witnessed]:
    """An attempt of the reference stack with its truth, which is `ok` at 236 ms unless told otherwise."""

    def make(number: int, bucket: Bucket = Bucket.OK, truth: bytes | None = None, **changes: Any) -> Witnessed:
        sweep = changes.pop("sweep", SWEEP)
        facts = {"product_revision": "reference-1", "timing": Timing(total_ms=236), "faults": "all seed 7"}
        row = row_of(number, bucket, record_id=number, **changes | {"facts": facts | changes.pop("facts", {})})
        return Witnessed(sweep=sweep, row=row, truth=told(bucket.value) if truth is None else truth)

    return make


def mixed(witness: Callable[..., Witnessed]) -> list[Witnessed]:
    silent = witness(5)
    return [
        witness(1),
        witness(2, Bucket.INFRA_ROUTER, told("infra_router", fault="no_router")),
        witness(3, Bucket.OK, told("product_unverified_fill", fault="editor_doubles", why="the editor took it twice")),
        witness(
            4,
            Bucket.NOT_MEASURABLE,
            told("not_measurable", evidence="PROVEN", fault="page_login_redirect"),
            facts={"evidence": Evidence.PROVEN},
        ),
        Witnessed(sweep=silent.sweep, row=silent.row, truth=None),
        witness(6, truth=b"{half"),
    ]


def test_every_attempt_is_in_the_confusion_or_named_as_untold(witness: Callable[..., Witnessed]) -> None:
    done = calibrate([SWEEP], mixed(witness), ungraded=2)
    assert done.attempts == 6 == done.compared + len(done.untold)
    assert sum(done.confusion.values()) == 4 == sum(one.attempts for one in done.faults)
    assert [(one.row.name, one.why) for one in done.untold] == [
        ("x#5", "its record holds no truth"),
        ("x#6", "the truth is no JSON"),
    ]
    assert done.ungraded == 2
    assert done.mixes == {"all seed 7": 6}


def test_a_wrong_verdict_is_found_named_and_counted_for_its_fault(witness: Callable[..., Witnessed]) -> None:
    done = calibrate([SWEEP], mixed(witness))
    [wrong] = done.misgraded
    assert (wrong.row.name, wrong.truth.fault, wrong.differs) == ("x#3", "editor_doubles", ("bucket",))
    assert wrong.command == f"bv3-grade show {SWEEP} x#3"
    assert {one.fault: (one.attempts, one.misgraded) for one in done.faults} == {
        "none": (1, 0),
        "editor_doubles": (1, 1),
        "no_router": (1, 0),
        "page_login_redirect": (1, 0),
    }
    assert done.confusion[Bucket.PRODUCT_UNVERIFIED_FILL, Bucket.OK] == 1
    text = "\n".join(line.text for line in render_calibration(done))
    assert f"bv3-grade show {SWEEP} x#3" in text
    assert "product_unverified_fill is true, ok was judged, rule reached" in text
    assert "the editor took it twice" in text
    assert max(map(len, text.splitlines())) <= 80


def test_an_exclusion_on_the_wrong_evidence_and_a_neighbours_time_are_wrong_too(
    witness: Callable[..., Witnessed],
) -> None:
    done = calibrate(
        [SWEEP],
        [
            witness(
                1,
                Bucket.NOT_MEASURABLE,
                told("not_measurable", evidence="PROVEN"),
                facts={"evidence": Evidence.UNVERIFIED},
            ),
            witness(2, truth=told(total_ms=9_999, fault="metrics_leak")),
            witness(3, truth=told(total_ms=None)),
        ],
    )
    assert [one.differs for one in done.misgraded] == [("evidence",), ("total_ms",), ("total_ms",)]
    assert done.confusion == {
        (Bucket.OK, Bucket.OK): 2,
        (Bucket.NOT_MEASURABLE, Bucket.NOT_MEASURABLE): 1,
    }


def test_what_was_foretold_of_a_run_that_was_cut_off_is_no_truth_unless_the_fault_itself_ended_the_stack(
    witness: Callable[..., Witnessed],
) -> None:
    ahead = "written ahead: the renderer"
    done = calibrate(
        [SWEEP],
        [
            witness(1, Bucket.PRODUCT_TIMEOUT, told("product_fill_died", fault="editor_rejects", why=ahead)),
            witness(2, Bucket.OK, told("ok", fault="stale_skill", why=ahead)),
            witness(3, Bucket.INFRA_NO_RENDERER, told("infra_no_renderer", fault="renderer_killed", why=ahead)),
            witness(4, Bucket.OK, told("ok", fault="stale_skill", why="where the payload stands, not written ahead")),
        ],
    )
    why = "the run was cut off before its truth was known"
    assert [(one.row.name, one.why) for one in done.untold] == [("x#1", why), ("x#2", why)]
    assert (done.compared, done.misgraded) == (2, ())
    assert {one.fault: one.attempts for one in done.faults} == {"renderer_killed": 1, "stale_skill": 1}


def test_each_nature_that_a_run_met_is_counted_with_its_buckets(witness: Callable[..., Witnessed]) -> None:
    done = calibrate(
        [SWEEP],
        [
            witness(1, truth=told(natures=["ad_frames", "late_mount"])),
            witness(2, Bucket.PRODUCT_FILL_DIED, told("product_fill_died", natures=["late_mount"])),
            witness(3, Bucket.OK, told("product_wrong_surface", natures=["late_mount", "second_composer"])),
            witness(4, truth=told(total_ms=9, natures=["ad_frames"])),
            witness(5),
        ],
    )
    assert {one.nature: (one.attempts, one.misgraded) for one in done.natures} == {
        "ad_frames": (2, 1),
        "late_mount": (3, 1),
        "second_composer": (1, 1),
    }
    assert done.natures[1].buckets == {
        Bucket.OK: (1, 1),
        Bucket.PRODUCT_FILL_DIED: (1, 1),
        Bucket.PRODUCT_WRONG_SURFACE: (1, 0),
    }
    text = [line.text for line in render_calibration(done)]
    assert "  product_wrong_surface     agreed 0 of 1" in text
    assert "  natures late_mount second_composer" in text
    assert max(map(len, text)) <= 80
    page = write_markdown(done)
    assert "| `ad_frames` | 2 | 1 | `ok` 2 of 2 |" in page
    check_sums(read_page(page))
    assert to_json(done)["natures"][0] == {
        "nature": "ad_frames",
        "attempts": 2,
        "misgraded": 1,
        "buckets": [{"truth": "ok", "attempts": 2, "agreed": 2}],
    }
    assert to_json(done)["misgraded"][0]["natures"] == ["late_mount", "second_composer"]


def test_without_natures_nothing_is_said_of_them(witness: Callable[..., Witnessed]) -> None:
    done = calibrate([SWEEP], mixed(witness))
    assert done.natures == ()
    assert "nature" not in "\n".join(line.text for line in render_calibration(done))
    assert "Natures" not in write_markdown(done)


def test_the_order_of_attempts_and_sweeps_changes_nothing(witness: Callable[..., Witnessed]) -> None:
    other = "c7-20261129T220003Z-zzzz"
    attempts = [*mixed(witness), witness(1, sweep=other), witness(1, sweep=other, attempt_no=2)]
    once = calibrate([SWEEP, other], attempts)
    for seed in range(20):
        shuffled = random.Random(seed).sample(attempts, len(attempts))
        again = calibrate([other, SWEEP], shuffled)
        assert again == once
        assert list(to_json(again)["confusion"]) == list(to_json(once)["confusion"])


def test_several_sweeps_are_summed_only_when_stack_and_rules_were_the_same(
    witness: Callable[..., Witnessed],
) -> None:
    first, other = witness(1), "c7-20261129T220003Z-zzzz"
    assert calibrate([SWEEP, other], [first, witness(1, sweep=other)]).compared == 2
    with pytest.raises(UsageError, match=r"several product revisions: reference-1 .*, reference-2"):
        calibrate([SWEEP, other], [first, witness(1, sweep=other, facts={"product_revision": "reference-2"})])
    with pytest.raises(UsageError, match=r"several grader versions: 1 .*, 2"):
        calibrate([SWEEP, other], [first, witness(1, sweep=other, grader_version=2)])
    with pytest.raises(UsageError, match="named twice"):
        calibrate([SWEEP, SWEEP], [first])


def test_a_sweep_of_another_stack_and_one_without_any_truth_are_refused(
    witness: Callable[..., Witnessed], row_of: RowOf
) -> None:
    with pytest.raises(UsageError, match="ran on openswarm-0eccf09"):
        calibrate([SWEEP], [witness(1, facts={"product_revision": "openswarm-0eccf09"})])
    with pytest.raises(UsageError, match="no attempt that says what it ran on"):
        calibrate([SWEEP], [Witnessed(sweep=SWEEP, row=row_of(1, Bucket.INFRA_BOX_LOST), truth=None)])
    with pytest.raises(UsageError, match="no attempt has a truth"):
        calibrate([SWEEP], [witness(1, truth=b"")])


def test_a_lost_attempt_is_neither_right_nor_wrong(witness: Callable[..., Witnessed], row_of: RowOf) -> None:
    lost = Witnessed(sweep=SWEEP, row=row_of(2, Bucket.INFRA_BOX_LOST), truth=None)
    done = calibrate([SWEEP], [witness(1), lost])
    assert [(one.row.name, one.why) for one in done.untold] == [("x#2", "it left no record")]
    assert (done.compared, done.misgraded) == (1, ())


@pytest.mark.parametrize(
    ("stored", "why"),
    [
        (b"[]", "no JSON object"),
        (b"\xff", "no JSON"),
        (json.dumps({"fault": None, "bucket": "ok", "evidence": None}).encode(), "no total_ms"),
        (told("fine"), "names no bucket: 'fine'"),
        (told(bucket=None), "names no bucket: None"),  # type: ignore[arg-type]
        (told(bucket=[]), "names no bucket"),  # type: ignore[arg-type]
        (told(evidence="proven"), "no kind of evidence"),
        (told(total_ms="236"), "no whole number"),
        (told(total_ms=True), "no whole number"),
    ],
)
def test_a_truth_that_is_half_there_is_none(stored: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read_truth(stored)


def test_the_page_of_tables_sums_up(witness: Callable[..., Witnessed]) -> None:
    page = read_page(write_markdown(calibrate([SWEEP], mixed(witness))))
    assert page.numbers["attempts"] == 6
    assert page.numbers["misgraded"] == 1
    assert page.confusion[("product_unverified_fill", "ok")] == 1
    check_sums(page)


# --- the page that is committed


class Page:
    """The numbers of a written page, as a reader finds them."""

    def __init__(self, text: str) -> None:
        tables = [block.splitlines() for block in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)]
        head, faults, confusion = ([_cells(line) for line in table] for table in tables[:3])
        self.numbers = {name: int(value) for name, value in head if value.isdigit()}
        self.faults = {name: (int(attempts), int(wrong)) for name, attempts, wrong in faults[2:]}
        across = confusion[0][1:]
        self.confusion = {
            (row[0], verdict): int(count)
            for row in confusion[2:]
            for verdict, count in zip(across, row[1:], strict=True)
            if count
        }


def _cells(line: str) -> list[str]:
    return [cell.strip().strip("`") for cell in line.strip().strip("|").split("|")]


def read_page(text: str) -> Page:
    return Page(text)


def check_sums(page: Page) -> None:
    assert page.numbers["attempts"] == page.numbers["set against their truth"] + page.numbers["without a truth"]
    assert sum(page.confusion.values()) == page.numbers["set against their truth"]
    assert sum(attempts for attempts, _ in page.faults.values()) == page.numbers["set against their truth"]
    assert sum(wrong for _, wrong in page.faults.values()) == page.numbers["misgraded"]


@pytest.mark.skipif(not TABLE.exists(), reason="no calibration has been written yet")
def test_the_committed_table_holds_2000_runs_with_each_fault_20_times_and_nothing_misgraded() -> None:
    page = read_page(TABLE.read_text("utf-8"))
    check_sums(page)
    assert page.numbers["set against their truth"] >= 2_000
    assert page.numbers["misgraded"] == 0
    assert [pair for pair in page.confusion if pair[0] != pair[1]] == []
    command = [sys.executable, "-P", "-m", "infra.reference", "faults"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    names = [line.split()[0] for line in listed.splitlines() if line.strip()]
    assert len(names) > 25
    assert {name: page.faults.get(name) for name in names if page.faults.get(name, (0, 0))[0] < 20} == {}


# --- no rule sees the truth


def test_no_rule_and_no_case_reads_evidence_or_names_the_truth() -> None:
    sources = [Path(evidence.__file__), *Path(rules.__file__).parent.glob("*.py")]
    assert len(sources) > 5
    for path in sources:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            # the record lists what is stored beside it; nothing that judges may so much as ask for that
            if isinstance(node, ast.Attribute) and node.attr in {"evidence", "evidence_named"}:
                assert not ast.unparse(node.value).endswith("record"), f"{path.name}:{node.lineno}"
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                assert node.value != "truth", f"{path.name}:{node.lineno}"


@pytest.mark.parametrize("names", [("fill", "dryrun"), ("nothing",), ("no provider",)])
def test_a_truth_beside_the_record_changes_no_verdict(grade: Callable[..., Any], names: tuple[str, ...]) -> None:
    log = EvidenceRef(name="log", sha256="0" * 64, size=1, media_type="text/plain")
    verdicts = [
        grade(*names, evidence=(log, EvidenceRef(name="truth", sha256=sha256, size=1, media_type="application/json")))
        for sha256 in ("1" * 64, "2" * 64)
    ]
    assert verdicts[0] == verdicts[1] == grade(*names, evidence=(log,))
