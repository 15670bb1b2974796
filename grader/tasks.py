"""The grader's Celery worker: what boxes publish, stored raw and committed, and only then graded.

No task raises or retries through Celery: what can't be used is logged and dropped, and a PostgreSQL that is
away is waited for within the task, so that the message is acknowledged only when its rows are there.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
from functools import cache
from typing import Any

import sqlalchemy as sa
import structlog
from celery.signals import setup_logging, worker_ready

from broker.app import app
from broker.log import configure_log
from broker.queues import GRADE, MAX_MESSAGE_BYTES, STORE_EVIDENCE, STORE_RECORD
from broker.ready import tell_ready
from broker.settings import load_settings, read_address
from broker.store import grading
from broker.store.engine import make_engine
from grader.storing import grade_pending, keep_record, persist

_BOX = re.compile(r"[a-z][a-z0-9-]{0,40}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
# as many as the largest piece of evidence takes when it does not shrink at all
_MAX_CHUNKS = 1_500
_MAX_ID = 2**63 - 1

log = structlog.get_logger(__name__)


@setup_logging.connect(weak=False)
def _configure_log(**_: Any) -> None:
    configure_log(service="grader")


@worker_ready.connect(weak=False)
def _tell_ready(**_: Any) -> None:
    tell_ready()


@app.task(name=STORE_EVIDENCE)
def store_evidence(box: str, sha256: str, index: int, total: int, data: str) -> None:
    """The chunk is kept; when it was the last one missing, the evidence is whole."""
    chunk = _unpack(data)
    is_named = (
        _is(_BOX, box) and _is(_SHA256, sha256) and _is_count(total, 1, _MAX_CHUNKS) and _is_count(index, 0, total - 1)
    )
    if chunk is None or not is_named:
        log.warning("evidence dropped: no chunk of ours", box=str(box)[:64])
        return
    persist(
        _engine(),
        lambda connection: grading.save_chunk(connection, box=box, sha256=sha256, index=index, total=total, data=chunk),
    )


@app.task(name=STORE_RECORD)
def store_record(box: str, attempt: int, data: str) -> None:
    """The record is stored as it came, and committed; then whatever is stored and not graded is graded."""
    raw = _unpack(data)
    if raw is None or not _is(_BOX, box) or not _is_count(attempt, 1, _MAX_ID):
        log.warning("record dropped: no message of ours", box=str(box)[:64])
        return
    keep_record(_engine(), box=box, attempt=attempt, raw=raw)
    grade_pending(_engine())


@app.task(name=GRADE)
def grade() -> None:
    """Whatever is stored or lost and not graded is graded."""
    grade_pending(_engine())


def _is(pattern: re.Pattern[str], value: object) -> bool:
    return isinstance(value, str) and pattern.fullmatch(value) is not None


def _is_count(value: object, low: int, high: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def _unpack(data: object) -> bytes | None:
    """The bytes of a message, or None: not base64, or longer than a message may be."""
    if not isinstance(data, str) or len(data) > MAX_MESSAGE_BYTES * 2:
        return None
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return None


def _engine() -> sa.Engine:
    return _engine_of(os.getpid())


@cache
def _engine_of(_pid: int) -> sa.Engine:
    # one per process, made after the fork
    address = read_address(load_settings())
    if address is None:
        raise RuntimeError("the grader was started without BV3_DATABASE_URL")
    return make_engine(address.database_url, application="bv3-grader")
