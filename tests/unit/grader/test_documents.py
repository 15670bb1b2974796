"""The reference pages name what there is, and nothing that is not."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

from broker.freezes import SearchedSource
from broker.types import Bucket
from grader.criteria import Cell, Comparison, Reading, RetiredSite, SweepFacts
from grader.criteria.cells import SkillTally
from grader.criteria.shift import compare_buckets
from grader.ledger import GroupUse
from grader.marker_check import CheckState, MarkerCheck
from grader.marker_page import render_page
from grader.markers import load_catalogue
from grader.printed import Place
from grader.rules import RULE_BOX_LOST, RULE_GRADING_FAILED, RULE_UNREADABLE, RULES
from grader.scorecard import SCORECARD_SCHEMA, Breakdown, ClaimByPage, Exclusion, Miss, Scorecard, Tally
from grader.verify import State

REFERENCE = Path(__file__).resolve().parents[3] / "docs" / "reference"


def test_every_bucket_and_every_rule_has_its_entry_in_order() -> None:
    page = (REFERENCE / "buckets.md").read_text()
    buckets, rules = page.split("## Rules, in order")
    assert re.findall(r"^\| \w+ \| `(\w+)` \|", buckets, re.MULTILINE) == [bucket.value for bucket in Bucket]
    assert re.findall(r"^\| `(\w+)` \|", rules, re.MULTILINE) == [rule.__name__ for rule in RULES]
    assert [name for name in (RULE_BOX_LOST, RULE_UNREADABLE, RULE_GRADING_FAILED) if f"`{name}`" not in rules] == []


def test_every_name_of_the_json_form_is_documented() -> None:
    page = (REFERENCE / "scorecard-json.md").read_text()
    types = (Scorecard, SweepFacts, Cell, Reading, Tally, Exclusion, Miss, ClaimByPage, Breakdown)
    more = (Comparison, RetiredSite, SkillTally, GroupUse, SearchedSource)
    names = {field.name for shape in (*types, *more) for field in dataclasses.fields(shape)}
    names |= set(compare_buckets([], []))
    assert {name for name in names if f"`{name}`" not in page} == set()
    assert f"| `schema` | {SCORECARD_SCHEMA} |" in page


def test_the_page_of_markers_is_what_the_catalogue_makes() -> None:
    assert (REFERENCE / "markers.md").read_text("utf-8") == render_page(load_catalogue())


def test_every_name_of_a_check_of_markers_is_documented() -> None:
    page = (REFERENCE / "verify.md").read_text("utf-8")
    scorecard = (REFERENCE / "scorecard-json.md").read_text("utf-8")
    assert {name.name for name in dataclasses.fields(MarkerCheck) if f"`{name.name}`" not in scorecard} == set()
    assert {state.value for state in (*CheckState, *State) if f"`{state.value}`" not in page + scorecard} == set()
    assert {place.value for place in Place if place.value not in page} == set()
