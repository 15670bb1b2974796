"""The actions beside the write path: elements, console, tools, routes, cookies, batches and marked pictures."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

Open = Callable[[str], str]
Wait = Callable[..., Any]


def test_get_elements_tells_what_can_be_used_and_no_passwords(backend: Any, open_card: Open) -> None:
    card = open_card("busy.html")
    reply = backend.do(card, "get_elements")
    found = json.loads(reply["text"])
    assert {"tag": "button", "text": "Go", "id": "go", "data-testid": "go"} in found
    assert any(one["text"] == "In the shadow" for one in found)
    assert any(one.get("value") == "old" for one in found)
    assert "hunter2" not in reply["text"]
    assert reply["url"] == "http://pages.test/busy.html"
    links = json.loads(backend.do(card, "get_elements", selector="a")["text"])
    assert links == [{"tag": "a", "text": "Away", "href": "/nothing.html"}]
    assert json.loads(backend.do(card, "get_elements", selector="video")["text"]) == []
    assert backend.do(card, "get_elements", selector="][")["error"] == "Invalid selector: ]["


def test_get_elements_tells_eighty_at_most(backend: Any, open_card: Open) -> None:
    assert len(json.loads(backend.do(open_card("many.html"), "get_elements", selector="button")["text"])) == 80


def test_get_console_tells_what_was_said_before_anybody_asked(backend: Any, open_card: Open, wait_until: Wait) -> None:
    card = open_card("busy.html")
    wait_until(lambda: "thrown later" in backend.do(card, "get_console")["text"], "the error", 20)
    reply = backend.do(card, "get_console")
    assert "[log] hello 7" in reply["text"]
    assert "something broke" in reply["errors"]
    assert any("thrown later" in error for error in reply["errors"])
    assert reply["url"] == "http://pages.test/busy.html"
    backend.do(card, "navigate", url="http://pages.test/rich.html")
    reply = backend.do(card, "get_console")
    assert "something broke" not in reply["text"], "the messages are the document's"


def test_a_page_that_logs_thousands_of_messages_a_second_disturbs_nobody(start: Any) -> None:
    # A renderer of its own: on a machine under load it may end here, and would take other tests with it.
    loud, quiet = "browser-loud", "browser-quiet"
    backend, _ = start(cards={loud: "http://pages.test/nothing.html", quiet: "http://pages.test/rich.html"})
    backend.do(
        loud, "evaluate", expression="setInterval(() => { for (let i = 0; i < 300; i++) console.log(i) }, 100); 1"
    )
    assert "error" not in backend.do(quiet, "wait", milliseconds=500)
    replies = [backend.do(quiet, "get_text") for _ in range(20)]
    assert all("error" not in reply for reply in replies)
    assert backend.do(loud, "get_console")["text"].count("\n") == 49


def test_detect_webmcp_tells_the_tools_of_forms(backend: Any, open_card: Open) -> None:
    reply = backend.do(open_card("busy.html"), "detect_webmcp")
    assert reply["tools"] == [{"name": "write_post", "description": "Writes a post"}]
    assert reply["text"] == "write_post: Writes a post"
    none = backend.do(open_card("nothing.html"), "detect_webmcp")
    assert (none["tools"], none["text"]) == ([], "This page offers no WebMCP tools.")


def test_routes_are_what_scripts_asked_for_and_only_reads_are_asked_again(
    backend: Any, open_card: Open, wait_until: Wait
) -> None:
    card = open_card("busy.html")
    read = {"method": "GET", "url": "http://pages.test/data.json"}
    write = {"method": "POST", "url": "http://pages.test/write?x=1"}
    wait_until(lambda: len(backend.do(card, "list_routes", writes=True)["routes"]) == 2, "both routes", 20)
    assert backend.do(card, "list_routes")["routes"] == [read]
    assert backend.do(card, "list_routes", writes=True)["routes"] == [read, write]
    reply = backend.do(card, "replay_route", **read)
    assert (reply["status"], json.loads(reply["text"])) == (200, {"answer": 42})
    assert "is not sent again" in backend.do(card, "replay_route", **write)["error"]
    assert backend.do(card, "replay_route", url="http://pages.test/other", method="GET")["error"] == (
        "No route GET http://pages.test/other was seen on this page"
    )
    assert backend.do(card, "replay_route")["error"] == "url parameter is required"


def test_a_batch_does_its_actions_in_order(backend: Any, open_card: Open) -> None:
    card = open_card("textarea.html")
    actions = [
        {"type": "list_interactives", "params": {}},
        {"type": "click_index", "params": {"index": 1, "text": "in a batch"}},
        {"type": "evaluate", "params": {"expression": "document.querySelector('textarea').value"}},
    ]
    reply = backend.do(card, "batch", actions=actions)
    assert (reply["aborted_at"], reply["abort_reason"]) == (None, None)
    assert reply["results"][2]["text"] == "in a batch"
    assert reply["text"] == "3 of 3 actions done"
    assert reply["url"] == "http://pages.test/textarea.html"


def test_a_batch_stops_at_an_error_and_at_another_page(backend: Any, open_card: Open) -> None:
    card = open_card("busy.html")
    last = {"type": "evaluate", "params": {"expression": "window.reached = 1"}}
    failed = backend.do(card, "batch", actions=[{"type": "click", "params": {"selector": "#none"}}, last])
    assert (failed["aborted_at"], failed["abort_reason"]) == (0, "error: Element not found: #none")
    unknown = backend.do(card, "batch", actions=[{"type": "batch", "params": {"actions": []}}, last])
    assert unknown["results"] == [{"type": "batch", "error": "Unknown browser action: batch"}]
    assert "error" not in unknown, "the batch itself did not fail"
    away = backend.do(card, "batch", actions=[{"type": "click", "params": {"selector": "a"}}, last])
    assert (away["aborted_at"], len(away["results"])) == (0, 1)
    assert away["abort_reason"] == "url changed to http://pages.test/nothing.html"
    assert backend.do(card, "evaluate", expression="typeof window.reached")["text"] == "undefined"


def test_a_batch_takes_five_actions_at_most(backend: Any, open_card: Open) -> None:
    card = open_card("nothing.html")
    wait = {"type": "wait", "params": {"milliseconds": 100}}
    assert "error" not in backend.do(card, "batch", actions=[wait] * 5)
    assert backend.do(card, "batch", actions=[wait] * 6)["error"] == "at most 5 actions at once, not 6"
    assert backend.do(card, "batch")["error"] == "actions parameter is required"
    assert backend.do(card, "batch", actions=[7])["error"] == "each of actions needs a type"


def test_a_picture_is_marked_beside_the_page_and_not_in_it(backend: Any, open_card: Open) -> None:
    card = open_card("textarea.html")
    plain = backend.do(card, "screenshot")
    assert "text" not in plain, "nothing has been listed"
    backend.do(card, "list_interactives")
    watch = "window.seen = 0; new MutationObserver(() => window.seen++).observe(document, {childList: true, "
    watch += "subtree: true, attributes: true}); 1"
    backend.do(card, "evaluate", expression=watch)
    marked = backend.do(card, "screenshot")
    assert marked["text"] == "2 numbered elements are marked"
    assert [stage.partition("=")[0] for stage in marked["stages"]] == ["capture", "annotate"]
    unmarked = backend.do(card, "screenshot", annotate=False)
    assert marked["image"] != unmarked["image"]
    assert base64.b64decode(marked["image"]).startswith(b"\x89PNG")
    assert backend.do(card, "evaluate", expression="window.seen")["text"] == "0"


def test_cookies_are_told_and_imported_for_one_domain_of_one_session(backend: Any) -> None:
    first = backend.add_card("http://pages.test/nothing.html", spawned_by="cookies-1")
    second = backend.add_card("http://pages.test/nothing.html", spawned_by="cookies-2")
    cookies = [
        {"name": "sid", "value": "s3", "domain": ".pages.test", "path": "/", "sameSite": "lax", "httpOnly": True},
        {"name": "late", "value": "x", "expirationDate": 4_000_000_000.5},
        {"name": "other", "value": "y", "domain": "elsewhere.test"},
        {"name": 7},
    ]
    reply = backend.do(first, "import_session", domain="pages.test", cookies=cookies)
    assert reply["text"] == "Imported 2 of 4 cookies of pages.test"
    assert backend.do(first, "evaluate", expression="document.cookie")["text"] == "late=x"
    told = backend.do(first, "get_session_cookies", domain="https://pages.test/")["cookies"]
    assert {one["name"]: one["value"] for one in told} == {"sid": "s3", "late": "x"}
    assert backend.do(second, "get_session_cookies", domain="pages.test")["cookies"] == []
    assert "No browser session" in backend.do("", "get_session_cookies", domain="pages.test")["error"]
    backend.drop_card(second)
    assert len(backend.do("", "get_session_cookies", domain="pages.test")["cookies"]) == 2, "there is only one"
    assert backend.do(first, "get_session_cookies")["error"] == "domain parameter is required"
    assert backend.do(first, "import_session", domain="pages.test")["error"] == "cookies parameter is required"
    backend.drop_card(first)


def test_perform_action_says_when_the_domain_does_not_answer(backend: Any, open_card: Open, free_port: Any) -> None:
    card = open_card("nothing.html")
    steps = [{"type": "get_text"}]
    reply = backend.do(card, "perform_action", domain=f"127.0.0.1:{free_port()}", steps=steps)
    assert "ERR_CONNECTION_REFUSED" in reply["error"]
    assert backend.do(card, "perform_action", domain="x.test")["error"] == "steps parameter is required"


def test_hostile_parameters_are_answered(backend: Any, open_card: Open) -> None:
    card = open_card("nothing.html")
    asked: list[tuple[str, dict[str, Any]]] = [
        ("click_index", {"index": 10**400}),
        ("click_index", {"index": "x" * 100_000}),
        ("get_text", {"max_chars": {"a": 1}}),
        ("get_elements", {"selector": ["x"]}),
        ("batch", {"actions": {"0": 1}}),
        ("evaluate", {"expression": "'\ud83d'"}),
        ("type", {"selector": "body", "text": "\ud83d"}),
        ("find_composer", {"fill": "\x00", "reveal": "yes"}),
        ("wait", {"milliseconds": "NaN"}),
        ("navigate", {"url": "\ud83d"}),
    ]
    for action, params in asked:
        assert backend.do(card, action, **params)["total_ms"] < 9000, action
    assert backend.do(card, "evaluate", expression="1")["text"] == "1"
