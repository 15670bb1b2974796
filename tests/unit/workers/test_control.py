"""A supervisor is asked over its socket, by a real client, whatever else comes to the socket."""

from __future__ import annotations

import os
import socket
import stat
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from broker.errors import ServiceError, StackError, UsageError
from workers.control import SOCKET, ControlServer, ask
from workers.sockets import choose_socket, drop_sockets, find_socket, short_folder

Wait = Callable[..., None]


class Box:
    """What a supervisor's main loop is to the socket."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.woken = threading.Event()

    def serve(self, folder: Path) -> ControlServer:
        return ControlServer(folder, look=lambda: {"phase": "up"}, hear=self.heard.append, wake=self.woken.set)


def answer_one(box: Box, server: ControlServer, answer: Callable[[Any], None]) -> threading.Thread:
    def loop() -> None:
        assert box.woken.wait(10)
        for request in server.take():
            answer(request)

    thread = threading.Thread(target=loop)
    thread.start()
    return thread


def test_look_and_end_are_answered_while_the_main_loop_is_busy(tmp_path: Path) -> None:
    box = Box()
    with box.serve(tmp_path):
        assert ask(tmp_path, "look") == {"ok": True, "phase": "up"}
        assert ask(tmp_path, "end") == {"ok": True}
        assert ask(tmp_path, "end_now") == {"ok": True}
    assert box.heard == ["end", "end_now"]
    assert ask(tmp_path, "look") is None
    assert not (tmp_path / SOCKET).exists()


def test_what_is_asked_of_the_main_loop_is_answered_when_it_was_done(tmp_path: Path) -> None:
    box = Box()
    with box.serve(tmp_path) as server:
        seen: list[tuple[str, str]] = []

        def accept(request: Any) -> None:
            seen.append((request.word, request.part))
            request.accept(seconds=3)

        thread = answer_one(box, server, accept)
        assert ask(tmp_path, "restart", part="backend") == {"ok": True, "seconds": 3}
        thread.join()
        assert seen == [("restart", "backend")]


@pytest.mark.parametrize("error", [UsageError("no such part", hint="parts: a, b"), StackError("it does not come up")])
def test_a_refusal_comes_as_the_error_that_it_is(tmp_path: Path, error: Any) -> None:
    box = Box()
    with box.serve(tmp_path) as server:
        thread = answer_one(box, server, lambda request: request.refuse(error))
        with pytest.raises(UsageError if isinstance(error, UsageError) else ServiceError) as caught:
            ask(tmp_path, "restart", part="x")
        thread.join()
    assert (caught.value.message, caught.value.hint, caught.value.exit_code) == (
        error.message,
        error.hint,
        error.exit_code,
    )


def test_who_waits_when_the_box_ends_is_told(tmp_path: Path) -> None:
    box = Box()
    failures: list[str] = []

    def wait() -> None:
        try:
            ask(tmp_path, "work", timeout_s=20)
        except ServiceError as error:
            failures.append(error.message)

    with box.serve(tmp_path):
        thread = threading.Thread(target=wait)
        thread.start()
        assert box.woken.wait(10)
    thread.join(10)
    assert failures == ["the box has ended"]


def test_a_supervisor_that_does_not_answer_is_named_within_its_time(tmp_path: Path) -> None:
    box = Box()
    with box.serve(tmp_path), pytest.raises(ServiceError, match="does not answer"):
        ask(tmp_path, "work", timeout_s=0.2)


@pytest.mark.parametrize(
    "sent", [b"", b"\n", b"no json\n", b"[1]\n", b'"look"\n', b"{}\n", b"\xff\xfe\n", b"x" * 70_000]
)
def test_what_is_no_question_is_passed_over(tmp_path: Path, sent: bytes) -> None:
    with Box().serve(tmp_path):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
            line.connect(str(tmp_path / SOCKET))
            line.settimeout(10)
            # a line that is too long is not read to its end
            with suppress(BrokenPipeError, ConnectionResetError):
                line.sendall(sent)
                line.shutdown(socket.SHUT_WR)
                assert line.recv(10) == b""
        assert ask(tmp_path, "look") == {"ok": True, "phase": "up"}


def test_a_dead_supervisor_s_socket_is_in_nobody_s_way(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as dead:
        dead.bind(str(tmp_path / SOCKET))
    assert ask(tmp_path, "look") is None
    with Box().serve(tmp_path):
        assert ask(tmp_path, "look") is not None
        assert stat.S_IMODE((tmp_path / SOCKET).stat().st_mode) == 0o600


def test_a_folder_whose_path_is_too_long_gets_a_short_one_that_goes_again(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 90)
    deep.mkdir()
    short = short_folder(deep)
    assert find_socket(deep, SOCKET).parent == short
    assert not short.exists()
    with Box().serve(deep):
        assert ask(deep, "look") is not None
        assert stat.S_IMODE(short.stat().st_mode) == 0o700
    assert not short.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_short_folder_of_another_user_is_refused_and_left_alone(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 90)
    short = short_folder(deep)
    short.mkdir()
    try:
        os.chown(short, 65534, 65534)
        with pytest.raises(StackError, match="belongs to another user"):
            choose_socket(deep, SOCKET)
        drop_sockets(deep, SOCKET)
        assert short.exists()
    finally:
        short.rmdir()
