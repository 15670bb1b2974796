"""What of one session's browsing the next one can see, and what is recorded of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

# Leaves a trace in everything that a browser can remember a site by.
LEAVE = """(async () => {
  document.cookie = 'mark=here; max-age=3600';
  localStorage.setItem('mark', 'here');
  await (await caches.open('mark')).put('/mark', new Response('here'));
  await new Promise((done) => {
    const open = indexedDB.open('mark');
    open.onupgradeneeded = () => open.result.createObjectStore('mark');
    open.onsuccess = () => { open.result.close(); done(); };
  });
  await navigator.serviceWorker.register('/worker.js');
  await navigator.serviceWorker.ready;
  return fetch('/once').then((answer) => answer.text());
})()"""
READ = """(async () => ({
  cookie: document.cookie,
  storage: localStorage.getItem('mark'),
  caches: await caches.keys(),
  databases: (await indexedDB.databases()).map((one) => one.name),
  workers: (await navigator.serviceWorker.getRegistrations()).length,
}))()"""
NOTHING: dict[str, object] = {"cookie": "", "storage": None, "caches": [], "databases": [], "workers": 0}
ALL: dict[str, object] = {
    "cookie": "mark=here",
    "storage": "here",
    "caches": ["mark"],
    "databases": ["mark"],
    "workers": 1,
}


def read(backend: Any, card: str) -> Any:
    reply = backend.do(card, "evaluate", expression=READ)
    assert "error" not in reply, reply
    return json.loads(reply["text"])


@pytest.fixture
def address(pages: int) -> str:
    """A page whose origin is trusted enough for caches and service workers."""
    return f"http://127.0.0.1:{pages}/nothing.html"


def test_nothing_of_one_session_reaches_the_next(backend: Any, address: str) -> None:
    first = backend.add_card(address, spawned_by="session-1")
    fetched = backend.do(first, "evaluate", expression=LEAVE)["text"]
    assert read(backend, first) == ALL
    second = backend.add_card(address, spawned_by="session-2")
    assert read(backend, second) == NOTHING
    once = backend.do(second, "evaluate", expression="fetch('/once').then((answer) => answer.text())")["text"]
    assert once != fetched, "the first one's cached answer was not this one's"
    backend.drop_card(first)
    again = backend.add_card(address, spawned_by="session-1")
    assert read(backend, again) == NOTHING, "the context went with its last card"
    for card in (second, again):
        backend.drop_card(card)


def test_cards_of_one_session_share_a_profile_while_one_is_left(backend: Any, address: str) -> None:
    first = backend.add_card(address, spawned_by="session-3")
    backend.do(first, "evaluate", expression=LEAVE)
    second = backend.add_card(address, spawned_by="session-3")
    assert read(backend, second) == ALL
    backend.drop_card(first)
    third = backend.add_card(address, spawned_by="session-3")
    assert read(backend, third) == ALL
    own = backend.add_card(address)
    assert read(backend, own) == NOTHING, "bv3's own cards live elsewhere"
    for card in (second, third, own):
        backend.drop_card(card)


def test_a_persistent_profile_is_there_for_the_next_session_and_the_next_renderer(
    start: Any, address: str, tmp_path: Path
) -> None:
    option = f"--profile-dir={tmp_path / 'profile'}"
    backend, renderer = start(option)
    first = backend.add_card(address, spawned_by="session-1")
    backend.do(first, "evaluate", expression=LEAVE)
    backend.drop_card(first)
    assert read(backend, backend.add_card(address, spawned_by="session-2")) == ALL
    assert renderer.stop() == 0
    backend, renderer = start(option)
    assert read(backend, backend.add_card(address, spawned_by="session-3")) == ALL
    renderer.process.kill()
    renderer.process.wait(10)
    backend, _ = start(option)
    assert read(backend, backend.add_card(address, spawned_by="session-4")) == ALL, "also after a kill"
