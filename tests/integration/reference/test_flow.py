"""All nine sites end to end: the double, the real renderer, a real Chromium, real editors."""

from __future__ import annotations

import json
import os
import re
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

Frame = dict[str, Any]
PROMPTS = {
    "x": 'Go to https://x.com/ and publish a post with exactly this text: "{payload}"',
    "linkedin": 'Go to https://www.linkedin.com/ and create a post with exactly this text: "{payload}"',
    "reddit": 'Open https://www.reddit.com/r/test/submit and create a text post whose body is "{payload}"',
    "gmail": 'Open https://mail.google.com/ and start a new email whose body is "{payload}"',
    "youtube": 'Open https://www.youtube.com/, open the first video and write this comment: "{payload}"',
    "instagram": 'Go to https://www.instagram.com/ and write "{payload}" as a comment on the first post',
    "tiktok": 'Go to https://www.tiktok.com/ and write "{payload}" as a comment on the first video',
    "substack": 'Go to https://substack.com/ and start a new note with the text "{payload}"',
    "twitch": 'Go to https://www.twitch.tv/, open the first live channel and write "{payload}" in its chat',
}
OPEN_SITES = {
    "x": ("https://x.com/home", "div#editor", "act+send-probe=unknown"),
    "linkedin": (
        "https://www.linkedin.com/feed/",
        "div#editor",
        "act+send-probe=unknown",
    ),
    "reddit": (
        "https://www.reddit.com/r/test/submit",
        'textarea[aria-label="Body text (optional)"]',
        "act+send-probe=unknown",
    ),
    "youtube": (
        "https://www.youtube.com/watch?v=qk3vT0mB1xA",
        'div#contenteditable-root[aria-label="Add a comment…"]',
        "act+send-probe=unknown",
    ),
    "instagram": (
        "https://www.instagram.com/p/C9fKx2PoLqA/",
        'textarea[aria-label="Add a comment…"]',
        "act+send-probe=unknown",
    ),
    "twitch": ("https://www.twitch.tv/lumen_plays", "div#chat-input", "act+recovery"),
}
DECLINES = {
    "gmail": ("login/auth wall ('https://accounts.google.com/", "sign_in_url"),
    "substack": ("login/auth wall ('https://substack.com/') triggered by password field", "password_form"),
    "tiktok": ("no composer, opener, or structural editable", "challenge"),
}
SHAPES = {"x": "named", "linkedin": "opener", "gmail": "wall", "tiktok": "empty", "twitch": "structural"}
SLICES = {"named": "named", "opener": "lazy", "wall": "login", "empty": "empty", "structural": "unnamed"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One run, looked at from outside at its terminal push."""

    session: str
    payload: str
    log: str
    truth: Frame
    # Where the card's page stood, by an evaluate of our own.
    url: str


@pytest.fixture(scope="module")
def stack(
    start_double: Callable[..., Any], sites: Any, start_renderer: Callable[..., Any]
) -> tuple[Any, Any, psutil.Process]:
    """A double with a renderer attached, and the sites behind its browser."""
    double = start_double()
    renderer = start_renderer(double, sites)
    return double, sites, psutil.Process(renderer.popen.pid)


@pytest.fixture(scope="module")
def posted_before(sites: Any) -> dict[str, Any]:
    """What other tests have posted on the sites, which they share with these."""
    hosts = {prompt.partition("https://")[2].partition("/")[0] for prompt in PROMPTS.values()}
    return {host: sites.posts(host) for host in (*hosts, "accounts.google.com")}


@pytest.fixture(scope="module")
def seen(stack: tuple[Any, Any, psutil.Process], posted_before: dict[str, Any]) -> dict[str, Seen]:
    """One run on each site, one after the other."""
    double, _, _ = stack
    return {site: _run(double, PROMPTS[site]) for site in PROMPTS}


def _run(double: Any, prompt: str) -> Seen:
    payload = f"probe {secrets.token_hex(3)} coverage alpha"
    start = len(double.process.output)
    session, _ = double.run(prompt.format(payload=payload))
    dashboard = double.client.get(f"/api/dashboards/{double.dashboard}").json()
    cards = dashboard["layout"]["browser_cards"]
    (card,) = [key for key, card in cards.items() if card["spawned_by"] == session]
    body = {"action": "evaluate", "browser_id": card, "params": {"expression": "location.href"}}
    url = double.client.post("/api/browser/command", json=body).json()["text"]
    dashboard["layout"]["browser_cards"] = {key: card for key, card in cards.items() if not card["spawned_by"]}
    double.client.put(f"/api/dashboards/{dashboard['id']}", json={"layout": dashboard["layout"]})
    return Seen(
        session=session,
        payload=payload,
        log=double.process.output[start:],
        truth=double.rows("truth.jsonl")[-1],
        url=url,
    )


def _remote_addresses(renderer: psutil.Process) -> frozenset[str]:
    processes = [renderer, *renderer.children(recursive=True)]
    found = [connection for process in processes for connection in process.net_connections("inet")]
    return frozenset(connection.raddr.ip for connection in found if connection.raddr)


@pytest.mark.parametrize("site", sorted(OPEN_SITES))
def test_an_open_site_gets_the_payload_once_in_its_own_editor(seen: dict[str, Seen], site: str) -> None:
    run, (url, element, path) = seen[site], OPEN_SITES[site]
    assert run.url == url
    assert run.truth["total_ms"] > 0
    assert run.truth == {
        "session_id": run.session,
        "fault": None,
        "chosen": None,
        "failed": None,
        "natures": [],
        "evidence": None,
        "total_ms": run.truth["total_ms"],
        "why": "where the payload stands on the page",
        "site": site,
        "host": run.truth["host"],
        "mode": "dry",
        "claim": "filled",
        "bucket": "ok",
        "not_measurable": None,
        "surface_ok": True,
        "payload_on_page": True,
        "filled_element": element,
    }
    assert f" on {url}\n" in run.log
    assert "DRYRUN: WOULD send (fill committed" in run.log
    assert f"session {run.session} done: path={path} reply=" in run.log


@pytest.mark.parametrize("site", sorted(DECLINES))
def test_a_site_that_can_not_be_written_on_is_declined_with_the_reason(seen: dict[str, Seen], site: str) -> None:
    run, (reason, why) = seen[site], DECLINES[site]
    assert run.log.count(f"[browser-sendscript] decline: {reason}") == 2
    assert "DRYRUN" not in run.log
    facts = {key: run.truth[key] for key in ("site", "claim", "bucket", "not_measurable", "payload_on_page")}
    assert facts == {
        "site": site,
        "claim": "none",
        "bucket": "not_measurable",
        "not_measurable": why,
        "payload_on_page": False,
    }


def test_a_title_that_is_missing_leaves_the_submit_control_disabled(seen: dict[str, Seen]) -> None:
    assert "submit_resolved=False, submit_rank=0, submit='the submit control is present but DISABLED" in (
        seen["reddit"].log
    )


def test_a_private_box_beside_the_comment_box_is_left_alone(seen: dict[str, Seen]) -> None:
    assert "ignoring composer/opener 'Message…': wrong surface for this task" in seen["instagram"].log


@pytest.mark.parametrize(
    ("site", "tier"), [("x", "READY tier-0 in"), ("youtube", "tier-1: first video is https://www.youtube.com/watch?v=")]
)
def test_the_tier_that_found_the_composer_is_named(seen: dict[str, Seen], site: str, tier: str) -> None:
    assert f"[browser-prestage] {tier}" in seen[site].log


@pytest.mark.parametrize("site", sorted(SHAPES))
def test_the_lines_of_a_run_come_in_the_captured_order(
    seen: dict[str, Seen],
    templates: Callable[[str], list[str]],
    captured: Callable[[str], list[str]],
    site: str,
) -> None:
    assert templates(seen[site].log) == captured(SHAPES[site])


@pytest.mark.parametrize("shape", sorted(SLICES))
def test_the_captured_order_is_that_of_the_real_product(
    templates: Callable[[str], list[str]], captured: Callable[[str], list[str]], shape: str
) -> None:
    extra = os.environ.get("BV3_EXTRA_DATA")
    if not extra:
        pytest.skip("BV3_EXTRA_DATA is not set: no slices of the real product to compare with")
    text = (Path(extra) / "openswarm_slices" / f"slice_{SLICES[shape]}.log").read_text()
    assert captured(shape) == templates(text)


def test_every_line_has_the_products_form(seen: dict[str, Seen]) -> None:
    form = re.compile(r"\d\d:\d\d:\d\d [IW] backend\.[\w.]+: .+|INFO:     .+")
    lines = [line for run in seen.values() for line in run.log.splitlines()]
    assert [line for line in lines if not form.fullmatch(line)] == []
    assert any(
        re.fullmatch(r'INFO:     127\.0\.0\.1:\d+ - "POST /api/agents/launch HTTP/1.1" 200 OK', x) for x in lines
    )


def test_nothing_was_posted_anywhere(seen: dict[str, Seen], sites: Any, posted_before: dict[str, Any]) -> None:
    assert {run.truth["host"] for run in seen.values()} <= posted_before.keys()
    assert {host: sites.posts(host) for host in posted_before} == posted_before


def test_the_browser_speaks_to_loopback_alone(seen: dict[str, Seen], stack: tuple[Any, Any, psutil.Process]) -> None:
    double, _, renderer = stack
    _run(double, PROMPTS["twitch"])
    assert seen
    assert _remote_addresses(renderer) == {"127.0.0.1"}


def test_a_run_costs_about_a_second_and_its_row_says_where_it_went(stack: tuple[Any, Any, psutil.Process]) -> None:
    double, _, _ = stack
    started = time.monotonic()
    run = _run(double, PROMPTS["reddit"])
    assert time.monotonic() - started < 10
    children = double.client.get(f"/api/agents/sessions/{run.session}/browser-agents").json()["sessions"]
    rows = {row["session_id"]: row for row in double.rows("browser_metrics/tasks.jsonl")}
    first = rows[children[0]["id"]]
    assert first["prestage_ms"] + first["total_ms"] <= first["task_ms"] + 5
    assert json.dumps(run.payload) not in json.dumps({**first, "task": ""})
