"""What is logged holds no secret: not in an address, not in a traceback."""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import Iterator

import pytest
import structlog

from broker.log import configure_log


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def _log_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()


@pytest.mark.usefixtures("_log_as_before")
@pytest.mark.parametrize("stream", [Terminal, io.StringIO])
def test_a_traceback_shows_no_variables_and_an_address_no_password(
    stream: type[io.StringIO], monkeypatch: pytest.MonkeyPatch
) -> None:
    said = stream()
    monkeypatch.setattr(sys, "stderr", said)
    configure_log(service="test")

    def connect(password: str) -> None:
        raise ValueError(f"{len(password)} characters are refused")

    try:
        connect("hunt" + "er2")
    except ValueError:
        structlog.get_logger("test").exception("bug", url="postgresql://box_a:hunter2@127.0.0.1:5432/bv3")
    assert "characters are refused" in said.getvalue()
    assert "box_a:***@127.0.0.1" in said.getvalue()
    assert "hunter2" not in said.getvalue()
