"""Texts of others, as they may stand on a terminal. Pure."""

from __future__ import annotations


def clean(text: str) -> str:
    """The text on one line, without anything that a terminal would obey."""
    return "".join(sign if sign.isprintable() else " " for sign in text)
