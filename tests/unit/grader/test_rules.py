"""Each rule decides what it is for, and nothing that an earlier one should."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from broker.types import (
    Bucket,
    Claim,
    Evidence,
    EvidenceRef,
    HarnessError,
    LogSlice,
    Mode,
    PageRead,
    ParentOutcome,
    Phase,
    Seen,
)
from grader.grading import Graded
from grader.rules import RULES

Grade = Callable[..., Graded]
Read = Callable[..., PageRead]
Situations = dict[str, tuple[tuple[str, ...], dict[str, Any], Bucket, str]]


def test_each_situation_has_its_bucket_and_its_rule(situation: str, situations: Situations, grade: Grade) -> None:
    lines, changes, bucket, rule = situations[situation]
    verdict = grade(*lines, **changes).verdict
    assert (verdict.bucket, verdict.rule) == (bucket, rule), verdict.why


def test_every_rule_decides_at_least_one_situation(situations: Situations) -> None:
    assert {rule for *_, rule in situations.values()} == {rule.__name__ for rule in RULES}


def test_every_bucket_but_a_lost_box_comes_up(situations: Situations) -> None:
    assert {bucket for *_, bucket, _ in situations.values()} == set(Bucket) - {Bucket.INFRA_BOX_LOST}


UNVERIFIED = {
    "a sign-in host of somebody else's",
    "a redirect to a sign-in page",
    "a sign-in host under the same country's suffix",
    "a sign-in host without a word of it in the path",
    "a challenge under the page where the first dispatch stood",
    "a challenge, and the first dispatch stood on a blank page",
    "a challenge, and the first dispatch stood on another host",
    "a sign-in page, and the first dispatch stood on another site's",
    "a challenge after a recovery moved on",
    "a challenge after a recovery, and no word on where the first stood",
    "a sign-in page that only the recovery went to",
    "a password form after a recovery moved on",
}


def test_an_exclusion_says_on_whose_word_it_rests(situations: Situations, grade: Grade) -> None:
    for name, (lines, changes, bucket, rule) in situations.items():
        is_unverified = rule == "wall_claimed" or name in UNVERIFIED
        expected = Evidence.UNVERIFIED if is_unverified else Evidence.PROVEN
        found = grade(*lines, **changes).verdict.evidence
        assert found is (expected if bucket is Bucket.NOT_MEASURABLE else None), name


def test_deciding_lines_are_named_with_their_bytes(grade: Grade, log_of: Callable[..., bytes]) -> None:
    log = log_of("fill", "died")
    graded = grade("fill", "died")
    assert [line.marker for line in graded.facts.lines] == ["fill_target", "fill_errored"]
    for line in graded.facts.lines:
        assert log[line.start : line.end].decode() == line.text
        assert line.time == "20:07:04"


CLAIMS: dict[Claim, tuple[str, ...]] = {
    Claim.NONE: ("fill", "died"),
    Claim.FILLED: ("fill", "dryrun"),
    Claim.SENT: ("fill", "sent"),
}
PAGES: dict[Seen, dict[str, Any]] = {
    Seen.SEEN: {"count": 1},
    Seen.ABSENT: {"count": 0},
    Seen.COULD_NOT_LOOK: {"count": 0, "payload": Seen.COULD_NOT_LOOK, "url": ""},
}
# what both sides say, and what ran before the page was read: nothing, the payload probe, a recovery
TWO_SIDED = {
    (Claim.FILLED, Seen.SEEN): (Bucket.OK, Bucket.OK, Bucket.OK),
    (Claim.FILLED, Seen.ABSENT): (
        Bucket.PRODUCT_UNVERIFIED_FILL,
        Bucket.PRODUCT_UNVERIFIED_FILL,
        Bucket.PRODUCT_UNCONFIRMED,
    ),
    (Claim.FILLED, Seen.COULD_NOT_LOOK): (Bucket.PRODUCT_UNCONFIRMED,) * 3,
    # the first dispatch's bucket, whatever a recovery may have done to the page
    (Claim.NONE, Seen.SEEN): (Bucket.PRODUCT_FILL_DIED,) * 3,
    (Claim.NONE, Seen.ABSENT): (Bucket.PRODUCT_FILL_DIED,) * 3,
    (Claim.NONE, Seen.COULD_NOT_LOOK): (Bucket.PRODUCT_FILL_DIED,) * 3,
    (Claim.SENT, Seen.SEEN): (Bucket.PRODUCT_FALSE_SUCCESS,) * 3,
    (Claim.SENT, Seen.ABSENT): (Bucket.PRODUCT_FALSE_SUCCESS,) * 3,
    (Claim.SENT, Seen.COULD_NOT_LOOK): (Bucket.PRODUCT_FALSE_SUCCESS,) * 3,
}
BETWEEN = {None: 0, "probe": 1, "recovery": 2}


@pytest.mark.parametrize("between", BETWEEN)
@pytest.mark.parametrize("page", Seen)
@pytest.mark.parametrize("claim", Claim)
def test_every_claim_beside_every_reading_has_its_verdict(
    claim: Claim, page: Seen, between: str | None, grade: Grade
) -> None:
    lines = (*CLAIMS[claim], *((between,) if between else ()))
    read = {**PAGES[page], "after_dispatch": 2 if between else 1}
    graded = grade(*lines, read=read)
    assert (graded.facts.claim, graded.facts.page) == (claim, page)
    assert graded.verdict.bucket is TWO_SIDED[claim, page][BETWEEN[between]]


@pytest.mark.parametrize("page", Seen)
@pytest.mark.parametrize("claim", [Claim.NONE, Claim.SENT])
def test_no_live_run_is_ok_or_a_false_success_on_the_page_it_wrote_on(claim: Claim, page: Seen, grade: Grade) -> None:
    graded = grade(*CLAIMS[claim], read=PAGES[page], planned_mode=Mode.LIVE, mode=Mode.LIVE)
    assert graded.facts.claim is claim
    expected = Bucket.PRODUCT_UNCONFIRMED if claim is Claim.SENT else Bucket.PRODUCT_FILL_DIED
    assert graded.verdict.bucket is expected


@pytest.mark.parametrize(
    ("lines", "submit"),
    [
        (("fill", "dryrun"), True),
        (("fill", "dryrun disabled"), False),
        (("fill", "disabled"), False),
        (("disabled", "nothing"), None),
        (("disabled", "fill", "died"), None),
        (("nothing", "recovery", "fill", "dryrun disabled"), None),
        (("fill", "died", "recovery", "disabled"), None),
        (("fill", "died", "recovery", "fill", "dryrun"), None),
        (("nothing",), None),
    ],
)
def test_the_control_that_would_send_is_the_first_dispatchs_and_follows_its_fill(
    lines: tuple[str, ...], submit: bool | None, grade: Grade
) -> None:
    assert grade(*lines).facts.submit is submit


def test_skill_lines_are_counted_over_all_dispatches(grade: Grade) -> None:
    skills = grade(
        "[browser-skills] no skill for host='x.com' after 0 turn(s)",
        "[browser-skills] REPLAY attempt: 2 steps on x.com (after 0 LLM turn(s))",
        "[browser-skills] replay step failed (BrowserClickByName: it was gone), falling back to full agent",
        "[browser-skills] record gate: honest=False informational=False removal=False unconfirmed_send=True",
        "fill",
        "died",
        "recovery",
        "[browser-skills] skill on x.com not replayed: step 1 is new; running the full agent so the send is confirmed",
        "[browser-skills] PREFIX replay: 1/2 steps on x.com, the rest by the agent",
        "[browser-skills] REPLAY SUCCEEDED in 412ms (0 LLM turn(s))",
        "[browser-skills] no skill for host='x.com' after 0 turn(s)",
        "[browser-skills] record gate: honest=True informational=False removal=False unconfirmed_send=False",
        "[browser-skills] learned 1-step skill for x.com (rev 1, probationary, persisted)",
        "[browser-skills] learned skill for x.com (future runs replay fast)",
    ).facts.skills
    assert (skills.recorded, skills.replays, skills.replays_succeeded) == (1, 2, 1)
    assert skills.refusals == {"replay_step_failed": 1, "skill_gate": 1, "skill_none": 2, "skill_not_replayed": 1}


@pytest.mark.parametrize("end", ["probe", "recovery"])
@pytest.mark.parametrize(
    "later",
    [
        "dryrun",
        "dryrun disabled",
        "disabled",
        "fill",
        "fill elsewhere",
        "fill message",
        "wall url",
        "signed out",
        "reveal wall",
        "nothing",
        "other page",
        "no payload",
        "challenge",
        "died",
        "not committed",
        "no dashboard",
        "ended lost",
        "refused",
        "card gone",
        "dead",
        "unusable",
        "silent mount",
        "retry",
        "no aux",
        "router died",
        "no provider",
        "timed out",
        "slow",
        "outer skip",
        "report elsewhere",
        "reused",
        "other card",
        "not sent",
        "withheld",
        "tier1",
    ],
)
def test_the_window_ends_at_the_next_dispatch_for_every_marker(end: str, later: str, grade: Grade) -> None:
    alone = grade("fill", "died", end).verdict
    assert grade("fill", "died", end, later).verdict == alone


def test_a_session_that_ended_completed_claims_nothing(grade: Grade) -> None:
    graded = grade(
        "nothing", parent=ParentOutcome(session_id="1" * 32, status="completed", reply="Posted!", ended_by="event")
    )
    assert graded.facts.claim is Claim.NONE
    assert graded.verdict.bucket is Bucket.PRODUCT_NO_COMPOSER


def test_a_receipt_that_was_not_given_is_no_claim(grade: Grade) -> None:
    assert grade("fill", "not sent").facts.claim is Claim.NONE


def test_times_are_the_trials_own_and_never_the_recoverys(grade: Grade) -> None:
    timing = grade("tier0", "prestage", "fill", "dryrun", "recovery", "tier1", "prestage").facts.timing
    assert (timing.total_ms, timing.other_ms, timing.prestage_ms, timing.tier) == (236, 58, 136, 0)


@pytest.mark.parametrize(
    "later",
    [
        "[browser-prestage] step 1 plan: perceive=30ms aux=4062ms reply='READY composer visible'",
        "[browser-prestage] nav https://x.com/home did not settle; stopping unstaged",
        "[browser-prestage] repeated step CLICK '3'; stopping",
        "[browser-prestage] skipped (TimeoutError)",
        "[browser-prestage] outer skip ()",
    ],
)
def test_the_first_thing_that_was_opened_is_a_hit_only_when_no_model_was_needed_after_it(
    grade: Grade, later: str
) -> None:
    assert grade("tier1", "prestage", "fill", "dryrun").facts.timing.tier == 1
    assert grade("tier1", later, "prestage", "fill", "dryrun").facts.timing.tier is None


def test_a_wall_that_was_read_counts_though_a_frame_of_the_page_was_closed(grade: Grade, read_of: Read) -> None:
    clean = read_of(count=0, after_dispatch=1)
    wall = read_of(count=0, after_dispatch=1, offset_ms=700, frames_unread=1, challenge=Seen.SEEN)
    verdict = grade("nothing", reads=(clean, wall)).verdict
    assert (verdict.rule, verdict.evidence) == ("challenge_shown", Evidence.PROVEN)
    blind = read_of(
        count=0, after_dispatch=1, offset_ms=700, challenge=Seen.COULD_NOT_LOOK, password_form=Seen.COULD_NOT_LOOK
    )
    assert grade("nothing", reads=(wall, blind)).verdict.rule == "challenge_shown"
    assert grade("nothing", reads=(wall, dataclasses.replace(clean, offset_ms=900))).verdict.rule == "declined"


def test_a_trial_without_its_own_row_has_no_times(grade: Grade) -> None:
    assert grade("fill", "dryrun", children=()).facts.timing.total_ms is None


def test_a_failed_screenshot_or_teardown_leaves_the_run_as_it_was(grade: Grade) -> None:
    errors = tuple(HarnessError(phase=phase, kind="harness", message="m") for phase in (Phase.CAPTURE, Phase.TEARDOWN))
    assert grade("fill", "dryrun", errors=errors).verdict.bucket is Bucket.OK


def test_a_torn_log_is_no_evidence(grade: Grade) -> None:
    torn = LogSlice(path="be.log", inode=1, start=0, end=1, sha256="h", torn=True)
    verdict = grade("fill", "dryrun", log_slice=torn).verdict
    assert (verdict.bucket, verdict.rule) == (Bucket.INFRA_HARNESS, "log_missing")


def test_a_read_of_the_trial_alone_outranks_a_later_one(grade: Grade, read_of: Read) -> None:
    reads = (read_of(after_dispatch=1), read_of(after_dispatch=2, offset_ms=900, count=0))
    assert grade("fill", "dryrun", "recovery", reads=reads).verdict.bucket is Bucket.OK


def test_an_editor_that_reverts_is_read_at_its_last_word(grade: Grade, read_of: Read) -> None:
    reads = (read_of(offset_ms=40), read_of(offset_ms=900, count=0))
    assert grade("fill", "dryrun", "probe", reads=reads).verdict.bucket is Bucket.PRODUCT_UNVERIFIED_FILL


def test_a_card_that_closed_before_a_second_look_keeps_its_first(grade: Grade, read_of: Read) -> None:
    reads = (read_of(offset_ms=40), read_of(offset_ms=900, count=0, payload=Seen.COULD_NOT_LOOK))
    assert grade("fill", "dryrun", "probe", reads=reads).verdict.bucket is Bucket.OK


def test_a_read_of_somebody_elses_card_speaks_for_nothing(grade: Grade, read_of: Read) -> None:
    assert grade("fill", "dryrun", reads=(read_of(card="browser-ffffffff"),)).facts.page is Seen.COULD_NOT_LOOK


def test_no_rule_can_see_the_truth(grade: Grade) -> None:
    truth = EvidenceRef(name="truth", sha256="f" * 64, size=9, media_type="application/json")
    assert grade("fill", "dryrun", evidence=(truth,)) == grade("fill", "dryrun")
