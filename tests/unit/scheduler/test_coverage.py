"""Shapes without a site and shapes without a measurable run are named, and never taken for one another."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker.suites import load_suite, suite_names
from broker.suites.vocabulary import EditorShape
from broker.types import Retirement
from scheduler.coverage import cover_shapes, siteless, unmeasured

KNOWN, HOLDOUT = load_suite("known"), load_suite("holdout")


def test_the_four_suites_have_a_site_of_every_shape() -> None:
    coverage = cover_shapes([load_suite(name) for name in suite_names()], {})
    assert [one.shape for one in coverage] == list(EditorShape)
    assert siteless(coverage) == ()
    assert unmeasured(coverage) == tuple(EditorShape)


def test_runs_are_summed_over_the_sites_of_a_shape_in_its_own_suite() -> None:
    measured = {("known", "reddit", "textarea"): 12, ("known", "instagram", "textarea"): 5, ("known", "x", "draft"): 0}
    # of another suite, and of what the site had before
    measured |= {("holdout", "reddit", "textarea"): 99, ("known", "reddit", "lexical"): 3}
    covered = {one.shape: one for one in cover_shapes([KNOWN], measured)}
    assert (covered["textarea"].sites, covered["textarea"].runs) == (("reddit", "instagram"), 17)
    assert "textarea" not in unmeasured([*covered.values()])
    assert covered["lexical"].runs == 3
    assert "draft" in unmeasured([*covered.values()])
    assert "tiptap" in siteless([*covered.values()])


def test_a_retired_site_covers_nothing() -> None:
    gone = Retirement(date="2026-11-30", evidence="the host is dead")
    suite = replace(KNOWN, tasks=tuple(replace(task, retired=gone) for task in KNOWN.tasks))
    assert siteless(cover_shapes([suite], {("known", "x", "draft"): 7})) == tuple(EditorShape)
    textareas = next(one for one in cover_shapes([HOLDOUT], None) if one.shape == "textarea")
    assert not {"dpaste", "txti"} & set(textareas.sites)


@pytest.mark.parametrize("name", suite_names())
def test_without_a_farm_no_shape_is_called_unmeasured(name: str) -> None:
    coverage = cover_shapes([load_suite(name)], None)
    assert {one.runs for one in coverage} == {None}
    assert unmeasured(coverage) == ()
