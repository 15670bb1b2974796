"""What of one session's browsing the next one can see, and what is recorded of it."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Wait = Callable[..., Any]

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


def read_trace(path: Path) -> str:
    """What a trace tells, its pictures left out."""
    with zipfile.ZipFile(path) as archive:
        assert any(name.endswith(".jpeg") for name in archive.namelist()), "it has pictures"
        return "".join(
            archive.read(name).decode() for name in archive.namelist() if name.endswith((".trace", ".network"))
        )


@pytest.mark.parametrize("is_persistent", [False, True])
def test_each_session_leaves_one_trace_of_its_own(
    start: Any, wait_until: Wait, tmp_path: Path, is_persistent: bool
) -> None:
    records = tmp_path / "records"
    more = [f"--profile-dir={tmp_path / 'profile'}"] if is_persistent else []
    backend, renderer = start("--record=trace", f"--record-dir={records}", *more)
    own = backend.add_card("http://pages.test/crowd.html")
    assert "error" not in backend.do(own, "get_text")
    for session, page in (("session-1", "rich"), ("session/2", "textarea")):
        cards = [backend.add_card(f"http://pages.test/{page}.html", spawned_by=session) for _ in range(2)]
        for card in cards:
            assert backend.do(card, "find_composer", fill="in a trace")["filled"] is True
            backend.drop_card(card)
        name = session.replace("/", "_")
        wait_until(lambda name=name: (records / f"{name}.zip").is_file(), "the trace", 30)
        assert f"http://pages.test/{page}.html" in read_trace(records / f"{name}.zip")
    assert "rich.html" not in read_trace(records / "session_2.zip")
    late = backend.add_card("http://pages.test/lazy.html", spawned_by="session-1")
    assert "error" not in backend.do(late, "get_text")
    assert renderer.stop() == 0
    assert sorted(path.name for path in records.iterdir()) == ["session-1-2.zip", "session-1.zip", "session_2.zip"]


def test_recording_holds_up_no_closing_when_the_page_hangs(start: Any, wait_until: Wait, tmp_path: Path) -> None:
    backend, _ = start("--record=trace", f"--record-dir={tmp_path / 'records'}", "--command-deadline-s=5")
    card = backend.add_card("http://pages.test/rich.html", spawned_by="hung")
    backend.do(card, "evaluate", expression="void setTimeout(() => { for (;;); }, 100)")
    backend.drop_card(card)
    assert backend.do(card, "get_text")["total_ms"] < 1000, "it is gone at once"
    after = backend.add_card("http://pages.test/rich.html", spawned_by="next")
    assert backend.do(after, "find_composer", fill="next")["filled"] is True
    wait_until(lambda: (tmp_path / "records" / "hung.zip").is_file(), "the trace of the hung page", 40)


def test_videos_are_one_for_each_page_or_refused_where_ffmpeg_is_missing(
    start: Any, wait_until: Wait, tmp_path: Path
) -> None:
    records = tmp_path / "records"
    backend, renderer = start("--record=video", f"--record-dir={records}", wait=False)
    wait_until(lambda: renderer.ready_file.exists() or renderer.process.poll() is not None, "an outcome", 60)
    if renderer.process.poll() is not None:
        assert renderer.process.returncode == 1
        assert "playwright install ffmpeg" in renderer.log
        assert "Traceback" not in renderer.log
        return
    card = backend.add_card("http://pages.test/rich.html", spawned_by="filmed")
    assert backend.do(card, "find_composer", fill="in a video")["filled"] is True
    backend.drop_card(card)
    wait_until(lambda: (records / "filmed.webm").is_file(), "the video", 40)
    assert (records / "filmed.webm").read_bytes().startswith(b"\x1a\x45\xdf\xa3")


def test_recording_without_a_folder_is_a_usage_error(start: Any) -> None:
    _, renderer = start("--record=trace", wait=False)
    assert renderer.process.wait(30) == 2
    assert "--record-dir" in renderer.log
