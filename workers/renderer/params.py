"""Reading a command's parameters, which anybody may have written."""

from collections.abc import Mapping
from typing import Any

from workers.renderer.errors import CommandError


def require_text(params: Mapping[str, Any], name: str) -> str:
    """A text parameter that must be there and not be empty.

    Raises:
        CommandError: it is missing.
    """
    value = params.get(name)
    if not isinstance(value, str) or not value:
        raise CommandError(f"{name} parameter is required")
    return value


def read_text(params: Mapping[str, Any], name: str) -> str:
    """A text parameter; empty when it is missing or no text."""
    value = params.get(name)
    return value if isinstance(value, str) else ""


def read_number(params: Mapping[str, Any], name: str, default: float, *, least: float, most: float) -> float:
    """A number between `least` and `most`; the default when it is missing or no number."""
    value = params.get(name, default)
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = default
    if number != number:  # noqa: PLR0124 - only NaN differs from itself
        number = default
    return min(max(number, least), most)
