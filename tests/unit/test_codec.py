"""What one process writes another reads, or says which field it can't."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.codec import clean_text, decode, encode, from_json, to_json
from broker.errors import CodecError
from broker.suites import load_suite
from broker.types import Bucket, Family, Mode, PhaseSpan, RunOrder

ORDER = RunOrder(
    sweep="c7-1", run=1, dispatch=1, arm="default", trial=3, mode=Mode.DRY, task=load_suite("known").tasks[0]
)


def test_an_order_survives_the_way_to_the_box() -> None:
    assert decode(RunOrder, encode(ORDER)) == ORDER
    assert from_json(RunOrder, json.loads(json.dumps(to_json(ORDER)))) == ORDER
    assert ORDER.name == "x#3"


def test_equal_values_have_equal_bytes() -> None:
    assert encode(ORDER) == encode(replace(ORDER))


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"\xff", "not JSON"),
        (b"[]", "RunOrder"),
        (b"{}", "RunOrder.sweep"),
        (b"[" * 100_000, "not JSON"),
        (encode(ORDER).replace(b'"schema":1', b'"schema":2'), "schema 2"),
        (encode(ORDER).replace(b'"dry"', b'"wet"'), "RunOrder.mode"),
    ],
    ids=["bytes", "list", "empty", "deep", "schema", "mode"],
)
def test_bytes_that_are_no_order_are_refused_with_the_field_named(data: bytes, says: str) -> None:
    with pytest.raises(CodecError, match=says):
        decode(RunOrder, data)


def test_nan_is_refused_when_it_is_written() -> None:
    with pytest.raises(CodecError, match="can't be written"):
        encode(replace(ORDER, budget_s=float("nan")))


@given(st.text(st.characters(), max_size=50) | st.text(st.sampled_from("a\x00\ud83d\udc00é"), max_size=20))
def test_cleaned_text_can_be_stored_and_says_whether_it_was_changed(text: str) -> None:
    cleaned, changed = clean_text(text)
    cleaned.encode("utf-8")
    assert "\x00" not in cleaned
    assert changed == (cleaned != text)
    assert len(cleaned) == len(text)
    span = PhaseSpan(phase="wait", started_ms=0, duration_ms=1)  # type: ignore[arg-type]
    assert decode(PhaseSpan, encode(span)).phase == "wait"


def test_every_bucket_belongs_to_one_of_the_four_families() -> None:
    families = {bucket: bucket.family for bucket in Bucket}
    assert families[Bucket.OK] is Family.OK
    assert families[Bucket.NOT_MEASURABLE] is Family.NOT_MEASURABLE
    for bucket, family in families.items():
        assert bucket.value.startswith(family.value)
