"""Natures as the agent meets them: what it claims, what is true, and what bv3's own audit reads."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from broker.types import PageRead, Seen
from infra.reference.sites.natures import NATURES
from workers.audit import SETTLED_S, AuditTarget, read_cards
from workers.client.product import ProductAddress, ProductClient

PROMPTS = {
    "x": 'Go to https://x.com/ and publish a post with exactly this text: "{payload}"',
    "linkedin": 'Go to https://www.linkedin.com/ and create a post with exactly this text: "{payload}"',
    "reddit": 'Open https://www.reddit.com/r/test/submit and create a text post whose body is "{payload}"',
    "youtube": 'Open https://www.youtube.com/, open the first video and write this comment: "{payload}"',
    "instagram": 'Go to https://www.instagram.com/ and write "{payload}" as a comment on the first post',
    "twitch": 'Go to https://www.twitch.tv/, open the first live channel and write "{payload}" in its chat',
}
#: A page's nature costs its run up to 8 s; what differs by site is tested where the sites are served.
MET_ON = {
    "page_404": ("x", "reddit"),
    "page_500": ("linkedin",),
    "page_204": ("youtube",),
    "page_dropped": ("instagram",),
    "page_login_redirect": ("linkedin", "twitch"),
    "page_hash_change": ("x", "youtube"),
    "challenge_shown": ("reddit", "twitch"),
    "challenge_mention": ("linkedin", "twitch"),
    "footer_login": ("x", "instagram"),
    "header_password": ("x", "youtube"),
}
MEETINGS = [
    (nature, site)
    for nature in NATURES
    for site in MET_ON.get(nature, ("x", "linkedin", "reddit", "youtube", "twitch"))
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Met:
    """One run under a nature: the double's own row, and the audit's two readings."""

    truth: dict[str, Any]
    reads: tuple[PageRead, ...]

    @property
    def last(self) -> PageRead:
        return self.reads[-1]


@pytest.fixture(scope="module")
def meet(
    start_double: Callable[..., Any], sites: Any, start_renderer: Callable[..., Any]
) -> Iterator[Callable[[str, str], Met]]:
    """Run a site's task under a nature, and read the run's card as a box does."""
    double = start_double()
    start_renderer(double, sites)
    product = ProductClient(ProductAddress(url=str(double.client.base_url), token=double.token, dashboard_id=""))

    def run(site: str, nature: str) -> Met:
        host = PROMPTS[site].split("https://")[1].split("/")[0]
        payload = f"probe {secrets.token_hex(3)} coverage alpha"
        sites.set_nature(host, nature)
        try:
            session, _ = double.run(PROMPTS[site].format(payload=payload))
            ended_s = time.monotonic()
            dashboard = double.client.get(f"/api/dashboards/{double.dashboard}").json()
            cards = dashboard["layout"]["browser_cards"]
            own = tuple(card for card, facts in cards.items() if facts["spawned_by"] == session)
            target = AuditTarget(payload=payload, cards=own, after_dispatch=1, ended_s=ended_s)
            reads = read_cards(product, target)
        finally:
            sites.set_nature(host, None)
        dashboard["layout"]["browser_cards"] = {}
        double.client.put(f"/api/dashboards/{dashboard['id']}", json={"layout": dashboard["layout"]})
        (truth,) = [row for row in double.rows("truth.jsonl") if row["session_id"] == session]
        return Met(truth=truth, reads=reads)

    yield run
    product.close()


@pytest.mark.parametrize(("nature", "site"), MEETINGS)
def test_what_the_agent_and_the_audit_see_is_what_is_expected(
    meet: Callable[[str, str], Met], nature: str, site: str
) -> None:
    met = meet(site, nature)
    claim, last = met.truth["claim"], met.last
    walls = (last.password_form, last.challenge)
    match NATURES[nature].expect(site).bucket:
        case "ok":
            assert (claim, last.payload, last.payload_count) == ("filled", Seen.SEEN, 1)
            assert walls == (Seen.ABSENT, Seen.ABSENT)
        case "product_unverified_fill" | "product_unconfirmed":
            assert claim == "filled"
            assert last.payload_count == {"editor_reverts": 0, "editor_doubles": 2}[nature]
        case "product_fill_died":
            assert (claim, met.truth["bucket"]) == ("none", "product_fill_died")
            assert walls == (Seen.ABSENT, Seen.ABSENT)
        case "product_no_composer":
            assert (claim, met.truth["bucket"], last.payload) == ("none", "product_no_composer", Seen.ABSENT)
            assert walls == (Seen.ABSENT, Seen.ABSENT)
        case "not_measurable":
            assert claim == "none"
            wanted = {"sign_in_url": (Seen.SEEN, Seen.ABSENT), "challenge": (Seen.ABSENT, Seen.SEEN)}
            assert walls == wanted[str(NATURES[nature].not_measurable)]
        case other:
            pytest.fail(f"no expectation for {other}")


def test_old_payload_is_gone_from_the_page_that_holds_the_new_one(meet: Callable[[str, str], Met]) -> None:
    met = meet("linkedin", "editor_old_text")
    assert met.last.payload_count == 1
    assert [editable.text for editable in met.last.editables if "zzzzz" in editable.text] == []


def test_a_page_that_can_be_written_on_is_read_again_once_it_has_settled(meet: Callable[[str, str], Met]) -> None:
    first, second = meet("reddit", "footer_login").reads
    assert (first.card, first.payload) == (second.card, second.payload)
    assert first.offset_ms < SETTLED_S * 1000 <= second.offset_ms


def test_a_page_without_anything_to_write_in_is_read_once(meet: Callable[[str, str], Met]) -> None:
    (read,) = meet("reddit", "page_404").reads
    assert read.payload is Seen.ABSENT
