"""bv3-box cards, read, eval and shot on a real stack and a real Chromium: what is believed, and what never is."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from workers.preflight import probe_renderer
from workers.processes import kill_group

ESCAPES = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202ddlrow\u202c"
HANG = "<p>a page that will hang<script>addEventListener('load', () => setTimeout(() => { for (;;); }, 50))</script>"


@pytest.fixture(autouse=True)
def raw_card_is_back(box: Any) -> Iterator[None]:
    yield
    with box.product() as product:
        assert product.evaluate(box.facts.raw_card, "location.href") == "about:blank"
        assert product.evaluate(box.facts.audit_card, "location.href") == "about:blank"


def put_card(box: Any, card: str, spawned_by: str | None) -> None:
    """A card in the layout that the renderer has not heard of: it answers nothing."""
    with box.product() as product:
        layout = product.read_layout()
        cards = layout["browser_cards"]
        plain = {**cards[box.facts.raw_card], "browser_id": card, "spawned_by": spawned_by, "keep_open": True}
        product.write_layout({**layout, "browser_cards": {**cards, card: plain}})


@pytest.fixture
def more_cards(box: Any) -> Iterator[None]:
    put_card(box, "browser-user0000", None)
    put_card(box, "browser-sess0000", "5e55104")
    yield
    with box.product() as product:
        product.remove_cards(frozenset({"browser-user0000", "browser-sess0000"}))


def test_cards_tells_whose_each_is_and_where_its_page_says_it_is(box: Any) -> None:
    done = box.run("cards")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.decode().splitlines()
    assert [line.split("  ")[:3] for line in lines] == [
        [box.facts.audit_card, "bv3's own", "1 tab"],
        [box.facts.raw_card, "bv3's own", "1 tab"],
    ]
    assert all(line.endswith("about:blank") for line in lines)


def test_wedged_cards_are_named_with_their_owners(box: Any, more_cards: None) -> None:
    begun = time.monotonic()
    done = box.run("cards", "--json")
    assert time.monotonic() - begun < 30, "each card has its own time, and they are asked together"
    assert done.returncode == 1
    assert done.stderr.decode().splitlines() == ["wedged: browser-sess0000", "wedged: browser-user0000"]
    cards = {card["card"]: card for card in json.loads(done.stdout)["cards"]}
    assert {name: card["owner"] for name, card in cards.items()} == {
        box.facts.audit_card: "bv3",
        box.facts.raw_card: "bv3",
        "browser-user0000": "user",
        "browser-sess0000": "5e55104",
    }
    assert cards["browser-user0000"]["answers"] is False
    assert cards["browser-user0000"]["error"]
    assert cards[box.facts.raw_card]["answers"] is True


def test_page_is_read_and_the_address_it_told_is_on_stderr(box: Any, pages: Any) -> None:
    url = pages.put("/plain", "<h1>First light</h1><p>tonight<script>'no text'</script>")
    done = box.run("read", url)
    assert (done.returncode, done.stdout.decode()) == (0, "First light\n\ntonight\n")
    assert f"{url} on {box.facts.raw_card} in " in done.stderr.decode()


def test_text_is_seen_or_absent_by_the_exit_code(box: Any, pages: Any) -> None:
    url = pages.put("/twice", "<p>First light</p><p>first light</p><p>First\u00a0 light</p>")
    seen, absent = box.run("read", url, "First light"), box.run("read", url, "telescope", "--wait", "0.5")
    assert (seen.returncode, seen.stdout.decode()) == (0, f"seen 2 times at {url}\n")
    assert (absent.returncode, absent.stdout.decode()) == (1, f"absent at {url}\n")
    plain = json.loads(box.run("read", url, "First light", "--json").stdout)
    assert (plain["answer"], plain["count"], plain["href"]) == ("seen", 2, url)


def test_text_that_comes_late_is_waited_for(box: Any, pages: Any) -> None:
    late = "<p>loading<script>setTimeout(() => { document.body.innerText = 'telescope'; }, 2000)</script>"
    done = box.run("read", pages.put("/late", late), "telescope", "--wait", "15")
    assert done.returncode == 0, done.stdout


def test_open_shadow_roots_and_own_frames_are_read_once_and_fields_are_told_apart(box: Any, pages: Any) -> None:
    body = """<p>outside</p><div id=h></div><iframe srcdoc='<p>in a frame</p>'></iframe><textarea>a draft</textarea>
    <script>h.attachShadow({mode: 'open'}).innerHTML = '<style>p{color:red}</style><p>in a shadow</p>'</script>"""
    url = pages.put("/deep", body)
    for text in ("outside", "in a frame", "in a shadow"):
        found = json.loads(box.run("read", url, text, "--json").stdout)
        assert (found["answer"], found["count"], found["in_fields"]) == ("seen", 1, 0), text
    draft = box.run("read", url, "a draft")
    assert draft.stdout.decode() == f"seen 0 times, 1 in text fields at {url}\n"


def test_frame_of_another_origin_makes_nothing_absent(box: Any, pages: Any) -> None:
    url = pages.put("/framed", "<p>outside</p><iframe src='data:text/html,<p>inside'></iframe>")
    could_not = box.run("read", url, "inside", "--wait", "0.5")
    assert (could_not.returncode, could_not.stdout.decode().startswith("could not look: ")) == (3, True)
    assert box.run("read", url, "inside", "--wait", "0.5", "--skip-frames").returncode == 1
    assert box.run("read", url, "outside").returncode == 0


@pytest.mark.parametrize("how", ["by the server", "by a script"])
def test_redirect_is_no_page_and_is_told(box: Any, pages: Any, how: str) -> None:
    login = pages.put("/login", "<p>please sign in")
    if how == "by the server":
        pages.moved["/wanted"] = login
        url = f"{pages.url}/wanted"
    else:
        url = pages.put("/moving", "<p>wait<script>setTimeout(() => location.replace('/login'), 30)</script>")
    done = box.run("read", url, "post k3f9x")
    assert done.returncode == 3
    assert f"redirected: the page is at {login}" in done.stderr.decode()
    followed = box.run("read", url, "--follow")
    assert (followed.returncode, followed.stdout.decode()) == (0, "please sign in\n")
    assert f"redirected: {url} led to {login}" in followed.stderr.decode()


@pytest.mark.parametrize("nothing", ["empty", "nobody listens", "no content"])
def test_page_without_text_or_answer_could_not_be_looked_at(
    box: Any, pages: Any, free_port: Callable[[], int], nothing: str
) -> None:
    url = {
        "empty": pages.put("/empty", ""),
        "nobody listens": f"http://127.0.0.1:{free_port()}/",
        "no content": f"{pages.url}/204",
    }[nothing]
    pages.no_content.add("/204")
    done = box.run("read", url, "post k3f9x", "--timeout", "6")
    assert done.returncode == 3, done.stdout
    assert done.stdout == b""
    assert url in done.stderr.decode()


def test_hostile_text_reaches_no_terminal_and_is_whole_in_json(box: Any, pages: Any) -> None:
    url = pages.put("/hostile", f"<pre>{ESCAPES}</pre>")
    shown = box.run("read", url)
    acted_on = [b"\x1b", b"\x07", "\x9b".encode(), "\u202d".encode()]
    assert [one for one in acted_on if one in shown.stdout + shown.stderr] == []
    assert rb"\x1b]0;owned\x07\x1b[2J\x9b31m\u202ddlrow\u202c" in shown.stdout
    assert json.loads(box.run("read", url, "--json").stdout)["text"] == ESCAPES
    thrown = box.run("eval", url, "(() => { throw new Error('\\x1b[31m' + document.body.innerText) })()")
    assert thrown.returncode == 1
    assert b"\x1b" not in thrown.stdout + thrown.stderr
    value = box.run("eval", url, "document.body.innerText", "--json")
    assert json.loads(value.stdout)["result"].strip() == ESCAPES


def test_expression_is_evaluated_there(box: Any, pages: Any) -> None:
    url = pages.put("/plain", "<p>one<p>two")
    assert box.run("eval", url, "document.querySelectorAll('p').length").stdout == b"2\n"
    assert json.loads(box.run("eval", url, "({a: [1, location.pathname]})").stdout) == {"a": [1, "/plain"]}


def test_picture_is_written_and_named(box: Any, pages: Any, tmp_path: Path) -> None:
    url = pages.put("/plain", "<h1>First light</h1>")
    file = tmp_path / "shot.png"
    done = box.run("shot", url, "--out", str(file))
    assert (done.returncode, done.stdout.decode()) == (0, f"{file}\n")
    assert file.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    elsewhere = box.run("shot", url, "--out", str(tmp_path / "no" / "shot.png"))
    assert elsewhere.returncode == 2
    assert b"can't be written" in elsewhere.stderr


def test_what_is_no_address_is_a_usage_error_and_no_stack_is_infrastructure(box: Any, tmp_path: Path) -> None:
    assert box.run("read", "x.com/home").returncode == 2
    file = tmp_path / "box.toml"
    file.write_text(box.file.read_text().replace(str(box.folder), str(tmp_path)))
    other = type(box)(file=file, folder=tmp_path, facts=box.facts)
    for words in (("cards",), ("read", "https://x.com/"), ("eval", "https://x.com/", "1"), ("shot", "https://x.com/")):
        done = other.run(*words)
        assert done.returncode == 3
        assert b"no booted stack" in done.stderr
        assert b"Traceback" not in done.stderr


def test_site_of_the_stack_is_read_under_its_real_name(box: Any) -> None:
    done = box.run("read", "https://x.com/home", "What is happening?!")
    assert (done.returncode, done.stdout.decode()) == (0, "seen 1 time at https://x.com/home\n")
    assert box.run("read", "https://x.com/", "--timeout", "20").returncode == 3, "it leads to /home"


def test_page_that_hangs_ends_in_time_and_the_next_call_says_which_card_it_wedged(
    box: Any, pages: Any, wait_until: Callable[..., None]
) -> None:
    begun = time.monotonic()
    done = box.run("read", pages.put("/hang", HANG), "--timeout", "8")
    assert done.returncode == 3, (done.stdout, done.stderr)
    assert time.monotonic() - begun < 45
    assert "could not be looked at in time" in done.stderr.decode()
    assert f"card {box.facts.raw_card} did not go back" in done.stderr.decode()
    passed_over = box.run("read", pages.put("/plain", "<p>First light"))
    assert passed_over.returncode == 0, passed_over.stderr
    assert f"card {box.facts.raw_card} is wedged, passed over" in passed_over.stderr.decode()
    assert f"on {box.facts.audit_card} in" in passed_over.stderr.decode()
    # a new renderer has new cards
    kill_group(box.find_part("renderer").pid)

    def is_well() -> bool:
        with box.product() as product:
            cards = (box.facts.raw_card, box.facts.audit_card)
            return all(probe_renderer(product, card).answered for card in cards)

    wait_until(is_well, "the new renderer")
