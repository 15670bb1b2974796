"""Every key of a box file is explained: beside it in a new file, and in the reference."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from workers.boxfile import BoxFile
from workers.boxkeys import EXAMPLES, WORDS

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "reference" / "box-file.md"


def list_fields() -> dict[str, FieldInfo]:
    """Every key of the schema, dotted."""
    fields: dict[str, FieldInfo] = {}
    for name, field in BoxFile.model_fields.items():
        table = field.annotation
        if isinstance(table, type) and issubclass(table, BaseModel):
            fields |= {f"{name}.{key}": inner for key, inner in table.model_fields.items()}
        else:
            fields[name] = field
    return fields


def read_document() -> dict[str, tuple[str, str]]:
    """Default and words of each key in the reference's table."""
    rows = re.findall(r"^\| `\[?([a-z_.]+)\]?` \| ([^|]+) \| (.+) \|$", DOCUMENT.read_text("utf-8"), re.MULTILINE)
    return {key: (default, words) for key, default, words in rows}


def test_the_reference_has_every_key_and_no_other() -> None:
    assert read_document().keys() == list_fields().keys() == WORDS.keys()


@pytest.mark.parametrize("key", list_fields())
def test_the_reference_says_of_a_key_what_a_new_file_says(key: str) -> None:
    default, words = read_document()[key]
    assert words == WORDS[key]
    field = list_fields()[key]
    if key in {"folder", "accounts"}:
        assert default in {"`OSW_BENCH_DIR`", "none"}
    elif field.default is PydanticUndefined:
        assert default == "needed"
    elif field.default is None:
        assert default == "unset"
        assert key in EXAMPLES
    else:
        value = list(field.default) if isinstance(field.default, tuple) else field.default
        assert default == f"`{json.dumps(value)}`"
