"""What these tests start ends with them: a process is ended with everything that came from it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

# As a renderer has them: a driver in its group, and a browser with a group of its own that lives as long as its pipe.
BROWSER = "import sys; sys.stdin.read()"
DRIVER = f"""
import subprocess, sys, time
browser = subprocess.Popen([sys.executable, "-c", {BROWSER!r}], stdin=subprocess.PIPE, start_new_session=True)
time.sleep(600)
"""
RENDERER = f"""
import subprocess, sys, time
driver = subprocess.Popen([sys.executable, "-c", {DRIVER!r}])
time.sleep(600)
"""
HURTS = {
    "stopped": lambda pid: os.killpg(pid, signal.SIGSTOP),
    "gone": lambda pid: os.kill(pid, signal.SIGKILL),
}


@pytest.mark.parametrize("hurt", sorted(HURTS))
def test_killing_a_process_that_is_stopped_or_gone_leaves_nothing_of_it(
    launch: Callable[..., Any], wait_until: Callable[..., None], tmp_path: Path, hurt: str
) -> None:
    process = launch(["-c", RENDERER], tmp_path / "log")
    wait_until(lambda: len(process.alive) == 3, "renderer, driver and browser")
    HURTS[hurt](process.popen.pid)
    process.kill()
    wait_until(lambda: not process.alive, "the end of all three")
