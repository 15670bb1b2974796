"""What must hold of the tracked files as a whole."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Written in two parts, or this file would be the first to break its own rule.
REGISTRY_HOSTS = [
    "pypi" + ".org",
    "pythonhosted" + ".org",
    "npmjs" + ".org",
    "npmjs" + ".com",
    "yarnpkg" + ".com",
    "deb.debian" + ".org",
    "proxy.golang" + ".org",
]
REGISTRY_OPTIONS = ["--index" + "-url", "--extra-index" + "-url", "--find" + "-links"]
PLACES_OF_WORK = ["/work" + "/main", "/work" + "/shared", "/tmp" + "/bv3", ".library" + "/"]


def list_tracked_files() -> list[Path]:
    # A clone that belongs to another user is refused by git unless it is named safe.
    command = ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def find_mentions(words: list[str]) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}: {word}"
        for path in list_tracked_files()
        for text in [path.read_text(errors="replace")]
        for word in words
        if word in text
    ]


def test_tracked_files_are_found() -> None:
    assert ROOT / "bv3" in list_tracked_files()


def test_no_tracked_file_holds_the_address_of_a_package_registry() -> None:
    assert find_mentions(REGISTRY_HOSTS + REGISTRY_OPTIONS) == []


def test_no_tracked_file_mentions_where_bv3_is_worked_on() -> None:
    assert find_mentions(PLACES_OF_WORK) == []


def test_no_lock_file_of_npm_says_where_a_package_was_fetched() -> None:
    locks = [path for path in list_tracked_files() if path.name == "package-lock.json"]

    assert locks
    assert [path for path in locks if '"resolved":' in path.read_text()] == []


@pytest.mark.parametrize("name", ["requirements.txt", "requirements-uv.txt", "requirements-node.txt"])
def test_every_required_package_is_pinned_and_hashed(name: str) -> None:
    text = (ROOT / name).read_text().replace("\\\n", " ")
    requirements = [line for line in text.splitlines() if line and not line.lstrip().startswith("#")]

    assert requirements
    assert [line for line in requirements if "==" not in line or "--hash=sha256:" not in line] == []


def test_the_compose_file_is_valid() -> None:
    program = Path(sys.executable).with_name("check-jsonschema")
    command = [str(program), "--builtin-schema", "vendor.compose-spec", "docker-compose.yml"]
    checked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert checked.returncode == 0, checked.stdout + checked.stderr
