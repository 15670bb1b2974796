"""Texts as a reader sees them, whatever an editor has made of them. Pure."""

from __future__ import annotations

import re
import unicodedata

_DOUBLE_QUOTES = "\u201c\u201d\u201e\u201f\u00ab\u00bb"
_SINGLE_QUOTES = "\u2018\u2019\u201a\u201b"
# What editors make of straight quotes, dots and hyphens while one types.
_TYPOGRAPHY = str.maketrans(
    dict.fromkeys(_DOUBLE_QUOTES, '"') | dict.fromkeys(_SINGLE_QUOTES, "'") | {"\u2026": "...", "\u2014": "--"}
)
# What editors put into empty or edited text, and nobody typed.
_INVISIBLE = re.compile("[\u200b-\u200f\u2060-\u2064\ufeff\u00ad]")


def normalise(text: str) -> str:
    """The text as a reader sees it: one space for any white space, straight quotes, nothing invisible."""
    plain = _INVISIBLE.sub("", unicodedata.normalize("NFC", text)).translate(_TYPOGRAPHY)
    return " ".join(plain.split())


def count_payload(text: str, payload: str) -> int:
    """How often the text holds the payload, both normalised."""
    wanted = normalise(payload)
    return normalise(text).count(wanted) if wanted else 0
