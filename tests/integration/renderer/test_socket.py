"""The dashboard socket by itself: pings, and the connection that is made again."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from workers.renderer.dashboard import Backend, DashboardSocket
from workers.renderer.protocol import Event

TOKEN = "t" * 43


async def hold(url: str, token_file: Path, *, until: Any) -> list[Event]:
    """Hold a socket open, with quick pings, until the condition is met."""
    events: list[Event] = []

    async def on_open() -> None:
        return

    socket = DashboardSocket(
        backend=Backend(url=url, token_file=token_file, dashboard_id="dash-1"),
        on_open=on_open,
        on_event=events.append,
        ping_every_s=0.05,
        pong_timeout_s=0.2,
    )
    running = asyncio.create_task(socket.run())
    async with asyncio.timeout(10):
        while not until():  # noqa: ASYNC110 - the condition lives in another thread
            await asyncio.sleep(0.02)
    running.cancel()
    await asyncio.wait({running})
    return events


def pings(backend: Any) -> int:
    return sum(frame["event"] == "client:ping" for frame in backend.received)


def test_answered_pings_keep_the_connection(lone_backend: Any, tmp_path: Path) -> None:
    token_file = tmp_path / "token"
    token_file.write_text(TOKEN)
    events = asyncio.run(hold(lone_backend.url, token_file, until=lambda: pings(lone_backend) >= 3))
    assert lone_backend.opened == 1
    assert events == [], "a pong is nobody else's business"


def test_a_backend_that_answers_no_ping_is_connected_again(lone_backend: Any, tmp_path: Path) -> None:
    lone_backend.pongs = False
    token_file = tmp_path / "token"
    token_file.write_text(TOKEN)
    asyncio.run(hold(lone_backend.url, token_file, until=lambda: lone_backend.opened >= 2))
    assert pings(lone_backend) >= 1


def test_a_refused_token_is_tried_again_with_what_the_file_then_holds(lone_backend: Any, tmp_path: Path) -> None:
    token_file = tmp_path / "token"
    token_file.write_text("wrong")

    def mend_once_refused() -> bool:
        if lone_backend.refused and token_file.read_text() != TOKEN:
            assert lone_backend.opened == 0
            token_file.write_text(TOKEN)
        return bool(lone_backend.opened == 1)

    asyncio.run(hold(lone_backend.url, token_file, until=mend_once_refused))
    assert lone_backend.refused >= 1
