"""The check of the markers as a process: what it says of the reference stack, of a checkout, and when it fails."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest

from broker.errors import StackError
from broker.markers import name_catalogue
from broker.types import Mode
from workers.stack.facts import StackFacts
from workers.verification import read_verification, start_verification

FACTS = StackFacts(
    mode=Mode.DRY, lane="stub", renderer="playwright", revision="reference-0a1b2c3d4e5f", tree_clean=None,
    checkout=None, backend_url="http://127.0.0.1:1", backend_port=1,
    backend_executable="/bin/false", backend_folder="/",
    backend_words=(), router_url="http://127.0.0.1:2", router_adopted=False, foreign_ports=(), token_file="/none",
    dashboard_id="d", audit_card="a", raw_card="r", log_file="/none", metrics_file="/none", truth_file=None, parts={},
)  # fmt: skip


def test_the_reference_stack_is_alive_under_the_revision_that_was_booted() -> None:
    process = start_verification(FACTS)
    process.wait(120)
    found = read_verification(process)
    assert found["product_revision"] == "reference-0a1b2c3d4e5f"
    assert found["catalogue_sha256"] == name_catalogue()
    assert 0 < found["alive"] <= found["total"]
    assert found["facts"]["dead"] == {}
    assert "@" in found["checked_by"]


def test_dead_markers_of_a_checkout_are_named(tmp_path: Path) -> None:
    (tmp_path / "backend").mkdir()
    (tmp_path / "backend" / "main.py").write_text("print('nothing that a grader looks for')\n")
    process = start_verification(dataclasses.replace(FACTS, checkout=str(tmp_path), revision="tree-0a1b"))
    process.wait(120)
    found = read_verification(process)
    assert found["product_revision"] == "tree-0a1b"
    assert "direct_dispatch" in found["facts"]["dead"]


def test_a_check_that_can_t_run_is_an_error_and_no_result(tmp_path: Path) -> None:
    process = start_verification(dataclasses.replace(FACTS, checkout=str(tmp_path / "nowhere")))
    process.wait(120)
    with pytest.raises(StackError, match=r"could not be checked.*nowhere"):
        read_verification(process)


def test_a_check_that_was_killed_is_an_error_and_no_result() -> None:
    process = start_verification(FACTS)
    process.kill()
    process.wait(30)
    with pytest.raises(StackError, match="ended with -9"):
        read_verification(process)


def test_only_a_verification_is_read() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as other, pytest.raises(TypeError):
        read_verification(other)
