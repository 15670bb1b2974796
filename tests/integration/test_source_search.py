"""A product's source is searched for hosts in every file that git tracks, and says nothing unless all were read."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.errors import RevisionError, UsageError
from broker.source_search import Named, search_checkout, search_source

HOSTS = ("dev.to", "meta.discourse.org")
Checkout = Callable[..., Path]


def git(root: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *identity, *arguments], cwd=root, check=True, capture_output=True)


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    """A git checkout of these files, all tracked."""

    def make(files: dict[str, str | bytes]) -> Path:
        root = tmp_path / "openswarm"
        for name, content in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        git(root, "init", "-q")
        git(root, "add", "-A", "-f")
        git(root, "commit", "-q", "-m", "all")
        return root

    return make


@pytest.mark.parametrize(
    "text",
    [
        "https://dev.to/new",
        "api.dev.to",
        "dev.to",
        "Post it on DEV.to.",
        "me@dev.to",
        '"dev.to"',
        r"/(^|\.)dev\.to$/",
        r're.compile("dev\\.to")',
        "dev[.]to",
        "https%3A%2F%2Fdev.to%2Fnew",
        r"'sites:\ndev.to\n'",
        r"\u002f\u002fdev.to",
        "dev.to:443",
        "Nobody posts to dev.to. Then",
        "Nobody posts to dev.to.Then",
        "dev.to_RULES",
        "a dev.to-fix",
        "dev%2Eto",
        "https%253A%252F%252Fdev%252eto",
        r"dev\x2eto",
        r"dev\u002Eto",
        "dev&#46;to",
        r"/\sdev\.to/",
        r"/\bdev\.to\b/",
        r"/\Wdev\b\.\bto/",
        r"/dev\s*\.\s*to/",
        r'RegExp("\\bdev\\.to")',
        r"'{\"rule\": \"\\\\.dev\\\\.to\"}'",
        "#dev.to,lobste.rs",
    ],
)
def test_a_host_is_found_as_a_whole_name_and_as_the_parent_of_another(checkout: Checkout, text: str) -> None:
    root = checkout({"backend/a.py": f"first = 1\n{text}\n"})
    assert search_checkout(root, HOSTS).named == (Named(host="dev.to", file="backend/a.py", line=2),)


@pytest.mark.parametrize(
    "text",
    [
        "mydev.tools",
        "dev.tours",
        "mydev.to",
        "my-dev.to",
        "dev.to.example",
        "dev_to",
        "my_dev.to",
        "dev.to7",
        "devto",
    ],
)
def test_a_name_that_only_holds_the_hosts_letters_is_another(checkout: Checkout, text: str) -> None:
    root = checkout({"backend/a.py": f"first = 1\n{text}\n"})
    assert search_checkout(root, HOSTS).named == ()


@pytest.mark.parametrize(
    "text",
    [
        'host.endsWith("discourse.org")',
        'host.endsWith(".discourse.org")',
        "*.discourse.org",
        r"/(^|\.)discourse\.org$/",
        r"/\.discourse\.org$/",
        "`${sub}.discourse.org`",
        "DISCOURSE.ORG",
    ],
)
def test_a_name_above_a_host_is_found_where_it_stands_alone(checkout: Checkout, text: str) -> None:
    root = checkout({"a.py": f"first = 1\n{text}\n"})
    assert search_checkout(root, HOSTS).named == (Named(host="discourse.org", file="a.py", line=2),)
    with pytest.raises(UsageError, match=r"a\.py:2 \(discourse\.org\)"):
        search_source(root, HOSTS, what="holdout")


@pytest.mark.parametrize(
    "text", ["blog.discourse.org", r"blog\.discourse\.org", "mydiscourse.org", "org", "co.uk", "to"]
)
def test_another_name_below_it_and_what_anybody_may_be_below_are_not_the_hosts(checkout: Checkout, text: str) -> None:
    root = checkout({"a.py": f"{text}\n"})
    assert search_checkout(root, (*HOSTS, "paste.co.uk")).named == ()


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-32"])
def test_a_file_in_wide_letters_is_searched_when_its_mark_says_so(checkout: Checkout, encoding: str) -> None:
    text = "first\nhttps://dev.to/new\n"
    mark = "\ufeff" if encoding == "utf-16-be" else ""
    root = checkout({"a.ps1": (mark + text).encode(encoding), "b.ps1": (mark + "nothing").encode(encoding)})
    found = search_checkout(root, HOSTS)
    assert (found.files, found.binaries) == (2, 0)
    assert found.named == (Named(host="dev.to", file="a.ps1", line=2),)


def test_a_file_that_is_no_whole_text_of_its_mark_is_searched_in_full(checkout: Checkout) -> None:
    root = checkout({"a.ps1": b"\xff\xfe\x00\xd8" + "dev.to".encode("utf-16-le") + b"x"})
    assert [one.host for one in search_checkout(root, HOSTS).named] == ["dev.to"]


def test_every_place_is_named_with_file_and_line_and_many_are_counted(checkout: Checkout) -> None:
    root = checkout(
        {
            "b.md": "dev.to dev.to\n\n\nmeta.discourse.org\n",
            "backend/a.py": "x\n" * 40 + "DEV.TO\r\n",
            "many.txt": "dev.to\n" * 30,
        }
    )
    with pytest.raises(UsageError) as caught:
        search_source(root, HOSTS, what="holdout")
    first, *lines = caught.value.message.splitlines()
    assert first.startswith("the product's source at ")
    assert first.endswith(" names hosts of the holdout:")
    assert lines[:4] == [
        "  b.md:1 (dev.to)",
        "  b.md:1 (dev.to)",
        "  b.md:4 (meta.discourse.org)",
        "  backend/a.py:41 (dev.to)",
    ]
    assert (len(lines), lines[-1]) == (21, "  and 14 more")


def test_what_is_not_the_products_own_is_left_out_and_counted(checkout: Checkout) -> None:
    root = checkout(
        {
            "backend/a.py": "nothing",
            "tests/e2e/a.py": "nothing",
            "e2e/browser/run.sh": "dev.to",
            "frontend/node_modules/x/y.js": "dev.to",
            "frontend/package-lock.json": "dev.to",
            "electron/icon.png": b"\x89PNG\0dev.to",
        }
    )
    (root / "untracked.txt").write_text("dev.to")
    found = search_checkout(root, HOSTS)
    assert (found.files, found.binaries, found.left_out, found.named) == (2, 1, 3, ())
    searched = search_source(root, HOSTS, what="holdout")
    assert (searched.path, searched.files, searched.binaries) == (str(root), 2, 1)
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=root, check=True, capture_output=True, text=True).stdout
    # a file that is not tracked is a change, too
    assert searched.revision == f"{head[:8]}+changes"


def test_the_harness_is_the_folder_at_the_top_alone(checkout: Checkout) -> None:
    root = checkout({"backend/e2e/a.py": "dev.to", "e2e": "dev.to"})
    assert [one.file for one in search_checkout(root, HOSTS).named] == ["backend/e2e/a.py", "e2e"]


def test_what_stands_in_the_files_is_searched_and_not_what_was_committed(checkout: Checkout) -> None:
    root = checkout({"backend/a.py": "nothing"})
    (root / "backend" / "a.py").write_text("dev.to")
    assert [one.line for one in search_checkout(root, HOSTS).named] == [1]


def test_a_link_is_searched_for_where_it_leads_and_never_followed(checkout: Checkout, tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("dev.to")
    root = checkout({"a.py": "nothing"})
    (root / "plain").symlink_to(tmp_path / "outside")
    (root / "named").symlink_to("docs/dev.to")
    git(root, "add", "-A")
    assert [one.file for one in search_checkout(root, HOSTS).named] == ["named"]


def _remove(path: Path) -> None:
    path.unlink()


def _make_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _make_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _make_link(path: Path) -> None:
    path.unlink()
    path.symlink_to("b.py")


def _grow(path: Path) -> None:
    os.truncate(path, 65 * 2**20)


@pytest.mark.parametrize("spoil", [_remove, _make_folder, _make_pipe, _make_link, _grow])
def test_a_tracked_file_that_can_not_be_read_is_no_evidence(checkout: Checkout, spoil: Callable[[Path], None]) -> None:
    root = checkout({"backend/a\x1b[1m.py": "nothing", "backend/b.py": "nothing"})
    spoil(root / "backend" / "a\x1b[1m.py")
    with pytest.raises(UsageError, match=r"backend/a\?\[1m\.py of the product's source .* can't be said"):
        search_source(root, HOSTS, what="holdout")


def test_a_submodule_is_not_searched_and_so_is_refused(checkout: Checkout, tmp_path: Path) -> None:
    root = checkout({"a.py": "nothing"})
    inner = root / "inner"
    inner.mkdir()
    git(inner, "init", "-q")
    git(inner, "commit", "-q", "--allow-empty", "-m", "all")
    git(root, "add", "inner")
    with pytest.raises(UsageError, match=r"inner of the product's source is a checkout of its own"):
        search_source(root, HOSTS, what="holdout")


def test_what_is_no_checkout_or_holds_nothing_of_the_product_is_refused(checkout: Checkout, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is no folder"):
        search_source(tmp_path / "none", HOSTS, what="holdout")
    with pytest.raises(UsageError, match="is no checkout of git's"):
        search_source(tmp_path, HOSTS, what="holdout")
    root = checkout({"e2e/run.sh": "dev.to"})
    with pytest.raises(UsageError, match="nothing was read"):
        search_source(root, HOSTS, what="holdout")
    (root / ".git" / "HEAD").write_text("nonsense")
    with pytest.raises(RevisionError, match="git refuses"):
        search_source(root, HOSTS, what="holdout")
