"""Admit a box to a farm: it gets a login of its own and the file that is all a box is told."""

from __future__ import annotations

import os
import re
import secrets
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa

from broker.errors import ServiceError, UsageError
from broker.settings import FarmAddress, Settings, read_address
from broker.store.engine import begin, make_engine
from broker.store.logins import ensure_box_login, login_of_box
from infra.embedded.services import REPOSITORY, plain_environment

# What a box file is made by: the box's own command, which alone knows its keys.
_INIT_TIMEOUT_S = 60.0
_OWN_BOX = re.compile(r"box-[a-z]{1,2}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """A farm's services: as this process reaches the database, and as the box reaches both."""

    database_url: str
    database_url_of_box: str
    broker_url_of_box: str


def admit_box(settings: Settings, name: str, *, out: Path, words: Mapping[str, str | Path | None]) -> None:
    """The box has its login, with a new password, and `out` is its file, 0600.

    `words` are those of `bv3-box init`. Raises UsageError for a file that is there or words that contradict each
    other, with the login as it was; ServiceError when no farm runs, DatabaseError when PostgreSQL is away.
    """
    if out.exists():
        raise UsageError(f"{out} is there already", hint="move it away, or name another --out")
    login_of_box(name)
    if settings.is_embedded and _OWN_BOX.fullmatch(name):
        raise UsageError(f"{name} is a name of the embedded farm's own boxes", hint="choose another one")
    addresses = choose_addresses(settings, by_socket=bool(words.get("netns") or words.get("isolation") == "netns"))
    # Judged before the login changes: the box's old file is void from then on.
    _make_file(name, words, {}, out="-")
    password = secrets.token_urlsafe(24)
    with begin(make_engine(addresses.database_url, application="bv3-farm", pooled=False)) as connection:
        login = ensure_box_login(connection, name, password)
    url = sa.make_url(addresses.database_url_of_box).set(drivername="postgresql", username=login, password=password)
    logins = {
        "BV3_BOX_DATABASE_URL": url.render_as_string(hide_password=False),
        "BV3_BOX_BROKER_URL": addresses.broker_url_of_box,
    }
    _make_file(name, words, logins, out=str(out.absolute()))


def choose_addresses(settings: Settings, *, by_socket: bool) -> Addresses:
    """Those of the farm at BV3_DATABASE_URL, else of the embedded farm that runs. Raises ServiceError for none."""
    address = read_address(settings)
    if address is None:
        raise ServiceError(
            "no farm runs here, and BV3_BROKER_URL and BV3_DATABASE_URL name none elsewhere",
            hint="bv3-farm up --boxes 0 starts one that works with the boxes that are admitted",
        )
    if address.broker_url is None:
        raise ServiceError("of the farm PostgreSQL alone runs", hint="bv3-farm up --boxes 0")
    return _choose(address, address.broker_url, by_socket=by_socket)


def _choose(address: FarmAddress, broker_url: str, *, by_socket: bool) -> Addresses:
    database, broker = address.database_url, broker_url
    if by_socket and address.database_socket_url and address.broker_socket_url:
        database, broker = address.database_socket_url, address.broker_socket_url
    return Addresses(database_url=address.database_url, database_url_of_box=database, broker_url_of_box=broker)


def _make_file(name: str, words: Mapping[str, str | Path | None], logins: Mapping[str, str], *, out: str) -> None:
    options = [f"--{key}={value}" for key, value in words.items() if value is not None]
    # -P: a folder named workers where the user stands must not be taken for ours
    command = [sys.executable, "-P", "-m", "workers.cli", "init", f"--name={name}", f"--out={out}", *options]
    environment = {**plain_environment(), "PYTHONPATH": _with_ours(), **logins}
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=_INIT_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise ServiceError(f"the box file was not written within {_INIT_TIMEOUT_S:g} s") from error
    if done.returncode:
        cause, _, hint = done.stderr.strip().removeprefix("error: ").partition("\nhint: ")
        raise UsageError(cause, hint=hint or None)


def _with_ours() -> str:
    return os.pathsep.join(filter(None, (str(REPOSITORY), os.environ.get("PYTHONPATH"))))
