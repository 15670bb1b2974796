"""`freeze`, `freezes` and a plan of the holdout as a person uses them: also with a suite's file that was edited."""

from __future__ import annotations

import shutil
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker.freezes import load_freezes_file

ROOT = Path(__file__).parents[3]
PROMPT = 'write exactly this text in the HTML pane: "{payload}"'


def _git(root: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", *identity, *arguments], cwd=root, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def product(tmp_path: Path) -> Path:
    """A checkout of a product whose source names no host of the holdout."""
    root = tmp_path / "openswarm"
    (root / "backend").mkdir(parents=True)
    (root / "backend" / "sites.py").write_text("KNOWN = ['x.com', 'mydev.tools']\n")
    _git(root, "init", "-q")
    _git(root, "add", "-A")
    _git(root, "commit", "-q", "-m", "all")
    return root


@pytest.fixture
def edit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """The suites and freezes are read from a copy, in which one text of the holdout's file is replaced; its folder."""
    folder = tmp_path / "shipped"
    shutil.copytree(ROOT / "broker" / "suites", folder / "suites", ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    shutil.copy(ROOT / "broker" / "freezes.toml", folder)
    places = {"broker": folder, "broker.suites": folder / "suites"}

    def do(old: str, new: str) -> Path:
        file = folder / "suites" / "holdout.toml"
        text = file.read_text("utf-8")
        assert text.count(old) == 1
        file.write_text(text.replace(old, new), "utf-8")
        for module in ("broker.suites.loader", "broker.freezes"):
            monkeypatch.setattr(f"{module}.files", places.__getitem__)
        return folder

    return do


def test_one_character_of_a_frozen_task_makes_every_plan_refuse_and_names_it(
    do: Callable[..., Any], edit: Callable[..., Path], farm: Any
) -> None:
    edit(PROMPT, PROMPT.replace("pane", "Pane"))
    for arguments in (("c8", "--n", "1", "--dry-run"), ("c8", "--detach"), ("c8", "--site", "bsky", "--detach")):
        command = do(*arguments)
        assert command.code == 2
        first, field, hint = command.err.splitlines()
        assert first == "error: the holdout group 'editors' changed after it was frozen on 2026-08-04:"
        assert field.startswith("  task 'codemirror', prompt: was \"Go to ")
        assert field.count("Pane") == field.count("HTML pane") == 1
        assert hint.startswith("hint: restore it, or start a new group")
    for table in ("sweeps", "freezes", "freeze_uses"):
        assert farm.scalar(f"select count(*) from {table}") == 0


def _thaw(folder: Path) -> None:
    """The holdout's file says no more that it is frozen, and a prompt is another."""
    file = folder / "suites" / "holdout.toml"
    lines = file.read_text("utf-8").splitlines(keepends=True)
    assert "frozen = true\n" in lines
    file.write_text("".join(line for line in lines if not line.startswith(("frozen = ", "group = "))), "utf-8")


def test_a_suite_whose_file_does_not_say_any_more_that_it_is_frozen_is_planned_by_no_command(
    do: Callable[..., Any], edit: Callable[..., Path], product: Path, farm: Any
) -> None:
    _thaw(edit(PROMPT, PROMPT.replace("pane", "Pane")))
    for arguments in (("--dry-run",), ("--detach",), ("--source", str(product), "--detach")):
        command = do("c8", *arguments)
        assert command.code == 2
        assert "plan c8 needs a frozen suite, and the file of 'holdout' does not say that it is one" in command.err
        assert "hint: restore broker/suites/holdout.toml: frozen = true" in command.err
    assert do("freeze", "holdout", "--source", str(product), "--reason", "thawed").code == 2
    assert farm.scalar("select count(*) from sweeps") == 0


def test_a_changed_group_is_frozen_anew_by_the_command_and_what_it_prints_can_be_committed(
    do: Callable[..., Any], edit: Callable[..., Path], product: Path, farm: Any
) -> None:
    folder = edit(PROMPT, PROMPT.replace("pane", "box"))
    refused = do("freeze", "holdout", "--source", str(product))
    assert refused.code == 2
    assert "task 'codemirror', prompt" in refused.err
    reason = "the pane is called a box now"
    command = do("freeze", "holdout", "--source", str(product), "--reason", reason)
    assert command.code == 0, command.err
    assert "holdout first: is frozen 2026-08-02 at 1508e03c" in command.out
    block = command.out[command.out.index("[[freeze]]") :]
    (entry,) = tomllib.loads(block)["freeze"]
    assert (entry["group"], entry["follows"], entry["reason"]) == ("editors-2", "editors", reason)
    assert entry["product_revision"] == _git(product, "rev-parse", "--short=8", "HEAD")
    assert farm.scalar("select string_agg(\"group\", ' ' order by id) from freezes") == (
        "first anonymous editors editors-2"
    )
    file = folder / "freezes.toml"
    file.write_text(f"{file.read_text('utf-8')}\n{block}", "utf-8")
    assert load_freezes_file(file)[-1].group == "editors-2"
    planned = do("c8", "--detach")
    assert planned.code == 0, planned.err
    assert "group editors-2  frozen " in planned.err
    again = do("freeze", "holdout")
    assert again.code == 0
    assert "[[freeze]]" not in again.out
    assert farm.scalar("select count(*) from freezes") == 4
    # restoring what the first freeze held is a change of what the last one holds
    edit(PROMPT.replace("pane", "box"), PROMPT)
    plain = do("c8", "--dry-run")
    assert plain.code == 2
    assert "the holdout group 'editors-2' changed" in plain.err


def test_a_host_that_the_product_names_is_refused_with_file_and_line(
    do: Callable[..., Any], product: Path, farm: Any
) -> None:
    clean = do("c8", "--dry-run", "--source", str(product))
    assert clean.code == 0
    assert "1 file read; none names a host of" in clean.out
    (product / "backend" / "sites.py").write_text("KNOWN = ['x.com',\n  'https://api.DEV.to/new']\n")
    for arguments in (("--dry-run",), ("--detach",)):
        refused = do("c8", *arguments, "--source", str(product))
        assert refused.code == 2
        assert "+changes names hosts of the holdout:\n  backend/sites.py:2 (dev.to)\n" in refused.err
    assert do("freeze", "holdout", "--source", str(product)).code == 2
    assert farm.scalar("select count(*) from sweeps") == 0
    assert farm.scalar("select count(*) from freezes") == 0


def test_each_use_is_listed_with_the_source_that_was_searched(do: Callable[..., Any], product: Path, farm: Any) -> None:
    del farm
    bare = do("freezes", "holdout")
    assert " ".join(bare.out.split()).count("; 0 uses") == 3
    first = do("c8", "--n", "1", "--detach").out.strip()
    second = do("c8", "--n", "1", "--site", "quill", "--source", str(product), "--detach").out.strip()
    listed = do("freezes", "--json").document
    uses = {freeze["group"]: [use["sweep"] for use in freeze["uses"]] for freeze in listed["freezes"]}
    assert uses == {"first": [first], "anonymous": [first], "editors": [first, second]}
    editors = listed["freezes"][-1]
    assert [use["number"] for use in editors["uses"]] == [1, 2]
    assert editors["uses"][0]["source"] is None
    assert editors["uses"][1]["source"] == {
        "path": str(product),
        "revision": _git(product, "rev-parse", "--short=8", "HEAD"),
        "files": 1,
        "binaries": 0,
    }
    shown = do("freezes", "holdout").out
    assert f"{second}  by " in shown
    assert do("freezes", "known").out == "nothing is frozen\n"


def test_a_dry_run_tells_the_use_that_it_would_be_and_writes_none(do: Callable[..., Any], farm: Any) -> None:
    do("c8", "--n", "1", "--site", "quill", "--detach")
    document = do("c8", "--n", "1", "--dry-run", "--json").document
    assert [(group["group"], group["use"]) for group in document["frozen"]["groups"]] == [
        ("first", 1),
        ("anonymous", 1),
        ("editors", 2),
    ]
    assert farm.scalar("select count(*) from freeze_uses") == 1
    assert do("c7", "--dry-run", "--json").document["frozen"] is None


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("known",), "the suite 'known' is not one that is frozen"),
        (("holdput",), "there is no suite 'holdput'"),
        (("holdout", "--reason", " "), "--reason must say something"),
        (("holdout", "--reason", "a\nb"), "--reason must say something, on one line"),
        (("holdout", "--reason", "a" * 501), "--reason must have at most 500 characters"),
        (("holdout", "--product-revision", "the newest"), "is no revision of the product"),
    ],
)
def test_a_freeze_that_can_not_be_is_refused_before_anything_is_written(
    do: Callable[..., Any], farm: Any, arguments: tuple[str, ...], says: str
) -> None:
    answer = do("freeze", *arguments)
    assert (answer.code, answer.out) == (2, "")
    assert says in answer.err
    assert farm.scalar("select count(*) from freezes") == 0


def test_a_new_group_needs_a_product_revision_to_be_frozen_at(
    do: Callable[..., Any], edit: Callable[..., Path], product: Path, farm: Any
) -> None:
    edit('site = "quill"\ngroup = "editors"', 'site = "quill"\ngroup = "rich"')
    values = ("freeze", "holdout", "--reason", "quill is a group of its own")
    bare = do(*values)
    assert bare.code == 2
    assert "say which revision of the product it is frozen at" in bare.err
    both = do(*values, "--source", str(product), "--product-revision", "21a08c23")
    assert both.code == 2
    assert "leave --product-revision out" in both.err
    done = do(*values, "--product-revision", "21a08c23", "--json")
    assert done.code == 0, done.err
    assert farm.scalar('select string_agg("group", \' \' order by "group") from freezes') == (
        "anonymous editors editors-2 first rich"
    )
    assert farm.scalar("select reason from freezes where \"group\" = 'rich'") is None
