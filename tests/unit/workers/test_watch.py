"""What is seen while a run is on: told by a look that the test answers."""

from __future__ import annotations

import threading
from collections.abc import Callable

from workers.conditions import Condition, refuse
from workers.watch import Watch

FOREIGN = refuse("foreign", "pid 9 listens on port 8324")
ROUTER = refuse("router", "the router does not answer")


def watch_over(*looks: tuple[Condition, ...]) -> Watch:
    """A watch that is never opened: each look is the test's, the last one again and again."""
    answers = list(looks)
    return Watch(lambda: answers.pop(0) if len(answers) > 1 else answers[0], every_s=0.01)


def reasons(watch: Watch) -> list[str]:
    return [seen.condition.reason for seen in watch.close()]


def test_quiet_run_has_no_intrusion() -> None:
    assert reasons(watch_over(())) == []


def test_last_look_is_taken_also_when_it_was_never_opened() -> None:
    assert reasons(watch_over((FOREIGN,))) == ["foreign"]


def test_router_that_answers_late_once_is_not_away() -> None:
    assert reasons(watch_over((ROUTER,), ())) == []


def test_router_that_stays_silent_is_away() -> None:
    assert reasons(watch_over((ROUTER,), (ROUTER,))) == ["router"]


def test_what_came_and_went_within_the_run_is_seen(wait_until: Callable[..., None]) -> None:
    looks, present = threading.Event(), [FOREIGN]

    def look() -> tuple[Condition, ...]:
        found = tuple(present)
        if found:
            looks.set()
        return found

    watch = Watch(look, every_s=0.01)
    watch.open()
    assert looks.wait(10)
    present.clear()
    assert reasons(watch) == ["foreign"]
    assert "watch" not in [thread.name for thread in threading.enumerate()]


def test_look_that_fails_ends_no_watch() -> None:
    seen = threading.Event()
    answers: list[Callable[[], tuple[Condition, ...]]] = []

    def look() -> tuple[Condition, ...]:
        answers.append(look)
        if len(answers) == 1:
            raise OSError("this once")
        seen.set()
        return (FOREIGN,)

    watch = Watch(look, every_s=0.01)
    watch.open()
    assert seen.wait(10)
    assert reasons(watch) == ["foreign"]
