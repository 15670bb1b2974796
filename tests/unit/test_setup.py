"""The parts of set-up, each on its own; real processes, real locks, no network."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from infra.bootstrap import browser, clients, commands, place, steps, whole

ROOT = Path(__file__).resolve().parents[2]
Reports = pytest.CaptureFixture[str]


@pytest.fixture
def clone(tmp_path: Path) -> place.Place:
    """A clone with nothing in it."""
    runtime = tmp_path / "run time"
    runtime.mkdir()
    return place.Place(root=tmp_path, runtime=runtime)


@pytest.fixture
def setup(clone: place.Place) -> clients.Setup:
    """A set-up that has just begun."""
    return clients.Setup(place=clone, env=dict(os.environ), lock_fds=())


def make_step(run: Callable[[clients.Setup], place.Facts], *, name: str = "toy") -> steps.Step:
    return steps.Step(
        name=name,
        title=f"the {name}",
        stamp=steps.stamp_in_runtime(name),
        inputs=lambda place: place.read("input.txt"),
        run=run,
        is_sound=lambda place, facts: (place.root / facts["made"]).exists(),
    )


def make_product(setup: clients.Setup) -> place.Facts:
    (setup.place.root / "product").touch()
    return {"made": "product"}


def fail(setup: clients.Setup) -> place.Facts:
    setup.run([sys.executable, "-c", "raise SystemExit('error: no such package')"])
    return {}


# -- Stamps ------------------------------------------------------------------------------------------


def test_step_that_ended_well_is_done_with_its_facts(setup: clients.Setup) -> None:
    step = make_step(make_product)
    assert step.find_facts(setup.place) is None

    step.perform(setup)

    assert step.find_facts(setup.place) == {"made": "product"}


def test_step_runs_again_when_an_input_changed(setup: clients.Setup) -> None:
    step = make_step(make_product)
    step.perform(setup)

    (setup.place.root / "input.txt").write_text("new")

    assert step.find_facts(setup.place) is None


def test_step_runs_again_when_its_product_is_gone(setup: clients.Setup) -> None:
    step = make_step(make_product)
    step.perform(setup)

    (setup.place.root / "product").unlink()

    assert step.find_facts(setup.place) is None


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"key": 1}'])
def test_step_runs_again_when_its_stamp_is_damaged(setup: clients.Setup, damage: str) -> None:
    step = make_step(make_product)
    step.perform(setup)

    step.stamp(setup.place).write_text(damage)

    assert step.find_facts(setup.place) is None


def test_step_runs_again_when_its_stamp_lacks_a_fact(setup: clients.Setup) -> None:
    step = make_step(make_product)
    step.perform(setup)
    stamped = json.loads(step.stamp(setup.place).read_text())

    step.stamp(setup.place).write_text(json.dumps({**stamped, "facts": {}}))

    assert step.find_facts(setup.place) is None


def test_step_that_fails_when_done_again_leaves_what_stood(setup: clients.Setup) -> None:
    make_step(make_product).perform(setup)

    with pytest.raises(clients.CommandError):
        make_step(fail).perform(setup)

    assert make_step(make_product).find_facts(setup.place) == {"made": "product"}


def test_set_up_goes_on_at_the_step_that_failed(setup: clients.Setup, capsys: Reports) -> None:
    first = make_step(make_product, name="first")
    with pytest.raises(clients.SetupError, match=r"the second could not be had: .* no such package") as caught:
        whole.run_steps(setup, [first, make_step(fail, name="second")], is_again=False)
    assert str(setup.log) in caught.value.hint
    capsys.readouterr()

    whole.run_steps(setup, [first, make_step(make_product, name="second")], is_again=False)

    printed = capsys.readouterr().err
    assert "the first" not in printed
    assert "the second … 0." in printed


def test_again_does_every_step_anew(setup: clients.Setup, capsys: Reports) -> None:
    step = make_step(make_product)
    step.perform(setup)

    whole.run_steps(setup, [step], is_again=True)

    assert "the toy … 0." in capsys.readouterr().err


def test_key_tells_where_one_part_ends() -> None:
    assert place.hash_parts(["ab", "c"]) != place.hash_parts(["a", "bc"])
    assert place.hash_parts(["ab", b"c"]) == place.hash_parts([b"ab", "c"])


def test_swapped_in_folder_replaces_the_old_one_whole(tmp_path: Path) -> None:
    draft, final = tmp_path / "draft", tmp_path / "final"
    for folder, name in ((draft, "new"), (final, "old")):
        folder.mkdir()
        (folder / name).touch()

    place.swap_in(draft, final)

    assert place.list_names(final) == ["new"]
    assert place.list_names(tmp_path) == ["final"]


def test_folder_holds_names_when_others_are_there_too_but_never_when_none_is_named(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).touch()

    assert place.holds(tmp_path, ["a"])
    assert not place.holds(tmp_path, ["a", "c"])
    assert not place.holds(tmp_path, [])


def test_runtime_folder_is_the_same_by_whatever_path_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    found = [place.find_place({"BV3_RUNTIME": name}) for name in ("there", "./x/../there", str(tmp_path / "there"))]

    assert {one.runtime for one in found} == {tmp_path / "there"}
    assert place.find_place({}) == place.Place(root=ROOT, runtime=ROOT / ".runtime")


# -- Clients -----------------------------------------------------------------------------------------


def test_output_of_a_client_is_returned_and_logged(setup: clients.Setup) -> None:
    assert setup.run([sys.executable, "-c", "print('one')"]) == "one\n"
    assert setup.run([sys.executable, "-c", "print('two')"]) == "two\n"

    assert [line for line in setup.log.read_text().splitlines() if line in ("one", "two")] == ["one", "two"]


def test_client_that_fails_is_named_with_what_it_said(setup: clients.Setup) -> None:
    script = "print('Collecting x'); print('ERROR: no matching x'); raise SystemExit(4)"

    with pytest.raises(clients.CommandError, match=r"ended with code 4: ERROR: no matching x$"):
        setup.run([sys.executable, "-c", script])


def test_client_that_is_not_there_is_an_error_of_its_own(setup: clients.Setup) -> None:
    with pytest.raises(clients.CommandError, match="`no-such-program` did not start"):
        setup.run(["no-such-program"])


def test_client_over_its_time_ends_with_all_its_children(
    setup: clients.Setup, tmp_path: Path, wait_until: Callable[..., None]
) -> None:
    told = tmp_path / "grandchild"
    script = f"sleep 60 & echo $! > '{told}'; wait"

    with pytest.raises(clients.CommandError, match="was not done within 1 s"):
        setup.run(["sh", "-c", script], limit_s=1.0)

    wait_until(lambda: not is_running(int(told.read_text())), "the end of the grandchild")


def is_running(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


@pytest.mark.parametrize(
    ("output", "words"),
    [
        ("Collecting x\nERROR: No matching distribution found for x\n", "ERROR: No matching distribution found for x"),
        (
            "npm error code E404\nnpm error 404 Not Found\nnpm error A complete log of this run",
            "npm error 404 Not Found",
        ),
        (
            "error: Failed to fetch: x\n  cause: invalid peer certificate\n\nhint: see",
            "cause: invalid peer certificate",
        ),
        ("Reading package lists...\nE: Unable to locate package x", "E: Unable to locate package x"),
        ("all is said\nin the last line\n\n", "in the last line"),
        ("", "it printed nothing"),
    ],
)
def test_failure_is_told_in_the_line_that_says_most(output: str, words: str) -> None:
    assert clients.last_words(output) == words


@pytest.mark.parametrize(
    "output",
    [
        "NewConnectionError('<urllib3.HTTPSConnection object>: [Errno -3] Temporary failure in name resolution",
        "cause: client error (Connect)\n  cause: dns error: failed to lookup address information",
        "npm error request to https://example.test failed, reason: getaddrinfo ENOTFOUND example.test",
        "Error: getaddrinfo EAI_AGAIN example.test",
    ],
)
def test_absent_network_is_recognised(output: str) -> None:
    error = clients.CommandError(["python", "-m", "pip"], "ended with code 1", output)

    assert error.is_offline
    assert str(error) == "`pip` ended with code 1: the network could not be reached"


@pytest.mark.parametrize(
    "output",
    [
        "cause: invalid peer certificate: UnknownIssuer",
        "ERROR: No matching distribution found for x==9",
        "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE",
    ],
)
def test_other_failures_are_not_blamed_on_the_network(output: str) -> None:
    assert not clients.CommandError(["pip"], "ended with code 1", output).is_offline


@pytest.mark.parametrize("home", [None, "", "/no/such/home"])
def test_clients_get_a_home_when_there_is_none(tmp_path: Path, home: str | None) -> None:
    given = {} if home is None else {"HOME": home}

    env = clients.make_environment(given, tmp_path / "home")

    assert env["HOME"] == str(tmp_path / "home")
    assert env["XDG_CACHE_HOME"].startswith(env["HOME"])


def test_clients_keep_a_home_that_can_be_written_and_lose_what_misleads_them(tmp_path: Path) -> None:
    given = {"HOME": str(tmp_path), "PYTHONPATH": "elsewhere", "PIP_TARGET": "elsewhere", "LANG": "C"}

    env = clients.make_environment(given, tmp_path / "home")

    assert (env["HOME"], env["LANG"]) == (str(tmp_path), "C")
    assert "elsewhere" not in env.values()


# -- Locks and signals -------------------------------------------------------------------------------

HOLD = """
import sys
from pathlib import Path
from infra.bootstrap.place import Place, hold
with hold(Place(root=Path(sys.argv[1]), runtime=Path(sys.argv[2]))) as descriptors:
    print("held", flush=True)
    if sys.argv[3] == "orphan":
        import subprocess
        child = subprocess.Popen(["cat"], stdin=sys.stdin, stdout=subprocess.DEVNULL, pass_fds=descriptors)
        import os
        os._exit(0)
    sys.stdin.read()
"""


def start_holder(clone: place.Place, kind: str = "holder") -> subprocess.Popen[str]:
    command = [sys.executable, "-c", HOLD, str(clone.root), str(clone.runtime), kind]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def test_second_set_up_waits_for_the_first_and_says_so(clone: place.Place) -> None:
    first = start_holder(clone)
    assert first.stdout
    assert first.stdout.readline() == "held\n"
    second = start_holder(clone)
    assert second.stderr
    assert second.stderr.readline() == "bv3: another set-up of this clone is running; waiting for it\n"

    first.communicate("")

    assert second.communicate("")[0] == "held\n"
    assert (first.returncode, second.returncode) == (0, 0)


def test_set_up_waits_for_the_orphan_of_one_that_was_killed(clone: place.Place) -> None:
    first = start_holder(clone, "orphan")
    assert first.stdout
    assert first.stdout.readline() == "held\n"
    assert first.wait(10) == 0
    second = start_holder(clone)
    assert second.stderr
    assert "waiting for it" in second.stderr.readline()

    first.communicate("")  # the orphan's input ends, and so does the orphan

    assert second.communicate("")[0] == "held\n"


def test_terminated_set_up_ends_its_client(clone: place.Place, wait_until: Callable[..., None]) -> None:
    told = clone.root / "client"
    script = (
        "import sys; from pathlib import Path\n"
        "from infra.bootstrap import clients, place, whole\n"
        "where = place.Place(root=Path(sys.argv[1]), runtime=Path(sys.argv[1]))\n"
        "with whole.stop_on_signals():\n"
        "    clients.Setup(place=where, env={}, lock_fds=()).run(['/bin/sh', '-c', sys.argv[2]])\n"
    )
    command = [sys.executable, "-c", script, str(clone.root), f"echo $$ > '{told}'; exec sleep 60"]
    running = subprocess.Popen(command, cwd=ROOT)
    wait_until(lambda: told.exists() and told.read_text().endswith("\n"), "the client")

    running.send_signal(signal.SIGTERM)

    assert running.wait(10) == 128 + signal.SIGTERM
    assert not is_running(int(told.read_text()))


# -- Chromium ----------------------------------------------------------------------------------------


def test_sandbox_is_tried_first_and_root_never_tries_it() -> None:
    assert browser.list_argument_sets(is_root=False, is_shm_small=False) == [[], ["--no-sandbox"]]
    assert browser.list_argument_sets(is_root=True, is_shm_small=True) == [["--disable-dev-shm-usage", "--no-sandbox"]]


def test_chromium_that_is_asked_for_is_the_only_one_tried(
    setup: clients.Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHROMIUM_PATH", "/my/own")

    assert [found.path for found in browser.find_candidates(setup, None)] == ["/my/own"]


def test_chosen_chromium_stays_until_another_is_asked_for(clone: place.Place, monkeypatch: pytest.MonkeyPatch) -> None:
    facts = {"path": sys.executable, "args": ["--no-sandbox"], "playwright_node": None}
    monkeypatch.delenv("CHROMIUM_PATH", raising=False)
    assert browser.is_browser_sound(clone, facts)

    monkeypatch.setenv("CHROMIUM_PATH", sys.executable)
    assert browser.is_browser_sound(clone, facts)

    monkeypatch.setenv("CHROMIUM_PATH", "/my/own")
    assert not browser.is_browser_sound(clone, facts)


def test_chromium_fetched_earlier_is_found_with_what_it_needs(clone: place.Place) -> None:
    shell = clone.runtime / "playwright" / "chromium-1" / "shell" / "chrome-headless-shell"
    packed = clone.runtime / "chromium" / "chromium"
    for path in (shell, packed):
        path.parent.mkdir(parents=True)
        path.touch()

    first, second = browser.find_fetched(clone.runtime)

    assert (first.path, first.env) == (str(shell), {})
    assert second.path == str(packed)
    assert set(second.env) == {"LD_LIBRARY_PATH", "FONTCONFIG_PATH"}


# -- The command line --------------------------------------------------------------------------------


def run_bv3(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": os.environ["PATH"], **variables}
    return subprocess.run([ROOT / "bv3", *arguments], env=env, capture_output=True, text=True, check=False)


def test_help_names_every_command_and_costs_no_set_up(tmp_path: Path) -> None:
    helped = run_bv3("--help", BV3_RUNTIME=str(tmp_path / "runtime"))

    assert helped.returncode == 0
    assert [word for word in ("setup", "test", *steps.COMMANDS) if f"\n  {word} " not in helped.stdout] == []
    assert not (tmp_path / "runtime").exists()


@pytest.mark.parametrize("command", commands.OWN_COMMANDS)
def test_help_of_our_own_commands_is_help_and_nothing_else(tmp_path: Path, command: str) -> None:
    helped = run_bv3(command, "--help", BV3_RUNTIME=str(tmp_path / "runtime"))

    assert (helped.returncode, helped.stdout, helped.stderr) == (0, commands.USAGE, "")
    assert not (tmp_path / "runtime").exists()


@pytest.mark.parametrize(("words", "meant"), [(["shedule"], "schedule"), (["setup", "--agian"], "--again")])
def test_unknown_word_is_named_and_nothing_is_set_up(tmp_path: Path, words: list[str], meant: str) -> None:
    refused = run_bv3(*words, BV3_RUNTIME=str(tmp_path / "runtime"))

    assert refused.returncode == commands.EXIT_USAGE
    cause, hint = refused.stderr.splitlines()
    assert cause.startswith("error: ")
    assert cause.endswith(f"'{words[-1]}'")
    assert hint.startswith(f"hint: did you mean '{meant}'? ")
    assert not (tmp_path / "runtime").exists()


def test_runtime_folder_that_can_not_be_made_is_told_without_a_traceback() -> None:
    refused = run_bv3("setup", BV3_RUNTIME="/dev/null/runtime")

    assert refused.returncode == commands.EXIT_INFRASTRUCTURE
    assert "set-up could not write" in refused.stderr
    assert "hint: " in refused.stderr
    assert "Traceback" not in refused.stderr


def test_older_python_is_told_which_one_is_needed() -> None:
    script = "import sys; sys.version_info = (3, 9, 0); exec(compile(open(sys.argv[1]).read(), sys.argv[1], 'exec'))"
    told = subprocess.run(
        [sys.executable, "-c", script, ROOT / "bv3"], env={"PATH": ""}, capture_output=True, text=True, check=False
    )

    assert told.returncode == commands.EXIT_INFRASTRUCTURE
    assert told.stderr.startswith("bv3 needs Python 3.11 or newer")
    assert "hint: " in told.stderr


def test_set_up_needs_nothing_but_the_standard_library() -> None:
    # -S leaves out what is installed, -I what the environment says.
    script = "import sys; sys.path.insert(0, sys.argv[1]); import infra.bootstrap.commands; print('read')"
    imported = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script, ROOT], capture_output=True, text=True, check=False
    )

    assert (imported.stdout, imported.stderr) == ("read\n", "")


def test_command_takes_over_the_process_with_its_arguments_and_exit_code(clone: place.Place) -> None:
    program = clone.binaries / "bv3-farm"
    program.parent.mkdir(parents=True)
    program.write_text('#!/bin/sh\necho "$$ $BV3_LAUNCHED_AS $*"\nexit 7\n')
    program.chmod(0o755)
    script = (
        "import sys; from pathlib import Path\n"
        "from infra.bootstrap.commands import become\n"
        "from infra.bootstrap.place import Place\n"
        "become(Place(root=Path(sys.argv[1]), runtime=Path(sys.argv[1])), 'farm', ['up', '--boxes', '2'])\n"
    )

    command = [sys.executable, "-c", script, str(clone.root)]
    running = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    printed, _ = running.communicate(timeout=30)

    assert printed == f"{running.pid} ./-c up --boxes 2\n", "told how it was called, so that it can name itself"
    assert running.returncode == 7


def test_pytest_gets_its_arguments_after_ours_so_that_they_win() -> None:
    program, *words = commands.make_pytest_command(Path("bin"), ["--fast", "-n", "0", "tests/unit"])

    assert program == "bin/pytest"
    assert words == ["-n", "2", "--dist", "loadgroup", "--ignore=tests/e2e", "-n", "0", "tests/unit"]


def test_fast_path_takes_well_under_a_second() -> None:
    began = time.monotonic()
    done = whole.is_done(place.find_place(os.environ))

    assert done
    assert time.monotonic() - began < 0.5
