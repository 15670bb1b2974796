"""A new box file: complete, explained, and accepted by what reads it."""

from __future__ import annotations

import re
import stat
import tomllib
from pathlib import Path

import pytest
from pydantic import BaseModel, ValidationError

from broker.errors import UsageError
from workers.boxfile import BoxFile, load_box
from workers.boxinit import Wish, choose_words, make_box_text, make_name, render, write_box
from workers.boxkeys import WORDS
from workers.boxrules import MisfitError


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In an empty folder, which is the user's home, too."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))


def list_keys() -> list[str]:
    """Every key of the schema, dotted."""
    keys = []
    for name, field in BoxFile.model_fields.items():
        table = field.annotation
        if isinstance(table, type) and issubclass(table, BaseModel):
            keys += [f"{name}.{key}" for key in table.model_fields]
        else:
            keys.append(name)
    return keys


@pytest.mark.parametrize(
    "wish",
    [
        Wish(),
        Wish(netns="bv3-a"),
        Wish(isolation="host", pages="loopback", lane="any", folder=Path("runs")),
        Wish(checkout=Path("/srv/openswarm")),
        Wish(checkout=Path("/srv/openswarm"), renderer="electron", name="screen-1"),
        Wish(checkout=Path("/srv/openswarm"), netns="bv3-b"),
    ],
)
def test_what_is_written_is_a_box_file_in_which_every_key_stands(tmp_path: Path, wish: Wish) -> None:
    text = make_box_text(wish)
    write_box(tmp_path / "made.toml", text)
    box = load_box(tmp_path / "made.toml")
    assert (box.netns, box.stack) == (wish.netns, "openswarm" if wish.checkout else "reference")
    for key in list_keys():
        assert re.search(rf"^(# )?\[?{key.rpartition('.')[2]}\]?( =|$)", text, re.MULTILINE), key
        assert WORDS[key].split()[0] in text


def test_each_key_that_is_only_shown_may_be_taken_as_it_is_or_contradicts_another() -> None:
    lines = make_box_text(Wish(isolation="host")).splitlines()
    shown = [at for at, line in enumerate(lines) if re.match(r"# \w+ = ", line)]
    assert len(shown) > 20
    for at in shown:
        tried = [*lines[:at], lines[at].removeprefix("# "), *lines[at + 1 :]]
        if header := next((back for back in range(at, -1, -1) if re.match(r"(# )?\[\w+\]$", lines[back])), None):
            tried[header] = lines[header].removeprefix("# ")
        try:
            BoxFile.model_validate(tomllib.loads("\n".join(tried)))
        except ValidationError as error:
            causes = [problem["ctx"]["error"] for problem in error.errors()]
            assert all(isinstance(cause, MisfitError) for cause in causes), lines[at]


def test_what_is_shown_as_a_default_is_the_default() -> None:
    text = make_box_text(Wish(isolation="host"))
    bare = BoxFile.model_validate(tomllib.loads(text))
    shown = re.sub(r"^# (\w+ = .*  # the default)$", r"\1", text, flags=re.MULTILINE)
    shown = re.sub(r"^# \[(ports|profile|limits|reference)\]$", r"[\1]", shown, flags=re.MULTILINE)
    # that table is for the other stack alone
    shown = re.sub(r"^# \[product\]\n(.+\n)*", "", shown, flags=re.MULTILINE)
    assert BoxFile.model_validate(tomllib.loads(shown)) == bare
    assert "# foreign = [8324, 3000]  # the default" in make_box_text(Wish(checkout=Path("/srv/openswarm")))


def test_in_a_checkout_the_stack_is_the_product_unless_said_otherwise(tmp_path: Path) -> None:
    (tmp_path / "backend").mkdir()
    (tmp_path / "backend" / "main.py").touch()
    told = {"HOME": "/home/me"}
    words = choose_words(Wish(), here=tmp_path, host="desk", environment=told)
    assert (words["stack"], words["checkout"], words["isolation"]) == ("openswarm", str(tmp_path), "host")
    assert words["folder"] == "/home/me/bv3-boxes/desk"
    words = choose_words(Wish(stack="reference"), here=tmp_path, host="desk", environment=told)
    assert (words["stack"], words["isolation"], "checkout" in words) == ("reference", "ports", False)


def test_the_run_folder_is_the_old_variables_when_it_is_set(tmp_path: Path) -> None:
    told = {"HOME": "/home/me", "OSW_BENCH_DIR": "/data/bench"}
    assert choose_words(Wish(), here=tmp_path, host="desk", environment=told)["folder"] == "/data/bench"
    wish = Wish(folder=Path("/srv/a"))
    assert choose_words(wish, here=tmp_path, host="desk", environment=told)["folder"] == "/srv/a"


def test_the_logins_of_a_farm_are_taken_from_the_environment_alone(tmp_path: Path) -> None:
    told = {"BV3_BOX_DATABASE_URL": "postgresql://a:b@/f?host=/run/x", "BV3_BOX_BROKER_URL": "redis+socket://:c@/r"}
    box = BoxFile.model_validate(
        tomllib.loads(render(choose_words(Wish(name="box-q"), here=tmp_path, host="desk", environment=told)))
    )
    assert (box.farm().database_url, box.farm().broker_url) == tuple(told.values())


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("desk", "desk"),
        ("Erics-MacBook-Pro.local", "erics-macbook-pro"),
        ("42", "box-42"),
        ("_", "box"),
        ("a" * 60, "a" * 41),
        ("bench_07", "bench-07"),
    ],
)
def test_a_hosts_name_becomes_one_that_a_box_may_have(host: str, name: str) -> None:
    assert make_name(host) == name
    assert re.fullmatch(r"[a-z][a-z0-9-]{0,40}", name)


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        (Wish(stack="openswarm"), "stack: the stack openswarm needs checkout"),
        (Wish(stack="reference", renderer="electron"), "pages: the stack reference shows loopback pages only"),
        (Wish(name="Box A"), "name:"),
        (Wish(isolation="netns"), "isolation: netns names the namespace"),
        (Wish(checkout=Path("/srv/o"), folder=Path("/srv/o/runs")), "folder: folder must lie outside"),
    ],
)
def test_a_wish_that_contradicts_itself_makes_no_file(wish: Wish, said: str) -> None:
    with pytest.raises(UsageError, match=re.escape(said)):
        make_box_text(wish)


def test_a_file_is_private_and_never_written_over(tmp_path: Path) -> None:
    file = tmp_path / "box.toml"
    write_box(file, "a")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    with pytest.raises(UsageError, match="is there already"):
        write_box(file, "b")
    assert file.read_text() == "a"
    with pytest.raises(UsageError, match="can't be written"):
        write_box(tmp_path / "none" / "box.toml", "a")
