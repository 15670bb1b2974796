"""The docs name only what is there."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from grader.cli import main_group as grade
from infra.cli import main_group as farm
from scheduler.cli import main_group as schedule
from workers.cli import box

ROOT = Path(__file__).parents[2]
PROGRAMS: dict[str, click.Command] = {"schedule": schedule, "box": box, "grade": grade, "farm": farm}
_TYPED = re.compile(r"(?:\./bv3 |\bbv3-)(schedule|box|grade|farm) ((?:(?! #)[^`\n])+)")
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_file_folder_and_link_that_a_page_names_exists(page: Path) -> None:
    text = page.read_text("utf-8")
    # a line that is a path and a colon names a file that the page has its reader write
    named = set(
        re.findall(r"`((?:broker|scheduler|workers|grader|infra|tests|docs|benchmarks)/[\w./-]*)`(?!:\n)", text)
    )
    linked = {match for match in re.findall(r"\]\(([^)#]+)", text) if "://" not in match}
    missing = {name for name in named if "NNNN" not in name and not (ROOT / name).exists()}
    missing |= {link for link in linked if not (page.parent / link).exists()}
    assert missing == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_module_that_a_page_names_exists(page: Path) -> None:
    named = re.findall(r"`((?:broker|scheduler|workers|grader|infra)(?:\.[a-z_]+)+)`", page.read_text("utf-8"))
    for name in set(named):
        parts = name.split(".")
        found = any(
            (ROOT / Path(*parts[:length])).is_dir() or (ROOT / Path(*parts[:length])).with_suffix(".py").is_file()
            for length in (len(parts), len(parts) - 1)
        )
        assert found, name


def find_commands(text: str) -> Iterator[tuple[str, list[str]]]:
    """Each command that a page has somebody type, in a shell's block or between backticks: program and words."""
    blocks = re.findall(r"^ *```sh\n(.*?)^ *```$", text, re.MULTILINE | re.DOTALL)
    spans = re.findall(r"`([^`\n]+)`", re.sub(r"^ *```.*?^ *```$", "", text, flags=re.MULTILINE | re.DOTALL))
    for typed in (*blocks, *spans):
        for program, words in _TYPED.findall(typed):
            yield program, shlex.split(words.replace("'", ""))


def find_wrong(program: str, words: list[str]) -> list[str]:
    """The words that are no command of the program, and the options that its command does not have."""
    command, rest = PROGRAMS[program], list(words)
    while isinstance(command, click.Group):
        if not rest or not re.match("[a-z-]", rest[0]):
            # a word that stands for any command, as `...` does
            return []
        if rest[0].startswith("-"):
            break
        # `create|delete` are two commands
        choices = rest.pop(0).split("|")
        if not command.commands.keys() >= set(choices):
            return [f"{program} {' '.join(words)}: no such command"]
        command = command.commands[choices[0]]
    known = {option for parameter in command.params for option in parameter.opts} | {"--help", "-h"}
    given = {word.strip("[]().,;").split("=")[0] for word in rest if re.match(r"\[?-\w|\[?--\w", word)}
    return [f"{program} {' '.join(words)}: no {option}" for option in sorted(given - known)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_and_option_that_a_page_has_somebody_type_exists(page: Path) -> None:
    typed = find_commands(page.read_text("utf-8"))
    assert [wrong for program, words in typed for wrong in find_wrong(program, words)] == []


def test_a_command_that_is_not_there_is_found_wrong() -> None:
    page = (
        "`bv3-schedule nosuch last` and\n\n```sh\n./bv3 grade show last x#1 --hwo   # --why\n```\n`./bv3 farm down`\n"
    )
    assert [wrong for program, words in find_commands(page) for wrong in find_wrong(program, words)] == [
        "grade show last x#1 --hwo: no --hwo",
        "schedule nosuch last: no such command",
    ]
