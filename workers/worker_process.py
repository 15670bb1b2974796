"""The Celery worker as the supervisor's child: its own group, a lifeline in, news out."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

from broker.queues import queue_of_box
from workers.boxfile import BoxFile
from workers.processes import MARK, ProcessBook, kill_group

# The variables by which the worker is told what it needs.
BOX_FILE = "BV3_BOX_FILE"
TOKEN = "BV3_BOX_TOKEN"  # noqa: S105  # the variable's name
LIFELINE = "BV3_BOX_LIFELINE"
NEWS = "BV3_BOX_NEWS"

_REPOSITORY = Path(__file__).resolve().parent.parent
_POLL_S = 0.02


class WorkerProcess:
    """One worker from start to end. It consumes nothing before `let_go`."""

    def __init__(self, box: BoxFile, box_file: Path, token: UUID, book: ProcessBook) -> None:
        reads_life, self._life = os.pipe()
        self.news, writes_news = os.pipe()
        os.set_blocking(self.news, False)
        environment = {
            **os.environ,
            MARK: str(box.folder),
            BOX_FILE: str(box_file),
            TOKEN: str(token),
            LIFELINE: str(reads_life),
            NEWS: str(writes_news),
            "BV3_BOX": box.name,
            "BV3_BROKER_URL": box.farm().broker_url,
        }
        celery = [sys.executable, "-m", "celery", "-A", "workers.app", "worker", "-P", "prefork", "-c", "1", "-E"]
        names = ["-Q", queue_of_box(box.name), "-n", f"box@{box.name}", "--without-gossip", "--without-mingle"]
        with (box.folder / "worker.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*celery, *names],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                pass_fds=[reads_life, writes_news],
                start_new_session=True,
                cwd=_REPOSITORY,
            )
        os.close(reads_life)
        os.close(writes_news)
        book.record("worker", self._process.pid)
        self.pid = self._process.pid
        self._unread = b""

    def let_go(self) -> None:
        """The worker may consume."""
        with contextlib.suppress(BrokenPipeError):
            os.write(self._life, b"go\n")

    def is_alive(self) -> bool:
        """Whether the main process lives."""
        return self._process.poll() is None

    def read_news(self) -> Iterator[str]:
        """The lines that came in since the last call."""
        with contextlib.suppress(BlockingIOError):
            while chunk := os.read(self.news, 4096):
                self._unread += chunk
        *lines, self._unread = self._unread.split(b"\n")
        for line in lines:
            yield line.decode("ascii", errors="replace")

    def ask_to_end(self) -> None:
        """The worker stops consuming, finishes its run and ends; more signals change nothing."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGTERM)

    def kill(self) -> None:
        """The worker's whole group is gone."""
        kill_group(self.pid)
        self._process.wait()

    def wait(self, timeout_s: float) -> bool:
        """Whether the worker has ended within that time."""
        deadline_s = time.monotonic() + timeout_s
        while self.is_alive():
            if time.monotonic() > deadline_s:
                return False
            time.sleep(_POLL_S)
        return True

    def close(self) -> None:
        """Nothing of it is left, its pipes included. A pool child may outlive its main process."""
        self.kill()
        os.close(self._life)
        os.close(self.news)
