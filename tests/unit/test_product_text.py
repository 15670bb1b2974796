"""Nothing but the catalogue holds a literal or a pattern for what the product prints or answers."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from grader.markers import Origin, load_catalogue
from grader.printed import Place
from grader.python_source import read_python
from grader.script_source import read_script
from grader.verify import literal_parts

REPOSITORY = Path(__file__).resolve().parents[2]
MARKERS = load_catalogue().markers
PACKAGES = ("broker", "scheduler", "workers", "grader", "infra")
# what must print the product's texts, and the catalogue itself
EXEMPT = ("infra/reference/", "workers/renderer/", "broker/markers.toml")
OWN_LINES = {
    # what a supervisor prints, bv3's own is one
    "workers/stack/parts.py": {"backend_restarted"},
    # the name of a table, which is also a pattern
    "broker/freezes.toml": {"prestage_outer_skip"},
}
TEXT_FILES = {".sh", ".toml", ".js", ".json", ".yml", ".yaml", ".mako", ".cfg", ".ini", ""}
# A generic pattern fits these as well as any line of the product's.
NEUTRAL = (
    "20:07:04 I backend.apps.other: Persisted 52 session(s) on shutdown",
    'INFO:     127.0.0.1:38268 - "GET /api/agents/sessions/0ec68f10 HTTP/1.1" 200 OK',
    "Lorem ipsum (dolor) [sit] {amet} 'consectetur': a=1 b=2; https://example.org/x?y=z#1 -> 100% ok",
    '[1] [x-y 0a1b2c3d] one/two three_four + "five", 6.7 e@f.example TimeoutX: y',
    "Go to https://www.reddit.com/r/test/submit, https://x.com/, https://www.youtube.com/",
    "or https://www.instagram.com/, https://www.tiktok.com/, and, cut short",
    "Node.js is not there: no renderer.ready",
    "name-1 main.py:12: error 0a1b2c3d4e5f",
    "word",
    "",
)


@cache
def _literals() -> dict[str, str]:
    """The literal runs of all templates that are nobody else's words, and the markers they stand in."""
    found: dict[str, str] = {}
    for marker in MARKERS:
        if tag := re.match(r"\[[A-Za-z-]{4,}", marker.template):
            found.setdefault(tag[0], marker.name)
        for part in literal_parts(marker.template):
            text = part.strip(" .,;:()'={}\"")
            if (len(text) >= 12 and " " in text) or re.fullmatch(r"[a-z]+(_[a-z]+)+", text):
                found.setdefault(text, marker.name)
    return found


@cache
def _word_triples() -> dict[str, str]:
    """Each three words that follow one another in a literal, where they are long enough."""
    return {
        " ".join(three): marker
        for literal, marker in _literals().items()
        for words in [literal.split()]
        for three in zip(words, words[1:], words[2:], strict=False)
        if len(" ".join(three)) >= 14
    }


@cache
def _messages() -> dict[str, str]:
    return {marker.name: re.sub(r"^\S+ [A-Z] \S+: ", "", marker.example) for marker in MARKERS}


@cache
def _words() -> re.Pattern[str]:
    texts = sorted({**_literals(), **_word_triples()}, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, texts)))


@cache
def _find_literal(text: str) -> str | None:
    """The marker whose words this text holds, or is a piece of."""
    if found := _words().search(text):
        return {**_word_triples(), **_literals()}[found[0]]
    words = text.strip()
    if len(words) >= 12 and re.search(r"[A-Za-z]{2,}[ _][A-Za-z]{2,}", words):
        for literal, marker in _literals().items():
            if words in literal:
                return marker
    return None


@cache
def _find_pattern(text: str) -> str | None:
    """The marker whose example this text matches as a pattern that means it."""
    if not re.search(r"[\\\[\](){}|*+?^$.]", text) or len(re.findall(r"[A-Za-z]", text)) < 5:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pattern = re.compile(text, re.IGNORECASE)
    except (re.error, OverflowError, RecursionError):
        return None
    if any(pattern.search(line) for line in NEUTRAL):
        return None
    return next((name for name, message in _messages().items() if pattern.search(message)), None)


def _strings(path: Path) -> Iterator[tuple[int, str]]:
    """What stands in the file beside its comments and docstrings, with its line."""
    data = path.read_bytes()
    if path.suffix in {".py", ".js"}:
        source = read_python(data) if path.suffix == ".py" else read_script(data)
        yield from ((one.line, "{}".join(one.runs)) for one in source.printed)
        others = (one for one in source.unprinted if one.place not in {Place.COMMENT, Place.DOCSTRING})
        yield from ((one.line, one.text) for one in others)
    yield from _constants(data) if path.suffix == ".py" else _lines(data.decode("utf-8", "replace"))


def _constants(data: bytes) -> Iterator[tuple[int, str]]:
    tree = ast.parse(data)
    apart = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in apart and isinstance(node.value, (str, bytes)):
            yield node.lineno, node.value if isinstance(node.value, str) else node.value.decode("latin-1")


def _lines(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.lstrip().startswith(("#", "//", "*", "/*")):
            yield number, line
            for quoted in re.findall(r"'([^']*)'|\"([^\"]*)\"", line):
                yield number, "".join(quoted)


def _offences(path: Path, name: str) -> list[str]:
    own = OWN_LINES.get(name, set())
    found = {
        f"{name}:{line}: {marker}"
        for line, text in _strings(path)
        if text not in _messages()  # a marker's name
        for marker in (_find_literal(text), _find_pattern(text))
        if marker is not None and marker not in own
    }
    return sorted(found)


def _files() -> list[tuple[Path, str]]:
    paths = [path for package in PACKAGES for path in (REPOSITORY / package).rglob("*")] + [REPOSITORY / "bv3"]
    named = [(path, path.relative_to(REPOSITORY).as_posix()) for path in paths if path.is_file()]
    return [
        (path, name)
        for path, name in sorted(named)
        if path.suffix in TEXT_FILES | {".py"} and "__pycache__" not in name and not name.startswith(EXEMPT)
    ]


def test_no_other_file_holds_a_literal_or_a_pattern_of_product_output() -> None:
    files = _files()
    assert {"grader/evidence.py", "workers/page.py", "workers/audit.js", "infra/cli.py", "bv3"} <= {
        name for _, name in files
    }
    assert len(_literals()) > 90
    assert [offence for path, name in files for offence in _offences(path, name)] == []


@pytest.mark.parametrize(
    "marker", [one for one in MARKERS if one.origin is not Origin.HARNESS], ids=lambda one: one.name
)
def test_every_markers_own_pattern_and_words_would_be_found(tmp_path: Path, marker: object) -> None:
    template, pattern = str(getattr(marker, "template", "")), str(getattr(marker, "pattern", ""))
    if not any((len(part) >= 12 and " " in part.strip()) or "_" in part for part in literal_parts(template)):
        pytest.skip("its words are anybody's")
    planted = tmp_path / "planted.py"
    planted.write_text(f"import re\nLINE = re.compile({pattern!r})\n")
    assert _offences(planted, "planted.py")
    planted.write_text(f"def looks(text):\n    return {max(literal_parts(template), key=len)!r} in text\n")
    assert _offences(planted, "planted.py")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("planted.py", 'LINE = "[browser-sendscript] anything"\n'),
        ("planted.py", 'LINE = b"[browser-sendscript] anything"\n'),
        ("planted.py", 'def f(n):\n    return f"[browser-{n}" + "sendscript] DRYRUN: WOULD send (fill {n}"\n'),
        ("planted.py", 'def f(text):\n    return "command timed out" in text\n'),
        ("planted.py", 'NEEDLES = ("present but DISABLED", "other")\n'),
        ("planted.py", 'CODES = {"rate_limit_error": 429}\n'),
        ("planted.py", "import re\nLINE = re.compile(r'fill\\s+errored')\n"),
        ("planted.py", "import re\nLINE = re.compile(rb'one recovery \\w+')\n"),
        ("planted.py", "import re\nLINE = re.compile(r'electron webview$', re.I)\n"),
        ("planted.sh", "# a comment\ngrep -c 'DRYRUN: WOULD send' be.log\n"),
        ("planted.sh", "grep -q 'one recovery dispatch' be.log\n"),
        ("planted.toml", "needle = 'completion gate caught a ghost'\n"),
        ("planted.js", "export const gone = (t) => t.includes('No dashboard is connected');\n"),
    ],
)
def test_a_planted_literal_or_pattern_is_found(tmp_path: Path, name: str, text: str) -> None:
    planted = tmp_path / name
    planted.write_text(text)
    assert _offences(planted, name)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "plain.py",
            '"""The line `[browser-sendscript] DRYRUN: WOULD send`."""\n# one recovery dispatch\nX = "dryrun_filled"\n',
        ),
        ("plain.py", "import re\nX = re.compile(r'\\s+'), re.compile('[a-z]+-[0-9]{1,9}'), 'sign in', 'a new card'\n"),
        ("plain.sh", "# grep 'DRYRUN: WOULD send'\nexec python -m uvicorn\n"),
    ],
)
def test_words_that_are_anybodys_are_not_taken_for_the_products(tmp_path: Path, name: str, text: str) -> None:
    plain = tmp_path / name
    plain.write_text(text)
    assert _offences(plain, name) == []
