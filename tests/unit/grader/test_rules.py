"""Each rule decides what it is for, and nothing that an earlier one should."""

# ruff: noqa: E501 - one situation a line reads as a table

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from broker.types import (
    BoxEvent,
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
    Probe,
    Retirement,
    Seen,
)
from grader.grading import Graded
from grader.rules import RULES

Grade = Callable[..., Graded]
Read = Callable[..., PageRead]

DEAD_PROBE = Probe(answered=False, duration_ms=3_000, error="Browser command timed out")
NOT_READ: dict[str, Any] = {"reads": ()}
NO_PROBES: dict[str, Any] = {"probe_before": None, "probe_after": None}


def _absent(**changes: Any) -> dict[str, Any]:
    return {"read": {"count": 0, "after_dispatch": 1, "url": "https://x.com/home", **changes}}


def _restart(part: str) -> BoxEvent:
    return BoxEvent(kind="part_restarted", at="2026-11-29T22:00:03+00:00", facts={"part": part, "pid": "7"})


CASES: dict[str, tuple[tuple[str, ...], dict[str, Any], Bucket, str]] = {
    "claimed, seen, right page": (("fill", "dryrun", "probe"), {}, Bucket.OK, "reached"),
    "the form is incomplete, the box is filled": (("fill", "dryrun disabled", "probe"), {}, Bucket.OK, "reached"),
    "a structural fill that the recovery fills again": (("fill", "dryrun", "recovery", "fill", "dryrun"), {}, Bucket.OK, "reached"),
    "the first fill failed, the second in the same dispatch held": (("fill", "died", "fill", "dryrun"), {}, Bucket.OK, "reached"),
    "sent in a dry run": (("fill", "sent"), {}, Bucket.PRODUCT_FALSE_SUCCESS, "sent_in_dry_run"),
    "sent by the recovery of a dry run": (("nothing", "recovery", "sent"), {}, Bucket.PRODUCT_FALSE_SUCCESS, "sent_in_dry_run"),
    "a retired site": (("fill", "dryrun"), {"task": {"retired": Retirement(date="2026-08-06", evidence="direct fetch")}}, Bucket.NOT_MEASURABLE, "site_retired"),
    "a second backend on the box": (("fill", "dryrun"), {"events": (BoxEvent(kind="contended", at="t"),)}, Bucket.INFRA_CONTENDED, "box_contended"),
    "a restart that supervision saw": (("fill", "dryrun"), {"events": (_restart("backend"),)}, Bucket.INFRA_BACKEND, "backend_restarted"),
    "a restart that the log shows": (("fill", "started"), {}, Bucket.INFRA_BACKEND, "backend_restarted"),
    "a restart that a supervisor printed": (("fill", "restarted"), {}, Bucket.INFRA_BACKEND, "backend_restarted"),
    "a live backend under a dry plan": (("fill", "dryrun"), {"mode": Mode.LIVE}, Bucket.INFRA_HARNESS, "wrong_mode"),
    "the launch was refused": ((), {"errors": (HarnessError(phase=Phase.LAUNCH, kind="backend", message="503"),), "parent": None}, Bucket.INFRA_BACKEND, "step_failed"),
    "a neighbour's card would not go": ((), {"errors": (HarnessError(phase=Phase.RESET, kind="clean_start", message="card left"),)}, Bucket.INFRA_HARNESS, "step_failed"),
    "no session and no error": ((), {"parent": None}, Bucket.INFRA_HARNESS, "no_session"),
    "an empty slice": ((), {"log": b""}, Bucket.INFRA_HARNESS, "log_missing"),
    "a neighbour's parent in the slice": (("neighbour", "fill", "dryrun"), {}, Bucket.INFRA_HARNESS, "foreign_session"),
    "a neighbour's child in the slice": (("fill", "dryrun", "neighbour's child"), {}, Bucket.INFRA_HARNESS, "foreign_session"),
    "another process's log": (("fill", "dryrun"), {"opening": ()}, Bucket.INFRA_HARNESS, "wrong_log"),
    "the first dispatch reused a card": (("reused", "fill", "dryrun"), {}, Bucket.INFRA_HARNESS, "reused_card"),
    "the first dispatch acted on another card": (("other card", "fill", "dryrun"), {}, Bucket.INFRA_HARNESS, "foreign_card"),
    "another payload than the start gave": (("fill", "dryrun"), {"planned_payload": "probe zzzzz coverage alpha"}, Bucket.INFRA_HARNESS, "wrong_payload"),
    "a message box, by bv3's reading": (("fill", "dryrun"), {"read": {"label": "Message…", "url": "https://x.com/home"}}, Bucket.PRODUCT_WRONG_SURFACE, "filled_message_box"),
    "a message box, by the product's word": (("fill message", "dryrun"), NOT_READ, Bucket.PRODUCT_WRONG_SURFACE, "filled_message_box"),
    "filled on another host": (("fill elsewhere", "dryrun"), {"read": {"url": "https://netflix.com/home"}}, Bucket.PRODUCT_WRONG_SURFACE, "filled_wrong_page"),
    "filled elsewhere, then the recovery filled right": (("fill elsewhere", "dryrun", "recovery", "fill", "dryrun"), {}, Bucket.PRODUCT_WRONG_SURFACE, "filled_wrong_page"),
    "the renderer was restarted": (("fill", "died"), {"events": (_restart("renderer"),)}, Bucket.INFRA_NO_RENDERER, "part_restarted"),
    "the pages of the reference stack were restarted": (("nothing",), {"events": (_restart("sites"),)}, Bucket.INFRA_HARNESS, "part_restarted"),
    "a bug in reading the page": (("fill", "dryrun"), {"errors": (HarnessError(phase=Phase.AUDIT, kind="harness", message="KeyError"),)}, Bucket.INFRA_HARNESS, "step_failed"),
    "the router was restarted, and the fill was seen": (("fill", "dryrun"), {"events": (_restart("router"),)}, Bucket.OK, "reached"),
    "the router was restarted": (("nothing",), {"events": (_restart("router"),)}, Bucket.INFRA_ROUTER, "part_restarted"),
    "bv3's own card was silent": (("fill", "timed out"), {"probe_after": DEAD_PROBE}, Bucket.INFRA_NO_RENDERER, "renderer_silent"),
    "no renderer at all": (("refused", "ended"), NO_PROBES, Bucket.INFRA_NO_RENDERER, "renderer_away"),
    "the renderer went in mid-run": (("fill", "no dashboard"), NO_PROBES, Bucket.INFRA_NO_RENDERER, "renderer_away"),
    "the card went, the renderer answered": (("fill", "card gone"), {}, Bucket.INFRA_BROWSER, "card_died"),
    "the card perceives nothing, the renderer answered": (("dead", "slow"), {}, Bucket.INFRA_BROWSER, "card_died"),
    "the card perceives nothing, nobody asked the renderer": (("dead", "slow"), NO_PROBES, Bucket.INFRA_NO_RENDERER, "card_died"),
    "no model behind the router": (("no provider",), {"opening": (), **NOT_READ}, Bucket.INFRA_ROUTER, "no_provider"),
    "the provider pushed back": (("retry", "nothing"), {}, Bucket.INFRA_ROUTER, "no_provider"),
    "a bot challenge": (("nothing", "recovery"), _absent(challenge=Seen.SEEN), Bucket.NOT_MEASURABLE, "challenge_shown"),
    "a redirect to a sign-in page": (("nothing",), _absent(url="https://accounts.google.com/v3/signin/x"), Bucket.NOT_MEASURABLE, "sign_in_page"),
    "a password form": (("wall url",), _absent(password_form=Seen.SEEN), Bucket.NOT_MEASURABLE, "password_form"),
    "a wall by the product's word": (("wall url",), NOT_READ, Bucket.NOT_MEASURABLE, "wall_claimed"),
    "a challenge by the product's word": (("challenge",), NOT_READ, Bucket.NOT_MEASURABLE, "wall_claimed"),
    "a sign-in link alone can't be refuted": (("signed out",), _absent(), Bucket.NOT_MEASURABLE, "wall_claimed"),
    "a wall that is not on the page": (("wall url",), _absent(), Bucket.PRODUCT_NO_COMPOSER, "wall_refuted"),
    "the budget was used up": (("fill", "dryrun"), {"budget_used": True}, Bucket.PRODUCT_TIMEOUT, "budget_used"),
    "claimed, and the page does not hold it": (("fill", "dryrun"), _absent(), Bucket.PRODUCT_UNVERIFIED_FILL, "payload_absent"),
    "claimed, and the page holds it twice": (("fill", "dryrun", "probe"), {"read": {"count": 2}}, Bucket.PRODUCT_UNVERIFIED_FILL, "payload_absent"),
    "absent after the read-only probe": (("fill", "dryrun", "probe"), _absent(after_dispatch=2), Bucket.PRODUCT_UNVERIFIED_FILL, "payload_absent"),
    "absent after a recovery": (("fill", "dryrun", "recovery"), _absent(after_dispatch=2), Bucket.PRODUCT_UNCONFIRMED, "payload_absent"),
    "claimed, and the page can't be read": (("fill", "dryrun"), {"read": {"count": 0, "payload": Seen.COULD_NOT_LOOK, "url": ""}}, Bucket.PRODUCT_UNCONFIRMED, "page_unread"),
    "claimed, and a frame can't be entered": (("fill", "dryrun"), _absent(frames_unread=1), Bucket.PRODUCT_UNCONFIRMED, "page_unread"),
    "a command was never answered": (("fill", "slow", "timed out"), {}, Bucket.PRODUCT_COMMAND_TIMEOUT, "command_timed_out"),
    "reads were never answered": (("slow", "slow", "nothing"), {}, Bucket.PRODUCT_COMMAND_TIMEOUT, "command_timed_out"),
    "the editor rejects input": (("fill", "died"), {}, Bucket.PRODUCT_FILL_DIED, "fill_died"),
    "the fill was not seen committed": (("fill", "not committed"), {}, Bucket.PRODUCT_FILL_DIED, "fill_died"),
    "silence after a fill began": (("fill",), {}, Bucket.PRODUCT_FILL_DIED, "fill_died"),
    "no claim, but seen after a recovery": (("fill", "died", "recovery", "fill", "dryrun"), {}, Bucket.PRODUCT_FILL_DIED, "fill_died"),
    "another kind of page": (("other page",), _absent(), Bucket.PRODUCT_WRONG_SURFACE, "landed_elsewhere"),
    "nothing editable": (("nothing", "recovery", "nothing"), _absent(), Bucket.PRODUCT_NO_COMPOSER, "declined"),
    "the recovery alone found a wall": (("nothing", "recovery", "wall url"), NOT_READ, Bucket.PRODUCT_NO_COMPOSER, "declined"),
    "no send script ran": (("ended",), NOT_READ, Bucket.PRODUCT_NO_COMPOSER, "nothing_tried"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_each_situation_has_its_bucket_and_its_rule(name: str, grade: Grade, read_of: Read) -> None:
    lines, changes, bucket, rule = CASES[name]
    changes = dict(changes)
    if "read" in changes:
        changes["reads"] = (read_of(**changes.pop("read")),)
    verdict = grade(*lines, **changes).verdict
    assert (verdict.bucket, verdict.rule) == (bucket, rule), verdict.why


def test_every_rule_decides_at_least_one_situation() -> None:
    assert {rule for *_, rule in CASES.values()} == {rule.__name__ for rule in RULES}


def test_every_bucket_of_a_dry_run_but_a_lost_box_comes_up() -> None:
    assert {bucket for *_, bucket, _ in CASES.values()} == set(Bucket) - {Bucket.INFRA_BOX_LOST}


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case[2] is Bucket.NOT_MEASURABLE])
def test_an_exclusion_says_on_whose_word_it_rests(name: str, grade: Grade, read_of: Read) -> None:
    lines, changes, _, rule = CASES[name]
    changes = dict(changes)
    if "read" in changes:
        changes["reads"] = (read_of(**changes.pop("read")),)
    verdict = grade(*lines, **changes).verdict
    assert verdict.evidence is (Evidence.UNVERIFIED if rule == "wall_claimed" else Evidence.PROVEN)


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
