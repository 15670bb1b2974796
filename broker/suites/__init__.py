"""Suites: named, versioned lists of site tasks, one TOML file each."""

from broker.suites.loader import Suite, load_suite, load_suite_file, suite_names

__all__ = ["Suite", "load_suite", "load_suite_file", "suite_names"]
