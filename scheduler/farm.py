"""The farm as a command sees it: joined or brought up, its addresses checked, its database at hand."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import redis
import sqlalchemy as sa
from pydantic import ValidationError
from redis.backoff import NoBackoff
from redis.retry import Retry

from broker.errors import BrokerError, Bv3Error, DatabaseError, ServiceError, UsageError
from broker.home import hold_user_lock
from broker.settings import FarmAddress, Settings, read_address
from broker.store.engine import begin, make_engine, unreachable
from scheduler.errors import ToldError

# Of both services together, so that an unreachable one is told within 5 s of the command's start.
_ANSWER_TIMEOUT_S = 2.0


class Farm:
    """A farm that this process uses: its address, and transactions on its database."""

    def __init__(self, settings: Settings, address: FarmAddress) -> None:
        self.settings = settings
        self.address = address
        self._engine = make_engine(address.database_url, application="bv3-schedule")

    @contextmanager
    def begin(self) -> Iterator[sa.Connection]:
        """A connection in one transaction. Raises DatabaseError when PostgreSQL is away."""
        try:
            with begin(self._engine) as connection:
                yield connection
        except sa.exc.OperationalError as error:
            raise DatabaseError(f"PostgreSQL stopped answering: {str(error.orig).strip()}") from error

    def rejoin(self) -> None:
        """An embedded farm lives again afterwards, perhaps at another address. Raises ServiceError."""
        if self.settings.is_embedded:
            self.close()
            self.address = _ensure(boxes=len(self.address.boxes))
            self._engine = make_engine(self.address.database_url, application="bv3-schedule")

    def close(self) -> None:
        """No connection of this process is open afterwards."""
        self._engine.dispose()


def refuse_foreign_boxes(settings: Settings, boxes: int | None) -> None:
    """Raises UsageError for a wish that only the embedded farm's boxes could fulfil, or for fewer than none."""
    if boxes is not None and boxes < 0:
        raise UsageError("--boxes must be at least 0")
    if boxes is not None and not settings.is_embedded:
        raise UsageError(
            "--boxes is for the embedded farm; BV3_BROKER_URL names a farm whose boxes are started on their machines",
            hint="bv3-box work --help",
        )
    told = {settings.reference_faults.strip(), settings.reference_natures.strip()} != {"none"}
    if not settings.is_embedded and (told or settings.leash_scale != 1):
        raise UsageError(
            "BV3_REFERENCE_FAULTS, BV3_REFERENCE_NATURES and BV3_LEASH_SCALE are for the embedded farm;"
            " BV3_BROKER_URL names a farm whose boxes have their faults and natures in their own files",
            hint="unset them, or see [reference] in docs/reference/box-file.md",
        )


@contextmanager
def join_farm(settings: Settings, *, boxes: int | None) -> Iterator[Farm]:
    """Within the block this process uses a farm with at least `boxes` boxes, whose services have answered.

    The embedded one is started when none runs, and is not stopped while the block lasts; with no box of its own
    it works with the boxes that were admitted to it.
    """
    if settings.is_embedded:
        with hold_user_lock(settings.farm_home):
            yield from _use(settings, _ensure(boxes=1 if boxes is None else boxes))
        return
    address = read_address(settings)
    if address is None:
        raise ServiceError("no farm is configured")
    check_services(address)
    yield from _use(settings, address)


def has_store(settings: Settings) -> bool:
    """Whether there can be any sweep: an embedded farm that never ran has none, and is not started to say so."""
    return not settings.is_embedded or settings.farm_home.farm.exists()


@contextmanager
def join_store(settings: Settings) -> Iterator[Farm]:
    """Within the block this process reads and orders in PostgreSQL; of an embedded farm it alone is started."""
    if settings.is_embedded:
        with hold_user_lock(settings.farm_home):
            yield from _use(settings, _ensure(boxes=None))
        return
    address = read_address(settings)
    if address is None:
        raise ServiceError("no farm is configured")
    check_services(address.model_copy(update={"broker_url": None}))
    yield from _use(settings, address)


def _use(settings: Settings, address: FarmAddress) -> Iterator[Farm]:
    farm = Farm(settings, address)
    try:
        yield farm
    finally:
        farm.close()


def _ensure(*, boxes: int | None) -> FarmAddress:
    """The embedded farm runs: with that many boxes, or PostgreSQL alone. Its progress is on stderr."""
    wanted = ["--store-only"] if boxes is None else ["--boxes", str(boxes)]
    # -P: a folder named infra where the user stands must not be taken for ours
    command = [sys.executable, "-P", "-m", "infra.cli", "ensure", *wanted, "--json"]
    # a group of its own: Ctrl-C is for us to obey, and ends it with us
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False, process_group=0)
    if done.returncode:
        raise ToldError("the embedded farm did not come up", done.returncode)
    try:
        return FarmAddress.model_validate_json(done.stdout)
    except ValidationError as error:
        raise ServiceError("the embedded farm did not say where it is", hint="bv3-farm status") from error


def check_services(address: FarmAddress, *, timeout_s: float = _ANSWER_TIMEOUT_S) -> None:
    """PostgreSQL has the farm's tables and Redis answers, seen just now. Raises within `timeout_s` seconds."""
    checks: list[tuple[str, Callable[[], None]]] = [("PostgreSQL", lambda: _check_database(address.database_url))]
    if broker_url := address.broker_url:
        checks.append(("Redis", lambda: _check_broker(broker_url, timeout_s)))
    answers: dict[str, Bv3Error | None] = {}
    # Daemons: a connect that nobody answers can't be interrupted, and must not keep the process.
    threads = [threading.Thread(target=_ask, args=(name, check, answers), daemon=True) for name, check in checks]
    for thread in threads:
        thread.start()
    deadline_s = time.monotonic() + timeout_s
    for thread in threads:
        thread.join(max(0.0, deadline_s - time.monotonic()))
    for name, _ in checks:
        answer = answers.get(name, ServiceError(f"{name} did not answer within {timeout_s:g} s"))
        if answer is not None:
            raise answer


def _ask(name: str, check: Callable[[], None], answers: dict[str, Bv3Error | None]) -> None:
    try:
        check()
    except Bv3Error as error:
        answers[name] = error
    else:
        answers[name] = None


def _check_database(database_url: str) -> None:
    engine = make_engine(database_url, application="bv3-schedule", pooled=False)
    try:
        with begin(engine) as connection:
            has_tables = connection.scalar(sa.text("select to_regclass('sweeps') is not null"))
    except sa.exc.DBAPIError as error:
        raise unreachable(engine.url, error) from error
    if not has_tables:
        raise DatabaseError(
            f"the database {engine.url.database} has no bv3 tables",
            hint="make them with `bv3-farm migrate`",
        )


def _check_broker(broker_url: str, timeout_s: float) -> None:
    # Celery writes sockets as redis+socket://, the client as unix://
    plain = broker_url.replace("redis+socket://", "unix://").replace("virtual_host=", "db=")
    parts = urlsplit(broker_url)
    where = f"{parts.hostname}:{parts.port or 6379}" if parts.hostname else parts.path
    # one try: its usual ones take longer than we have, and would hide what it says (a wrong password)
    once = Retry(NoBackoff(), 0)
    try:
        client = redis.Redis.from_url(plain, socket_connect_timeout=timeout_s, socket_timeout=timeout_s, retry=once)
        client.ping()
        client.close()
    except (redis.RedisError, OSError, ValueError) as error:
        raise BrokerError(f"Redis at {where} can't be used: {error}", hint="check BV3_BROKER_URL") from error
