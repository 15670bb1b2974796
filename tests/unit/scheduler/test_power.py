"""The arithmetic of a proof agrees with what the scorecard calls proven."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grader import intervals
from scheduler.power import (
    at_most,
    fewest_runs,
    most_failures,
    need_for_flake,
    need_for_reach,
    weigh_flake,
    weigh_reach,
    wilson_low,
)

SHARES = st.floats(0.001, 0.999)


@given(st.integers(0, 60), st.integers(1, 400), SHARES)
def test_the_sum_is_the_graders(count: int, trials: int, share: float) -> None:
    assert at_most(count, trials, share) == pytest.approx(intervals.binomial_at_most(count, trials, share), abs=1e-9)


@given(st.data(), st.integers(1, 2_000))
def test_the_lower_end_is_the_graders(data: st.DataObject, trials: int) -> None:
    reached = data.draw(st.integers(0, trials))
    interval = intervals.wilson(reached, trials)
    assert interval is not None
    assert max(0.0, wilson_low(reached, trials)) == pytest.approx(interval.low, abs=1e-12)


@pytest.mark.parametrize(("failures", "runs"), [(0, 299), (1, 473), (2, 628)])
def test_one_per_cent_is_proven_by_so_many_runs_with_so_many_failures(failures: int, runs: int) -> None:
    assert fewest_runs(failures, 0.01) == runs
    assert (most_failures(runs, 0.01), most_failures(runs - 1, 0.01)) == (failures, failures - 1)


@given(st.integers(0, 6), st.floats(0.005, 0.2))
def test_the_scorecards_bound_agrees_on_both_sides_of_the_fewest_runs(failures: int, target: float) -> None:
    runs = fewest_runs(failures, target)
    enough, fewer = intervals.upper_bound(failures, runs), intervals.upper_bound(failures, runs - 1)
    assert enough is not None
    assert fewer is not None
    assert enough.high <= target + 1e-9
    assert fewer.high > target - 1e-9


def test_seventy_trials_of_nine_sites_are_what_a_night_proves_flake_with() -> None:
    need = need_for_flake(9, target=0.01, assumed=0.002, power=0.8)
    assert need is not None
    assert (need.trials, need.runs, need.allowed) == (70, 630, 2)
    assert need.power == pytest.approx(intervals.binomial_at_most(2, 630, 0.002))
    # one trial fewer than the first that allows two: a second failure is one too many
    fewer = weigh_flake(69, 9, target=0.01, assumed=0.002)
    assert (fewer.allowed, fewer.power < 0.8) == (1, True)


def test_hundred_clean_runs_prove_no_one_per_cent() -> None:
    assert weigh_flake(12, 9, target=0.01, assumed=0.002) == weigh_flake(12, 9, target=0.01, assumed=0.0005)
    assert (
        weigh_flake(12, 9, target=0.01, assumed=0.002).allowed,
        weigh_flake(12, 9, target=0.01, assumed=0.0).power,
    ) == (
        -1,
        0.0,
    )


@given(
    st.integers(1, 25),
    st.sampled_from([0.8, 0.9, 0.95]),
    st.sampled_from([0.5, 0.8, 0.95]),
    st.sampled_from([1.0, 2 / 3, 0.4]),
)
@settings(deadline=None)
def test_the_fewest_trials_for_reach_prove_it_with_the_power_asked_for_and_one_fewer_do_not(
    sites: int, target: float, power: float, measurable: float
) -> None:
    assumed = (1 + target) / 2
    need = need_for_reach(sites, measurable=measurable, target=target, assumed=assumed, power=power)
    assert need is not None
    assert (need.counted, need.runs) == (round(need.trials * sites * measurable), need.trials * sites)
    assert need.power >= power
    just, too_few = (intervals.wilson(need.counted - need.allowed - less, need.counted) for less in (0, 1))
    assert just is not None
    assert too_few is not None
    assert just.low >= target > too_few.low
    assert need.power == pytest.approx(intervals.binomial_at_most(need.allowed, need.counted, 1 - assumed), abs=1e-9)
    if need.trials > 1:
        fewer = weigh_reach(need.trials - 1, sites, measurable=measurable, target=target, assumed=assumed)
        assert fewer.power < power


@given(st.integers(1, 25), st.sampled_from([0.8, 0.9]), st.sampled_from([0.02, 0.05]))
@settings(deadline=None)
def test_what_was_unverified_is_a_miss_in_a_proof_of_reach(sites: int, target: float, unverified: float) -> None:
    assumed = (1 + target) / 2
    need = need_for_reach(sites, measurable=0.8, unverified=unverified, target=target, assumed=assumed, power=0.5)
    if need is None:
        assert 0.8 * assumed / (0.8 + unverified) < target
        return
    assert need.unverified == round(need.runs * unverified)
    reached, all_of_them = need.counted - need.allowed, need.counted + need.unverified
    just, too_few = intervals.wilson(reached, all_of_them), intervals.wilson(reached - 1, all_of_them)
    assert just is not None
    assert too_few is not None
    assert just.low >= target > too_few.low
    believed = intervals.wilson(reached, need.counted)
    assert believed is not None
    assert believed.low >= target


def test_no_number_of_runs_proves_reach_while_too_many_are_unverified() -> None:
    for trials in (12, 120):
        few = weigh_reach(trials, 9, measurable=0.8, unverified=0.1, target=0.9, assumed=0.95)
        assert (few.allowed, few.power) == (-1, 0.0)
    assert need_for_reach(9, measurable=0.8, unverified=0.1, target=0.9, assumed=0.95, power=0.8) is None


def test_what_no_night_can_prove_is_said_so_soon() -> None:
    began_s = time.process_time()
    assert need_for_flake(9, target=0.01, assumed=0.00999, power=0.99) is None
    assert need_for_reach(9, measurable=1.0, target=0.9, assumed=0.9001, power=0.99) is None
    assert need_for_reach(9, measurable=0.0, target=0.9, assumed=0.95, power=0.8) is None
    assert time.process_time() - began_s < 20
