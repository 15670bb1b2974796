"""Flower is ready when it is ours: another farm's may have taken the port in between."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from broker.home import FarmHome
from infra.embedded.credentials import load_credentials
from infra.embedded.files import FarmFiles
from infra.embedded.flower import Flower
from infra.embedded.ports import PortBook


class Stranger(BaseHTTPRequestHandler):
    """Healthy, and behind a password that is not ours."""

    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/healthcheck" else 401)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Nothing: its word is no evidence here."""


def test_another_farms_flower_on_the_port_is_not_taken_for_ours(tmp_path: Path, free_port: Callable[[], int]) -> None:
    files = FarmFiles(home=FarmHome(root=tmp_path / "home"))
    files.home.make()
    ports = PortBook(path=files.ports)
    port = ports.assign("flower", preferred=free_port())
    flower = Flower(files=files, credentials=load_credentials(files.credentials), ports=ports, addresses=dict, argv=())
    assert not flower.is_ready(), "nobody listens"
    with HTTPServer(("127.0.0.1", port), Stranger) as stranger:
        thread = threading.Thread(target=stranger.serve_forever)
        thread.start()
        try:
            assert not flower.is_ready()
        finally:
            stranger.shutdown()
            thread.join()


def test_flower_that_is_not_where_one_looks_for_it_says_where_it_is(
    tmp_path: Path, free_port: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    files = FarmFiles(home=FarmHome(root=tmp_path / "home"))
    files.home.make()
    ports = PortBook(path=files.ports)
    flower = Flower(files=files, credentials=load_credentials(files.credentials), ports=ports, addresses=dict, argv=())
    usual = free_port()
    monkeypatch.setattr("infra.embedded.flower.USUAL_PORT", usual)
    with socket.create_server(("127.0.0.1", usual)):
        moved = ports.assign("flower", preferred=usual)
        assert moved != usual
        assert flower.remark == f"on port {moved} ({usual} is taken)"
    assert flower.remark == f"on port {moved}"
    monkeypatch.setenv("BV3_FLOWER_PORT", str(moved))
    assert flower.remark == "", "it is where it was ordered to be"
