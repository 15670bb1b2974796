"""One real box on the reference stack, from its start to the last process gone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from broker.types import Phase, Seen

Wait = Callable[..., None]


def test_order_becomes_a_record_with_the_payload_read_on_the_page(farm: Any, wait_until: Wait) -> None:
    box = farm.add_box("box-a")
    farm.add_sweep("x", trials=3)
    farm.dispatch()
    box.start()
    wait_until(lambda: len(farm.keeper.records) == 3, "three records", 90)

    for record in farm.keeper.records:
        [read] = record.reads
        assert read.payload is Seen.SEEN
        assert read.payload_count == 1
        assert read.url.startswith("https://x.com/")
        assert record.errors == ()
        assert [span.phase for span in record.phases] == list(Phase)
    assert box.stop() == 0
    assert box.list_processes() == []
