"""JSON for the values of `broker.types`, with a schema number, strict in what it reads."""

from __future__ import annotations

import dataclasses
import json
import re
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from broker.errors import CodecError
from broker.types import RECORD_SCHEMA

T = TypeVar("T")

_REPLACEMENT = "�"
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def clean_text(text: str) -> tuple[str, bool]:
    """`text` without NUL and lone surrogates (each becomes U+FFFD), and whether anything was replaced.

    PostgreSQL refuses both, and a record that can't be stored is an attempt lost (faults.md 20).
    """
    if text.isascii() and "\0" not in text:
        # nearly every text, at a fifth of the cost
        return text, False
    cleaned = _UNSTORABLE.sub(_REPLACEMENT, text)
    return cleaned, cleaned != text


_adapters: dict[Any, TypeAdapter[Any]] = {}


def _adapter(cls: type[T]) -> TypeAdapter[T]:
    # building one takes 10 ms, far more than reading a message
    if cls not in _adapters:
        _adapters[cls] = TypeAdapter(cls)
    return _adapters[cls]


def to_json(value: Any) -> dict[str, Any]:
    """The dataclass as plain JSON values."""
    plain: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(value), allow_nan=False))
    return plain


def encode(value: Any) -> bytes:
    """The dataclass as compact JSON bytes, ASCII only, keys sorted, so that equal values have equal hashes.

    Raises CodecError for NaN and infinities, which JSON has no word for.
    """
    try:
        return json.dumps(dataclasses.asdict(value), allow_nan=False, sort_keys=True, separators=(",", ":")).encode(
            "ascii"
        )
    except ValueError as error:
        raise CodecError(f"{type(value).__name__} can't be written as JSON: {error}") from error


def from_json(cls: type[T], plain: Any) -> T:
    """The value of `cls` that these JSON values describe. Raises CodecError naming the first bad field."""
    if isinstance(plain, dict) and plain.get("schema", RECORD_SCHEMA) != RECORD_SCHEMA:
        raise CodecError(f"{cls.__name__} has schema {plain.get('schema')!r}, this code reads {RECORD_SCHEMA}")
    try:
        value: T = _adapter(cls).validate_python(plain)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "(whole)"
        raise CodecError(f"{cls.__name__}.{where}: {first['msg']}") from error
    return value


def decode(cls: type[T], data: bytes) -> T:
    """The value of `cls` in these JSON bytes. Raises CodecError for anything else."""
    try:
        plain = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise CodecError(f"{cls.__name__}: not JSON: {error}") from error
    return from_json(cls, plain)
