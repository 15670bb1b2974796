"""Surfaces are judged on the parsed URL, as a browser parses it."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.types import SiteTask
from grader.surface import Surface, is_message_box, is_sign_in, judge_url, parse_address

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
        "https://www.instagram.com/accounts/login/?next=/",
        "https://substack.com/sign-in",
        "https://login.example.org/",
        "https://x.com/LOGIN",
    ],
)
def test_a_sign_in_page_is_known_by_its_url(url: str, task: SiteTask) -> None:
    assert is_sign_in(url, task)


@pytest.mark.parametrize(
    "url",
    [
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
