"""Set-up as a whole: which steps, one at a time, and the manifest that says what they found."""

import contextlib
import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import NoReturn

from infra.bootstrap.browser import BROWSER
from infra.bootstrap.clients import CommandError, Setup, SetupError, make_environment
from infra.bootstrap.place import Facts, Place, hold, read_json, write_json
from infra.bootstrap.steps import EDITOR_BUNDLES, EDITOR_PACKAGES, ENVIRONMENT, NODE, PROJECT, Step

# In the order in which they need one another.
STEPS: tuple[Step, ...] = (ENVIRONMENT, PROJECT, NODE, EDITOR_PACKAGES, EDITOR_BUNDLES, BROWSER)


def make_manifest(place: Place, facts: Mapping[str, Facts]) -> Facts:
    """What the farm needs to know of this machine."""
    node, browser = facts["node"], facts["browser"]
    return {
        "schema": 1,
        "chromium": browser["path"],
        "chromium_args": browser["args"],
        "chromium_env": browser["env"],
        "node": node["node"],
        "playwright_node": browser["playwright_node"],
        "editors": str(place.runtime / "editors"),
        "npm": str(place.runtime / "npm"),
    }


def is_done(place: Place) -> bool:
    """True if every step is done and still good, and the manifest says what they found."""
    facts: dict[str, Facts] = {}
    for step in STEPS:
        found = step.find_facts(place)
        if found is None:
            return False
        facts[step.name] = found
    return read_json(place.manifest) == make_manifest(place, facts)


def set_up(place: Place, *, is_again: bool = False, is_pip_wanted: bool = False) -> None:
    """The clone is set up; costs a few file reads when it was already. Raises SetupError."""
    if not is_again and is_done(place):
        return
    try:
        with hold(place) as lock_fds, stop_on_signals():
            if not is_again and is_done(place):
                return
            env = make_environment(os.environ, place.runtime / "home")
            os.makedirs(env["HOME"], exist_ok=True)  # noqa: PTH103 - the one line it takes
            setup = Setup(place=place, env=env, lock_fds=lock_fds, is_pip_wanted=is_pip_wanted)
            run_steps(setup, STEPS, is_again=is_again)
            write_json(place.manifest, make_manifest(place, setup.facts))
    except OSError as error:
        hint = "the clone and BV3_RUNTIME must be writable, with 1.5 GB free, for the first set-up"
        raise SetupError(f"set-up could not write: {error}", hint=hint) from error


def run_steps(setup: Setup, steps: Sequence[Step], *, is_again: bool) -> None:
    """Every step that was not done is, in order. Raises SetupError, and leaves the later ones undone."""
    began = time.monotonic()
    setup.log.write_text("")
    found = {} if is_again else {step.name: step.find_facts(setup.place) for step in steps}
    is_first = not any(found.values())
    setup.say("setting up this clone (done once)" if is_first else "setting up what is new or missing in this clone")
    for step in steps:
        # Asked anew: a step may have broken what a later one had made.
        facts = None if is_again else step.find_facts(setup.place)
        if facts is None:
            run_step(setup, step)
        else:
            setup.facts[step.name] = facts
    setup.say(f"set up in {time.monotonic() - began:.1f} s")


def run_step(setup: Setup, step: Step) -> None:
    """The step is done, and its time printed. Raises SetupError with what could not be had."""
    began = setup.begin(step.title)
    try:
        step.perform(setup)
    except CommandError as error:
        advice = "try again with a network; " if error.is_offline else ""
        hint = f"{advice}all that was printed is in {setup.log}"
        raise SetupError(f"{step.title} could not be had: {error}", hint=hint) from error
    setup.end(step.title, began)


@contextlib.contextmanager
def stop_on_signals() -> Iterator[None]:
    """SIGTERM and SIGHUP end set-up by way of every `finally`, so that no client is left behind."""

    def stop(number: int, _frame: object) -> NoReturn:
        raise SystemExit(128 + number)

    numbers = (signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    try:
        for number in numbers:
            # Under nohup the hang-up is ignored, and must be by the command as well.
            if before[number] is not signal.SIG_IGN:
                signal.signal(number, stop)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
