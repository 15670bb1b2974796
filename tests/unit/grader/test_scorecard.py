"""What a scorecard may and may not say of a sweep."""

from __future__ import annotations

import dataclasses
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker.suites import load_suite
from broker.types import Bucket, Claim, Evidence, Family, Seen
from grader.criteria import Cell, Mark, SweepFacts
from grader.evidence import Timing
from grader.facts import AttemptRow
from grader.lines import percent
from grader.render import printable, render_scorecard, write_lines
from grader.scorecard import build_scorecard, to_json

Row = Callable[..., AttemptRow]
Sweep = Callable[..., SweepFacts]
SCREENS = Path(__file__).parent / "screens"
SITES = ("x", "linkedin", "reddit", "gmail", "youtube", "instagram", "tiktok", "substack", "twitch")


def _cell(number: int, sweep: SweepFacts, rows: list[AttemptRow]) -> Cell:
    return build_scorecard(sweep, rows).criteria[number - 1]


def _whole_sweep(row_of: Row, *, misses: int = 2, infra: int = 0) -> list[AttemptRow]:
    """108 runs: 36 excluded on evidence, the rest ok but for the misses and infra."""
    fast = {"timing": Timing(prestage_ms=410, other_ms=25, tier=0), "wall_ms": 2_400, "claim": Claim.FILLED}
    rows = []
    for number in range(108):
        site = SITES[number % 9]
        if site in {"gmail", "tiktok", "substack"}:
            row = row_of(number, Bucket.NOT_MEASURABLE, rule="password_form", facts={"evidence": Evidence.PROVEN})
        elif misses > 0:
            misses -= 1
            row = row_of(number, Bucket.PRODUCT_NO_COMPOSER, rule="declined", detail="decline: nothing")
        elif infra > 0:
            infra -= 1
            row = row_of(number, Bucket.INFRA_ROUTER, rule="no_provider")
        else:
            row = row_of(number, facts=fast | {"page": Seen.SEEN})
        rows.append(dataclasses.replace(row, site=site, trial=number // 9 + 1))
    return rows


def test_a_clean_sweep_of_the_known_suite_passes_what_a_dry_sweep_can_pass(row_of: Row, sweep_of: Sweep) -> None:
    cells = build_scorecard(sweep_of(108), _whole_sweep(row_of)).criteria
    assert [(cell.number, cell.mark, cell.proven) for cell in cells] == [
        (1, Mark.PASS, True),
        (2, Mark.OPEN, None),
        (3, Mark.OPEN, None),
        (4, Mark.OPEN, None),
        (5, Mark.PASS, True),
        (6, Mark.OPEN, None),
        (7, Mark.PASS, False),
        (8, Mark.OPEN, None),
        (9, Mark.OPEN, None),
    ]
    assert (cells[0].numerator, cells[0].denominator) == (70, 72)
    assert cells[6].hint == "191 more clean runs for 95%"
    assert all(cell.hint for cell in cells if cell.mark is Mark.OPEN)


def test_each_open_criterion_names_what_is_missing(row_of: Row, sweep_of: Sweep) -> None:
    cells = build_scorecard(sweep_of(108), _whole_sweep(row_of)).criteria
    for number, missing in ((2, "c2"), (3, "c2"), (4, "c2"), (6, "baseline"), (8, "c8"), (9, "c2")):
        assert missing in cells[number - 1].hint


def test_reach_below_its_target_fails(row_of: Row, sweep_of: Sweep) -> None:
    cell = _cell(1, sweep_of(108), _whole_sweep(row_of, misses=30))
    assert (cell.mark, cell.proven) == (Mark.FAIL, True)


def test_a_sweep_that_is_not_over_settles_nothing(row_of: Row, sweep_of: Sweep) -> None:
    rows = _whole_sweep(row_of)[:61]
    for sweep in (sweep_of(108, runs_closed=61, state="active"), sweep_of(61, ungraded=1)):
        cells = build_scorecard(sweep, rows).criteria
        assert {cell.mark for cell in cells} == {Mark.OPEN}
        assert "61 of" in cells[0].hint


def test_reach_on_some_sites_is_not_reach_on_the_suite(row_of: Row, sweep_of: Sweep) -> None:
    cell = _cell(1, sweep_of(3, sites=("x", "reddit", "gmail")), [row_of(number) for number in range(3)])
    assert (cell.mark, cell.value) == (Mark.OPEN, 1.0)
    assert "3 of the suite's 9 sites" in cell.hint


def test_nothing_measurable_has_no_rate(row_of: Row, sweep_of: Sweep) -> None:
    rows = [row_of(number, Bucket.NOT_MEASURABLE, facts={"evidence": Evidence.PROVEN}) for number in range(9)]
    card = build_scorecard(sweep_of(9), rows)
    assert card.criteria[0].value is None
    assert card.criteria[0].mark is Mark.OPEN
    lines = _text(render_scorecard(card, width=120, markers=93))
    first = next(line for line in lines if "composer reach" in line)
    assert "0%" not in first.replace("90%", "")
    assert " - " in first


def test_an_empty_sweep_has_a_scorecard(sweep_of: Sweep) -> None:
    card = build_scorecard(sweep_of(0, started_at=None, finished_at=None), [])
    assert {cell.mark for cell in card.criteria} == {Mark.OPEN}
    assert _text(render_scorecard(card, width=80, markers=93))


def test_one_false_success_fails_the_hard_gate_even_before_the_end(row_of: Row, sweep_of: Sweep) -> None:
    rows = [row_of(1, Bucket.PRODUCT_FALSE_SUCCESS, facts={"claim": Claim.SENT}), row_of(2)]
    cell = _cell(3, sweep_of(108, runs_closed=2), rows)
    assert (cell.mark, cell.numerator) == (Mark.FAIL, 1)


def test_a_breach_in_a_late_record_fails_the_hard_gate_and_enters_no_rate(row_of: Row, sweep_of: Sweep) -> None:
    card = build_scorecard(sweep_of(1, late_breaches=1), [row_of(1)])
    assert card.criteria[2].mark is Mark.FAIL
    assert card.tally.attempts == 1


def test_reach_is_printed_again_when_an_exclusion_rests_on_the_products_word(row_of: Row, sweep_of: Sweep) -> None:
    rows = [row_of(number) for number in range(9)]
    rows.append(row_of(9, Bucket.NOT_MEASURABLE, facts={"evidence": Evidence.UNVERIFIED}))
    rows.append(row_of(10, Bucket.PRODUCT_UNCONFIRMED, facts={"claim": Claim.FILLED}))
    cell = _cell(1, sweep_of(11), rows)
    assert (cell.numerator, cell.denominator) == (9, 10)
    assert [(also.numerator, also.denominator) for also in cell.also] == [(9, 11), (9, 9)]


def test_flake_needs_a_hundred_runs_and_counts_its_bound(row_of: Row, sweep_of: Sweep) -> None:
    few = [row_of(number) for number in range(54)]
    assert _cell(7, sweep_of(54), few).hint == "100 runs at least: 46 more"
    spoilt = _whole_sweep(row_of, misses=0, infra=2)
    cell = _cell(7, sweep_of(108), spoilt)
    assert (cell.mark, cell.numerator, cell.denominator) == (Mark.FAIL, 2, 108)
    one = _cell(7, sweep_of(108), _whole_sweep(row_of, misses=0, infra=1))
    assert (one.mark, one.proven) == (Mark.PASS, False)


def test_prestage_counts_tier_0_and_1_hits_alone(row_of: Row, sweep_of: Sweep) -> None:
    slow = [row_of(number, facts={"timing": Timing(prestage_ms=30_000, tier=None)}) for number in range(6)]
    fast = [row_of(number + 6, facts={"timing": Timing(prestage_ms=400, tier=number % 2)}) for number in range(6)]
    cell = _cell(5, sweep_of(12, sites=("x",), suite_sites=("x",)), slow + fast)
    assert (cell.value, cell.denominator, cell.mark, cell.proven) == (400, 6, Mark.PASS, True)


def test_fewer_than_six_prestage_times_settle_nothing(row_of: Row, sweep_of: Sweep) -> None:
    fast = {"timing": Timing(prestage_ms=400, tier=0)}
    cells = [_cell(5, sweep_of(count), [row_of(number, facts=fast) for number in range(count)]) for count in (1, 5)]
    assert {(cell.mark, cell.proven, cell.value) for cell in cells} == {(Mark.OPEN, None, 400)}
    assert [cell.hint for cell in cells] == ["6 values at least: 5 more", "6 values at least: 1 more"]


def test_rates_of_two_renderers_are_not_pooled(row_of: Row, sweep_of: Sweep) -> None:
    rows = [row_of(1), row_of(2, facts={"renderer": "electron"})]
    card = build_scorecard(sweep_of(2), rows)
    assert (card.criteria[0].value, card.criteria[0].mark, card.criteria[0].hint) == (None, Mark.OPEN, "not pooled")
    assert card.not_pooled == "renderer differs: electron, playwright"


def test_retries_stand_apart_from_first_attempts(row_of: Row, sweep_of: Sweep) -> None:
    rows = [row_of(1, Bucket.INFRA_ROUTER), row_of(1, attempt_no=2, attempt_id=2), row_of(3)]
    card = build_scorecard(sweep_of(2), rows)
    assert (card.first_attempts.attempts, card.first_attempts.infra, card.retries.ok) == (2, 1, 1)
    assert any("first attempts alone: 2" in line for line in _text(render_scorecard(card, width=100, markers=1)))


# --- how it looks


def _text(lines: Any) -> list[str]:
    out = io.StringIO()
    write_lines(lines, out, width=120)
    return out.getvalue().splitlines()


@pytest.mark.parametrize("width", [80, 100, 120])
def test_the_scorecard_fits_its_columns(row_of: Row, sweep_of: Sweep, width: int) -> None:
    lines = _text(render_scorecard(build_scorecard(sweep_of(108), _whole_sweep(row_of)), width=width, markers=93))
    assert [line for line in lines if len(line) > width] == []
    text = "\n".join(lines)
    assert "108 runs, 108 attempts (0 retries)" in text
    assert "70/72  97.2%" in text
    assert "191 more clean runs" in text


@pytest.mark.parametrize("width", [80, 120])
def test_the_scorecard_looks_like_this(row_of: Row, sweep_of: Sweep, width: int) -> None:
    seen: dict[str, Any] = {"renderer": "playwright", "lane": "stub", "product_revision": "reference-f0b6fb642fca"}
    shapes = {task.site: task.editor_shape for task in load_suite("known").tasks}
    rows = [
        dataclasses.replace(row, facts=dataclasses.replace(row.facts, **seen), editor_shape=shapes[row.site])
        for row in _whole_sweep(row_of)
    ]
    lines = _text(render_scorecard(build_scorecard(sweep_of(108), rows), width=width, markers=93))
    assert lines == (SCREENS / f"scorecard-{width}.txt").read_text("utf-8").splitlines()


def _every_bucket(row_of: Row, repeats: int) -> list[AttemptRow]:
    """So many attempts of each bucket on each site, slow ones, with long words about them."""
    shapes = {task.site: task.editor_shape for task in load_suite("known").tasks}
    detail = "decline: nothing editable on https://www.instagram.com/accounts/onetap/ after all that was tried there"
    buckets = [bucket for bucket in Bucket for _ in range(9)] * repeats
    return [
        dataclasses.replace(
            row_of(number, bucket, detail=detail, facts={"wall_ms": 12_700 + number, "claim": Claim.FILLED}),
            site=SITES[number % 9],
            editor_shape=shapes[SITES[number % 9]],
        )
        for number, bucket in enumerate(buckets)
    ]


@pytest.mark.parametrize("width", [80, 100, 120])
@pytest.mark.parametrize("repeats", [1, 300])
def test_every_bucket_of_a_large_sweep_has_its_place_and_no_word_is_broken(
    row_of: Row, sweep_of: Sweep, width: int, repeats: int
) -> None:
    rows = _every_bucket(row_of, repeats)
    lines = [
        line.text for line in render_scorecard(build_scorecard(sweep_of(len(rows)), rows), width=width, markers=93)
    ]
    assert max(map(len, lines)) <= width
    for title in ("site ", "editor shape ", "box "):
        at = next(number for number, line in enumerate(lines) if line.startswith(title))
        head, table = lines[at], lines[at + 1 : at + lines[at:].index("")]
        attempts, failed = head.index("attempts") + len("attempts"), head.index("failed")
        # every line of the table keeps to its columns: nothing of one reaches into the next
        assert {line[failed - 2 : failed].strip() for line in table} == {""}
        assert {line[head.index("attempts") - 2 : head.index("attempts")].strip() for line in table} == {""}
        assert all(line[attempts - 1].isdigit() for line in table if line[:1].strip())
        pieces = {word for line in table for word in line[failed:].replace(",", "").split() if not word.isdigit()}
        assert pieces <= {bucket.value.removeprefix("product_") for bucket in Bucket}
    words = set("\n".join(lines).replace("...", "").split())
    assert {word for row in rows for word in (*row.editor_shape.split(), *row.detail.split()[:5])} <= words


def test_the_scorecard_is_plain_ascii_where_nobody_looks_at_a_terminal(row_of: Row, sweep_of: Sweep) -> None:
    rows = _whole_sweep(row_of)
    rows[0] = dataclasses.replace(rows[0], detail="Schrei\u00dfe \x1b[31mrot\x1b[0m \u2028 \ud83d")
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors="strict", newline="\n")
    write_lines(render_scorecard(build_scorecard(sweep_of(108), rows), width=120, markers=93), out, width=120)
    out.seek(0)
    text = out.read()
    assert "\x1b" not in text
    assert "Schrei\\xdfe ?[31mrot?[0m ? ?" in text


@pytest.mark.parametrize(("share", "shown"), [(513 / 514, "99.8%"), (9_999 / 10_000, "99.9%"), (1 / 10_000, "0.1%")])
def test_a_rate_is_never_rounded_to_all_or_nothing(share: float, shown: str) -> None:
    assert percent(share) == shown


def test_nothing_that_a_terminal_acts_on_is_printed() -> None:
    assert printable("a\x1b]0;t\x07b\u202ec\x9b1m\r\n") == "a?]0;t?b?c?1m??"


def test_the_json_form_is_plain_json_and_holds_what_the_card_holds(row_of: Row, sweep_of: Sweep) -> None:
    card = build_scorecard(sweep_of(108), _whole_sweep(row_of))
    plain = json.loads(json.dumps(to_json(card), allow_nan=False))
    assert plain["schema"] == 2
    assert plain["sweep"]["started_at"] == "2026-11-29T22:00:03+00:00"
    assert [cell["mark"] for cell in plain["criteria"]] == [cell.mark for cell in card.criteria]
    families = [plain["tally"][family.value] for family in Family]
    assert sum(families) == plain["tally"]["attempts"] == 108


def test_shapes_that_are_never_reached_or_not_measured_are_named(row_of: Row, sweep_of: Sweep) -> None:
    """By site: the rows of a sweep before the words named their shapes in other ones."""
    shapes = {"a": "textarea", "b": "quill", "c": "trix", "d": "ace", "e": "Draft.js family"}
    sweep = sweep_of(5, suite="shapes", sites=("a", "b", "c"), suite_sites=tuple(shapes), suite_shapes=shapes)
    rows = [
        row_of(1, site="a", editor_shape="a plain box"),
        row_of(2, Bucket.PRODUCT_NO_COMPOSER, site="b", editor_shape="quill"),
        row_of(3, Bucket.NOT_MEASURABLE, site="c", editor_shape="trix", facts={"evidence": Evidence.PROVEN}),
    ]
    card = build_scorecard(sweep, rows)
    assert (card.shapes_unreached, card.shapes_empty) == (("quill",), ("Draft.js family", "ace", "trix"))
    lines = render_scorecard(card, width=80, markers=93)
    styles = {line.text.split("  ")[0]: line.style for line in lines}
    assert (styles["quill"], styles["trix"]) == ("bold red", "")
    text = [line.text for line in lines]
    assert text[text.index("never reached: quill") + 1] == "without a measurable run: Draft.js family, ace, trix"


def test_a_sweep_of_the_shapes_is_judged_at_its_own_plans_size_and_names_the_plans_it_is_not(
    row_of: Row, sweep_of: Sweep
) -> None:
    sites = ("a", "b")
    rows = [row_of(number, site=sites[number % 2]) for number in range(6)]
    cells = build_scorecard(sweep_of(6, suite="shapes", sites=sites, suite_sites=sites), rows).criteria
    assert [(cells[at].mark, cells[at].value) for at in (0, 7)] == [(Mark.OPEN, None)] * 2
    assert (cells[0].hint, cells[7].hint) == ("the known suite: bv3-schedule c7", "the frozen holdout: plan c8")
    assert not any("n=3 of" in cell.hint for cell in cells)
