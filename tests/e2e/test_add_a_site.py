"""docs/how-to/add-a-site.md, followed by somebody who does what it says, word for word, and nothing else."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path

import psutil
import pytest

from infra.bootstrap.place import Place, find_place, list_names, write_json
from infra.bootstrap.steps import ENVIRONMENT, PROJECT, find_site_packages
from infra.bootstrap.whole import is_done

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "how-to" / "add-a-site.md"
COMMAND_LIMIT_S = 240


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A fenced block of a page, with the line of text before it."""

    language: str
    text: str
    lead: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """Somebody who reads a page in a clone of bv3."""

    clone: Path
    environment: dict[str, str]

    def follow(self, page: str) -> list[str]:
        """Every block is carried out, and each command has printed what the page says; the commands, in order."""
        done: list[str] = []
        output = ""
        for block in read_blocks(page):
            if block.language == "sh":
                output = "".join(self.run(command) for command in block.text.splitlines())
                done += block.text.splitlines()
            elif block.language == "text":
                compare(block.text, output)
            else:
                self.write(block)
        return done

    def run(self, command: str) -> str:
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.clone,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=COMMAND_LIMIT_S,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}"
        return done.stdout

    def write(self, block: Block) -> None:
        """The file that the line before the block names holds the block: alone, at its end, or below a line of it."""
        if found := re.fullmatch("`([^`]+)`:", block.lead):
            path = self.clone / found[1]
            assert not path.exists(), f"{path} is there already"
            path.parent.mkdir(exist_ok=True)
            path.write_text(block.text, "utf-8")
        elif found := re.fullmatch("At the end of `([^`]+)`:", block.lead):
            path = self.clone / found[1]
            path.write_text(path.read_text("utf-8") + block.text, "utf-8")
        elif found := re.fullmatch("In `([^`]+)`, below `([^`]+)`:", block.lead):
            path, lines = self.clone / found[1], []
            for line in path.read_text("utf-8").splitlines(keepends=True):
                lines += [line, block.text] if line.strip() == found[2] else [line]
            assert lines.count(block.text) == 1, f"{found[2]!r} is not one line of {path}"
            path.write_text("".join(lines), "utf-8")
        else:
            raise AssertionError(f"which file is this? {block.lead!r}")


def read_blocks(page: str) -> Iterator[Block]:
    lead, lines = "", iter(page.splitlines())
    for line in lines:
        if line.startswith("```"):
            inside = []
            while (inner := next(lines)) != "```":
                inside.append(f"{inner}\n")
            yield Block(language=line.removeprefix("```"), text="".join(inside), lead=lead)
        elif line:
            lead = line


def compare(promised: str, output: str) -> None:
    """Each promised line stands in the output, in this order; `…` is anything within a line."""
    printed = iter(output.splitlines())
    for line in promised.splitlines():
        pattern = re.compile(".*".join(map(re.escape, line.split("…"))))
        assert any(pattern.fullmatch(one.rstrip()) for one in printed), f"not printed: {line!r}\n{output}"


def make_clone(clone: Path) -> Place:
    """A copy of this clone, set up with what this one has: nothing is fetched."""
    ignored = shutil.ignore_patterns(".venv*", ".runtime", ".git", ".*_cache", ".hypothesis", "__pycache__", "results")
    shutil.copytree(ROOT, clone, ignore=ignored)
    place = Place(root=clone, runtime=find_place(os.environ).runtime)
    subprocess.run([os.path.realpath(sys.executable), "-m", "venv", "--without-pip", place.venv], check=True)
    packages = find_site_packages(place.venv)
    shared = find_site_packages(Path(sys.prefix))
    # the copy's own packages; of the shared folder not its .pth, which leads to this clone
    (packages / "bv3-copy.pth").write_text(f"{clone}\n{shared}\n")
    for name in ("bv3", "pytest"):
        for script in distribution(name).entry_points.select(group="console_scripts"):
            path = place.binaries / script.name
            body = f"import sys\nfrom {script.module} import {script.attr}\nsys.exit({script.attr}())\n"
            path.write_text(f"#!{place.binaries}/python\n{body}")
            path.chmod(0o755)
    facts = {
        "python": os.path.realpath(place.binaries / "python"),
        "programs": list_names(place.binaries),
        "packages": [str(packages.relative_to(place.venv)), *list_names(packages)],
    }
    for step, found in ((ENVIRONMENT, facts), (PROJECT, {})):
        write_json(step.stamp(place), {"key": step.hash_inputs(place), "facts": found})
    assert is_done(place), "this clone is not set up as it stands: ./bv3 setup"
    return place


@pytest.fixture
def reader() -> Iterator[Reader]:
    """In a short folder: PostgreSQL's socket lies below it. Nothing of its farm outlives it."""
    folder = Path(tempfile.mkdtemp(prefix="bv3-site-"))
    place = make_clone(folder / "bv3")
    own = {"BV3_HOME": str(folder / "home"), "BV3_RUNTIME": str(place.runtime), "PYTHONWARNINGS": ""}
    reader = Reader(clone=place.root, environment=os.environ | own)
    try:
        yield reader
        reader.run("./bv3 farm down --force")
    finally:
        left = find_processes(folder)
        _, left = psutil.wait_procs(left, timeout=20)
        for process in left:
            process.kill()
        psutil.wait_procs(left, timeout=10)
        shutil.rmtree(folder)
    assert left == [], "these outlived their farm, and were killed"


def find_processes(folder: Path) -> list[psutil.Process]:
    """Every process with something of this folder in its environment or command line."""
    found = []
    for process in psutil.process_iter():
        try:
            told = [*process.cmdline(), *process.environ().values()]
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
        if any(str(folder) in word for word in told):
            found.append(process)
    return found


@pytest.mark.timeout(900)
@pytest.mark.xdist_group("farm")
def test_a_reader_who_does_what_the_page_says_has_a_site_that_is_measured_and_true(reader: Reader) -> None:
    done = reader.follow(PAGE.read_text("utf-8"))
    assert "./bv3 schedule anon --n 1 --site guestbook" in done
    assert (reader.clone / "infra/reference/sites/guestbook/entries.html").exists()


# --- the reader itself can be disappointed


@pytest.mark.parametrize(
    ("page", "says"),
    [
        ("```sh\necho one; echo two\n```\n```text\ntwo\none\n```\n", "not printed: 'one'"),
        ("```sh\necho '1/1 x#1 product_no_composer 2 s box-a'\n```\n```text\n1/1 x#1 ok … box-a\n```\n", "not printed"),
        ("```sh\nfalse\n```\n", "false"),
        ("Some words:\n\n```toml\na = 1\n```\n", "which file is this"),
    ],
)
def test_what_a_page_promises_and_is_not_so_is_told(tmp_path: Path, page: str, says: str) -> None:
    with pytest.raises(AssertionError, match=re.escape(says)):
        Reader(clone=tmp_path, environment=dict(os.environ)).follow(page)


def test_a_page_is_followed_in_its_order(tmp_path: Path) -> None:
    page = (
        "`a/b.txt`:\n\n```toml\none\n```\n\nAt the end of `a/b.txt`:\n\n```toml\ntwo\n```\n\n```sh\ncat a/b.txt\n```\n"
    )
    reader = Reader(clone=tmp_path, environment=dict(os.environ))
    assert reader.follow(page + "```text\none\nt…o\n```\n") == ["cat a/b.txt"]
