"""Names of tasks and queues: the only strings that the two sides of a queue must agree on."""

from __future__ import annotations

RESULTS = "results"

RUN = "bv3.run"
STORE_EVIDENCE = "bv3.store_evidence"
STORE_RECORD = "bv3.store_record"
GRADE = "bv3.grade"

# The largest message a box may send; longer fields are evidence, in chunks of at most this size.
MAX_MESSAGE_BYTES = 256 * 1024


def queue_of_box(box: str) -> str:
    """The queue that this box alone consumes."""
    return f"box.{box}"
