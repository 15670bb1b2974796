"""A suite file is judged before anything is planned, and a broken one is named with its line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from broker.errors import SuiteError, UsageError
from broker.suites import load_suite, load_suite_file, suite_names
from broker.types import plan_prompt

GOOD = """name = "mine"
version = 1

[[task]]
site = "x"
prompt = 'Go to https://x.com/ and publish "{payload}"'
payload = "probe {nonce} alpha"
entry = "https://x.com/"
host = "x.com"
path_rule = "^/home"
visibility = "public"
kind = "post"
editor_shape = "textarea"
flow = "form"
editor = "a plain textarea"
origin = "bv3"
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "mine.toml"
    path.write_text(text, "utf-8")
    return path


def test_the_known_suite_has_its_nine_sites_and_one_quoted_payload_each() -> None:
    suite = load_suite("known")
    sites = "x linkedin reddit gmail youtube instagram tiktok substack twitch"
    assert [task.site for task in suite.tasks] == sites.split()
    for task in suite.tasks:
        assert re.findall(r'"[^"]*"', plan_prompt(task, "probe k3f9x coverage")) == ['"probe k3f9x coverage"']
        assert task.host in task.prompt


def test_every_shipped_suite_loads() -> None:
    assert "known" in suite_names()
    for name in suite_names():
        assert load_suite(name).name == name


def test_an_unknown_suite_names_the_ones_there_are() -> None:
    with pytest.raises(UsageError, match="no suite 'knwon'") as caught:
        load_suite("knwon")
    assert "known" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("old", "new", "line", "says"),
    [
        ('"{payload}"', "<{payload}>", 6, "double-quoted"),
        ('"{payload}"', '"{payload}" and "more"', 6, "double-quoted"),
        ("{nonce} alpha", "alpha", 7, "{nonce} once"),
        ("probe {nonce}", "a very long beginning here {nonce}", 7, "first 24 characters"),
        ("^/home", "(", 10, "no regular expression"),
        ('"public"', '"secret"', 11, "'public', 'private' or 'chat'"),
        ('"https://x.com/"', '"https://evilx.com/"', 4, "leads to evilx.com"),
        ('host = "x.com"\n', "", 4, "host"),
        ("version = 1", "version = 0", 2, "version"),
        ('kind = "post"', "kind = post", 12, "line 12"),
        ('kind = "post"', 'kind = "post"\nkid = "post"', 13, "kid"),
    ],
)
def test_a_broken_file_is_refused_at_its_line(tmp_path: Path, old: str, new: str, line: int, says: str) -> None:
    path = write(tmp_path, GOOD.replace(old, new, 1))
    with pytest.raises(SuiteError) as caught:
        load_suite_file(path)
    assert caught.value.line == line, caught.value.message
    assert says in caught.value.message


def test_a_site_may_stand_once(tmp_path: Path) -> None:
    twice = GOOD + GOOD[GOOD.index("[[task]]") :]
    with pytest.raises(SuiteError, match="'x' stands twice") as caught:
        load_suite_file(write(tmp_path, twice))
    assert caught.value.line == 18


def test_a_changed_task_is_another_suite(tmp_path: Path) -> None:
    first = load_suite_file(write(tmp_path, GOOD)).sha256
    assert load_suite_file(write(tmp_path, GOOD.replace("alpha", "bravo"))).sha256 != first


def test_a_file_that_is_not_there_or_not_text_is_named(tmp_path: Path) -> None:
    with pytest.raises(SuiteError, match=r"can't be read"):
        load_suite_file(tmp_path / "none.toml")
    path = tmp_path / "bytes.toml"
    path.write_bytes(b'name = "x"\n\xff')
    with pytest.raises(SuiteError, match="not UTF-8") as caught:
        load_suite_file(path)
    assert caught.value.line == 2
