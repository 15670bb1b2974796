"""docs/reference/suite-file.md says what the loader takes and what it refuses, to the letter."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from broker.errors import SuiteError
from broker.suites import load_suite_file
from broker.suites.loader import _File, _Task
from broker.suites.vocabulary import EditorShape, Flow

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "suite-file.md").read_text("utf-8")


def read_section(title: str) -> str:
    found = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert found, title
    return found.group(1)


def read_example() -> str:
    found = re.search(r"^```toml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert found
    return found.group(1)


def read_refusals() -> list[tuple[str, str, str]]:
    rows = re.findall(r"^\| `(.+?)` \| `(.+?)` \| `(.+)` \|$", read_section("What is refused"), re.MULTILINE)
    return [(old, new.replace("; ", "\n"), said) for old, new, said in rows]


def test_the_example_is_a_suite(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(read_example(), "utf-8")
    assert [task.site for task in load_suite_file(path).tasks] == ["guestbook"]


def test_every_key_stands_there_with_what_it_is_without() -> None:
    fields = {**_File.model_fields, **_Task.model_fields}
    rows = dict(re.findall(r"^\| `(\w+)` \| (\S+) \| .+ \|$", read_section("Keys"), re.MULTILINE))
    assert rows.keys() == fields.keys()
    assert {key for key, default in rows.items() if default == "needed"} == {
        key for key, field in fields.items() if field.is_required()
    }


@pytest.mark.parametrize(("title", "words"), [("Editor shapes", EditorShape), ("Flows", Flow)])
def test_every_word_stands_there_with_its_meaning(title: str, words: type[EditorShape | Flow]) -> None:
    rows = re.findall(r"^\| `([\w-]+)` \| .+ \|$", read_section(title), re.MULTILINE)
    assert rows == [word.value for word in words]


@pytest.mark.parametrize(("old", "new", "said"), read_refusals())
def test_each_change_is_refused_in_these_words(tmp_path: Path, old: str, new: str, said: str) -> None:
    path = tmp_path / "mine.toml"
    assert old in read_example()
    path.write_text(read_example().replace(old, new, 1), "utf-8")
    with pytest.raises(SuiteError) as caught:
        load_suite_file(path)
    assert caught.value.message == f"{path}:{said}"


def test_the_page_shows_refusals() -> None:
    assert len(read_refusals()) == read_section("What is refused").count("\n| `")
