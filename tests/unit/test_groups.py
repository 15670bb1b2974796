"""Tests of one group must not run side by side: a farm's figures would be those of two farms."""

from __future__ import annotations

import os

import pytest


@pytest.mark.xdist_group("example")
def test_group_of_a_test_is_seen_by_the_scheduler(request: pytest.FixtureRequest) -> None:
    if "PYTEST_XDIST_WORKER" not in os.environ or not getattr(request.config.option, "loadgroup", False):
        pytest.skip("one process runs all tests, there is nothing to schedule")
    assert request.node.nodeid.endswith("@example")
