"""Distributions with our packages' names exist: one of them installed beside us would take our place."""

import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", ["broker", "scheduler", "workers", "grader", "infra"])
def test_each_package_resolves_inside_the_repository(name: str) -> None:
    module = importlib.import_module(name)

    assert module.__file__ is not None
    assert Path(module.__file__).resolve() == ROOT / name / "__init__.py"
