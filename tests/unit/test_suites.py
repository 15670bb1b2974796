"""A suite file is judged before anything is planned, and a broken one is named with its line."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import re2

from broker.errors import SuiteError, UsageError
from broker.suites import load_suite, load_suite_file, suite_names
from broker.suites.vocabulary import EditorShape, Flow
from broker.types import SiteTask, plan_prompt

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


SUITES = ("anon", "holdout", "known", "shapes")
SHIPPED = [(name, task) for name in SUITES for task in load_suite(name).tasks]
EVERY_TASK = pytest.mark.parametrize("task", [pytest.param(task, id=task.site) for _, task in SHIPPED])


def is_within(host: str, other: str) -> bool:
    return host == other or host.endswith(f".{other}")


def write(folder: Path, text: str) -> Path:
    path = folder / "mine.toml"
    path.write_text(text, "utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "sites"),
    [
        ("known", "x linkedin reddit gmail youtube instagram tiktok substack twitch"),
        ("anon", "gtranslate deepl w3schools wikisandbox regex101 onlinegdb"),
        (
            "holdout",
            (
                "bsky mastodon devto lobsters pastebin discourse rentry dpaste controlc txti justpaste telegraph "
                "disqus quill tinymce ckeditor codemirror"
            ),
        ),
    ],
)
def test_no_site_is_lost(name: str, sites: str) -> None:
    suite = load_suite(name)
    assert suite.name == name
    assert [task.site for task in suite.tasks if task.site in sites.split()] == sites.split()


def test_the_known_suite_is_nine_sites_and_there_are_four_suites() -> None:
    assert len(load_suite("known").tasks) == 9
    assert suite_names() == SUITES


def test_a_site_is_of_one_suite() -> None:
    counted = Counter(task.site for _, task in SHIPPED)
    assert [site for site, count in counted.items() if count > 1] == []


def test_no_host_of_the_holdout_stands_in_another_suite() -> None:
    held = [task.host for name, task in SHIPPED if name == "holdout"]
    others = [task.host for name, task in SHIPPED if name != "holdout"]
    assert [(one, other) for one in held for other in others if is_within(one, other) or is_within(other, one)] == []


def test_the_holdout_alone_is_frozen_and_in_groups() -> None:
    assert [name for name in SUITES if load_suite(name).is_frozen] == ["holdout"]
    groups = Counter(task.group for task in load_suite("holdout").tasks)
    # others may come; in these none does, and none goes
    assert (groups["first"], groups["anonymous"], groups["editors"]) == (6, 6, 5)
    assert {task.group for name, task in SHIPPED if name != "holdout"} == {""}


def test_what_is_retired_says_when_and_on_what_evidence() -> None:
    retired = {task.site: task.retired for _, task in SHIPPED if task.retired}
    assert retired.keys() >= {"dpaste", "txti"}
    for one in retired.values():
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", one.date)
        assert one.evidence.startswith("direct fetch: ")


def test_every_shape_has_one_site_in_the_shapes_suite() -> None:
    assert [task.editor_shape for task in load_suite("shapes").tasks] == [shape.value for shape in EditorShape]
    assert {task.site for task in load_suite("shapes").tasks} == {f"shape-{shape.value}" for shape in EditorShape}


def test_no_host_of_the_shapes_can_be_a_site_of_the_web() -> None:
    assert [task.host for task in load_suite("shapes").tasks if not task.host.endswith(".test")] == []


def test_every_flow_is_met_by_a_site_that_can_be_measured() -> None:
    assert {task.flow for _, task in SHIPPED if task.retired is None} == {flow.value for flow in Flow}


@EVERY_TASK
def test_a_prompt_quotes_the_payload_alone_and_names_its_host(task: SiteTask) -> None:
    payload = task.payload.replace("{nonce}", "k3f9x")
    assert re.findall(r'"[^"]*"', plan_prompt(task, payload)) == [f'"{payload}"']
    assert task.entry in task.prompt


@EVERY_TASK
def test_an_entry_is_on_the_host_of_its_task(task: SiteTask) -> None:
    assert is_within(str(urlsplit(task.entry).hostname), task.host)


@EVERY_TASK
def test_a_path_rule_compiles_and_begins_at_the_beginning(task: SiteTask) -> None:
    re2.compile(task.path_rule)
    assert task.path_rule.startswith("^/")


def test_no_payload_can_pass_for_one_of_another_run() -> None:
    begins = {
        nonce: {task.payload.replace("{nonce}", nonce)[:24] for _, task in SHIPPED}
        for nonce in ("k3f9x", "k3f9y", "00000")
    }
    assert len(set().union(*begins.values())) == sum(map(len, begins.values()))
    # within a suite that is not about shapes each payload is another one, whatever the nonce
    for name in ("known", "anon", "holdout"):
        payloads = [task.payload.replace("{nonce}", "k3f9x") for task in load_suite(name).tasks]
        assert len({payload[:24] for payload in payloads}) == len(payloads)


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
