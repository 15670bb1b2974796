"""Natures as the agent meets them: what it claims, what is true, and what bv3's own audit reads."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from broker.types import PageRead, Seen
from infra.reference.faults import FAULTS
from infra.reference.sites.natures import NATURES
from workers.audit import AuditTarget, read_cards
from workers.client.product import ProductAddress, ProductClient

PROMPTS = {
    "x": 'Go to https://x.com/ and publish a post with exactly this text: "{payload}"',
    "linkedin": 'Go to https://www.linkedin.com/ and create a post with exactly this text: "{payload}"',
    "reddit": 'Open https://www.reddit.com/r/test/submit and create a text post whose body is "{payload}"',
    "youtube": 'Open https://www.youtube.com/, open the first video and write this comment: "{payload}"',
    "instagram": 'Go to https://www.instagram.com/ and write "{payload}" as a comment on the first post',
    "twitch": 'Go to https://www.twitch.tv/, open the first live channel and write "{payload}" in its chat',
}
#: Every nature that is a fault too once, and each site about as often: what a nature does to the page is tested in
#: `test_natures.py`, the others in `test_natures_shown.py` and where the sites are served.
MEETINGS = [
    ("page_404", "reddit"),
    ("page_500", "linkedin"),
    ("page_204", "youtube"),
    ("page_dropped", "instagram"),
    ("page_login_redirect", "twitch"),
    ("page_hash_change", "x"),
    ("challenge_shown", "reddit"),
    ("challenge_mention", "linkedin"),
    ("footer_login", "instagram"),
    ("header_password", "youtube"),
    ("editor_reverts", "x"),
    ("editor_reverts", "twitch"),
    ("editor_late", "reddit"),
    ("editor_old_text", "linkedin"),
    ("editor_doubles", "linkedin"),
    ("editor_doubles", "twitch"),
    ("editor_rejects", "youtube"),
]
#: A card that never shows a page costs seconds of waiting at the product's own pace; all else answers far sooner.
SCALE = "0.25"
NO_WALL = (Seen.ABSENT, Seen.ABSENT)
WALLS = {"sign_in_url": (Seen.SEEN, Seen.ABSENT), "challenge": (Seen.ABSENT, Seen.SEEN)}
# One renderer for all of them.
pytestmark = pytest.mark.xdist_group("natures_met")


@dataclass(frozen=True, slots=True, kw_only=True)
class Met:
    """One run under a nature: the double's own row, and the audit's readings."""

    truth: dict[str, Any]
    reads: tuple[PageRead, ...]

    @property
    def claim(self) -> str:
        return str(self.truth["claim"])

    @property
    def told(self) -> tuple[str, str]:
        return self.claim, str(self.truth["bucket"])

    @property
    def last(self) -> PageRead:
        return self.reads[-1]

    @property
    def walls(self) -> tuple[Seen, Seen]:
        return self.last.password_form, self.last.challenge


@pytest.fixture(scope="module")
def meet(
    start_double: Callable[..., Any], sites: Any, start_renderer: Callable[..., Any]
) -> Iterator[Callable[[str, str], Met]]:
    """Run a site's task under a nature, and read the run's card as a box does."""
    double = start_double(REFERENCE_LEASH_SCALE=SCALE)
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


def test_every_nature_that_is_a_fault_is_met() -> None:
    assert {nature for nature, _ in MEETINGS} == {name for name, fault in FAULTS.items() if fault.place == "page"}


def _check(met: Met, nature: str) -> None:
    """What the agent claims, what is true, and what the audit sees are what the nature is expected to lead to."""
    last = met.last
    expected = NATURES[nature].expected
    match expected.bucket if expected else "ok":
        case "ok":
            assert (met.claim, last.payload, last.payload_count) == ("filled", Seen.SEEN, 1)
            assert met.walls == NO_WALL
        case "product_unverified_fill" | "product_unconfirmed":
            # a run whose box has no name is followed by another dispatch
            assert met.told in {("filled", "product_unverified_fill"), ("filled", "product_unconfirmed")}
            assert last.payload_count == {"editor_reverts": 0, "editor_doubles": 2}[nature]
        case "product_fill_died":
            assert met.told == ("none", "product_fill_died")
            assert met.walls == NO_WALL
        case "product_no_composer":
            assert (*met.told, last.payload) == ("none", "product_no_composer", Seen.ABSENT)
            assert met.walls == NO_WALL
        case "not_measurable":
            assert met.claim == "none"
            assert met.walls == WALLS[str(NATURES[nature].not_measurable)]
        case other:
            pytest.fail(f"no expectation for {other}")


@pytest.mark.parametrize(("nature", "site"), MEETINGS)
def test_what_the_agent_and_the_audit_see_is_what_is_expected(
    meet: Callable[[str, str], Met], nature: str, site: str
) -> None:
    met = meet(site, nature)
    if nature == "editor_reverts" and met.claim == "none":
        # It looked later than 300 ms after its fill, on a machine that was busy: then it saw nothing, and said so.
        assert (met.told, met.last.payload_count) == (("none", "product_fill_died"), 0)
    elif nature == "editor_late" and met.claim == "filled":
        # Its looks took until the text was there: then it is there.
        assert (met.told, met.last.payload_count) == (("filled", "ok"), 1)
    else:
        _check(met, nature)
    if nature == "editor_old_text":
        assert [editable.text for editable in met.last.editables if "zzzzz" in editable.text] == []
    if nature == "page_404":
        assert len([one for one in met.reads if not one.error]) == 1, "there is nothing on it that could still change"
