"""Natures of the sites' pages: where they are set, what they change, and what they leave alone."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from infra.reference.sites.catalogue import load_sites
from infra.reference.sites.natures import (
    FOLDER,
    NATURES,
    compose,
    embellish,
    find_open_sites,
    find_ruling,
    write_script,
    write_table,
)
from infra.reference.sites.server import Sites

Ask = Callable[..., Any]


class Client:
    """Requests to the sites without a server in between."""

    def __init__(self, editors: Path) -> None:
        self._transport = httpx.ASGITransport(Sites(editors).make_app())

    def ask(self, method: str, url: str, **more: Any) -> httpx.Response:
        async def ask() -> httpx.Response:
            async with httpx.AsyncClient(transport=self._transport, base_url="http://127.0.0.1") as client:
                return await client.request(method, url, **more)

        return asyncio.run(ask())

    def get(self, url: str, **more: Any) -> httpx.Response:
        return self.ask("GET", url, **more)

    def post(self, url: str, **more: Any) -> httpx.Response:
        return self.ask("POST", url, **more)


PATHS = {
    "x.com": "/home",
    "linkedin.com": "/feed/",
    "reddit.com": "/r/test/submit",
    "youtube.com": "/watch?v=qk3vT0mB1xA",
    "instagram.com": "/p/C9fKx2PoLqA/",
    "twitch.tv": "/lumen_plays",
}
ADDED = {
    name: (one.scripts, one.editor_scripts, one.tops, one.bottoms)
    for name, one in ((name, nature.answer) for name, nature in NATURES.items())
}
EMBELLISHED = sorted(name for name, parts in ADDED.items() if any(parts))
REPLACED = sorted(name for name, one in NATURES.items() if one.answer.replaces_page and name != "page_dropped")


@pytest.fixture
def client(tmp_path: Path) -> Client:
    return Client(tmp_path)


@pytest.fixture
def tell(client: Client) -> Ask:
    def post(host: object, nature: object) -> Any:
        return client.post("/__nature", json={"host": host, "nature": nature})

    return post


@pytest.fixture
def get(client: Client) -> Ask:
    return lambda host, path="": client.get(path or PATHS[host], headers={"host": f"www.{host}"})


def test_open_sites_are_those_that_can_be_measured() -> None:
    assert {site.host for site in find_open_sites()} > set(PATHS)
    closed = {site.name for site in load_sites()} - {site.name for site in find_open_sites()}
    assert closed == {"gmail", "substack", "tiktok", "dpaste", "txti"}


def test_natures_are_set_listed_and_cleared(client: Client, tell: Ask) -> None:
    assert client.get("/__nature").json() == {"natures": {}}
    assert tell("www.linkedin.com", "page_404").json() == {"natures": {"linkedin.com": ["page_404"]}}
    many = {"host": "x.com", "natures": ["slow_network", "dm_trap", "page_500", "dm_trap"], "seed": 7}
    assert client.post("/__nature", json=many).json() == {
        "natures": {"linkedin.com": ["page_404"], "x.com": ["page_500", "dm_trap", "slow_network"]}
    }
    assert tell("x.com", "page_204").json()["natures"]["x.com"] == ["page_204"]
    assert tell("linkedin.com", None).json() == {"natures": {"x.com": ["page_204"]}}
    assert client.post("/__nature", json={"host": "x.com", "natures": []}).json() == {"natures": {}}


@pytest.mark.parametrize(
    ("host", "nature", "why"),
    [
        ("x.com", "page_403", "no nature is called 'page_403'"),
        ("x.com", 7, "no nature is called 7"),
        ("nobody.example", "page_404", "no open site has the host 'nobody.example'"),
        ("mail.google.com", "page_404", "no open site has the host 'mail.google.com'"),
        ("x.com.evil.example", "page_404", "no open site has the host"),
        (None, None, "no open site has the host None"),
    ],
)
def test_name_that_is_not_known_is_answered_with_those_that_are(
    client: Client, tell: Ask, host: object, nature: object, why: str
) -> None:
    tell("x.com", "page_500")
    answer = tell(host, nature)
    assert answer.status_code == 400
    body = answer.json()
    assert why in body["error"]
    assert (body["natures"], set(body["hosts"])) == (sorted(NATURES), {site.host for site in find_open_sites()})
    assert client.get("/__nature").json() == {"natures": {"x.com": ["page_500"]}}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b'{"host": "x.com"}',
        b'{"host": "x.com", "nature": null, "more": 1}',
        b'{"host": "x.com", "natures": "dm_trap"}',
        b'{"host": "x.com", "natures": [["dm_trap"]]}',
        b'{"host": "x.com", "natures": ["dm_trap"], "seed": "7"}',
        b'{"host": "x.com", "nature": "dm_trap", "natures": ["dm_trap"]}',
    ],
)
def test_body_of_another_form_is_refused(client: Client, body: bytes) -> None:
    assert client.post("/__nature", content=body).status_code == 400


@pytest.mark.parametrize(("scheme", "host"), [("http", "x.com"), ("http", "nobody.example"), ("https", "127.0.0.1")])
def test_only_this_machines_own_address_in_plain_http_is_listened_to(client: Client, scheme: str, host: str) -> None:
    url, headers = f"{scheme}://127.0.0.1/__nature", {"host": host}
    assert client.post(url, json={"host": "x.com", "nature": "page_404"}, headers=headers).status_code in {404, 405}
    assert client.get(url, headers=headers).status_code == 404
    assert client.get("/__nature").json() == {"natures": {}}


@pytest.mark.parametrize("name", EMBELLISHED)
@pytest.mark.parametrize("host", sorted(PATHS))
def test_the_page_is_as_it_is_but_for_what_the_nature_adds(tell: Ask, get: Ask, host: str, name: str) -> None:
    plain = get(host)
    tell(host, name)
    natural = get(host)
    assert (plain.status_code, natural.status_code) == (200, 200)
    policy = plain.headers["content-security-policy"]
    # frames of other hosts are shown only where there are such
    added = {policy, f"{policy}; frame-src 'self' https:"} if NATURES[name].answer.has_frames else {policy}
    assert natural.headers["content-security-policy"] in added
    # The plain page with something put in between, in its order.
    parts = re.split(r"(?<=<head>)|(?<=<body>)|(?=</body>)", plain.text)
    assert re.fullmatch(".+?".join(re.escape(part) for part in parts).replace(".+?", ".*?"), natural.text, re.DOTALL)
    assert len(natural.text) > len(plain.text)


@pytest.mark.parametrize("name", REPLACED)
def test_no_page_is_ever_kept_and_every_other_site_stays_as_it_was(tell: Ask, get: Ask, name: str) -> None:
    plain = {host: get(host) for host in PATHS}
    tell("x.com", name)
    for path in ("/", "/home", "/compose/post"):
        natural = get("x.com", path)
        assert natural.headers["cache-control"] == "no-store"
        assert natural.status_code in {NATURES[name].answer.status, 302}
        assert natural.text != plain["x.com"].text
    for host in set(PATHS) - {"x.com"}:
        assert get(host).text == plain[host].text
    tell("x.com", None)
    assert get("x.com").text == plain["x.com"].text


@pytest.mark.parametrize("host", sorted(PATHS))
def test_site_with_a_nature_is_still_read_at_its_destination(client: Client, tell: Ask, host: str) -> None:
    tell(host, "page_500")
    headers = {"host": host}
    assert client.post("/reference/posts", json={"text": "a"}, headers=headers).status_code == 201
    assert client.get("/reference/posts", headers=headers).json() == {"posts": [{"text": "a"}]}


def test_every_file_of_the_natures_is_used_by_one() -> None:
    answers = [nature.answer for nature in NATURES.values()]
    templates = {name for answer in answers for name in (answer.page, *answer.tops, *answer.bottoms) if name}
    scripts = {name for answer in answers for name in (*answer.scripts, *answer.editor_scripts)}
    used = scripts | {Path(name).name for name in templates}
    served = {"challenge_widget.html", "ad.html", "worker.js", "worker_gone.js", "editor.js"}
    assert {path.name for path in FOLDER.iterdir()} - used == served


def test_a_set_is_composed_the_same_in_any_order_and_what_replaces_the_page_leaves_nothing_else_of_it() -> None:
    every = list(NATURES.values())
    assert compose(every) == compose(every[::-1])
    assert find_ruling(every) == NATURES["page_404"]
    assert (compose(every).status, compose(every).tops, compose(every).editor_scripts) == (404, (), ())
    assert (compose(every).is_slow, compose(every).has_detour) == (True, True)
    usual = compose(nature for nature in every if nature.rate)
    assert not usual.replaces_page
    assert len(usual.editor_scripts) == len(set(usual.editor_scripts)) >= 10
    assert find_ruling(nature for nature in every if nature.rate) is None


def test_a_frame_has_what_acts_on_its_editor_and_nothing_around_it(client: Client) -> None:
    client.post("/__nature", json={"host": "x.com", "natures": ["dm_trap", "late_mount", "editor_late", "newsletter"]})
    whole = client.get("/home", headers={"host": "x.com"}).text
    framed = client.get("/home", headers={"host": "x.com", "sec-fetch-dest": "iframe"}).text
    for name, is_framed in (("natures-dm", False), ("DRAWN_AFTER_MS", False), ("SHOWN_AFTER_MS", True)):
        assert name in whole
        assert (name in framed) is is_framed


def test_a_page_without_scripts_has_no_script_element() -> None:
    assert not write_script(NATURES["dm_trap"].answer, editor=None, seed=0, is_framed=False)
    assert not write_script(NATURES["late_mount"].answer, editor=None, seed=0, is_framed=True)


def test_the_first_page_comes_after_three_redirects_once(client: Client) -> None:
    wish = {"host": "www.linkedin.com", "natures": ["redirect_chain"]}
    for _ in range(2):
        client.post("/__nature", json=wish)
        url, seen = "https://www.linkedin.com/feed/?a=b%20c", []
        while (answer := client.get(url)).status_code == 302:
            url = answer.headers["location"]
            seen.append(url.split("/")[2])
        assert (url, answer.status_code) == ("https://www.linkedin.com/feed/?a=b%20c", 200)
        assert seen == ["go.linkedin.com", "www.linkedin.com", "www.linkedin.com"]
        assert client.get("https://www.linkedin.com/feed/").status_code == 200


def test_the_worker_of_a_site_takes_itself_away_once_the_nature_is_gone(client: Client, tell: Ask) -> None:
    worker = "https://x.com/__worker.js"
    tell("x.com", "service_worker")
    assert "respondWith" in client.get(worker).text
    tell("x.com", None)
    assert "unregister" in client.get(worker).text


def test_drafts_are_kept_apart_from_posts(client: Client) -> None:
    client.post("https://x.com/reference/drafts", json={"text": "a"})
    assert client.get("https://x.com/reference/posts").json() == {"posts": []}
    assert client.get("https://x.com/reference/drafts").json() == {"drafts": [{"text": "a"}]}


def test_words_of_a_page_that_look_like_its_ends_are_left_alone() -> None:
    page = "<head></head><body><p>&lt;body&gt;</p><script>'<body></body>'</script></body>"
    assert embellish(page, head="H", top="T", bottom="B") == (
        "<head>H</head><body>T<p>&lt;body&gt;</p><script>'<body></body>'</script>B</body>"
    )


def test_documentation_holds_the_table_of_all_natures() -> None:
    page = Path(__file__).parents[3] / "docs" / "reference" / "natures.md"
    assert page.read_text().endswith(f"\n\n{write_table()}"), "write it anew from write_table()"
