"""The one typed door to the queues. A caller commits its rows first, then publishes."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

from celery import Celery
from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

from broker.chunks import split_evidence
from broker.codec import to_json
from broker.errors import BrokerError
from broker.queues import GRADE, RESULTS, RUN, STORE_EVIDENCE, STORE_RECORD, queue_of_box
from broker.types import RunOrder


@dataclass(frozen=True, slots=True, kw_only=True)
class Publisher:
    """Sends the four kinds of message. Every method raises BrokerError when Redis is away."""

    app: Celery

    def send_run(self, box: str, order: RunOrder) -> None:
        """The order is on the box's queue. Its name in Flower tells sweep, site, trial and box."""
        task_id = f"{order.sweep}.{order.name}.d{order.dispatch}"
        self._send(
            RUN,
            queue=queue_of_box(box),
            task_id=task_id,
            args=[to_json(order)],
            argsrepr=f"({order.sweep!r}, {order.name!r}, box={box!r})",
        )

    def send_evidence(self, box: str, sha256: str, data: bytes) -> None:
        """The bytes are on `results`, compressed and in chunks, under the hash of the plain bytes."""
        chunks = list(split_evidence(data))
        for index, chunk in enumerate(chunks):
            self._send(
                STORE_EVIDENCE,
                queue=None,
                kwargs={
                    "box": box,
                    "sha256": sha256,
                    "index": index,
                    "total": len(chunks),
                    "data": base64.b64encode(chunk).decode("ascii"),
                },
                kwargsrepr=f"{{'box': {box!r}, 'sha256': {sha256[:12]!r}, 'chunk': '{index + 1}/{len(chunks)}'}}",
            )

    def send_record(self, box: str, attempt: int, data: bytes) -> None:
        """The record's bytes are on `results`."""
        self._send(
            STORE_RECORD,
            queue=None,
            kwargs={"box": box, "attempt": attempt, "data": base64.b64encode(data).decode("ascii")},
            kwargsrepr=f"{{'box': {box!r}, 'attempt': {attempt}}}",
        )

    def wake_grader(self) -> None:
        """The grader will look for rows that have no verdict yet."""
        self._send(GRADE, queue=None)

    def count_results(self) -> int:
        """How many messages of boxes wait for the grader."""
        try:
            with self.app.connection_for_read() as connection:
                channel: Any = connection.default_channel  # of kombu's Redis transport
                return int(channel.client.llen(RESULTS))
        except (OperationalError, RedisError, OSError) as error:
            raise BrokerError(f"can't look at {RESULTS}: {error}", hint="is Redis up? (bv3-farm status)") from error

    def _send(self, task: str, *, queue: str | None, **options: Any) -> None:
        try:
            # retry=False: the row is the truth, a message that could not be sent is sent again from it
            self.app.send_task(task, queue=queue, retry=False, ignore_result=True, **options)
        except (OperationalError, RedisError, OSError) as error:
            raise BrokerError(f"can't publish {task}: {error}", hint="is Redis up? (bv3-farm status)") from error
