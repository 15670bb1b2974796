"""What an all-knowing judge says of a run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from infra.reference.faults import FAULTS
from infra.reference.sites.catalogue import find_site, load_sites
from infra.reference.truth import Page, Run, judge

RUN = Run(session_id="s", entry="https://x.com/", payload="words here", end="filled", card="browser-1", lost=False)
PAGE = Page(url="https://x.com/home", intended=1, elsewhere=0, element="div")


def test_three_sites_have_walls_and_two_are_retired() -> None:
    unmeasurable = {site.name: site.truth.not_measurable for site in load_sites() if site.truth.not_measurable}
    walls = {"gmail": "sign_in_url", "substack": "password_form", "tiktok": "challenge"}
    assert unmeasurable == {**walls, "dpaste": "retired", "txti": "retired"}


@pytest.mark.parametrize(
    ("page", "bucket"),
    [
        (PAGE, "ok"),
        (replace(PAGE, intended=0), "product_unverified_fill"),
        (replace(PAGE, intended=2), "product_unverified_fill"),
        (replace(PAGE, elsewhere=1), "product_unverified_fill"),
        (replace(PAGE, intended=0, elsewhere=1), "product_wrong_surface"),
        (replace(PAGE, url="https://x.com/i/lists"), "product_wrong_surface"),
        (replace(PAGE, url="https://netflix.com/home"), "product_wrong_surface"),
        (None, "product_unconfirmed"),
    ],
)
def test_a_claim_is_judged_on_where_the_payload_really_stands(page: Page | None, bucket: str) -> None:
    assert judge(RUN, find_site("x.com"), page).bucket == bucket


@pytest.mark.parametrize(
    ("end", "bucket"),
    [
        ("declined", "product_no_composer"),
        ("walled", "product_no_composer"),
        ("astray", "product_wrong_surface"),
        ("overrun", "product_command_timeout"),
        ("unseen", "product_fill_died"),
        ("fill_died", "product_fill_died"),
        ("timed_out", "product_command_timeout"),
        (None, "product_no_composer"),
    ],
)
def test_without_a_claim_the_end_of_the_first_dispatch_decides(end: str | None, bucket: str) -> None:
    assert judge(replace(RUN, end=end), find_site("x.com"), PAGE).bucket == bucket


@pytest.mark.parametrize(
    ("end", "unanswered", "bucket"),
    [
        (None, 1, "product_command_timeout"),
        ("declined", 1, "product_no_composer"),
        ("declined", 2, "product_command_timeout"),
        ("unseen", 2, "product_command_timeout"),
        ("walled", 2, "product_no_composer"),
        ("astray", 2, "product_command_timeout"),
        ("filled", 3, "ok"),
    ],
)
def test_commands_that_hung_count_where_the_script_did_not_get_over_them(
    end: str | None, unanswered: int, bucket: str
) -> None:
    assert judge(replace(RUN, end=end, unanswered=unanswered), find_site("x.com"), PAGE).bucket == bucket


def test_a_lost_renderer_is_infrastructure_whatever_was_claimed() -> None:
    assert judge(replace(RUN, lost=True), find_site("x.com"), PAGE).bucket == "infra_no_renderer"
    assert judge(replace(RUN, lost=True, card=None), find_site("x.com"), None).bucket == "infra_no_renderer"


def test_a_site_that_can_not_be_measured_is_so_even_after_a_claim() -> None:
    ruling = judge(RUN, find_site("mail.google.com"), PAGE)
    assert (ruling.bucket, ruling.evidence) == ("not_measurable", "PROVEN")


@pytest.mark.parametrize(
    ("nature", "bucket", "evidence"),
    [
        ("page_login_redirect", "not_measurable", "PROVEN"),
        ("challenge_shown", "not_measurable", "PROVEN"),
        ("page_404", "product_no_composer", None),
        ("header_password", "product_no_composer", None),
    ],
)
def test_a_run_that_declined_a_page_with_a_nature_is_what_the_nature_makes_true(
    nature: str, bucket: str, evidence: str | None
) -> None:
    met = replace(RUN, end="declined", chosen=FAULTS[nature], struck=True, natures=(nature,))
    ruling = judge(met, find_site("x.com"), None)
    assert (ruling.bucket, ruling.evidence) == (bucket, evidence)


def test_a_nature_that_was_not_set_or_that_the_run_got_through_changes_nothing() -> None:
    chosen = FAULTS["page_login_redirect"]
    unset = judge(replace(RUN, end="declined", chosen=chosen, failed="no site server"), find_site("x.com"), None)
    assert (unset.bucket, unset.evidence) == ("product_no_composer", None)
    through = judge(replace(RUN, chosen=chosen, struck=True, natures=(chosen.name,)), find_site("x.com"), PAGE)
    assert (through.bucket, through.evidence) == ("ok", None)


@pytest.mark.parametrize(
    ("natures", "bucket"),
    [
        (("challenge_shown", "page_404", "header_password"), "product_no_composer"),
        (("editor_rejects", "challenge_shown", "slow_network"), "not_measurable"),
        (("page_dropped", "page_login_redirect"), "product_no_composer"),
        (("editor_late", "editor_rejects", "header_login"), "product_no_composer"),
    ],
)
def test_of_a_set_the_first_that_replaces_the_page_rules_and_else_the_runs_own_end(
    natures: tuple[str, ...], bucket: str
) -> None:
    for order in (natures, natures[::-1]):
        assert judge(replace(RUN, end="declined", natures=order), find_site("x.com"), None).bucket == bucket


@pytest.mark.parametrize(("recovered", "bucket"), [(False, "product_unverified_fill"), (True, "product_unconfirmed")])
@pytest.mark.parametrize("natures", [(), ("editor_reverts",), ("editor_doubles", "char_limit_short", "late_mount")])
def test_a_claimed_text_that_is_not_there_once_is_unconfirmed_after_a_recovery(
    natures: tuple[str, ...], recovered: bool, bucket: str
) -> None:
    run = replace(RUN, natures=natures, recovered=recovered)
    for intended in (0, 2):
        assert judge(run, find_site("x.com"), replace(PAGE, intended=intended)).bucket == bucket
    assert judge(run, find_site("x.com"), PAGE).bucket == "ok"


def test_an_unknown_host_has_no_truth() -> None:
    assert judge(RUN, find_site("nobody.example"), PAGE).bucket is None


def test_hosts_are_matched_whole() -> None:
    assert find_site("netflix.com") is None
    assert find_site("x.com.evil.example") is None
    site = find_site("WWW.Reddit.com")
    assert site is not None
    assert site.name == "reddit"
