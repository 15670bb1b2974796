"""When a navigation is believed, whose cards may be driven, and what is called absent."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.errors import UsageError
from broker.types import Seen
from workers.pagetext import judge
from workers.rawbrowser import (
    CouldNotLookError,
    PageView,
    Visit,
    Watch,
    is_same_place,
    order_candidates,
    parse_address,
)

PAGE = PageView(
    href="https://x.com/home",
    title="Home",
    text="First light tonight, first light tomorrow",
    fields=(),
    is_cut=False,
    unread=(),
    is_loaded=True,
    born=2.0,
)
VISIT = Visit(card="c", asked="https://x.com/home", page=PAGE, duration_ms=1)


@pytest.mark.parametrize(
    ("asked", "href"),
    [
        ("https://x.com/home", "https://x.com/home"),
        ("https://x.com/home", "https://x.com/home/?tab=1#top"),
        ("https://X.com:443/home/", "https://x.com/home"),
        ("http://x.com/home", "https://x.com/home"),
        ("https://x.com", "https://x.com/"),
        ("https://bücher.example/a b", "https://xn--bcher-kva.example/a%20b"),
        ("http://127.0.0.1:8080/a", "http://127.0.0.1:8080/a"),
    ],
)
def test_page_is_where_it_was_asked_to_be(asked: str, href: str) -> None:
    assert is_same_place(parse_address(asked), href)


@pytest.mark.parametrize(
    ("asked", "href"),
    [
        ("https://x.com/home", "https://x.com/login"),
        ("https://x.com/home", "https://netflix.com/home"),
        ("https://x.com/home", "https://evil.example/?u=https://x.com/home"),
        ("https://x.com/home", "https://x.com.evil.example/home"),
        ("https://x.com/home", "https://x.com@evil.example/home"),
        ("https://x.com/home", "http://x.com/home"),
        ("http://127.0.0.1:8080/a", "http://127.0.0.1:8081/a"),
        ("http://127.0.0.1:8080/a", "https://127.0.0.1/a"),
        ("https://x.com/home", "about:blank"),
        ("https://x.com/home", "chrome-error://chromewebdata/"),
        ("https://x.com/home", "https://x.com:99999999/home"),
        ("https://x.com/home", ""),
    ],
)
def test_page_elsewhere_is_not_believed(asked: str, href: str) -> None:
    assert not is_same_place(parse_address(asked), href)


@given(st.text(max_size=60))
def test_no_address_breaks_the_comparison(href: str) -> None:
    wanted = parse_address("https://x.com/home")
    for address in (href, f"https://{href}"):
        # what is believed can be nothing but that host by that scheme, however it is written
        assert not is_same_place(wanted, address) or address.strip().casefold().startswith("https://x.com")


@pytest.mark.parametrize(
    "url", ["x.com/home", "", "file:///etc/passwd", "javascript:alert(1)", "https://", "https://[::"]
)
def test_what_is_no_web_address_is_a_users_mistake(url: str) -> None:
    with pytest.raises(UsageError, match="no address of a web page"):
        parse_address(url)


def watch(*, follow: bool = False, needs_text: bool = True) -> Watch:
    wanted = None if follow else parse_address("https://x.com/home")
    return Watch(born_before=1.0, wanted=wanted, needs_text=needs_text)


def test_page_is_believed_when_it_stands_still_at_its_address() -> None:
    one = watch()
    assert not one.believes(PAGE, 0.0)
    assert one.believes(PAGE, 0.2)


def test_card_that_shows_the_same_document_as_before_has_not_navigated() -> None:
    one = watch()
    stale = replace(PAGE, born=1.0)
    assert not any(one.believes(stale, at) for at in (0.0, 1.0, 10.0, 100.0))
    assert one.said == "the card stayed at https://x.com/home"


def test_page_that_loads_or_whose_text_changes_is_waited_for_but_not_for_ever() -> None:
    one = watch()
    assert not one.believes(replace(PAGE, is_loaded=False), 0.0)
    assert not one.believes(replace(PAGE, is_loaded=False), 1.0)
    assert not one.believes(replace(PAGE, text="other"), 2.0)
    assert one.believes(replace(PAGE, text="another"), 3.5)


def test_page_without_text_is_believed_only_where_no_text_is_needed() -> None:
    empty = replace(PAGE, text=" \n ")
    with_text, without = watch(), watch(needs_text=False)
    assert not any(with_text.believes(empty, at) for at in (0.0, 1.0, 50.0))
    assert with_text.said == "https://x.com/home shows no text"
    assert [without.believes(empty, at) for at in (0.0, 1.0)] == [False, True]


def test_redirect_that_settles_is_told_and_one_in_passing_is_not() -> None:
    login = replace(PAGE, href="https://x.com/login", born=3.0)
    one = watch()
    assert not one.believes(login, 0.0)
    assert not one.believes(PAGE, 0.5)
    assert one.believes(PAGE, 0.7)
    other = watch()
    assert not other.believes(login, 0.0)
    with pytest.raises(CouldNotLookError, match="redirected: the page is at"):
        other.believes(login, 2.5)


def test_following_takes_any_page_of_the_web_and_no_error_page() -> None:
    login = replace(PAGE, href="https://x.com/login")
    one = watch(follow=True)
    assert [one.believes(login, at) for at in (0.0, 0.2)] == [False, True]
    broken = replace(PAGE, href="chrome-error://chromewebdata/")
    other = watch(follow=True)
    assert not any(other.believes(broken, at) for at in (0.0, 1.0, 9.0))


def test_text_is_counted_as_a_reader_sees_it() -> None:
    found = judge(PAGE, "irst\u00a0  light", VISIT, skip_frames=False)
    assert (found.answer, found.count) == (Seen.SEEN, 2)
    assert found.describe() == "seen 2 times at https://x.com/home"


def test_text_in_a_field_is_seen_and_said_to_be_there() -> None:
    found = judge(replace(PAGE, fields=("a draft",)), "draft", VISIT, skip_frames=False)
    assert (found.answer, found.count, found.in_fields) == (Seen.SEEN, 0, 1)
    assert "1 in text fields" in found.describe()


def test_text_is_absent_only_where_everything_was_read() -> None:
    assert judge(PAGE, "telescope", VISIT, skip_frames=False).answer is Seen.ABSENT
    framed = replace(PAGE, unread=("https://ads.example/",))
    assert judge(framed, "telescope", VISIT, skip_frames=False).answer is Seen.COULD_NOT_LOOK
    assert judge(framed, "telescope", VISIT, skip_frames=True).answer is Seen.ABSENT
    assert judge(framed, "light", VISIT, skip_frames=False).answer is Seen.SEEN
    cut = judge(replace(PAGE, is_cut=True), "telescope", VISIT, skip_frames=True)
    assert cut.answer is Seen.COULD_NOT_LOOK
    assert cut.describe().startswith("could not look: ")


def test_a_sessions_card_is_never_driven_and_the_audit_card_only_while_nothing_runs() -> None:
    cards = {"user-b": None, "raw": None, "spawned": "s1", "audit": None, "user-a": ""}
    idle = order_candidates(cards, raw_card="raw", audit_card="audit", may_use_audit=True)
    assert idle == ("raw", "audit", "user-a", "user-b")
    running = order_candidates(cards, raw_card="raw", audit_card="audit", may_use_audit=False)
    assert running == ("raw", "user-a", "user-b")
    odd = {"raw": "s1", "audit": "s2", "spawned": "s3"}
    assert order_candidates(odd, raw_card="raw", audit_card="audit", may_use_audit=True) == ()
