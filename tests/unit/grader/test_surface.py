"""Surfaces are judged on the parsed URL, as a browser parses it."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.types import SiteTask
from grader.surface import (
    Surface,
    is_message_box,
    is_of_task,
    is_same_page,
    is_sign_in,
    judge_url,
    parse_address,
)

RIGHT = (
    "https://x.com/home",
    "https://x.com/compose/post",
    "https://X.COM/home",
    "https://mobile.x.com/home",
    "https://x.com:443/home",
    "https://x.com./home",
    "https://user@x.com/home",
    "http://x.com/home?next=https://evil.example/",
    "  https://x.com/home\n",
    "https://x.com\\home",
    "http://x.com/home",
    "https://x.com:8443/home",
    "https://user:pw@x.com:443/home",
    "https:\\\\x.com\\home",
    "https://\uff58.com/home",
    "https://x.com/home#/login",
    "HTTPS://X.com/compose/post",
)
WRONG = (
    "https://netflix.com/home",
    "https://x.com.evil.example/home",
    "https://evil.example/?u=https://x.com/home",
    "https://evil.example/#https://x.com/home",
    "https://evil.example/x.com/home",
    "https://x.com@evil.example/home",
    "https://x.com:pw@evil.example/home",
    "https://evil.example\\@x.com/home",
    "https://evilx.com/home",
    "https://x.com/explore",
    "https://x.com/",
    "https://x.com/login?next=/home",
    "https://xn--x-0ga.com/home",
    "https://\u0445.com/home",
    "javascript:location='https://x.com/home'",
    "data:text/html,https://x.com/home",
    "about:blank",
    "file:///x.com/home",
    "//x.com/home",
    "x.com/home",
    "https:///home",
    "https://[::1/home",
    "https://x.com:notaport@/home",
    "https://x.com@evil.example:443/home",
    "https://x.com%2eevil.example/home",
    "https://x.com%00.evil.example/home",
    "https://x.com..evil.example/home",
    "https://www.xn--x-com.example/home",
    "https://evil.example/home?x.com/home",
    "https://x.co/home",
    "https://com/home",
    "ftp://x.com/home",
    "view-source:https://x.com/home",
    "chrome-error://chromewebdata/",
)


@pytest.mark.parametrize("url", RIGHT)
def test_the_intended_page_is_right_however_it_is_written(url: str, task: SiteTask) -> None:
    assert judge_url(url, task) is Surface.RIGHT


@pytest.mark.parametrize("url", WRONG)
def test_a_page_that_only_looks_like_it_is_wrong(url: str, task: SiteTask) -> None:
    assert judge_url(url, task) is Surface.WRONG


def test_no_url_is_neither_right_nor_wrong(task: SiteTask) -> None:
    assert judge_url("", task) is Surface.UNKNOWN


def test_a_name_in_another_script_is_read_as_the_browser_reads_it() -> None:
    address = parse_address("https://B\u00fccher.example/a")
    assert address is not None
    assert address.host == "xn--bcher-kva.example"


def test_a_cut_off_path_says_nothing_but_a_wrong_host_does(task: SiteTask) -> None:
    assert judge_url("https://x.com/hom", task, truncated=True) is Surface.UNKNOWN
    assert judge_url("https://evil.example/hom", task, truncated=True) is Surface.WRONG


@pytest.mark.parametrize(
    "url",
    [
        "https://accounts.google.com/v3/signin/identifier",
        "https://x.com/i/flow/login",
        "https://x.com/accounts/login/?next=/",
        "https://mobile.x.com/sign-in",
        "https://x.com/authwall?trk=feed",
        "https://login.example.org/",
        "https://x.com/LOGIN",
    ],
)
def test_a_sign_in_page_is_known_by_its_url(url: str, task: SiteTask) -> None:
    assert is_sign_in(url, task)


@pytest.mark.parametrize(
    "url",
    [
        "https://www.instagram.com/accounts/login/?next=/",
        "https://evil.example/login",
        "https://x.com.evil.example/login",
        "https://notaccounts.google.com/home",
        "https://x.com/home?redirect=/login",
        "https://x.com/login-tips",
        "https://x.com/home#login",
        "https://blog.example/the-login-of-it",
        "https://x.com/",
        "",
        "about:blank",
    ],
)
def test_a_login_word_elsewhere_is_no_sign_in_page(url: str, task: SiteTask) -> None:
    assert not is_sign_in(url, task)


@pytest.mark.parametrize(
    ("url", "is_one"),
    [
        ("https://x.com/anything", True),
        ("https://api.x.com/", True),
        ("https://accounts.google.com/", True),
        ("https://login.microsoftonline.com/common", True),
        ("https://evil.example/login", False),
        ("https://x.com.evil.example/", False),
        ("https://evil.example/accounts.google.com", False),
        ("about:blank", False),
        ("", False),
    ],
)
def test_only_the_site_s_own_hosts_and_those_for_signing_in_say_anything_of_it(
    url: str, is_one: bool, task: SiteTask
) -> None:
    assert is_of_task(url, task) is is_one


def test_one_page_is_told_by_host_and_path_alone() -> None:
    assert is_same_page("https://X.com/home?a=1#top", "http://x.com./home")
    assert not is_same_page("https://x.com/home", "https://x.com/home/2")
    assert not is_same_page("https://x.com/home", "https://evil.example/home")
    assert not is_same_page("about:blank", "about:blank")
    assert is_same_page("https://x.com/i/flow/login", "https://x.com/i/flo", truncated=True)
    assert not is_same_page("https://x.com/i/flow/login", "https://x.com/h", truncated=True)


def test_the_path_of_a_lookalike_is_never_looked_at() -> None:
    meant = SiteTask(
        site="devto", prompt="", payload="", entry="https://dev.to/new", host="dev.to", path_rule="^/new",
        visibility="public", kind="post", editor_shape="",
    )  # fmt: skip
    assert judge_url("https://dev.to/new", meant) is Surface.RIGHT
    assert judge_url("https://evil.example/?u=dev.to/new", meant) is Surface.WRONG
    assert judge_url("https://notdev.to/new", meant) is Surface.WRONG
    assert not is_sign_in("https://dev.to/new", meant)


def test_a_host_that_the_task_itself_names_is_no_foreign_sign_in_host(task: SiteTask) -> None:
    meant = dataclasses.replace(task, host="accounts.example.org", entry="https://accounts.example.org/")
    assert not is_sign_in("https://accounts.example.org/posts", meant)


@pytest.mark.parametrize(
    "label", ["Message", "Message\u2026", "Write a message\u2026", "New message", "Direct message", "DM"]
)
def test_a_private_message_box_is_wrong_for_a_public_task_only(label: str, task: SiteTask) -> None:
    assert is_message_box(label, task)
    assert not is_message_box(label, dataclasses.replace(task, visibility="chat"))
    assert not is_message_box(label, dataclasses.replace(task, visibility="private"))


@pytest.mark.parametrize(
    "label", ["Post text", "Add a comment\u2026", "What's the message of this video?", "Messenger", ""]
)
def test_a_public_box_is_none(label: str, task: SiteTask) -> None:
    assert not is_message_box(label, task)


@given(url=st.text(max_size=300))
def test_any_text_has_an_answer(url: str) -> None:
    address = parse_address(url)
    assert address is None or (address.host and address.path.startswith("/"))


@given(prefix=st.from_regex(r"[a-z0-9.]{1,20}", fullmatch=True), path=st.sampled_from(["/home", "/compose/post"]))
def test_a_host_is_intended_only_at_a_label_boundary(prefix: str, path: str) -> None:
    meant = SiteTask(
        site="x", prompt="", payload="", entry="https://x.com/", host="x.com", path_rule="^/(home|compose)",
        visibility="public", kind="post", editor_shape="",
    )  # fmt: skip
    expected = Surface.RIGHT if prefix.endswith(".") else Surface.WRONG
    found = judge_url(f"https://{prefix}x.com{path}", meant)
    assert found is expected or (found is Surface.WRONG and prefix.startswith("."))
