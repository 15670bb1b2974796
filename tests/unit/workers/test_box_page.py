"""docs/reference/bv3-box.md is what `bv3-box COMMAND --help` prints. `python THIS_FILE` writes it anew."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from workers.cli import box

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "reference" / "bv3-box.md"
WIDTH = 100
HEAD = """# bv3-box

Every command and option, as `bv3-box COMMAND --help` prints them; this page is generated from it and a test compares
the two. From a clone: `./bv3 box COMMAND`. A box from nothing: [prepare a box](../how-to/prepare-a-box.md).

Every command but `init` and `netns` takes `--box FILE`. Exit codes: 0 done, 1 a negative finding, 2 a mistake in what
was asked, 3 something that bv3 stands on is away, 130 interrupted. Data is on stdout, everything else on stderr.
"""


def walk(command: click.Command, name: str, parent: click.Context | None = None) -> Iterator[tuple[str, str]]:
    """Every command with its help, groups before what is in them."""
    settings = {} if parent else command.context_settings
    # click keeps the help option of the first context that asked: another test may have had one without `-h`
    command._help_option = None
    context = click.Context(command, parent, name, terminal_width=WIDTH, max_content_width=WIDTH, **settings)
    yield context.command_path, command.get_help(context)
    if isinstance(command, click.Group):
        for word in sorted(command.commands):
            yield from walk(command.commands[word], word, context)


def make_page() -> str:
    parts = [HEAD]
    for name, text in walk(box, "bv3-box"):
        lines = "\n".join(line.rstrip() for line in text.splitlines())
        parts.append(f"## {name}\n\n```text\n{lines}\n```\n")
    return "\n".join(parts)


def test_reference_page_is_what_the_commands_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BV3_LAUNCHED_AS", raising=False)
    assert PAGE.read_text("utf-8") == make_page(), f"write it anew: .venv/bin/python {Path(__file__).relative_to(ROOT)}"


def test_every_command_says_how_it_ends_or_shows_an_example() -> None:
    for name, text in walk(box, "bv3-box"):
        if name.count(" ") == 1:
            assert "xit" in text or "bv3-box" in text.partition("\n")[2], name
            assert "\\b" not in text, f"{name}: the mark for lines that are kept is printed"


if __name__ == "__main__":
    PAGE.write_text(make_page(), "utf-8")
