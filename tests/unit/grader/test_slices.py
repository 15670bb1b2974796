"""Captured slices of the real product, each with the page read that its page would have given."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.types import Bucket, Evidence, PageRead, ParentOutcome, RunRecord, Seen, SiteTask
from grader import cli
from grader.grading import Graded, grade_record

_DATA = os.environ.get("BV3_EXTRA_DATA")
_SLICES = Path(_DATA or "/nowhere") / "openswarm_slices"

pytestmark = pytest.mark.skipif(not _SLICES.is_dir(), reason="BV3_EXTRA_DATA names no folder of captured slices")

# page shape: what bv3 would have read, and the bucket; None: without a read
EXPECTED: dict[str, tuple[dict[str, object] | None, Bucket]] = {
    "textarea": ({}, Bucket.OK),
    "compose": ({}, Bucket.OK),
    "named": ({"url": "http://compose.test:9911/compose"}, Bucket.OK),
    "ce": ({}, Bucket.OK),
    "unnamed": ({}, Bucket.OK),
    "lazy": ({}, Bucket.OK),
    "disabled": ({}, Bucket.OK),
    "frame": ({"frames": 2}, Bucket.OK),
    "login": ({"count": 0, "password_form": Seen.SEEN, "url": "http://127.0.0.1:9911/login"}, Bucket.NOT_MEASURABLE),
    "empty": ({"count": 0}, Bucket.PRODUCT_NO_COMPOSER),
    "reject": ({"count": 0}, Bucket.PRODUCT_FILL_DIED),
    "norend": (None, Bucket.INFRA_NO_RENDERER),
    "X_click_index_hang": ({"count": 0}, Bucket.PRODUCT_COMMAND_TIMEOUT),
    "X_renderer_killed_midrun": (None, Bucket.INFRA_NO_RENDERER),
    "X_no_provider_connected": (None, Bucket.INFRA_ROUTER),
}
BY_PRODUCT_ALONE = {
    name: Bucket.PRODUCT_UNCONFIRMED if bucket is Bucket.OK else bucket for name, (_, bucket) in EXPECTED.items()
}
SUBMIT = {"disabled": False, "frame": False, "compose": True, "lazy": True}


def _grade(
    name: str, record_of: Callable[..., RunRecord], read_of: Callable[..., PageRead], read: dict[str, object] | None
) -> Graded:
    log = (_SLICES / f"slice_{name}.log").read_bytes()
    session = re.search(rb"/ws/agents/(\w+)\?", log)
    assert session is not None
    host = "compose.test" if name == "named" else "127.0.0.1"
    task = SiteTask(
        site=name,
        prompt="",
        payload="",
        entry=f"http://{host}:9911/",
        host=host,
        path_rule="^/",
        visibility="public",
        kind="post",
        editor_shape="",
    )
    values = {"url": f"http://127.0.0.1:9911/{name}", "card": "a"} | (read or {})
    record = record_of(
        log,
        site=name,
        parent=ParentOutcome(session_id=session[1].decode(), status="completed", reply="", ended_by="event"),
        children=(),
        cards=(),
        reads=() if read is None else (read_of(**values),),
        probe_before=None,
        probe_after=None,
    )
    return grade_record(record, log, task)


def test_every_slice_is_expected() -> None:
    assert {path.stem.removeprefix("slice_") for path in _SLICES.glob("*.log")} == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_a_captured_slice_with_its_page_read_has_the_true_bucket(
    name: str, record_of: Callable[..., RunRecord], read_of: Callable[..., PageRead]
) -> None:
    read, bucket = EXPECTED[name]
    graded = _grade(name, record_of, read_of, read)
    assert graded.verdict.bucket is bucket, graded.detail
    if bucket is Bucket.NOT_MEASURABLE:
        assert graded.verdict.evidence is Evidence.PROVEN


@pytest.mark.parametrize("name", EXPECTED)
def test_without_a_page_read_a_slice_is_never_ok(
    name: str, record_of: Callable[..., RunRecord], read_of: Callable[..., PageRead]
) -> None:
    graded = _grade(name, record_of, read_of, None)
    assert graded.verdict.bucket is BY_PRODUCT_ALONE[name], graded.detail
    if name in SUBMIT:
        assert graded.facts.submit is SUBMIT[name]
    if name == "login":
        assert graded.verdict.evidence is Evidence.UNVERIFIED


@pytest.mark.parametrize("name", EXPECTED)
def test_the_command_explains_a_captured_slice_on_its_own(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["slice", str(_SLICES / f"slice_{name}.log"), "--json"]) == 0
    plain = json.loads(capsys.readouterr().out)
    assert plain["bucket"] == BY_PRODUCT_ALONE[name], plain["detail"]
    assert plain["evidence"] == ("UNVERIFIED" if name == "login" else None)
    is_filled = plain["bucket"] == Bucket.PRODUCT_UNCONFIRMED
    assert plain["claim"] == ("filled" if is_filled else "none")
    assert plain["submit"] is ((name not in {"disabled", "frame"}) if is_filled else None)
    assert plain["lines"]
