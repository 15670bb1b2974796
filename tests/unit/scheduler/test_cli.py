"""A wrong request is answered with cause and hint, exit 2, before anything is started or written."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import click
import pytest

from broker.suites import load_suite, load_suite_file
from scheduler import cli
from scheduler.plan import PLANS, SERIES

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home, and a working folder of its own."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("BV3_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def nothing_written(home: Path) -> bool:
    return not home.exists() and not list(Path.cwd().iterdir())


@pytest.mark.parametrize(
    ("arguments", "error", "hint"),
    [
        (
            "overday",
            "there is no plan or command 'overday'",
            "plans and commands: c7, c8, anon, shapes, known, overnight, ",
        ),
        ("c8 --source nowhere", "Invalid value for '--source': Directory 'nowhere' does not exist.", None),
        ("overnight --site x", "No such option '--site'", None),
        ("overnight --n 0", "--n must be at least 1 (trials per site)", None),
        (
            "plan c7 --prove flake=1",
            "--prove '1' is no share between 0% and 100%",
            "with a per cent sign, 1%, or as in",
        ),
        ("plan c7 --prove flake=0%", "--prove '0%' is no share between 0% and 100%", "with a per cent sign"),
        (
            "plan c7 --prove speed=1%",
            "--prove 'speed=1%' is nothing that can be proven",
            "--prove flake=1%, --prove reach",
        ),
        ("plan c7 --prove flake=1% --assume 2%", "--assume must be below what is to be proven", None),
        ("plan c7 --prove reach=90% --assume 90%", "--assume must be above what is to be proven", None),
        ("plan c7 --assume 1%", "--assume is for one --prove", "ask for each by itself"),
        ("plan c7 --power 80", "--power '80' is no share", "with a per cent sign"),
        ("plan c7 --boxes 0", "--boxes must be at least 1", None),
        ("plan c7 --n 0", "--n must be between 1 and 100000", None),
        (
            "plan overnight --prove flake=1%",
            "overnight is several plans: c7, c8, anon, shapes",
            "ask for the proof of one",
        ),
        ("plan c9", "there is no plan 'c9'", "plans: c7, c8, anon, shapes, known, overnight"),
        ("suites knwon", "there is no suite 'knwon'", "suites: anon, holdout, known, shapes"),
        ("c7 --source .", "No such option '--source'", None),
        ("c8 --site txti", "site 'txti' is retired since 2026-08-06: direct fetch: the page says", None),
        ("lst", "there is no plan or command 'lst'", "did you mean 'list'?"),
        ("c7 --n 0", "--n must be at least 1 (trials per site)", None),
        ("c7 --n -1", "--n must be at least 1 (trials per site)", None),
        ("c7 --n two", "Invalid value for '--n': 'two' is not a valid integer.", None),
        ("c7 --site redit", "there is no site 'redit' in the suite 'known'", "did you mean 'reddit'? sites: x, "),
        ("c7 --boxes -1", "--boxes must be at least 0", None),
        ("c7 --gate --detach", "--gate needs the sweep's end, and --detach does not wait for it", None),
        ("c7 --trials 3", "No such option '--trials'", None),
        ("status last", "there is no sweep 'last': none was planned yet", "plan one: "),
        ("resume c7-2026", "there is no sweep 'c7-2026': none was planned yet", "plan one: "),
        (["status", ""], "say which sweep", "an id, a unique beginning of one, or `last`"),
        ("status", "Missing argument 'SWEEP'.", None),
    ],
)
def test_a_wrong_request_names_its_cause_and_writes_nothing(
    arguments: str | list[str], error: str, hint: str | None, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(arguments.split() if isinstance(arguments, str) else arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    lines = err.splitlines()
    assert lines[0].startswith(f"error: {error}")
    assert lines[1].startswith(f"hint: {hint}") if hint else len(lines) == 1, err
    assert nothing_written(home)


def test_an_unknown_plan_is_not_answered_with_plans_that_do_not_exist(capsys: pytest.CaptureFixture[str]) -> None:
    cli.run(["overday"])
    named = capsys.readouterr().err.split("plans and commands: ")[1].split(", ")
    assert set(re.findall(r"\bc\d\b", " ".join(named))) == {name for name in PLANS if name.startswith("c")}
    assert set(PLANS) | set(SERIES) <= set(named)


@pytest.mark.parametrize(
    ("name", "value", "is_refused"),
    [
        ("BV3_REFERENCE_FAULTS", "all", True),
        ("BV3_REFERENCE_NATURES", "all", True),
        ("BV3_LEASH_SCALE", "0.1", True),
        ("BV3_REFERENCE_FAULTS", " none", False),
        ("BV3_LEASH_SCALE", "1", False),
    ],
)
@pytest.mark.parametrize("command", [["c7", "--dry-run"], ["resume", "last"]])
def test_a_farm_elsewhere_is_never_taken_for_one_that_injects_faults(
    command: list[str],
    name: str,
    value: str,
    is_refused: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("BV3_BROKER_URL", "redis://127.0.0.1:1/0")
    monkeypatch.setenv("BV3_DATABASE_URL", "postgresql://nobody@127.0.0.1:1/none")
    monkeypatch.setenv(name, value)
    code, err = cli.run(command), capsys.readouterr().err
    assert (
        "BV3_REFERENCE_FAULTS, BV3_REFERENCE_NATURES and BV3_LEASH_SCALE are for the embedded farm" in err
    ) is is_refused
    assert code == 2 if is_refused else code in {0, 3}


def test_boxes_of_a_farm_elsewhere_are_not_started_from_here(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BV3_BROKER_URL", "redis://127.0.0.1:1/0")
    monkeypatch.setenv("BV3_DATABASE_URL", "postgresql://a@127.0.0.1:1/bv3")
    assert cli.run(["c7", "--boxes", "2"]) == 2
    assert "--boxes is for the embedded farm" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("out", "why"),
    [
        ("taken", "it, or a part of its path, is a file"),
        ("taken/results", "it, or a part of its path, is a file"),
        # not even root writes there
        ("/proc", "No such file or directory"),
        ("/proc/results", "No such file or directory"),
    ],
)
def test_an_out_folder_that_cant_hold_files_is_refused_before_the_farm(
    out: str, why: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("taken").write_text("a file")
    assert cli.run(["c7", "--out", out]) == 2
    assert (
        capsys.readouterr().err == f"error: --out {out} can't be written: {why}\nhint: name another folder with --out\n"
    )
    assert not home.exists()


def test_a_broken_suite_is_named_with_its_line(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (files("broker.suites") / "known.toml").read_text("utf-8").splitlines()
    broken = next(number for number, line in enumerate(text) if line.startswith("prompt"))
    text[broken] = "prompt = 'no payload here'"
    path = tmp_path / "known.toml"
    path.write_text("\n".join(text))
    monkeypatch.setattr("scheduler.request.load_suite", lambda _name: load_suite_file(path))
    assert cli.run(["c7", "--n", "1"]) == 2
    assert capsys.readouterr().err.startswith(f"error: {path}:{broken + 1}: ")
    assert nothing_written(home)


def test_a_dry_run_prints_what_would_be_planned_and_writes_nothing(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["c7", "--n", "3", "--dry-run", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert len(document["runs"]) == 27
    assert document["suite"]["name"] == "known"
    assert nothing_written(home)


def test_a_night_is_c7_with_enough_runs_for_the_proof_and_three_more_plans(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["overnight", "--dry-run", "--json"]) == 0
    sweeps = json.loads(capsys.readouterr().out)["sweeps"]
    assert [(sweep["plan"], len(sweep["runs"])) for sweep in sweeps] == [
        ("c7", 630),
        ("c8", 30),
        ("anon", 3 * len(load_suite("anon").tasks)),
        ("shapes", 75),
    ]
    assert cli.run(["overnight", "--n", "2", "--dry-run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert (lines[0], lines[-1]) == ("would plan c7: known suite x 2, dry, 18 site-runs", "nothing was written")
    assert "would plan c8: holdout suite x 2, dry, 30 site-runs" in lines
    assert nothing_written(home)


def test_without_a_farm_a_plan_still_says_how_many_runs_a_proof_needs(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["plan", "c7", "--prove", "flake=1%", "--power", "0.8", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    need = document["proofs"][0]["need"]
    assert (need["trials"], need["runs"], need["allowed"], need["hours"]) == (70, 630, 2, None)
    assert (document["boxes"], document["time"], document["measurable"]) == (1, None, None)
    assert cli.run(["plan", "overnight"]) == 0
    assert "together: 753 runs, -" in capsys.readouterr().out
    assert nothing_written(home)


def test_a_database_that_is_away_costs_the_hours_and_not_the_answer(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BV3_BROKER_URL", "redis://127.0.0.1:1/0")
    monkeypatch.setenv("BV3_DATABASE_URL", "postgresql://a@127.0.0.1:1/bv3")
    for command in (["plan", "c7", "--prove", "flake=1%"], ["suites", "known"]):
        assert cli.run(command) == 0
        assert "without the farm's record: PostgreSQL at 127.0.0.1:1" in capsys.readouterr().err


def test_the_suites_are_listed_without_a_farm(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["suites"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:5]] == ["anon", "holdout", "known", "shapes"]
    assert max(map(len, lines)) <= 80
    assert next(line for line in lines if line.startswith("monaco")).split()[1:] == ["1", "-"]
    assert nothing_written(home)


def test_a_list_of_a_farm_that_never_ran_is_empty_and_starts_nothing(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []
    assert nothing_written(home)


def test_no_command_alone_shows_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run([]) == 2
    assert "examples:" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["", *(name for name in cli.main_group.commands if name != "dispatcher")])
def test_every_help_is_plain_and_fits_80_columns(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run([*command.split(), "--help"]) == 0
    text = capsys.readouterr().out
    assert "dispatcher" not in text
    assert max(len(line) for line in text.splitlines()) <= 80
    assert click.unstyle(text) == text


@pytest.mark.parametrize("plan", PLANS)
def test_the_helps_defaults_are_the_plans(plan: str, capsys: pytest.CaptureFixture[str]) -> None:
    cli.run([plan, "--help"])
    assert f"Trials per site.  [default: {PLANS[plan].trials}]" in capsys.readouterr().out


def test_the_default_of_a_nights_help_is_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    cli.run(["overnight", "--help"])
    assert f"Trials per site of c7.  [default: {SERIES['overnight'][0].trials}]" in capsys.readouterr().out


def test_a_dry_run_of_the_holdout_names_the_retired_sites_with_their_evidence(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["c8", "--dry-run"]) == 0
    retired = [line for line in capsys.readouterr().out.splitlines() if line.startswith("retired")]
    assert [line.split()[3] for line in retired] == ["dpaste", "txti"]
    assert all("(direct fetch: the page says" in line for line in retired)
    assert nothing_written(home)


def test_help_imports_nothing_heavy() -> None:
    """What costs --help its 0.3 s is imports; a program that names them can't be slow on a slow machine."""
    program = (
        "import sys; from scheduler.cli import run; run(['--help']);"
        "print([name for name in ('sqlalchemy', 'pydantic', 'celery', 'rich', 'redis') if name in sys.modules],"
        " file=sys.stderr)"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
