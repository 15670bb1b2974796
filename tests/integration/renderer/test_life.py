"""How a renderer lives: cards come and go, requests run once, and nothing outlives it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import psutil
import pytest

Open = Callable[[str], str]
Wait = Callable[..., None]
LOOP = "void setTimeout(() => { for (;;) {} }, 0)"


def crowding() -> float:
    """How much longer things take because others want the processors too."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def not_found(card: str) -> str:
    return f"Browser card '{card}' not found or not an Electron webview"


def test_layouts_cards_are_mounted_when_it_is_ready_and_sigkill_leaves_no_chromium(start: Any) -> None:
    backend, renderer = start(cards={"browser-audit000": "about:blank", "browser-1": "http://pages.test/rich.html"})
    assert json.loads(renderer.ready_file.read_text())["cards"] == ["browser-1", "browser-audit000"]
    assert backend.received[0] == {"event": "dashboard:active", "data": {"dashboard_id": "dash-1"}}
    reply = backend.do("browser-1", "get_text")
    assert "probe text" in reply["text"]
    assert reply["gate_ms"] < 500
    assert backend.do("browser-audit000", "evaluate", expression="location.href")["text"] == "about:blank"
    _check_sigkill(renderer)


def _check_sigkill(renderer: Any) -> None:
    """Killed without a chance to say good-bye, it leaves no Chromium behind."""
    family = renderer.descendants()
    assert len(family) > 2
    renderer.process.kill()
    renderer.process.wait(5)
    _, alive = psutil.wait_procs(family, timeout=15)
    assert not alive


def test_an_added_card_loads_its_url_once_however_often_it_is_announced(backend: Any, open_card: Open) -> None:
    card = open_card("rich.html")
    backend.do(card, "evaluate", expression="window.mark = 'still here'")
    backend.announce(card)
    backend.announce(card)
    assert backend.do(card, "evaluate", expression="window.mark")["text"] == "still here"


def test_an_unknown_card_is_waited_for_two_seconds(backend: Any) -> None:
    plain = backend.ask("browser-none", "get_text")
    tabbed = backend.ask("browser-none", "get_text", tab_id="tab-7")
    reply = backend.answer(plain)
    assert reply["error"] == not_found("browser-none")
    assert 1900 < reply["total_ms"] < 2500 * crowding()
    assert backend.answer(tabbed)["error"] == (
        "Browser card 'browser-none' tab 'tab-7' not found or not an Electron webview"
    )


def test_a_command_that_comes_before_its_card_finds_it(backend: Any) -> None:
    request = backend.ask("browser-late", "get_text")
    backend.cards["browser-late"] = backend.card("browser-late", "http://pages.test/rich.html")
    backend.announce("browser-late")
    assert "probe text" in backend.answer(request)["text"]
    backend.drop_card("browser-late")


def test_a_request_runs_once_and_is_answered_again_from_memory(backend: Any, open_card: Open) -> None:
    card = open_card("nothing.html")
    count = "window.n = (window.n ?? 0) + 1; new Promise(done => setTimeout(() => done(window.n), 300))"
    request = backend.ask(card, "evaluate", expression=count)
    backend.ask_again(request, card, "evaluate", expression=count)
    first = backend.answer(request)
    assert first["text"] == "1"
    backend.ask_again(request, card, "evaluate", expression=count)
    assert backend.answer(request) == first
    assert backend.do(card, "evaluate", expression="window.n")["text"] == "1"


def test_an_evicted_card_is_gone_at_once(backend: Any, open_card: Open) -> None:
    card = open_card("nothing.html")
    assert "error" not in backend.do(card, "get_text")
    backend.drop_card(card)
    reply = backend.do(card, "get_text")
    assert reply["error"] == not_found(card)
    assert reply["total_ms"] < 1000


def test_a_card_closed_in_the_middle_of_a_command_is_not_found(backend: Any, open_card: Open) -> None:
    card = open_card("nothing.html")
    backend.do(card, "get_text")
    request = backend.ask(card, "evaluate", expression="new Promise(() => {})")
    backend.drop_card(card)
    assert backend.answer(request, 15)["error"] == not_found(card)


def test_malformed_frames_change_nothing(backend: Any, open_card: Open) -> None:
    card = open_card("nothing.html")
    for text in ("{", "[]", '{"event":"browser:command"}', '{"event":"browser:command","data":{}}', '{"event":1}'):
        backend.push_text(text)
    backend.push("browser:command", request_id="r", action=7, browser_id=card, params=[])
    backend.push("dashboard:browser_card_added", browser_card="none")
    backend.push("agent:status")
    assert "error" not in backend.do(card, "get_text")


def test_the_socket_is_opened_again_and_lost_replies_are_resent(start: Any, wait_until: Wait) -> None:
    backend, _ = start(cards={"browser-1": "http://pages.test/rich.html"})
    slow = "new Promise(done => setTimeout(() => done('done'), 400))"
    request = backend.ask("browser-1", "evaluate", expression=slow)
    backend.cards["browser-2"] = backend.card("browser-2", "http://pages.test/nothing.html")
    del backend.cards["browser-1"]
    backend.close_sockets()
    wait_until(lambda: backend.opened == 2 and backend.sockets, "a second connection", 30)
    backend.ask_again(request, "browser-1", "evaluate", expression=slow)
    assert backend.answer(request)["request_id"] == request
    assert "Only words" in backend.do("browser-2", "get_text")["text"], "a card put while we were away is mounted"
    assert backend.do("browser-1", "get_text")["error"] == not_found("browser-1")


def test_cards_of_an_ended_session_are_closed_and_taken_out_of_the_layout(start: Any, wait_until: Wait) -> None:
    backend, _ = start("--close-after-s=0.4")
    page = "http://pages.test/nothing.html"
    own = backend.add_card(page, spawned_by="parent")
    kept = backend.add_card(page, spawned_by="parent", keep_open=True)
    asked = backend.add_card(page, spawned_by="parent")
    users = backend.add_card(page)
    others = backend.add_card(page, spawned_by="other")
    stopped = backend.add_card(page, spawned_by="stopped")
    backend.push("dashboard:browser_card_keep", dashboard_id="dash-1", browser_id=asked)
    for card in (own, kept, asked, users, others, stopped):
        assert "error" not in backend.do(card, "get_text")
    backend.push_status("other", "completed", mode="browser-agent")
    backend.push_status("stopped", "stopped")
    began = time.monotonic()
    backend.push_status("parent", "completed")
    assert "error" not in backend.do(own, "get_text"), "it is still there for the audit"
    wait_until(lambda: backend.puts, "the layout without the card", 20)
    assert time.monotonic() - began > 0.4
    assert set(backend.cards) == {kept, asked, users, others, stopped}
    assert backend.puts[0].keys() == {"layout"}, "a name would count as chosen by a person"
    assert backend.puts[0]["layout"]["other"] == 1
    reply = backend.do(own, "get_text")
    assert (reply["error"], reply["total_ms"] < 1000) == (not_found(own), True)
    for card in (kept, asked, users, others, stopped):
        assert "error" not in backend.do(card, "get_text")


def test_a_card_that_leaves_the_layout_after_its_session_ended_is_closed_at_once(
    backend: Any, wait_until: Wait
) -> None:
    card = backend.add_card("http://pages.test/nothing.html", spawned_by="ended")
    assert "error" not in backend.do(card, "get_text")
    puts = len(backend.puts)
    backend.push_status("ended", "stopped")
    del backend.cards[card]
    began = time.monotonic()
    wait_until(lambda: backend.do(card, "get_text").get("error") == not_found(card), "the card to go", 20)
    assert time.monotonic() - began < 1.5 * crowding()
    assert len(backend.puts) == puts


def test_a_card_that_leaves_the_layout_without_any_event_is_closed_soon(backend: Any, wait_until: Wait) -> None:
    card = backend.add_card("http://pages.test/nothing.html", spawned_by="deleted")
    assert "error" not in backend.do(card, "get_text")
    del backend.cards[card]
    wait_until(lambda: backend.do(card, "get_text").get("error") == not_found(card), "the card to go", 20)


def test_a_layout_that_can_not_be_written_is_written_later(start: Any, wait_until: Wait) -> None:
    backend, _ = start("--close-after-s=0.1")
    card = backend.add_card("http://pages.test/nothing.html", spawned_by="parent")
    backend.is_broken = True
    backend.push_status("parent", "completed")
    wait_until(lambda: backend.do(card, "get_text").get("error") == not_found(card), "the card to go", 20)
    backend.close_sockets()
    wait_until(lambda: backend.opened == 2, "a second connection", 30)
    assert card in backend.cards
    backend.is_broken = False
    wait_until(lambda: card not in backend.cards, "the layout without the card", 20)
    assert backend.do(card, "get_text")["error"] == not_found(card)


def test_a_hanging_page_is_answered_in_time_and_holds_up_nobody_not_even_sigterm(start: Any) -> None:
    page = "http://pages.test/rich.html"
    backend, renderer = start("--command-deadline-s=2", cards={"browser-hung": page, "browser-well": page})
    backend.do("browser-hung", "evaluate", expression=LOOP)
    reads = {action: backend.ask("browser-hung", action) for action in ("get_text", "list_interactives", "screenshot")}
    for action in ("list_interactives", "get_text", "find_composer"):
        reply = backend.do("browser-well", action)
        assert "error" not in reply
        assert reply["total_ms"] < 900 * crowding()
    replies = {action: backend.answer(request, 15) for action, request in reads.items()}
    assert replies["get_text"]["error"] == "Browser command failed: page unresponsive (no answer in 2 s)"
    assert replies["list_interactives"]["error"].startswith("getFullAXTree failed: the page is too busy to read")
    assert replies["screenshot"]["error"].startswith("Screenshot failed after retries: ")
    assert all(1900 < reply["total_ms"] < 2500 * crowding() for reply in replies.values())
    _check_sigterm(renderer)


def test_a_server_that_never_answers_is_left_by_the_next_navigation(backend: Any, open_card: Open) -> None:
    card = open_card("slow")
    assert backend.do(card, "navigate", url="http://pages.test/rich.html")["text"].startswith("Navigated")
    assert "probe text" in backend.do(card, "get_text")["text"]


def test_cards_of_nobody_share_one_profile(backend: Any, open_card: Open) -> None:
    first, second = open_card("nothing.html"), open_card("rich.html")
    backend.do(first, "evaluate", expression="document.cookie = 'who=me'; localStorage.setItem('k', 'v')")
    read = "document.cookie + localStorage.getItem('k')"
    assert backend.do(second, "evaluate", expression=read)["text"] == "who=mev"


def test_sigterm_ends_it_within_two_seconds_when_chromium_is_stopped(start: Any) -> None:
    _, renderer = start()
    for process in renderer.descendants():
        if "headless" in process.name() or "chrom" in process.name():
            process.suspend()
    _check_sigterm(renderer)


def _check_sigterm(renderer: Any) -> None:
    family = renderer.descendants()
    began = time.monotonic()
    assert renderer.stop() == 0
    assert time.monotonic() - began < 2 * crowding()
    _, alive = psutil.wait_procs(family, timeout=10)
    assert not alive


def test_it_ends_at_once_when_its_browser_is_killed(start: Any) -> None:
    _, renderer = start()
    _kill_chromium(renderer, lambda line: "--type=" not in line and "--remote-debugging-pipe" in line)
    assert renderer.process.wait(3 * crowding()) == 1
    assert "workers.renderer: Chromium is gone" in renderer.log
    assert "Traceback" not in renderer.log


def test_it_ends_at_once_when_a_page_process_is_killed(start: Any) -> None:
    _, renderer = start(cards={"browser-1": "http://pages.test/rich.html"})
    _kill_chromium(renderer, lambda line: "--type=renderer" in line)
    assert renderer.process.wait(3 * crowding()) == 1
    assert "workers.renderer: the page process of browser-1 is gone" in renderer.log


def test_it_ends_at_once_when_playwrights_driver_is_killed(start: Any) -> None:
    _, renderer = start()
    family = renderer.descendants()
    _kill_chromium(renderer, lambda line: "run-driver" in line)
    assert renderer.process.wait(5 * crowding()) == 1
    _, alive = psutil.wait_procs(family, timeout=15)
    assert not alive
    assert "workers.renderer: Chromium is gone" in renderer.log


def _kill_chromium(renderer: Any, accepts: Callable[[str], bool]) -> None:
    for process in renderer.descendants():
        with contextlib.suppress(psutil.NoSuchProcess):
            if accepts(" ".join(process.cmdline())) and process.name() != "sh":
                process.send_signal(signal.SIGKILL)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--dashboard-id=none"], "answers 404 for dashboard none"),
        (["--chromium=/no/such/chromium"], "no Chromium at /no/such/chromium"),
        (["--token-file=/no/such/token"], "can't read the backend's token"),
        (["--chromium=/bin/false"], "Chromium did not start"),
    ],
)
def test_a_wrong_start_ends_with_a_cause_and_a_hint(start: Any, more: list[str], words: str) -> None:
    _, renderer = start(*more, wait=False)
    assert renderer.process.wait(60) == 1
    assert words in renderer.log
    assert "hint: " in renderer.log
    assert "Traceback" not in renderer.log


def test_help_is_quick_and_names_the_options() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "workers.renderer", "--help"], check=True, capture_output=True, text=True
    )
    for option in ("--backend", "--token-file", "--dashboard-id", "--chromium", "--host-map", "--close-after-s"):
        assert option in done.stdout
