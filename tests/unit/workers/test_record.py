from __future__ import annotations

from dataclasses import replace

from broker.codec import decode
from broker.store.box_client import StartAnswer
from broker.suites import load_suite
from broker.types import Child, Editable, Mode, Phase, RunOrder, RunRecord, Seen
from workers.page import blind_read
from workers.record import MAX_RECORD_BYTES, BoxFacts, Notes, build_record, encode_record

BOX = BoxFacts(
    box="box-a", lane="stub", renderer="playwright", product_revision="reference-1", versions={"python": "3"}
)


def make_notes() -> Notes:
    task = load_suite("known").tasks[0]
    order = RunOrder(sweep="c7-1", run=3, dispatch=2, arm="default", trial=4, mode=Mode.DRY, task=task)
    answer = StartAnswer(won=True, attempt=9, attempt_no=2, payload="probe k3f9x coverage alpha")
    return Notes(order=order, answer=answer, nonce="n" * 32, mode=Mode.DRY)


def test_record_names_run_attempt_box_and_nonce() -> None:
    record = build_record(make_notes(), BOX)
    assert (record.run, record.dispatch, record.attempt, record.attempt_no) == (3, 2, 9, 2)
    assert (record.box, record.nonce, record.site, record.trial) == ("box-a", "n" * 32, "x", 4)
    assert decode(RunRecord, encode_record(record)) == record


def test_attempt_that_failed_at_once_makes_a_record_too() -> None:
    notes = make_notes()
    notes.fail(Phase.LAUNCH, "backend", "no answer\x00" + "x" * 5000)
    record = build_record(notes, BOX)
    assert notes.has_failed(Phase.LAUNCH)
    assert record.parent is None
    assert len(record.errors[0].message) == 1000
    assert "\x00" not in record.errors[0].message


def test_record_never_exceeds_what_may_be_sent_and_says_when_it_was_cut() -> None:
    wide = Editable(frame=0, frame_url="u" * 2000, kind="textarea", label="l" * 80, payload_count=0, text="t" * 200)
    holder = replace(wide, payload_count=1)
    read = replace(
        blind_read(card="c", after_dispatch=1, offset_ms=1, duration_ms=1, error=""),
        editables=(holder, *[wide] * 39),
        payload=Seen.SEEN,
        payload_count=1,
    )
    notes = make_notes()
    notes.reads = (read,) * 20
    notes.children = tuple(Child(session_id=f"{index:032}", status="error") for index in range(2000))
    data = encode_record(build_record(notes, BOX))
    assert len(data) <= MAX_RECORD_BYTES
    record = decode(RunRecord, data)
    assert "was cut" in record.errors[-1].message
    assert record.reads[0].editables[0].payload_count == 1
