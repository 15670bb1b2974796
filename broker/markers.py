"""One pattern of the catalogue, for those who look for nothing else; `grader.markers` compiles them all."""

from __future__ import annotations

import hashlib
import tomllib
from functools import cache
from importlib.resources import files


def read_catalogue() -> str:
    """The catalogue that ships with bv3, as TOML."""
    return files("broker").joinpath("markers.toml").read_text("utf-8")


def hash_catalogue(text: str) -> str:
    """The SHA-256 of a catalogue's text: a check of another one says nothing of this."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


@cache
def name_catalogue() -> str:
    """The SHA-256 of the catalogue that this process judges by."""
    return hash_catalogue(read_catalogue())


@cache
def read_pattern(name: str) -> str:
    """The pattern of this marker. Raises KeyError when the catalogue has none of this name."""
    patterns = {entry["name"]: str(entry["pattern"]) for entry in tomllib.loads(read_catalogue())["marker"]}
    return patterns[name]
