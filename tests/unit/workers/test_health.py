"""What one trial must have shown for a box to be well; and the page that it writes on."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from broker.types import Child, Mode, PageRead, Seen
from workers.health import judge_trial
from workers.healthpage import serve_page
from workers.trial import TrialReport

PAYLOAD = "check k3f9x of this box"


def read(answer: Seen, count: int, error: str = "") -> PageRead:
    return PageRead(
        card="c",
        after_dispatch=1,
        offset_ms=1,
        duration_ms=1,
        url="http://127.0.0.1/",
        title="",
        payload=answer,
        payload_count=count,
        editables=(),
        frames=0,
        frames_unread=0,
        password_form=Seen.ABSENT,
        challenge=Seen.ABSENT,
        error=error,
    )


def report(**changed: Any) -> TrialReport:
    made = TrialReport(
        session_id="s",
        status="completed",
        ended_by="event",
        wall_ms=2000,
        children=(Child(session_id="k", status="error"),),
        cards=("c",),
        reads=(read(Seen.SEEN, 1), read(Seen.SEEN, 1)),
    )
    for name, value in changed.items():
        setattr(made, name, value)
    return made


def test_text_that_is_in_the_page_once_is_all_a_dry_box_must_show() -> None:
    assert judge_trial(report(), PAYLOAD, mode=Mode.DRY, posts=()) == ""


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"ended_by": "budget", "wall_ms": 90_000}, "had not ended after 90 s"),
        ({"children": (), "status": "error"}, "no browser was used: the session ended error"),
        ({"cards": ()}, "showed no page"),
        ({"reads": ()}, "not read"),
        ({"reads": (read(Seen.SEEN, 1), read(Seen.ABSENT, 0))}, "0 times"),
        ({"reads": (read(Seen.SEEN, 2),)}, "2 times"),
        ({"reads": (read(Seen.COULD_NOT_LOOK, 0, "no answer"),)}, "could not be looked at: no answer"),
        ({"stayed": "card c"}, "could be removed: card c"),
    ],
)
def test_what_is_missing_is_the_reason(changed: dict[str, Any], said: str) -> None:
    assert said in judge_trial(report(**changed), PAYLOAD, mode=Mode.DRY, posts=())


def test_dry_box_that_posts_is_not_well_whatever_the_page_shows() -> None:
    assert "dry and pressed" in judge_trial(report(), PAYLOAD, mode=Mode.DRY, posts=(PAYLOAD,))


def test_live_box_must_have_posted_the_text_once() -> None:
    cleared = report(reads=(read(Seen.ABSENT, 0),))
    assert judge_trial(cleared, PAYLOAD, mode=Mode.LIVE, posts=(PAYLOAD,)) == ""
    assert "2 times in 2" in judge_trial(cleared, PAYLOAD, mode=Mode.LIVE, posts=(PAYLOAD, PAYLOAD))
    assert "0 times in 1" in judge_trial(cleared, PAYLOAD, mode=Mode.LIVE, posts=("else",))


def test_page_is_there_for_its_check_alone_and_takes_posts() -> None:
    with httpx.Client(trust_env=False, timeout=5) as client:
        with serve_page("k3f9x") as page:
            text = client.get(page.url).text
            assert "<textarea" in text
            assert "nowhere else" in text
            assert client.post(page.url, json={"text": PAYLOAD}).status_code == 200
            answers = [client.post(page.url, content=bad).status_code for bad in (b"no json", b"[]", b'{"other": 1}')]
            assert answers == [400, 400, 400]
            assert client.get(f"http://127.0.0.1:{page.server_port}/").status_code == 404
            assert page.posts == [PAYLOAD]
            url = page.url
        with pytest.raises(httpx.ConnectError):
            client.get(url)
