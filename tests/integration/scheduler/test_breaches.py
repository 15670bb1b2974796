"""A false success holds its sweep and its box until somebody says, in so many words, to have looked at it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import sqlalchemy as sa

from broker.holds import HoldKind
from broker.store.breaches import halt_after_breach, lift_breaches
from broker.store.engine import begin
from broker.store.holds import place_hold


def test_a_resume_names_each_breach_and_lifts_none_until_it_is_told_to(do: Callable[..., Any], farm: Any) -> None:
    sweep = do("c7", "--n", "3", "--site", "x", "--detach").out.strip()
    first = farm.begin_run()
    farm.end_run(first)
    second = farm.begin_run()
    farm.end_run(second)
    farm.find_breach(first, "claimed: sent, receipt seen")
    farm.find_breach(second, "claimed: delivered\x1b[2J")
    refused = do("resume", "last", "--detach")
    assert refused.code == 2
    error, hint = refused.err.splitlines()
    assert f"sweep {sweep} is held for 2 false successes" in error
    assert f"x#1 (attempt {first}) on box-a: claimed: sent, receipt seen" in error
    assert f"x#2 (attempt {second}) on box-a: claimed: delivered [2J" in error
    assert hint.endswith(f"bv3-schedule resume {sweep} --after-breach")
    assert f"bv3-grade show {sweep} x#1 and bv3-grade show {sweep} x#2" in hint
    assert do("status", sweep, "--json").document["state"] == "halted"
    seen = do("follow", sweep)
    assert (seen.code, "held for a false success; box-a gets no runs: " in seen.err) == (130, True)
    assert farm.hold.startswith(f"false success in attempt {first}:")

    lifting = do("resume", sweep, "--detach", "--after-breach")
    assert lifting.code == 0, lifting.err
    assert [line.split(" on ")[0] for line in lifting.err.splitlines()[:2]] == [
        f"false success lifted: x#1 (attempt {first})",
        f"false success lifted: x#2 (attempt {second})",
    ]
    assert "box-a works again" in lifting.err
    assert farm.hold is None
    assert do("status", sweep, "--json").document["state"] == "active"
    assert farm.scalar("select count(*) from box_events where kind = 'breach_lifted' and facts ->> 'by' <> ''") == 2
    farm.end_run(farm.begin_run())


def test_the_resume_that_ctrl_c_printed_lifts_no_breach_that_was_found_since(do: Callable[..., Any], farm: Any) -> None:
    sweep = do("c7", "--n", "2", "--site", "x", "--detach").out.strip()
    attempt = farm.begin_run()
    with farm.engine.begin() as connection:
        connection.execute(sa.text("update sweeps set paused_at = now(), order_reason = 'interrupted'"))
    farm.find_breach(attempt)
    farm.end_run(attempt)
    refused = do("resume", sweep)
    assert (refused.code, f"x#1 (attempt {attempt})" in refused.err) == (2, True)
    assert farm.hold is not None
    assert farm.scalar("select paused_at is not null and halted_at is not null from sweeps")


def test_a_sweep_that_was_interrupted_goes_on_and_frees_no_box_that_another_ones_breach_holds(
    do: Callable[..., Any], farm: Any
) -> None:
    breached = do("c7", "--n", "1", "--site", "x", "--detach").out.strip()
    attempt = farm.begin_run()
    farm.end_run(attempt)
    farm.find_breach(attempt)
    paused = do("c7", "--n", "1", "--site", "gmail", "--detach").out.strip()
    with farm.engine.begin() as connection:
        connection.execute(sa.text("update sweeps set paused_at = now() where id = :id"), {"id": paused})
    for options in ((), ("--after-breach",)):
        assert do("resume", paused, "--detach", *options).code == 0
        assert do("status", paused, "--json").document["state"] == "active"
        assert farm.hold is not None, options
    assert do("resume", breached, "--after-breach").code == 0
    assert farm.hold is None


def test_the_results_of_a_sweep_that_is_over_are_no_reason_to_let_its_box_go(do: Callable[..., Any], farm: Any) -> None:
    sweep = do("c7", "--n", "1", "--site", "x", "--detach").out.strip()
    attempt = farm.begin_run()
    farm.find_breach(attempt)
    farm.end_run(attempt)
    assert do("status", sweep, "--json").document["state"] == "finished"
    seen = do("follow", "last")
    assert seen.code == 0
    assert f"held for a false success; box-a gets no runs: bv3-schedule resume {sweep} says which" in seen.err
    refused = do("resume", "last")
    assert refused.code == 2
    assert f"resume {sweep} --after-breach" in refused.err
    assert farm.hold is not None
    lifted = do("resume", "last", "--after-breach")
    assert lifted.code == 0, lifted.err
    assert "box-a works again" in lifted.err
    assert farm.hold is None
    again = do("resume", "last")
    assert (again.code, "false success" in again.err) == (0, False), "its results, as ever"


def _two_breaches_on_one_box(do: Callable[..., Any], farm: Any) -> tuple[tuple[str, int], tuple[str, int]]:
    """Two sweeps, each with an attempt in which the next look finds a false success."""
    found = []
    for _ in range(2):
        sweep = do("c7", "--n", "1", "--site", "x", "--detach").out.strip()
        attempt = farm.begin_run()
        farm.end_run(attempt)
        found.append((sweep, attempt))
    return found[0], found[1]


def test_lifting_one_breach_keeps_the_box_held_for_the_other(do: Callable[..., Any], farm: Any) -> None:
    (sweep_a, attempt_a), (sweep_b, attempt_b) = _two_breaches_on_one_box(do, farm)
    farm.find_breach(attempt_a)
    farm.find_breach(attempt_b, "claimed: delivered")
    lifted = do("resume", sweep_a, "--after-breach")
    assert f"box-a stays held: false success in attempt {attempt_b}: claimed: delivered" in lifted.err
    assert "works again" not in lifted.err
    assert farm.hold == f"false success in attempt {attempt_b}: claimed: delivered"
    assert do("resume", sweep_b).code == 2
    assert "box-a works again" in do("resume", sweep_b, "--after-breach").err
    assert farm.hold is None


def test_lifting_the_younger_breach_keeps_the_hold_of_the_older_and_one_by_hand(
    do: Callable[..., Any], farm: Any
) -> None:
    (sweep_a, attempt_a), (sweep_b, attempt_b) = _two_breaches_on_one_box(do, farm)
    farm.find_breach(attempt_a)
    farm.find_breach(attempt_b)
    assert f"box-a stays held: false success in attempt {attempt_a}" in do("resume", sweep_b, "--after-breach").err
    with farm.engine.begin() as connection:
        place_hold(connection, "box-a", HoldKind.DRAINED, "by hand", "anna")
    assert "box-a stays held: by hand" in do("resume", sweep_a, "--after-breach").err
    assert farm.hold == "by hand"


def test_a_breach_that_is_found_while_another_is_lifted_holds_the_box(
    do: Callable[..., Any], farm: Any, wait_until: Callable[..., None]
) -> None:
    (sweep_a, attempt_a), (_, attempt_b) = _two_breaches_on_one_box(do, farm)
    farm.find_breach(attempt_a)
    waiting = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"

    def lift() -> None:
        with begin(farm.engine) as connection:
            assert lift_breaches(connection, sweep_a, "anna").freed == ()

    with ThreadPoolExecutor(1) as pool:
        with begin(farm.engine) as connection:
            halt_after_breach(connection, attempt_b, "claimed: sent")
            lifting = pool.submit(lift)
            wait_until(lambda: farm.scalar(waiting) == 1, "the lift that waits for the box")
        lifting.result(10)
    assert farm.hold == f"false success in attempt {attempt_b}: claimed: sent"


def test_the_same_breach_found_twice_is_one_and_found_again_after_it_was_lifted_another(
    do: Callable[..., Any], farm: Any
) -> None:
    (sweep, attempt), _ = _two_breaches_on_one_box(do, farm)
    for _ in range(2):
        farm.find_breach(attempt)
        farm.find_breach(attempt)
        assert do("resume", sweep).err.count(f"(attempt {attempt})") == 1
        assert do("resume", sweep, "--after-breach").err.count("false success lifted") == 1
        assert farm.hold is None
