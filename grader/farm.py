"""The database as `bv3-grade` reaches it: the one that is configured, or the embedded farm's."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import sqlalchemy as sa
from pydantic import ValidationError

from broker.errors import DatabaseError, ServiceError
from broker.home import hold_user_lock
from broker.settings import FarmAddress, Settings, load_settings, read_address
from broker.store.engine import begin, make_engine


@contextmanager
def join_store() -> Iterator[sa.Engine]:
    """Within the block there is a database with the farm's tables; of an embedded farm PostgreSQL alone is started.

    Raises ServiceError, within 5 s where a server is configured.
    """
    settings = load_settings()
    with hold_user_lock(settings.farm_home) if settings.is_embedded else nullcontext():
        engine = make_engine(_find(settings).database_url, application="bv3-grade")
        try:
            _check(engine)
            yield engine
        finally:
            engine.dispose()


def _find(settings: Settings) -> FarmAddress:
    address = _ensure() if settings.is_embedded else read_address(settings)
    if address is None:
        raise ServiceError("no farm is configured", hint="set BV3_BROKER_URL and BV3_DATABASE_URL, or neither")
    return address


def _ensure() -> FarmAddress:
    # -P: a folder named infra where the user stands must not be taken for ours
    command = [sys.executable, "-P", "-m", "infra.cli", "ensure", "--store-only", "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False, process_group=0)
    if done.returncode:
        raise ServiceError("the embedded farm's PostgreSQL did not come up", hint="bv3-farm logs postgres")
    try:
        return FarmAddress.model_validate_json(done.stdout)
    except ValidationError as error:
        raise ServiceError("the embedded farm did not say where it is", hint="bv3-farm status") from error


def _check(engine: sa.Engine) -> None:
    with begin(engine) as connection:
        if connection.scalar(sa.text("select to_regclass('verdicts')")) is None:
            raise DatabaseError(
                f"the database {engine.url.database} has no bv3 tables",
                hint="make them with `bv3-farm migrate`",
            )
