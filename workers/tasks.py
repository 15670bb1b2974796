"""The Celery side of a box: one thin task, and the pipes to the supervisor.

The worker ends with its supervisor: it reads from a pipe whose other end only the supervisor holds. A first
line on it says that the stack is healthy; until then the worker waits, with its imports done.
"""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Any

import structlog
from celery import Celery, signals

from broker.codec import from_json
from broker.errors import CodecError
from broker.log import configure_log
from broker.queues import RUN
from broker.types import RunOrder
from workers.worker_process import BOX_FILE, LIFELINE, NEWS, TOKEN
from workers.workplace import Workplace, open_workplace

TICK_S = 5.0

log = structlog.get_logger(__name__)
_workplace: Workplace | None = None


def tell_supervisor(word: str) -> None:
    """The supervisor reads this line. A supervisor that is gone ends us by the lifeline, not here."""
    try:
        os.write(int(os.environ[NEWS]), f"{word}\n".encode("ascii"))
    except OSError as error:
        log.warning("the supervisor does not listen", cause=str(error))


def register(app: Celery) -> None:
    """The app has the task `bv3.run`."""

    @app.task(name=RUN, bind=True, ignore_result=True)
    def run(task: Any, plain: dict[str, Any]) -> None:
        run_order(task, plain)


def run_order(task: Any, plain: dict[str, Any]) -> None:
    """The order is done with. Never raises: a task that fails would be tried again by Celery."""
    global _workplace  # noqa: PLW0603  # one per process, made after the fork
    try:
        order = from_json(RunOrder, plain)
    except CodecError as error:
        log.error("an order that can't be read is dropped", cause=error.message)  # noqa: TRY400  # no traceback
        return
    names = {"sweep": order.sweep, "run": order.name, "box": os.environ["BV3_BOX"]}
    with structlog.contextvars.bound_contextvars(**names):
        try:
            if _workplace is None:
                _workplace = open_workplace(
                    Path(os.environ[BOX_FILE]), token=os.environ[TOKEN], tell_supervisor=tell_supervisor
                )
            _workplace.work(order, show_progress=_progress_of(task))
        except Exception:
            log.exception("bug outside the phases")
            _give_up_run(_workplace)
        finally:
            structlog.contextvars.unbind_contextvars("attempt")


def _give_up_run(workplace: Workplace | None) -> None:
    """The run that was under way is settled before the next one begins, or this worker ends."""
    try:
        if workplace is not None:
            workplace.settle()
    except Exception:
        # A journal that can't be written: the supervisor settles it, and starts another worker with back-off.
        log.exception("the journal can't be settled")
        os.killpg(os.getpgrp(), signal.SIGKILL)
    tell_supervisor("idle")


def _progress_of(task: Any) -> Any:
    """Flower shows what is sent as the task's state PROGRESS, with this as its result."""
    uuid, hostname, app = task.request.id, task.request.hostname, task.app

    def show(phase: str) -> None:
        with app.events.default_dispatcher(hostname=hostname) as dispatcher:
            dispatcher.send("task-progress", uuid=uuid, result=phase, retry=False)

    return show


def _watch_lifeline(line: int) -> None:
    """This process's whole group ends with the supervisor: whoever holds the lease settles what it left."""
    while os.read(line, 64):
        pass
    os.killpg(os.getpgrp(), signal.SIGKILL)


@signals.setup_logging.connect
def _configure_logging(**_: Any) -> None:
    configure_log(service="worker")


@signals.celeryd_after_setup.connect
def _wait_for_go(**_: Any) -> None:
    line = int(os.environ[LIFELINE])
    if not os.read(line, 64):
        os._exit(0)
    threading.Thread(target=_watch_lifeline, args=(line,), daemon=True, name="lifeline").start()


@signals.worker_ready.connect
def _say_ready(sender: Any, **_: Any) -> None:
    tell_supervisor("ready")
    # A consumer that stands still stops ticking.
    sender.timer.call_repeatedly(TICK_S, tell_supervisor, ("tick",))


@signals.worker_process_init.connect
def _leave_signals_to_the_main_process(**_: Any) -> None:
    # Ctrl-C at a terminal reaches the whole group; a run that has started is finished.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
