"""What the farm keeps in files: boxes' settings, ports, bounded logs."""

from __future__ import annotations

import os
import socket
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.errors import ServiceError, UsageError
from infra.embedded.boxes import as_toml
from infra.embedded.documents import read_document, write_document
from infra.embedded.logs import bound_logs, read_tail
from infra.embedded.ports import HIGHEST, LOWEST, PortBook


@given(st.text(st.characters(codec="utf-8", exclude_characters="\x7f")))
def test_a_box_file_says_any_text_as_it_is(text: str) -> None:
    plain = tomllib.loads(
        as_toml({"folder": text}, {"ports": {"http": 80}, "reference": {"faults": text, "scale": 0.1}})
    )
    assert plain == {"folder": text, "ports": {"http": 80}, "reference": {"faults": text, "scale": 0.1}}


def test_a_port_is_kept_while_it_is_free_and_given_up_when_it_is_taken(tmp_path: Path) -> None:
    book = PortBook(path=tmp_path / "ports.json")
    port = book.assign("valkey")
    assert LOWEST <= port <= HIGHEST
    assert book.assign("valkey") == port
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        taken.listen()
        assert book.assign("valkey") != port


def test_boxes_get_rows_of_ports_that_nobody_else_has(tmp_path: Path) -> None:
    book = PortBook(path=tmp_path / "ports.json")
    blocks = [book.assign_block(tuple(f"box-{box}.{part}" for part in "abcd")) for box in "xyz"]
    ports = [port for block in blocks for port in block.values()]
    assert len(set(ports)) == 12
    assert all(max(block.values()) - min(block.values()) == 3 for block in blocks)
    assert book.assign_block(tuple(blocks[0])) == blocks[0]


def test_a_configured_port_is_used_or_named_and_a_usual_one_may_be_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = PortBook(path=tmp_path / "ports.json")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        monkeypatch.setenv("BV3_FLOWER_PORT", str(port))
        with pytest.raises(ServiceError, match=f"port {port} for flower is taken"):
            book.assign("flower", preferred=5555)
    assert book.assign("flower", preferred=5555) == port
    monkeypatch.delenv("BV3_FLOWER_PORT")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        usual = taken.getsockname()[1]
        assert LOWEST <= PortBook(path=tmp_path / "other.json").assign("flower", preferred=usual) <= HIGHEST
    assert PortBook(path=tmp_path / "other.json").assign("postgres", preferred=usual) == usual
    monkeypatch.setenv("BV3_FLOWER_PORT", "70000")
    with pytest.raises(UsageError, match="BV3_FLOWER_PORT"):
        book.assign("flower")


def test_a_document_is_private_and_half_of_one_is_none(tmp_path: Path) -> None:
    path = tmp_path / "document.json"
    before = os.umask(0)
    try:
        write_document(path, {"a": 1})
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o600
    assert read_document(path) == {"a": 1}
    path.write_text('{"a":')
    assert read_document(path) is None
    assert read_document(tmp_path / "none.json") is None


def test_a_long_log_is_cut_and_its_writer_goes_on_in_the_same_file(tmp_path: Path) -> None:
    log = tmp_path / "part.log"
    with log.open("ab", buffering=0) as writer:
        writer.write(b"old line\n" * 100)
        bound_logs(tmp_path, limit_bytes=500)
        writer.write(b"new line\n")
    assert log.read_bytes() == b"new line\n"
    assert (tmp_path / "part.log.1").read_bytes() == b"old line\n" * 100
    bound_logs(tmp_path, limit_bytes=500)
    assert log.read_bytes() == b"new line\n"


def test_the_tail_of_a_log_is_what_was_written_since(tmp_path: Path) -> None:
    log = tmp_path / "part.log"
    log.write_bytes(b"before\nfirst \xff\nsecond\n")
    assert read_tail(log, since=7) == ("first \ufffd", "second")
    assert read_tail(log, lines=1) == ("second",)
    assert read_tail(tmp_path / "none.log") == ()
