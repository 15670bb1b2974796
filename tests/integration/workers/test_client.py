"""The product client against the reference backend: every answer typed, every wait bounded."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from workers.client.errors import BackendAwayError, BackendRefusedError, NotFoundError, NotLetInError
from workers.client.product import NAME_PREFIX, ProductAddress, ProductClient
from workers.client.session import GONE, SessionSocket, wait_for_end

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def address(
    tmp_path_factory: pytest.TempPathFactory, free_port: Callable[[], int], wait_until: Callable[..., None]
) -> Iterator[ProductAddress]:
    """A backend with a router and no renderer; its one dashboard is pinned."""
    folder, port, router_port = tmp_path_factory.mktemp("backend"), free_port(), free_port()
    environment = {
        **os.environ,
        "OPENSWARM_PORT": str(port),
        "OPENSWARM_DATA_ROOT": str(folder),
        "OSW_SENDSCRIPT_DRYRUN": "1",
        "REFERENCE_ROUTER_URL": f"http://127.0.0.1:{router_port}",
    }
    commands = (["router", "--port", str(router_port)], ["backend"])
    with (folder / "log").open("wb") as log:
        started = [
            subprocess.Popen(
                [sys.executable, "-m", "infra.reference", *words], cwd=ROOT, env=environment, stdout=log, stderr=log
            )
            for words in commands
        ]
    token = folder / "auth.token"
    made = ProductAddress(url=f"http://127.0.0.1:{port}", token="", dashboard_id="")

    def answers() -> bool:
        try:
            with ProductClient(replace(made, token=token.read_text().strip())) as client:
                return bool(client.list_dashboards())
        except (OSError, BackendAwayError):
            return False

    wait_until(answers, "the backend")
    made = replace(made, token=token.read_text().strip())
    with ProductClient(made) as client:
        [dashboard_id] = client.list_dashboards()
    yield replace(made, dashboard_id=dashboard_id)
    for process in started:
        process.terminate()
        process.wait(10)


@pytest.fixture
def product(address: ProductAddress) -> Iterator[ProductClient]:
    with ProductClient(address) as client:
        yield client


def test_session_is_ours_until_it_is_deleted(product: ProductClient) -> None:
    session_id = product.launch("c7-1 x#1")
    [line] = [line for line in product.list_sessions() if line.session_id == session_id]
    assert line.name == f"{NAME_PREFIX}c7-1 x#1"
    assert line.is_ours
    assert product.read_session(session_id).status == "running"
    assert product.list_children(session_id) == ()
    product.delete_session(session_id)
    product.delete_session(session_id)
    assert session_id not in {line.session_id for line in product.list_sessions()}


def test_refusals_carry_their_status(product: ProductClient, address: ProductAddress) -> None:
    with pytest.raises(NotFoundError) as unknown:
        product.read_session("0" * 32)
    assert unknown.value.status == 404
    with (
        ProductClient(replace(address, token="wrong-token-of-some-length")) as client,
        pytest.raises(NotLetInError) as stranger,
    ):
        client.list_dashboards()
    assert stranger.value.status == 401
    with pytest.raises(BackendRefusedError) as empty:
        product.send_message(product.launch("empty"), "")
    assert empty.value.status == 400


def test_request_that_never_left_is_told_from_one_that_may_have_arrived(
    product: ProductClient, address: ProductAddress, free_port: Callable[[], int]
) -> None:
    nowhere = replace(address, url=f"http://127.0.0.1:{free_port()}")
    with ProductClient(nowhere) as client, pytest.raises(BackendAwayError) as nobody:
        client.send_message("s", "hello")
    assert not nobody.value.may_have_arrived
    # without a renderer the backend waits 8 s before it says so
    with pytest.raises(BackendAwayError) as late:
        product.evaluate("browser-audit000", "1", timeout_s=0.2)
    assert late.value.may_have_arrived


def test_removing_cards_leaves_the_rest_of_the_layout(product: ProductClient) -> None:
    card = {"browser_id": "a", "url": "about:blank", "tabs": [], "activeTabId": ""}
    cards = {"a": {**card, "spawned_by": "s1"}, "b": {**card, "browser_id": "b", "spawned_by": None}}
    before = product.read_layout()
    product.write_layout({**before, "browser_cards": cards})
    assert product.list_cards() == {"a": "s1", "b": None}
    product.remove_cards(frozenset({"a", "unknown"}))
    assert product.list_cards() == {"b": None}
    assert set(product.read_layout()) == set(before)


@contextmanager
def sending(address: ProductAddress, session_id: str) -> Iterator[None]:
    """The message is posted while the block waits for what comes of it."""
    with ProductClient(address) as client:
        thread = threading.Thread(target=client.send_message, args=(session_id, "hello"))
        thread.start()
        yield
        thread.join()


def test_end_of_a_session_is_pushed(product: ProductClient, address: ProductAddress) -> None:
    session_id = product.launch("pushed")
    socket = SessionSocket(address, session_id)
    socket.open()
    assert socket.is_open
    with sending(address, session_id):
        end = wait_for_end(product, socket, session_id, deadline_s=time.monotonic() + 20)
    socket.close()
    assert end is not None
    assert (end.status, end.ended_by) == ("completed", "event")


def test_end_is_found_by_asking_when_there_is_no_socket(product: ProductClient, address: ProductAddress) -> None:
    session_id = product.launch("asked")
    socket = SessionSocket(replace(address, token="wrong-token-of-some-length"), session_id)
    with sending(address, session_id):
        end = wait_for_end(product, socket, session_id, deadline_s=time.monotonic() + 20)
    assert not socket.is_open
    assert end is not None
    assert (end.status, end.ended_by) == ("completed", "poll")


def test_end_that_came_before_the_socket_opened_is_not_missed(product: ProductClient, address: ProductAddress) -> None:
    session_id = product.launch("late")
    product.send_message(session_id, "hello")
    time_limit = time.monotonic() + 20
    while product.read_session(session_id).status == "running":
        assert time.monotonic() < time_limit
    socket = SessionSocket(address, session_id)
    end = wait_for_end(product, socket, session_id, deadline_s=time.monotonic() + 20)
    socket.close()
    assert end is not None
    assert end.status == "completed"


def test_session_that_the_product_forgot_is_waited_for_no_longer(
    product: ProductClient, address: ProductAddress
) -> None:
    session_id = product.launch("forgotten")
    product.delete_session(session_id)
    socket = SessionSocket(replace(address, token="wrong-token-of-some-length"), session_id)
    end = wait_for_end(product, socket, session_id, deadline_s=time.monotonic() + 20)
    assert end is not None
    assert (end.status, end.ended_by) == (GONE, "poll")


def test_session_that_does_not_end_is_given_up_at_the_deadline(product: ProductClient, address: ProductAddress) -> None:
    session_id = product.launch("endless")
    socket = SessionSocket(address, session_id)
    begun = time.monotonic()
    assert wait_for_end(product, socket, session_id, deadline_s=begun + 0.5) is None
    assert 0.5 <= time.monotonic() - begun < 2
    socket.close()
