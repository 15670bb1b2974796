"""The Celery app. Redis is its transport and nothing else: all in it may vanish at any moment.

The settings that matter, and why, stand beside them. Tasks are called by name, so that importing
this module costs no worker code.
"""

from __future__ import annotations

import os
from typing import Any

from celery import Celery

from broker.queues import GRADE, RESULTS, STORE_EVIDENCE, STORE_RECORD
from broker.types import WALL_LIMIT_S

_DAY_S = 24 * 3600


def transport_options(box: str | None) -> dict[str, Any]:
    """Redis options of one consumer; a box has unacked keys of its own, so that none restores another's."""
    options: dict[str, Any] = {
        # A run longer than this would start twice (faults.md 1); a lost message is sent again by the
        # dispatcher, never by Redis, so this may be long.
        "visibility_timeout": _DAY_S,
        "socket_keepalive": True,
        "socket_connect_timeout": 5,
        "health_check_interval": 25,
        # A publisher that waits is worth less than one that says so: the row is sent again in a second.
        "max_retries": 1,
        "interval_start": 0,
        "interval_step": 0,
        "interval_max": 0,
    }
    if box is not None:
        options |= {
            "unacked_key": f"unacked.{box}",
            "unacked_index_key": f"unacked_index.{box}",
            "unacked_mutex_key": f"unacked_mutex.{box}",
        }
    return options


def make_app(broker_url: str | None, *, box: str | None = None, answer_timeout_s: float | None = None) -> Celery:
    """An app that talks to this broker; with `box`, the app of that box's worker and publisher.

    `answer_timeout_s` is for one that only publishes: a Redis that has stopped without closing its connections
    would hold it for ever. A consumer waits for messages, so it has none.
    """
    app = Celery("bv3", broker=broker_url)
    app.conf.update(
        accept_content=["json"],
        task_serializer="json",
        result_serializer="json",
        task_ignore_result=True,
        result_backend=None,
        task_acks_late=True,
        # A killed pool child must not be acknowledged as done; the second delivery is refused by `start`.
        task_reject_on_worker_lost=True,
        task_acks_on_failure_or_timeout=True,
        worker_prefetch_multiplier=1,
        worker_send_task_events=True,
        task_send_sent_event=True,
        worker_hijack_root_logger=False,
        worker_soft_shutdown_timeout=WALL_LIMIT_S + 30,
        worker_enable_remote_control=True,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_transport_options=transport_options(box)
        | ({} if answer_timeout_s is None else {"socket_timeout": answer_timeout_s}),
        task_routes={
            STORE_EVIDENCE: {"queue": RESULTS},
            STORE_RECORD: {"queue": RESULTS},
            GRADE: {"queue": RESULTS},
        },
        task_create_missing_queues=True,
        enable_utc=True,
    )
    return app


# `celery -A broker.app …` finds this one: the environment says which broker and, on a box, which box.
app = make_app(os.environ.get("BV3_BROKER_URL"), box=os.environ.get("BV3_BOX"))
