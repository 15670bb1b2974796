"""The servers as the farm sets them up, and what a person reads when one does not come up."""

from __future__ import annotations

import base64
import http.client
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
import psycopg
import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry


def test_nothing_is_evicted_or_forgotten_and_only_loopback_listens(farm: Any) -> None:
    address = farm.up()
    with redis.Redis.from_url(address["broker_url"]) as valkey:
        assert valkey.config_get("maxmemory-policy")["maxmemory-policy"] == "noeviction"
        assert valkey.config_get("appendonly")["appendonly"] == "yes"
    with psycopg.connect(address["database_url"].replace("+psycopg", "")) as connection:
        for name in ("fsync", "synchronous_commit", "full_page_writes"):
            assert connection.execute(f"show {name}").fetchone() == ("on",)
        assert connection.execute("select rolsuper from pg_roles where rolname = current_user").fetchone() == (False,)
    listening = [
        connection.laddr.ip
        for process in farm.marked()
        for connection in process.net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    ]
    assert set(listening) == {"127.0.0.1"}


def test_a_wrong_password_opens_neither_server(farm: Any) -> None:
    address = farm.up()
    broker, database = urlsplit(address["broker_url"]), urlsplit(address["database_url"])
    once = Retry(NoBackoff(), retries=0)
    with (
        redis.Redis(port=broker.port or 0, password="guess", retry=once) as valkey,
        pytest.raises(redis.AuthenticationError),
    ):
        valkey.ping()
    for role in ("bv3", "postgres"):
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(host="127.0.0.1", port=database.port, user=role, password="guess", dbname="bv3")


def test_passwords_stand_on_no_command_line_and_in_private_files_alone(farm: Any) -> None:
    farm.up(boxes=2)
    passwords = set(json.loads((farm.home / "farm" / "credentials.json").read_text()).values())
    lines = [" ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"])]
    assert not [line for line in lines if any(password in line for password in passwords)]
    secret = [path for path in farm.home.rglob("*") if path.is_file() and _holds(path, passwords)]
    assert len(secret) >= 5
    assert {path.stat().st_mode & 0o077 for path in secret} == {0}
    logs = list((farm.home / "farm" / "logs").glob("*.log"))
    assert not [log for log in logs if _holds(log, passwords)]


def test_flower_asks_for_the_login_and_only_shows(stopped: Any, workbench: Path) -> None:
    programs = {"BV3_FARM_PROGRAMS": str(workbench / "with_flower.toml")}
    address = json.loads(stopped.done("up", "--json", **programs).stdout)
    login = f"{address['flower_user']}:{address['flower_password']}"
    where = urlsplit(address["flower_url"]).netloc
    assert _ask(where, "GET", "/tasks") == 401
    assert _ask(where, "GET", "/tasks", login="bv3:guess") == 401
    assert _ask(where, "GET", "/tasks", login=login) == 200
    assert _ask(where, "POST", "/api/worker/shutdown/any", login=login) == 403


def test_a_configured_port_that_is_taken_is_named_and_nothing_is_left_running(stopped: Any) -> None:
    farm = stopped
    with _listening() as port:
        failed = farm.run("up", BV3_FLOWER_PORT=str(port))
    assert failed.returncode == 3
    assert f"port {port} for flower is taken" in failed.stderr
    assert "BV3_FLOWER_PORT" in failed.stderr
    assert "Traceback" not in failed.stderr
    assert farm.is_gone()


def test_a_part_that_does_not_start_is_named_with_its_last_words(stopped: Any, tmp_path: Path) -> None:
    farm = stopped
    programs = tmp_path / "programs.toml"
    programs.write_text(f"grader = ['{sys.executable}', '-c', 'raise SystemExit(\"no paper to grade\")']\n")
    lines = Path(farm.environment["BV3_FARM_PROGRAMS"]).read_text().splitlines()
    programs.write_text(programs.read_text() + "\n".join(line for line in lines if "grader" not in line))
    failed = farm.run("up", BV3_FARM_PROGRAMS=str(programs))
    assert failed.returncode == 3
    assert "grader did not start: exit code 1" in failed.stderr
    assert "no paper to grade" in failed.stderr
    assert "grader.log" in failed.stderr
    assert farm.is_gone()


def test_a_box_that_does_not_start_fails_its_command_and_nobody_else(stopped: Any, tmp_path: Path) -> None:
    farm = stopped
    box = "import os, pathlib, signal, sys; 'box-b' in sys.argv[1] and sys.exit('no room for box-b')"
    box += "; pathlib.Path(os.environ['BV3_READY_FILE']).touch(); signal.pause()"
    lines = Path(farm.environment["BV3_FARM_PROGRAMS"]).read_text().splitlines()
    programs = tmp_path / "programs.toml"
    programs.write_text("\n".join(line for line in lines if "box" not in line.partition("=")[0]))
    with programs.open("a") as file:
        file.write(f'\nbox = ["{sys.executable}", "-c", "{box}", "{{box}}"]\n')
    farm.done("up", BV3_FARM_PROGRAMS=str(programs))
    pids = farm.pids()
    failed = farm.run("up", "--boxes", "2", BV3_FARM_PROGRAMS=str(programs))
    assert failed.returncode == 3
    assert "no room for box-b" in failed.stderr
    assert farm.status()["phase"] == "ready"
    assert farm.pids() == pids
    assert farm.up(boxes=1)["boxes"] == ["box-a"]
    farm.down()


def test_logs_are_printed_by_part_and_an_unknown_part_names_the_known(farm: Any) -> None:
    farm.up()
    assert "ready to accept connections" in farm.done("logs", "postgres").stdout
    assert farm.done("logs", "box-a", "-n", "1").stdout == "stand-in at work\n"
    wrong = farm.run("logs", "postgrse")
    assert wrong.returncode == 2
    assert "postgres" in wrong.stderr


def test_a_farm_elsewhere_is_not_embedded_here(farm: Any) -> None:
    refused = farm.run("up", BV3_BROKER_URL="redis://elsewhere", BV3_DATABASE_URL="postgresql://elsewhere/bv3")
    assert refused.returncode == 2
    assert "BV3_BROKER_URL and BV3_DATABASE_URL" in refused.stderr


def test_a_full_data_folder_is_named(make_farm: Callable[[str], Any]) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small disk")
    farm = make_farm("full")
    farm.home.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", farm.home], check=False)
    if mounted.returncode != 0:
        pytest.skip("this machine allows no mounts")
    try:
        failed = farm.run("up")
    finally:
        subprocess.run(["umount", farm.home], check=True)
    assert failed.returncode == 3
    assert "MB left" in failed.stderr
    assert "BV3_HOME" in failed.stderr


def test_a_data_folder_that_can_not_be_made_is_named(farm: Any) -> None:
    failed = farm.run("up", BV3_HOME="/proc/bv3")
    assert failed.returncode == 3
    assert "/proc/bv3" in failed.stderr
    assert "Traceback" not in failed.stderr


def _holds(path: Path, passwords: set[str]) -> bool:
    content = path.read_bytes()
    return any(password.encode() in content for password in passwords)


def _ask(where: str, method: str, path: str, *, login: str | None = None) -> int:
    connection = http.client.HTTPConnection(where, timeout=5)
    headers = {"Authorization": "Basic " + base64.b64encode(login.encode()).decode()} if login else {}
    try:
        connection.request(method, path, headers=headers)
        return connection.getresponse().status
    finally:
        connection.close()


@contextmanager
def _listening() -> Iterator[int]:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen(1)
        yield taken.getsockname()[1]
