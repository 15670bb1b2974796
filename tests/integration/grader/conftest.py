"""Attempts that a box has started, and what it then sends of them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import sqlalchemy as sa

from broker.chunks import split_evidence
from broker.codec import encode
from broker.store import dispatching, grading
from broker.store.engine import begin
from broker.types import (
    Child,
    Editable,
    EvidenceRef,
    LogSlice,
    MetricsRow,
    Mode,
    PageRead,
    ParentOutcome,
    Probe,
    RunOrder,
    RunRecord,
    Seen,
    plan_prompt,
)
from grader import cli

PARENT, CHILD, CARD = "1" * 32, "2" * 32, "browser-0a1b2c3d"
URLS = {
    "x": "https://x.com/compose/post",
    "reddit": "https://www.reddit.com/r/test/submit",
    "gmail": "https://accounts.google.com/v3/signin/identifier",
}


def print_log(url: str, *, ending: str) -> bytes:
    """A slice as the product prints it; `ending`: filled, declined or sent."""
    endings = {
        "filled": "DRYRUN: WOULD send (fill committed, send_button_listed=True, submit_resolved=True,"
        " submit_rank=3, submit='post'); not clicking",
        "declined": "decline: no composer, opener, or structural editable",
        "sent": "done sent_receipt=True delivered=None in 108ms",
    }
    messages = [
        f"[browser-fast-path] direct dispatch for session {PARENT} (act)",
        f"[browser-cold] new card {CARD} opens at brief entry {url}",
        "[browser-prestage] READY tier-0 in 23ms: a composer is already on the page, no aux call needed",
        f"[browser-prestage] done: steps=0 url={url} in 136ms",
        *([f"[browser-sendscript] fill target 'Post text' [1] on {url}"] if ending != "declined" else []),
        f"[browser-sendscript] {endings[ending]}",
        f"[browser-fast-path] session {PARENT} done: path=act reply=16ch in 2425ms",
    ]
    return "".join(f"20:07:04 I backend.apps.agents: {message}\n" for message in messages).encode()


@dataclass(frozen=True, kw_only=True)
class Done:
    """How a command ended."""

    code: int
    stdout: str
    stderr: str


Grade = Callable[..., Done]


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """A started attempt, and the record that its box sends."""

    box: Any
    order: RunOrder
    attempt: int
    nonce: str
    payload: str

    def record(self, log: bytes, **changes: Any) -> RunRecord:
        url = URLS[self.order.task.site]
        is_held = self.order.task.site != "gmail"
        box = Editable(
            frame=0, frame_url="", kind="contenteditable", label="Post text", payload_count=1, text=self.payload
        )
        read = PageRead(
            card=CARD,
            after_dispatch=1,
            offset_ms=40,
            duration_ms=60,
            url=url,
            title="",
            payload=Seen.SEEN if is_held else Seen.ABSENT,
            payload_count=int(is_held),
            editables=(box,) if is_held else (),
            frames=1,
            frames_unread=0,
            password_form=Seen.ABSENT,
            challenge=Seen.ABSENT,
        )
        sha256 = hashlib.sha256(log).hexdigest()
        row = MetricsRow(
            session_id=CHILD, status="error", path="llm", total_ms=236, llm_ms=0, tools_ms=178, other_ms=58
        )
        values: dict[str, Any] = {
            "sweep": self.order.sweep,
            "run": self.order.run,
            "dispatch": self.order.dispatch,
            "attempt": self.attempt,
            "attempt_no": 1,
            "nonce": self.nonce,
            "box": self.box.name,
            "arm": self.order.arm,
            "site": self.order.task.site,
            "trial": self.order.trial,
            "lane": "stub",
            "renderer": "playwright",
            "product_revision": "reference-1",
            "mode": Mode.DRY,
            "prompt": plan_prompt(self.order.task, self.payload),
            "payload": self.payload,
            "phases": (),
            "wall_ms": 2_437,
            "budget_used": False,
            "parent": ParentOutcome(session_id=PARENT, status="completed", reply="", ended_by="event"),
            "children": (Child(session_id=CHILD, status="error"),),
            "log": LogSlice(path="be.log", inode=1, start=0, end=len(log), sha256=sha256),
            "metrics": (row,),
            "reads": (read,),
            "cards": (CARD,),
            "probe_before": Probe(answered=True, duration_ms=8),
            "probe_after": Probe(answered=True, duration_ms=9),
            "events": (),
            "evidence": (EvidenceRef(name="log", sha256=sha256, size=len(log), media_type="text/plain"),),
            "errors": (),
            "versions": {},
        }
        return RunRecord(**values | changes)


@pytest.fixture
def start_all(engine: sa.Engine, sweep: str, make_box: Callable[[str], Any]) -> dict[str, Attempt]:
    """The sweep's three runs, each started by a box of its own; by site."""
    with begin(engine) as connection:
        planned = dispatching.read_board(connection, planned_limit=9).planned
    started: dict[str, Attempt] = {}
    for number, run in enumerate(planned):
        box = make_box(f"box-{number}")
        with begin(engine) as connection:
            handed = dispatching.hand_out(connection, run_id=run.id, box=box.name, slot=1)
        assert handed is not None
        nonce = f"{number:032d}"
        answer = box.client.start(handed.order.run, handed.order.dispatch, box.token, nonce)
        assert answer.won
        started[handed.order.task.site] = Attempt(
            box=box, order=handed.order, attempt=answer.attempt, nonce=nonce, payload=answer.payload
        )
    return started


@pytest.fixture
def log_of() -> Callable[..., bytes]:
    """The slice of a run on this site."""
    return lambda site, ending: print_log(URLS["x" if site == "gmail" else site], ending=ending)


@pytest.fixture
def send(engine: sa.Engine) -> Callable[..., bytes]:
    """Stores evidence as its task would; returns the record's bytes, which are not stored."""

    def store(attempt: Attempt, log: bytes, **changes: Any) -> bytes:
        sha256 = hashlib.sha256(log).hexdigest()
        chunks = list(split_evidence(log))
        for index, chunk in enumerate(chunks):
            with begin(engine) as connection:
                grading.save_chunk(
                    connection, box=attempt.box.name, sha256=sha256, index=index, total=len(chunks), data=chunk
                )
        return encode(attempt.record(log, **changes))

    return store


@pytest.fixture
def bv3_grade(database: str, valkey: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Grade:
    """Runs the command in this process, against this test's database."""
    monkeypatch.setenv("BV3_DATABASE_URL", database)
    monkeypatch.setenv("BV3_BROKER_URL", valkey)

    def call(*arguments: str, **changes: str) -> Done:
        with monkeypatch.context() as patch:
            for name, value in changes.items():
                patch.setenv(name, value)
            capsys.readouterr()
            code = cli.run(arguments)
        printed = capsys.readouterr()
        return Done(code=code, stdout=printed.out, stderr=printed.err)

    return call
