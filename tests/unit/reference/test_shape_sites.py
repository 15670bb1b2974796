"""The sites of the shapes suite, as their folders describe them."""

from __future__ import annotations

from broker.suites import load_suite
from broker.suites.vocabulary import EditorShape
from infra.reference.sites.catalogue import load_sites

SITES = {site.name: site for site in load_sites() if site.name.startswith("shape-")}


def test_every_shape_has_one_site_under_the_host_of_its_task() -> None:
    tasks = {task.site: task for task in load_suite("shapes").tasks}
    assert {task.editor_shape for task in tasks.values()} == set(EditorShape)
    assert {name: site.host for name, site in SITES.items()} == {name: task.host for name, task in tasks.items()}


def test_a_right_run_on_a_shape_is_ok_at_the_address_that_it_was_given() -> None:
    assert {site.truth.bucket for site in SITES.values()} == {"ok"}
    assert all(site.truth.surface.search("/") and not site.truth.surface.search("/other") for site in SITES.values())
