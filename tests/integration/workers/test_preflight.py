"""What preflight reads from real processes."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest

from broker.types import Mode
from workers.machine import list_listeners, read_mode


@pytest.fixture
def sleeper(request: pytest.FixtureRequest) -> Iterator[psutil.Process]:
    environment = {name: value for name, value in os.environ.items() if name != "OSW_SENDSCRIPT_DRYRUN"}
    process = subprocess.Popen(
        [sys.executable, "-c", "import time; print(flush=True); time.sleep(60)"],
        env={**environment, **request.param},
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    # before its exec a new process still shows its parent's environment
    process.stdout.readline()
    yield psutil.Process(process.pid)
    process.kill()
    process.wait()
    process.stdout.close()


@pytest.mark.parametrize("sleeper", [{"OSW_SENDSCRIPT_DRYRUN": "1"}], indirect=True)
def test_dry_is_what_the_running_process_says(sleeper: psutil.Process) -> None:
    assert read_mode(sleeper) is Mode.DRY


@pytest.mark.parametrize("sleeper", [{}, {"OSW_SENDSCRIPT_DRYRUN": "0"}, {"OSW_SENDSCRIPT_DRYRUN": ""}], indirect=True)
def test_anything_else_counts_as_live(sleeper: psutil.Process) -> None:
    assert read_mode(sleeper) is Mode.LIVE


def test_listeners_of_both_families_are_counted_and_connections_are_not() -> None:
    with socket.create_server(("127.0.0.1", 0)) as first:
        port = first.getsockname()[1]
        assert len(list_listeners({port})) == 1
        with socket.create_connection(("127.0.0.1", port)):
            assert len(list_listeners({port})) == 1
        with socket.socket(socket.AF_INET6) as second:
            second.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            second.bind(("::1", port))
            second.listen()
            assert len(list_listeners({port})) == 2
    assert len(list_listeners({port})) == 0
