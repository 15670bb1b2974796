"""The one process that hands runs to boxes: row first, commit, then the message."""

from __future__ import annotations

import signal
import time
from dataclasses import dataclass, field
from threading import Event

import sqlalchemy as sa
import structlog

from broker.app import make_app
from broker.errors import BrokerError, DatabaseError, UsageError
from broker.holds import HoldKind
from broker.publish import Publisher
from broker.ready import tell_ready
from broker.settings import Settings, read_address
from broker.store import dispatching, losing
from broker.store.engine import make_engine, unreachable
from broker.store.holds import place_hold
from scheduler.dispatch import RECORD_LOOK_EVERY_S, BeatWatch, Decisions, RecordWatch, choose_lost, decide

ACTIVE_TICK_S = 0.2
IDLE_TICK_S = 0.5
_RETRY_S = 1.0
_WAKE_GRADER_EVERY_S = 5.0
# Shorter than WATCH_GAP_S and the session's idle limits: boxes are watched on while Redis hangs.
_REDIS_TIMEOUT_S = 3.0
_PLANNED_LIMIT = 64

# InternalError: what psycopg calls a session that the server ended for being idle too long.
_AWAY = (sa.exc.OperationalError, sa.exc.InterfaceError, sa.exc.InternalError)

log = structlog.get_logger(__name__)


@dataclass(slots=True, kw_only=True)
class Dispatcher:
    """One dispatcher on one connection, which holds the pen as long as it lives."""

    connection: sa.Connection
    publisher: Publisher
    watch: BeatWatch = field(default_factory=BeatWatch)
    records: RecordWatch = field(default_factory=RecordWatch)
    _records_looked_s: float = float("-inf")
    _grader_woken_s: float = float("-inf")

    def tick(self, now_s: float) -> bool:
        """Everything that can be decided now is done; whether any box or run is in play."""
        with self.connection.begin():
            dispatching.settle_graded(self.connection)
            board = dispatching.read_board(self.connection, planned_limit=_PLANNED_LIMIT)
        self._lose(now_s, board)
        decisions = decide(board)
        self._carry_out(decisions)
        with self.connection.begin():
            for sweep in dispatching.finish_sweeps(self.connection):
                log.info("sweep finished", sweep=sweep)
            ungraded = dispatching.needs_grading(self.connection)
        if ungraded and now_s - self._grader_woken_s > _WAKE_GRADER_EVERY_S:
            self._grader_woken_s = now_s
            self.publisher.wake_grader()
        if now_s - self._records_looked_s >= RECORD_LOOK_EVERY_S:
            self._records_looked_s = now_s
            self._miss_records(now_s)
        return bool(board.planned or any(box.dispatches for box in board.boxes))

    def _lose(self, now_s: float, board: dispatching.Board) -> None:
        silent_s = self.watch.observe(now_s, board.boxes)
        lost = choose_lost(silent_s)
        for box in board.boxes:
            if box.name in lost:
                reason, beats = f"no beat for {silent_s[box.name]:.0f} s", box.beats
            elif box.has_unnamed:
                reason, beats = "three beats in a row did not name it", None
            else:
                continue
            with self.connection.begin():
                count = losing.lose_attempts(self.connection, box=box.name, beats=beats, reason=reason)
            log.warning("lost", box=box.name, reason=reason, attempts=count, whole_box=beats is not None)

    def _miss_records(self, now_s: float) -> None:
        with self.connection.begin():
            unreported = losing.read_unreported(self.connection)
        is_empty = not unreported or self.publisher.count_results() == 0
        for attempt in self.records.observe(now_s, unreported, is_empty=is_empty):
            with self.connection.begin():
                if losing.lose_unreported(self.connection, attempt, "its record never came"):
                    log.warning("lost", attempt=attempt, reason="its record never came")

    def _carry_out(self, decisions: Decisions) -> None:
        with self.connection.begin():
            if decisions.quarantine or decisions.take_back or decisions.hand_out:
                dispatching.lock_sweeps(self.connection)
            for held in decisions.quarantine:
                place_hold(self.connection, held.box, HoldKind.QUARANTINED, held.reason, "dispatcher")
                log.warning("quarantined", box=held.box, reason=held.reason)
            for item in decisions.take_back:
                if dispatching.take_back(self.connection, item.dispatch_id, item.reason):
                    log.info("taken back", dispatch=item.dispatch_id, reason=item.reason)
            handed = [
                dispatching.hand_out(self.connection, run_id=item.run_id, box=item.box, slot=item.slot)
                for item in decisions.hand_out
            ]
            again = [dispatching.read_order(self.connection, dispatch_id) for dispatch_id in decisions.send_again]
        # Committed: from here on a lost message is only a delay.
        for order in [*handed, *again]:
            if order is not None:
                self._send(order)

    def _send(self, item: dispatching.HandedOut) -> None:
        self.publisher.send_run(item.box, item.order)
        with self.connection.begin():
            dispatching.mark_sent(self.connection, item.dispatch_id)
        log.info("sent", sweep=item.order.sweep, run=item.order.name, dispatch=item.order.dispatch, box=item.box)


def run(settings: Settings) -> int:
    """Dispatch until SIGTERM or SIGINT; 0 then. Outages of either service are waited out, each said once."""
    address = read_address(settings)
    if address is None or address.broker_url is None:
        raise UsageError("there is no farm to dispatch for", hint="set BV3_BROKER_URL and BV3_DATABASE_URL")
    stop = Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    publisher = Publisher(app=make_app(address.broker_url, answer_timeout_s=_REDIS_TIMEOUT_S))
    engine = make_engine(address.database_url, application="bv3-dispatcher", pooled=False)
    said = ""
    while not stop.is_set():
        try:
            _dispatch_on_one_connection(engine, publisher, stop)
        except (*_AWAY, DatabaseError) as error:
            cause = unreachable(engine.url, error) if isinstance(error, sa.exc.DBAPIError) else error
            if str(cause) != said:
                log.warning("waiting for PostgreSQL", cause=str(cause))
                said = str(cause)
        stop.wait(_RETRY_S)
    return 0


def _dispatch_on_one_connection(engine: sa.Engine, publisher: Publisher, stop: Event) -> None:
    with engine.connect() as connection:
        has_pen = dispatching.take_pen(connection)
        connection.commit()
        if not has_pen:
            log.info("another dispatcher holds the pen")
            return
        dispatcher = Dispatcher(connection=connection, publisher=publisher)
        log.info("dispatching")
        tell_ready()
        broker_away = False
        while not stop.is_set():
            try:
                is_active = dispatcher.tick(time.monotonic())
                if broker_away:
                    log.info("Redis is back")
                broker_away = False
            except BrokerError as error:
                is_active = True
                if not broker_away:
                    log.warning("waiting for Redis", cause=str(error))
                broker_away = True
            stop.wait(_RETRY_S if broker_away else ACTIVE_TICK_S if is_active else IDLE_TICK_S)
