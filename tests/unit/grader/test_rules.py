"""Each rule decides what it is for, and nothing that an earlier one should."""

from __future__ import annotations

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


@pytest.mark.parametrize("end", ["probe", "recovery"])
@pytest.mark.parametrize("later", ["dryrun", "wall url", "challenge", "no dashboard", "retry", "timed out", "reused"])
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
