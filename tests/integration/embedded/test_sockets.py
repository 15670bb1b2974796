"""The servers' Unix sockets: the way of a box that has a network namespace of its own."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa

from broker.app import make_app
from broker.errors import BrokerError
from broker.home import FarmHome
from broker.settings import FarmAddress
from broker.store.engine import begin, make_engine
from infra.embedded.files import FarmFiles
from infra.embedded.sockets import choose_folder
from scheduler.farm import check_services


def ask(url: str) -> object:
    with begin(make_engine(url, application="test", pooled=False)) as connection:
        return connection.scalar(sa.text("select inet_server_addr() is null"))


def test_both_servers_are_reached_by_socket_with_the_same_passwords(farm: Any) -> None:
    address = farm.up()
    assert ask(address["database_socket_url"]) is True, "it came by the socket"
    check_services(
        FarmAddress(database_url=address["database_socket_url"], broker_url=address["broker_socket_url"]), timeout_s=10
    )
    with make_app(address["broker_socket_url"], box="box-z", answer_timeout_s=5).connection_for_write() as line:
        queue = line.SimpleQueue("test.sockets")
        queue.put({"said": "by socket"})
        assert queue.get(timeout=5).payload == {"said": "by socket"}
        queue.clear()
        queue.close()


def test_a_wrong_password_opens_no_socket(farm: Any) -> None:
    address = farm.up()
    password = sa.make_url(address["database_url"]).password or ""
    for role in ("bv3", "postgres"):
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(
                host=str(sa.make_url(address["database_socket_url"]).query["host"]),
                port=int(str(sa.make_url(address["database_socket_url"]).query["port"])),
                user=role,
                password="guess",
                dbname="bv3",
            )
    wrong = address["broker_socket_url"].replace(sa.make_url(address["broker_url"]).password or "", "guess")
    with pytest.raises(BrokerError, match="can't be used"):
        check_services(
            FarmAddress(database_url=address["database_socket_url"], broker_url=wrong),
            timeout_s=10,
        )
    assert password not in wrong


def test_a_killed_postgres_is_reached_by_its_socket_again(farm: Any) -> None:
    address = farm.up()
    os.kill(farm.pids()["postgres"], signal.SIGKILL)
    after = farm.up()
    assert after["database_socket_url"] == address["database_socket_url"]
    assert ask(after["database_socket_url"]) is True


def test_a_home_with_a_long_path_has_its_sockets_in_a_short_private_folder_that_goes_with_the_farm(
    make_farm: Callable[[str], Any],
) -> None:
    farm = make_farm("long-" + "x" * 100)
    folder = choose_folder(FarmFiles(home=FarmHome(root=farm.home)))
    assert len(str(folder)) < 60
    address = farm.up()
    assert str(folder) in address["broker_socket_url"]
    assert folder.stat().st_mode & 0o077 == 0
    assert ask(address["database_socket_url"]) is True
    farm.down(force=True)
    assert not folder.exists()


def test_a_folder_that_somebody_has_put_in_the_way_is_not_used(make_farm: Callable[[str], Any], tmp_path: Path) -> None:
    farm = make_farm("blocked-" + "x" * 100)
    folder = choose_folder(FarmFiles(home=FarmHome(root=farm.home)))
    folder.symlink_to(tmp_path)
    try:
        failed = farm.run("up")
    finally:
        folder.unlink()
    assert failed.returncode == 3
    assert f"{folder} belongs to another user" in failed.stderr
    assert list(tmp_path.iterdir()) == []
