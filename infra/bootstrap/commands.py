"""The command line of `./bv3`."""

import difflib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from infra.bootstrap.clients import Command, CommandError, Setup, SetupError, make_environment
from infra.bootstrap.packages import find_uv
from infra.bootstrap.place import Place, find_place, hold
from infra.bootstrap.steps import COMMANDS
from infra.bootstrap.whole import set_up

EXIT_USAGE, EXIT_INFRASTRUCTURE, EXIT_INTERRUPTED = 2, 3, 130
OWN_COMMANDS = ("setup", "test", "lock")
SETUP_OPTIONS = ("--again", "--pip")
USAGE = """\
usage: ./bv3 COMMAND [ARGUMENTS]

  setup [--again] [--pip]   set this clone up (every command does so on first use)
  schedule …                plan sweeps and follow them       (./bv3 schedule --help)
  box …                     run a box                         (./bv3 box --help)
  grade …                   scorecards and exports            (./bv3 grade --help)
  farm …                    the services of this machine      (./bv3 farm --help)
  test [--fast] [PYTEST…]   lint, types, import contracts and tests; --fast leaves out tests/e2e
  lock [UV…]                write requirements*.txt anew from pyproject.toml (--upgrade: newest versions)

  setup --again does every step anew; setup --pip installs with pip even when uv is to be had

examples:
  ./bv3 schedule c7 --n 12               the nine sites of the known suite, twelve times each
  ./bv3 schedule c7 --n 1 --site x       one run on one site
  ./bv3 grade scorecard last             the scorecard of the newest sweep
  ./bv3 test tests/unit -k setup         the checks and a part of the tests

environment:
  CHROMIUM_PATH   the Chromium to use, instead of an installed or fetched one
  BV3_RUNTIME     the folder for what set-up fetches and builds (default: .runtime in the clone)
"""


def main(arguments: Sequence[str]) -> int:
    """Run one command line; returns the exit code."""
    try:
        return run(arguments)
    except SetupError as error:
        sys.stderr.write(f"\nerror: {error}\n" + (f"hint: {error.hint}\n" if error.hint else ""))
        return EXIT_INFRASTRUCTURE
    except KeyboardInterrupt:
        sys.stderr.write("\nbv3: interrupted; the next command goes on from here\n")
        return EXIT_INTERRUPTED


def run(arguments: Sequence[str]) -> int:
    """As main. Raises SetupError."""
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        sys.stdout.write(USAGE)
        return 0 if arguments else EXIT_USAGE
    command, *rest = arguments
    if command in OWN_COMMANDS and ("-h" in rest or "--help" in rest):
        sys.stdout.write(USAGE)
        return 0
    if error := find_error(command, rest):
        sys.stderr.write(error)
        return EXIT_USAGE
    place = find_place(os.environ)
    os.environ["BV3_RUNTIME"] = str(place.runtime)
    if command == "lock":
        return lock_packages(place, rest)
    is_setup = command == "setup"
    set_up(place, is_again=is_setup and "--again" in rest, is_pip_wanted=is_setup and "--pip" in rest)
    if command == "test":
        return run_tests(place, rest)
    return 0 if is_setup else become(place, command, rest)


def find_error(command: str, rest: Sequence[str]) -> str:
    """Cause and hint for a word that this program does not know, else ''."""
    if command not in (*OWN_COMMANDS, *COMMANDS):
        return describe_unknown(f"there is no command {command!r}", command, (*COMMANDS, *OWN_COMMANDS), "commands")
    wrong = next((word for word in rest if word not in SETUP_OPTIONS), "") if command == "setup" else ""
    return describe_unknown(f"setup has no {wrong!r}", wrong, SETUP_OPTIONS, "its options") if wrong else ""


def describe_unknown(cause: str, wrong: str, known: Sequence[str], kind: str) -> str:
    """The cause, and a hint with the close match and all that there is, as every command says it."""
    close = difflib.get_close_matches(wrong, known, n=1)
    guess = f"did you mean {close[0]!r}? " if close else ""
    return f"error: {cause}\nhint: {guess}{kind}: {', '.join(known)}\n"


def become(place: Place, command: str, arguments: Sequence[str]) -> NoReturn:
    """This process is the command from here on: its signals and its exit code are ours."""
    program = str(place.binaries / f"bv3-{command}")
    # Its help and hints then name commands as they were typed (broker/terminal.py).
    os.environ["BV3_LAUNCHED_AS"] = sys.argv[0] if "/" in sys.argv[0] else f"./{sys.argv[0]}"
    os.execv(program, [program, *arguments])  # noqa: S606 - a list, no shell


# -- test --------------------------------------------------------------------------------------------


def list_checks(binaries: Path) -> dict[str, list[str]]:
    """What is checked before the tests, by name."""
    ruff = str(binaries / "ruff")
    return {
        "lint": [ruff, "check", "--quiet"],
        "format": [ruff, "format", "--check", "--quiet"],
        "types": [str(binaries / "mypy")],
        "import contracts": [str(binaries / "lint-imports")],
    }


def make_pytest_command(binaries: Path, arguments: Sequence[str]) -> list[str]:
    """The console script, not `python -m pytest`, which would hide a package of the same name as ours.

    Two workers; tests that need quiet share one by `@pytest.mark.xdist_group`.
    """
    fast = ["--ignore=tests/e2e"] if "--fast" in arguments else []
    given = [argument for argument in arguments if argument != "--fast"]
    return [str(binaries / "pytest"), "-n", "2", "--dist", "loadgroup", *fast, *given]


def run_tests(place: Place, arguments: Sequence[str]) -> int:
    """Run the checks, then pytest, whose closing lines end the output; 0 only if all were green."""
    path = f"{place.binaries}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    os.environ["PATH"] = path
    failed = []
    for name, command in list_checks(place.binaries).items():
        began = time.monotonic()
        checked = subprocess.run(command, cwd=place.root, capture_output=True, text=True, check=False)
        if checked.returncode:
            sys.stdout.write(checked.stdout + checked.stderr)
            failed.append(name)
        report(f"{name}: {'FAILED' if checked.returncode else 'ok'} ({time.monotonic() - began:.1f} s)")
    report("tests (pytest)")
    code = wait_as_one(make_pytest_command(place.binaries, arguments), place.root)
    if failed:
        report(f"failed before the tests: {', '.join(failed)}")
    return code or bool(failed)


def report(line: str) -> None:
    """Print at once, so that it stands in order between what the checks print."""
    sys.stdout.write(f"bv3 test: {line}\n")
    sys.stdout.flush()


def wait_as_one(command: Sequence[str], folder: Path) -> int:
    """Run a command that gets our signals and ends in its own time; returns its exit code."""
    child = subprocess.Popen(command, cwd=folder)
    # A Ctrl-C reaches the child by itself; it must not be cut off while it stops what it started.
    signal.signal(signal.SIGINT, lambda *_: None)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: child.send_signal(number))
    code = child.wait()
    return code if code >= 0 else 128 - code


# -- lock --------------------------------------------------------------------------------------------


def lock_packages(place: Place, arguments: Sequence[str]) -> int:
    """requirements*.txt hold what pyproject.toml asks for, with the hashes of all platforms' files."""
    with hold(place) as lock_fds:
        env = make_environment(os.environ, place.runtime / "home")
        setup = Setup(place=place, env=env, lock_fds=lock_fds)
        uv = find_uv(setup)
        if uv is None:
            raise SetupError("uv could not be had, and pip makes no lock for all platforms")
        universal = ("--universal", "--python-version", "3.11", "--generate-hashes")
        origin = ("--custom-compile-command", "./bv3 lock")
        resolve: Command = [uv, "pip", "compile", *universal, *origin, *arguments]
        sources = {
            "requirements.txt": ["pyproject.toml", "--group", "dev", "--group", "build"],
            "requirements-uv.txt": ["--group", "uv"],
            "requirements-node.txt": ["--group", "node"],
        }
        for output, source in sources.items():
            try:
                setup.run([*resolve, *source, "--output-file", output], cwd=place.root)
            except CommandError as error:
                raise SetupError(f"{output} could not be made: {error}", hint=f"log: {setup.log}") from error
    return 0
