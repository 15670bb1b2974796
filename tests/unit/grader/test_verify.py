"""A marker is alive when its product prints it, and in no other way that looks like it."""

from __future__ import annotations

import ast
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from broker.markers import hash_catalogue
from grader.checkout import Progress, read_tree
from grader.markers import Catalogue, Marker, Origin, compile_catalogue, load_catalogue
from grader.printed import SourceUnreadableError, find_printed
from grader.python_source import read_python
from grader.script_source import read_script
from grader.verify import Finding, State, Tree, count_hits, literal_parts, matches_example, verify

CATALOGUE = load_catalogue()
BY_NAME = {marker.name: marker for marker in CATALOGUE.markers}
PRINTED = [marker for marker in CATALOGUE.markers if marker.origin in {Origin.SOURCE, Origin.REPLY}]
VALUE = re.compile(r"(?<!\{)\{(?!\{)[^{}]*\}")


def _pieces(marker: Marker) -> list[str]:
    """The template's literal text, a value between each two."""
    return [part.replace("{{", "{") for part in VALUE.split(marker.template)]


def _fstring(pieces: list[str]) -> str:
    texts = (re.sub(r'([\\"])', r"\\\1", piece).replace("{", "{{").replace("}", "}}") for piece in pieces)
    return 'f"' + "{value!r}".join(texts) + '"'


def as_fstring(marker: Marker) -> str:
    return f"def say(value):\n    logger.info({_fstring(_pieces(marker))})\n"


def as_percent(marker: Marker) -> str:
    return f"def say(*values):\n    logger.info({'%s'.join(_pieces(marker))!r}, *values)\n"


def as_format(marker: Marker) -> str:
    return f"TEMPLATE = {'{}'.join(_pieces(marker))!r}\ndef say(*values):\n    print(TEMPLATE.format(*values))\n"


def as_sum(marker: Marker) -> str:
    return f"def say(value):\n    raise ValueError({' + str(value) + '.join(map(repr, _pieces(marker)))})\n"


def as_two_lines(marker: Marker) -> str:
    pieces = _pieces(marker)
    half = len(pieces[0]) // 2
    rest = _fstring([pieces[0][half:], *pieces[1:]])
    return f"def say(value):\n    logger.info(\n        {pieces[0][:half]!r}\n        {rest}\n    )\n"


def as_helper(marker: Marker) -> str:
    tag, _, rest = marker.template.partition("] ")
    pieces = VALUE.split(rest)
    return (
        f'def _log(message):\n    logger.info("%s" % ({tag + "] "!r} + message))\n'
        f"def say(value):\n    _log({_fstring(pieces)})\n"
    )


def as_reply(marker: Marker) -> str:
    return f'def answer(value):\n    return {{"error": {_fstring(_pieces(marker))}}}\n'


def in_comment(marker: Marker) -> str:
    return f"def say():\n    return 0  # {marker.template}\n"


def in_docstring(marker: Marker) -> str:
    return f"def say():\n    {marker.template!r}\n    return 0\n"


def in_other_case(marker: Marker) -> str:
    return as_fstring(replace(marker, template=marker.template.swapcase()))


def in_comparison(marker: Marker) -> str:
    return f"def looks(text):\n    return {'{}'.join(_pieces(marker))!r} in text\n"


def in_named_comparison(marker: Marker) -> str:
    return f"NEEDLE = {'{}'.join(_pieces(marker))!r}\ndef looks(text):\n    return NEEDLE in text.lower()\n"


def in_needles(marker: Marker) -> str:
    needle = "{}".join(_pieces(marker))
    return f"NEEDLES = ({needle!r}, 'other')\ndef looks(text):\n    return any(one in text for one in NEEDLES)\n"


def in_method(marker: Marker) -> str:
    return f"def looks(text):\n    return text.startswith(({'{}'.join(_pieces(marker))!r}, 'other'))\n"


def in_pattern(marker: Marker) -> str:
    return f"import re\nLOOKS = re.compile({'.*'.join(_pieces(marker))!r})\n"


def as_key(marker: Marker) -> str:
    return f"COUNTS = {{{'{}'.join(_pieces(marker))!r}: 1}}\n"


def as_bits(marker: Marker) -> str:
    words = "{}".join(_pieces(marker)).split()
    return "def say():\n" + "".join(f"    print({word!r})\n" for word in words)


def shortened(marker: Marker) -> str:
    return as_fstring(replace(marker, template=marker.template[1:]))


RIGHT = (as_fstring, as_percent, as_format, as_sum, as_two_lines)
WRONG = (
    (in_comment, "only in a comment"),
    (in_docstring, "only in a docstring"),
    (in_other_case, "in another case at"),
    (in_comparison, "only in a test against other text"),
    (in_named_comparison, "only in a test against other text"),
    (in_needles, "only in a test against other text"),
    (in_method, "only in a test against other text"),
    (in_pattern, ""),
    (as_key, "only in a key"),
    (as_bits, "printed"),
    (shortened, "printed"),
)
KINDS = ("recovery_dispatch", "dryrun_filled", "ghost", "router_died", "skill_learned", "replay_quarantined")

Write = Callable[..., Path]


def _home(marker: Marker) -> str:
    return f"backend/apps/{marker.source or 'answers.py'}"


@pytest.fixture
def write_product(tmp_path: Path) -> Write:
    """A checkout that prints every marker right, but for those whose files are given."""

    def write(changes: Mapping[str, tuple[str, str]] | None = None) -> Path:
        root = tmp_path / "product"
        changed = changes or {}
        files: dict[str, str] = {}
        for marker in PRINTED:
            path, text = changed.get(marker.name, (_home(marker), as_fstring(marker)))
            files[path] = files.get(path, "import logging\nlogger = logging.getLogger()\n") + text
        for path, text in files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        return root

    return write


def _verify(root: Path, catalogue: Catalogue = CATALOGUE) -> dict[str, Finding]:
    findings = verify(catalogue, read_tree(root, Progress(lambda _text: None), catalogue)).findings
    return {finding.marker: finding for finding in findings}


def _dead(findings: Mapping[str, Finding]) -> list[str]:
    return [name for name, finding in findings.items() if finding.state not in {State.ALIVE, State.UNPROVEN}]


def test_a_product_that_prints_every_literal_has_no_dead_marker(write_product: Write) -> None:
    findings = _verify(write_product())
    assert _dead(findings) == []
    assert [name for name, one in findings.items() if one.state is State.UNPROVEN] == ["reply_listed_value"]
    assert len(findings) == len(CATALOGUE.markers)
    line = BY_NAME["ghost"]
    assert findings["ghost"].detail.startswith(f"printed at backend/apps/{line.source}:")


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("write_right", RIGHT, ids=lambda one: one.__name__)
def test_a_literal_is_found_however_it_is_printed(
    write_product: Write, name: str, write_right: Callable[[Marker], str]
) -> None:
    marker = BY_NAME[name]
    assert _dead(_verify(write_product({name: (_home(marker), write_right(marker))}))) == []


@pytest.mark.parametrize("name", ["prestage_tier0", "fill_target", "recovery_dispatch", "decline_read_only", "action"])
def test_a_literal_is_found_across_the_prefix_of_a_helper(write_product: Write, name: str) -> None:
    marker = BY_NAME[name]
    assert _dead(_verify(write_product({name: (_home(marker), as_helper(marker))}))) == []


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize(("write_wrong", "reason"), WRONG, ids=lambda one: getattr(one, "__name__", ""))
def test_a_literal_that_only_looks_printed_is_dead_and_it_says_why(
    write_product: Write, name: str, write_wrong: Callable[[Marker], str], reason: str
) -> None:
    marker = BY_NAME[name]
    findings = _verify(write_product({name: (_home(marker), write_wrong(marker))}))
    assert _dead(findings) == [name]
    assert findings[name].state is State.DEAD
    assert reason in findings[name].detail


@pytest.mark.parametrize("name", KINDS)
def test_a_literal_in_the_wrong_file_is_dead_and_it_says_where(write_product: Write, name: str) -> None:
    marker = BY_NAME[name]
    findings = _verify(write_product({name: ("backend/apps/other.py", as_fstring(marker))}))
    assert _dead(findings) == [name]
    assert "in the wrong file: printed at backend/apps/other.py:4" in findings[name].detail
    assert marker.source in findings[name].detail


def test_another_case_is_shown_as_it_stands_there(write_product: Write) -> None:
    text = "import x\n\ndef gone(card):\n    return f\"Browser card '{card}' not found or not an electron webview\"\n"
    finding = _verify(write_product({"reply_card_gone": ("backend/apps/cards.py", text)}))["reply_card_gone"]
    assert finding.state is State.DEAD
    assert re.search(r"in another case at backend/apps/cards\.py:\d+: .*not an electron webview", finding.detail)


def test_a_reply_may_stand_in_any_file_and_in_a_script(write_product: Write) -> None:
    right = "export const gone = (id) => ({ error: `Browser card '${id}' not found or not an Electron webview` });\n"
    wrong = (
        "// Browser card 'x' not found or not an Electron webview\n",
        "if (said.includes(\"' not found or not an Electron webview\")) { stop(`Browser card '`); }\n",
        'const needles = ["Browser card \'", "\' not found or not an Electron webview"];\n',
        "export const gone = (id) => `Browser card '${id}' not found or not an electron webview`;\n",
    )
    assert _dead(_verify(write_product({"reply_card_gone": ("frontend/src/cards.ts", right)}))) == []
    for text in wrong:
        product = write_product({"reply_card_gone": ("frontend/src/cards.ts", text)})
        assert _dead(_verify(product)) == ["reply_card_gone"], text


LITERAL = "Browser command timed out"
PYTHON_NEEDLES = {
    "default": "def f(text, needle='LITERAL'):\n    return needle in text\n",
    "keyword default": "def f(text, *, needle='LITERAL'):\n    return needle in text\n",
    "attribute": "class A:\n    def __init__(self):\n        self.needle = 'LITERAL'\n"
    "    def f(self, text):\n        return self.needle in text\n",
    "class attribute": "class A:\n    NEEDLE = 'LITERAL'\n    def f(self, text):\n        return self.NEEDLE in text\n",
    "choice": "def f(text, c):\n    n = 'LITERAL' if c else 'x'\n    return n in text\n",
    "choice beside a value": "def f(text, other):\n    n = other or 'LITERAL'\n    return n in text\n",
    "walrus": "def f(text):\n    if (n := 'LITERAL') and n in text:\n        return 1\n",
    "pattern": "import re\ndef f(text):\n    return re.search(pattern='LITERAL', string=text)\n",
    "named pattern": "import re\nP = 'LITERAL'\ndef f(text):\n    return re.search(f'(?i){P}', text)\n",
    "contains": "import operator\ndef f(text):\n    return operator.contains(text, 'LITERAL')\n",
    "dunder": "def f(text):\n    return text.__contains__('LITERAL')\n",
    "looked in": "def f(text):\n    return 'LITERAL'.startswith(text)\n",
    "dictionary": "D = {'a': 'LITERAL'}\ndef f(text):\n    return [key for key, n in D.items() if n in text]\n",
    "dictionary's values": "D = {'a': 'LITERAL'}\ndef f(text):\n    return any(n in text for n in D.values())\n",
    "pairs": "P = (('LITERAL', 1),)\ndef f(text):\n    return [what for n, what in P if n in text]\n",
    "made lower": "N = ['LITERAL']\nM = [n.lower() for n in N]\ndef f(text):\n    return any(n in text for n in M)\n",
    "helper": "def has(text, needles):\n    return any(n in text for n in needles)\n"
    "def f(text):\n    return has(text, ['LITERAL'])\n",
    "helper by name": "def has(text, needles):\n    return any(n in text for n in needles)\n"
    "N = ('LITERAL',)\ndef f(text):\n    return has(text, needles=N)\n",
    "helper's rest": "def has(text, *needles):\n    return any(n in text for n in needles)\n"
    "def f(text):\n    return has(text, 'x', 'LITERAL')\n",
    "own method": "class A:\n    def has(self, text, needle):\n        return needle in text\n"
    "    def f(self, text):\n        return self.has(text, 'LITERAL')\n",
    "annotation": "from typing import Literal\ndef f() -> Literal['LITERAL'] | 'LITERAL':\n    x: 'LITERAL' = 1\n",
    "other name": "A = 'LITERAL'\nB = A\ndef f(text):\n    return B == text\n",
}
SCRIPT_NEEDLES = {
    **{
        f"{how} of a name": f"const N = 'LITERAL';\nif ({use}) stop();\n"
        for how, use in {
            "includes": "text.includes(N)",
            "lower case": "text.toLowerCase().includes(N.toLowerCase())",
            "indexOf": "text.indexOf(N) >= 0",
            "startsWith": "text?.startsWith(N)",
            "===": "text === N",
            "test": "new RegExp(N).test(text)",
            "match": "text.match(N)",
        }.items()
    },
    "looked in": "if ('LITERAL'.includes(text)) stop();\n",
    "typed name": "export const N: string = 'LITERAL';\nif (text.includes(N)) stop();\n",
    "choice": "function f(t, c) {\n  const n = c ? 'x' : 'LITERAL';\n  return t.includes(n);\n}\n",
    "block": "function f(t) { const n = 'LITERAL'; return t.includes(n); }\nfunction g(n) { log(n); }\n",
    "default": "function f(t, n = 'LITERAL') { return t.includes(n); }\n",
    "attribute": "class A { constructor() { this.n = 'LITERAL'; } f(t) { return t.includes(this.n); } }\n",
    "field": "class A { private readonly n = 'LITERAL'; f(t) { return t.includes(this.n); } }\n",
    "member": "const M = { n: 'LITERAL' };\nif (text.includes(M.n)) stop();\n",
    "members": "const M = { n: 'LITERAL' };\nObject.values(M).some(v => text.includes(v));\n",
    "other name": "const A = 'LITERAL';\nconst B = A;\nif (text.includes(B)) stop();\n",
    "type": "type E = 'LITERAL' | 'other'\nlog(x)\n",
    "type by line": "export type E =\n  | 'other'\n  | 'LITERAL'\nlog(x)\n",
    "interface": "interface X {\n  kind: 'LITERAL'\n  more: { kind?: 'LITERAL' }\n}\n",
    "parameter's type": "function f(a, kind: 'LITERAL') {}\n",
    "returned type": "function f(a): 'LITERAL' { return g(a); }\n",
    "variable's type": "let kind: 'LITERAL' = g();\n",
    "field's type": "class A { readonly kind: 'LITERAL'; }\n",
    "cast": "const a = b as 'LITERAL';\n",
    "generic": "const [a] = useState<'LITERAL'>(b);\n",
    "attribute of a tag": "const a = <div id={b} title='LITERAL'>x</div>;\n",
    "attribute in braces": "const a = <Note text={'LITERAL'} />;\n",
}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        *((f"backend/{how}.py", text) for how, text in PYTHON_NEEDLES.items()),
        *((f"frontend/{how}.tsx", text) for how, text in SCRIPT_NEEDLES.items()),
    ],
)
def test_a_literal_that_a_file_only_looks_for_is_dead(write_product: Write, name: str, text: str) -> None:
    findings = _verify(write_product({"reply_command_timeout": (name, text.replace("LITERAL", LITERAL))}))
    assert _dead(findings) == ["reply_command_timeout"]
    place = r"a test against other text|a type|a key|an attribute of a tag"
    assert re.match(f"only in ({place}) at {re.escape(name)}:", findings["reply_command_timeout"].detail)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("default.py", "def f(why='LITERAL'):\n    raise ValueError(why)\n"),
        ("both.py", "N = 'LITERAL'\ndef f(text):\n    return N if N in text else N.lower()\n"),
        (
            "attribute.py",
            "class A:\n    def f(self):\n        self.why = 'LITERAL'\n        return {'error': self.why}\n",
        ),
        ("choice.py", "def f(c):\n    why = 'LITERAL' if c else ''\n    if why:\n        return {'error': why}\n"),
        ("pairs.py", "P = (('x', 'LITERAL'),)\ndef f(text):\n    return [why for n, why in P if n in text]\n"),
        ("dictionary.py", "D = {'a': 'LITERAL'}\ndef f(key):\n    return D[key] if key in D else D.get(key)\n"),
        ("helper.py", "def fail(n, why):\n    if n == why:\n        return 0\n    raise E(why)\nfail(1, 'LITERAL')\n"),
        ("replaced.py", "import re\ndef f(text):\n    return re.sub('x', 'LITERAL', text)\n"),
        ("other.py", "WHY = 'LITERAL'\n"),
        ("name.ts", "const why = 'LITERAL';\nif (text.includes(why)) throw new Error(why);\n"),
        ("exported.ts", "export const WHY: string = 'LITERAL';\n"),
        ("hole.ts", "const why = 'LITERAL';\nlog(`failed: ${why}`);\n"),
        ("choice.ts", "function f(c) { return { error: c ? 'x' : 'LITERAL' }; }\n"),
        ("call.ts", "const a = c ? g(c) : 'LITERAL';\nreply(a);\n"),
        ("member.ts", "const M = { why: 'LITERAL' };\nreply({ error: M.why });\n"),
        ("rejected.ts", "reject(c ? new Error(x) : new Error('LITERAL'))\n"),
        ("after.ts", "type E = 'x'\nreply('LITERAL')\ninterface X { a: 'x' }\nreply(b)\n"),
        ("assigned.ts", "if (a < b) { error = 'LITERAL' }\nreply(error)\n"),
        ("member_of.ts", "this.error = 'LITERAL'\nreply(this.error)\n"),
        ("default.ts", "function fail(why = 'LITERAL') { reply(why) }\n"),
    ],
)
def test_a_literal_that_is_bound_to_a_name_and_printed_is_alive(write_product: Write, name: str, text: str) -> None:
    place = f"backend/{name}" if name.endswith("py") else f"frontend/{name}"
    product = write_product({"reply_command_timeout": (place, text.replace("LITERAL", LITERAL))})
    assert _dead(_verify(product)) == []


@pytest.mark.parametrize("marker", ["wall_by_url", "wall_by_copy", "wall_by_password_field"])
def test_a_short_value_must_begin_a_string_of_the_file_that_is_named(write_product: Write, marker: str) -> None:
    short = BY_NAME[marker].template.partition("{")[0]
    home = _home(BY_NAME[marker])
    for path, text in (
        ("frontend/toast.ts", f"toast('{short}' + text);\n"),
        (home, f"logger.info(f'went to the {short}{{value}}')\n"),
    ):
        assert _dead(_verify(write_product({marker: (path, text)}))) == [marker], path


def test_words_too_few_to_be_one_markers_are_neither_alive_nor_dead(write_product: Write) -> None:
    name = "reply_listed_value"
    finding = _verify(write_product({name: ("frontend/form.ts", "const h = '<option value=\"a\">';\nreply(h);\n")}))[
        name
    ]
    assert finding.state is State.UNPROVEN
    assert finding.detail == "too short to prove: printed at frontend/form.ts:3, which may be anybody's"
    finding = _verify(write_product({name: ("frontend/form.ts", "reply('value')\n")}))[name]
    assert finding.state is State.DEAD


def test_files_that_hold_no_markers_words_are_counted_and_not_parsed(write_product: Write) -> None:
    root = write_product()
    for number in range(20):
        (root / "backend" / f"other_{number}.py").write_text("def f(:  # an electron webview is there\n")
    split = 'def f(card):\n    return f"Browser card \'{card}\' not found or not an" " Electron webview"\n'
    (root / "backend" / "split.py").write_text(split)
    tree = read_tree(root, Progress(lambda _text: None), CATALOGUE)
    whole = read_tree(root, Progress(lambda _text: None))
    assert tree.unread == {}
    assert tree.others >= 20
    assert "backend/split.py" in tree.files
    assert tree.count == whole.count + len(whole.unread)
    states = {one.marker: one.state for one in verify(CATALOGUE, tree).findings}
    assert states == {one.marker: one.state for one in verify(CATALOGUE, whole).findings}


def test_a_reply_in_a_dictionary_is_printed(write_product: Write) -> None:
    marker = BY_NAME["reply_no_dashboard"]
    assert _dead(_verify(write_product({marker.name: ("backend/apps/hub.py", as_reply(marker))}))) == []


def test_what_only_tests_and_installed_packages_print_is_not_printed(write_product: Write) -> None:
    marker = BY_NAME["ghost"]
    for place in ("tests", "node_modules/product", ".venv/lib"):
        product = write_product({"ghost": (f"backend/{place}/browser_agent.py", as_fstring(marker))})
        assert _dead(_verify(product)) == ["ghost"], place


def test_a_pattern_that_does_not_fit_its_example_is_dead_however_well_it_is_printed(write_product: Write) -> None:
    marker = BY_NAME["ghost"]
    broken = _catalogue_with(replace(marker, pattern=marker.pattern.replace("completion gate", "Completion gate")))
    findings = _verify(write_product(), broken)
    assert _dead(findings) == ["ghost"]
    assert findings["ghost"].detail == "its pattern does not match its example"


def _catalogue_with(changed: Marker) -> Catalogue:
    entries = []
    for marker in CATALOGUE.markers:
        one = changed if marker.name == changed.name else marker
        fields = ("name", "origin", "source", "level", "template", "pattern", "example")
        values = [f"{field} = {_toml(str(getattr(one, field)))}" for field in fields]
        entries.append("\n".join(["[[marker]]", *values, f"is_value = {str(one.is_value).lower()}"]))
    return compile_catalogue("\n".join(entries))


def _toml(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def test_data_of_libraries_and_lines_of_supervisors_rest_on_their_examples_alone() -> None:
    findings = {one.marker: one for one in verify(CATALOGUE, Tree(files={}), {}).findings}
    apart = {marker.name for marker in CATALOGUE.markers if marker.origin in {Origin.SDK, Origin.HARNESS}}
    assert {name for name, one in findings.items() if one.state is State.ALIVE} == apart
    assert "in no line of the logs" in findings["api_retry"].detail
    assert all(matches_example(CATALOGUE, marker) for marker in CATALOGUE.markers)


def test_a_missing_or_broken_file_is_the_reason_that_is_given() -> None:
    finding = next(one for one in verify(CATALOGUE, Tree(files={})).findings if one.marker == "ghost")
    assert "there is no file browser_agent.py" in finding.detail
    tree = Tree(files={}, unread={"backend/browser_agent.py": "line 3: invalid syntax"})
    finding = next(one for one in verify(CATALOGUE, tree).findings if one.marker == "ghost")
    assert finding.detail == "backend/browser_agent.py could not be read: line 3: invalid syntax"


def test_a_reference_stack_lacks_markers_but_does_not_print_them_in_another_case() -> None:
    right = read_python(as_fstring(BY_NAME["ghost"]).encode())
    wrong = read_python(in_other_case(BY_NAME["new_card"]).encode())
    report = verify(CATALOGUE, Tree(files={"lines.py": right, "more.py": wrong}, is_reference=True))
    states = {one.marker: one.state for one in report.findings}
    assert states["ghost"] is State.ALIVE
    assert states["new_card"] is State.DEAD
    assert states["recovery_dispatch"] is State.ABSENT


def test_values_are_counted_in_the_lines_that_carry_them() -> None:
    line = BY_NAME["fill_errored"].example.partition(" (")[0]
    log = f"{line} (Browser command timed out); handing to model untouched\n" * 3
    assert count_hits(CATALOGUE, log.encode()) == {"fill_errored": 3, "reply_command_timeout": 3}


def test_the_catalogues_hash_is_over_its_text() -> None:
    assert hash_catalogue("a") != hash_catalogue("b")
    assert hash_catalogue("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


@pytest.mark.parametrize("marker", PRINTED, ids=lambda marker: marker.name)
def test_every_template_has_literal_text_that_its_example_holds_in_order(marker: Marker) -> None:
    at = 0
    parts = literal_parts(marker.template)
    assert parts
    for part in parts:
        # what a template leaves out at its end is a value too
        at = marker.example.find(part, at)
        assert at >= 0, part
        at += len(part)


def test_the_reader_of_python_leaves_out_what_is_never_printed() -> None:
    text = b'''"""module"""
from x import y
NEEDLES = frozenset({"a1", "a2"})
BOTH = "printed here"
LOCAL: "annotation" = "kept"
def f(x: "hint", default="shown") -> "hint":
    "doc"
    match x:
        case "matched": return "answer"
    if x == ("b" if y else "c") or "d".lower() in x: print(BOTH, LOCAL, x["key"], x.get("key2", "fallback"))
    for n in ("e1", "e2"):
        if n in x: return ["f1", x]
    assert BOTH != "g", "why"
'''
    source = read_python(text)
    assert ["{}".join(one.runs) for one in source.printed] == [
        "printed here", "kept", "shown", "answer", "fallback", "f1", "why",
    ]  # fmt: skip
    assert {one.text for one in source.unprinted} >= {"module", "a1", "a2", "doc", "matched", "b", "c", "d", "e1", "g"}


def test_the_reader_of_scripts_knows_quotes_templates_patterns_and_plus() -> None:
    text = r"""
const a = 'it\'s', b = "say \"so\"", c = `one ${ f(`two ${x} three`) + 'four' } five`;
/* "no" */ // 'no'
const quote = /['"`]/g, half = a / 2, el = <p>Don't</p>;
throw new Error("gone: " + id + " at " + "\u0041" + where);
if (a === "cmp" || say(b).startsWith("pre")) { switch (a) { case "k": say({ "key": "value" }); } }
"""
    source = read_script(text.encode())
    printed = {"{}".join(one.runs) for one in source.printed}
    assert printed == {"it's", 'say "so"', "one {} five", "two {} three", "{}four", "gone: {} at A{}", "value"}
    assert {one.text for one in source.unprinted} >= {"cmp", "pre", "k", "key"}


@pytest.mark.parametrize(
    ("read", "data"),
    [
        (read_python, b"def f(:\n"),
        (read_python, b"x = '\xff\xfe'\n"),
        (read_python, b"x = 1\0\n"),
        (read_python, b"x = " + b"(" * 5000 + b")" * 5000),
        (read_python, b"x = " + b"-" * 200_000 + b"1"),
        (read_script, b"const a = `never closed"),
        (read_script, b"const a = `${ never"),
        (read_script, b"/* never closed"),
        (read_script, b"const a = '\xff'"),
        (read_script, b"`${" * 5000),
    ],
)
def test_a_file_that_is_no_source_says_so(read: Callable[[bytes], object], data: bytes) -> None:
    with pytest.raises(SourceUnreadableError, match=r"\S"):
        read(data)


def test_a_declared_coding_is_kept() -> None:
    source = read_python("# -*- coding: latin-1 -*-\nprint('caf\xe9')\n".encode("latin-1"))
    assert source.printed[0].runs == ("caf\xe9",)


def test_nothing_is_put_together_from_strings_of_a_file_that_have_no_hole_between_them() -> None:
    source = read_python(b"print('[browser-x] went', 'over the edge')\nprint('[browser-x] ', 'went over the edge')\n")
    assert find_printed(["[browser-x] went over the edge"], source) is None
    for text in (
        b"print(f'[browser-x] {m}')\nlog('went over the edge')\n",
        b"'browser-x'\nprint(f'[{x}] went over the edge')",
    ):
        assert find_printed(["[browser-x] went over the edge"], read_python(b"x = " + text)) is not None


def test_a_large_file_without_the_literal_is_searched_in_little_time() -> None:
    pieces = [part for marker in PRINTED for part in literal_parts(marker.template)]
    lines = [
        f"print(f{piece[: len(piece) // 2]!r} + str(x) + {' in ' + piece[len(piece) // 2 :]!r})" for piece in pieces
    ]
    source = read_python("\n".join(lines * 10).replace("{", "(").replace("}", ")").encode())
    assert len(source.printed) > 1000
    began = time.process_time()
    findings = verify(CATALOGUE, Tree(files={"browser_agent.py": source})).findings
    assert sum(one.state is State.DEAD for one in findings) > 50
    assert time.process_time() - began < 30


def test_a_name_that_every_function_has_is_followed_in_little_time() -> None:
    text = "".join(f"def f{number}(t):\n    x = 'needle {number}'\n    return x in t\n" for number in range(8000))
    began = time.process_time()
    assert read_python(text.encode()).printed == ()
    assert time.process_time() - began < 10


def test_the_checks_own_code_is_read_without_an_error() -> None:
    for path in Path(__file__).resolve().parents[3].glob("grader/*.py"):
        data = path.read_bytes()
        assert len(read_python(data).printed) <= sum(isinstance(node, ast.expr) for node in ast.walk(ast.parse(data)))


# ruff: noqa: ISC004 - one printed string, too long for a line
@pytest.mark.parametrize(
    ("marker", "printed"),
    [
        ("fill_not_committed", '"[browser-sendscript] fill not seen committed; aborting pre-click (will retry)"'),
        ("fill_not_committed", '"DRY [browser-sendscript] fill not seen committed; aborting pre-click"'),
        ("recovery_dispatch", 'f"[browser-fast-path] first dispatch failed for {a} ({b}); one recovery dispatch"'),
        ("send_done", 'f"[browser-sendscript] done sent_receipt={a} polled={b} delivered={c} in {d}ms"'),
        (
            "decline_nothing_editable",
            'f"[browser-sendscript] decline: no composer, opener, or structural editable ({a} boxes)"',
        ),
        (
            "dryrun_filled",
            'f"[browser-sendscript] DRYRUN: WOULD send (fill committed, send_button_listed={a}, submit_resolved={b},'
            ' submit_rank={c}, tier={d}, submit={e!r}); not clicking"',
        ),
    ],
)
def test_a_line_that_has_grown_is_dead_for_a_pattern_that_fits_whole_lines(
    write_product: Write, marker: str, printed: str
) -> None:
    grown = f"def say(a, b, c, d, e):\n    logger.info({printed})\n"
    findings = _verify(write_product({marker: (_home(BY_NAME[marker]), grown)}))
    assert _dead(findings) == [marker]
    assert findings[marker].detail.startswith("its pattern does not fit what is printed at backend/apps/")


@pytest.mark.parametrize(
    ("marker", "printed"),
    [
        ("slow_command", 'f"[browser-slow] {a} took {b}ms{c}{d} -> {e}"'),
        ("prestage_done", 'f"[browser-prestage] done: steps={a} (perceive-only) url={b} in {c}ms"'),
        ("probe_verdict", 'f"[browser-fast-path] send-probe verdict=not-found for {a}"'),
    ],
)
def test_a_line_may_have_other_holes_than_its_template(write_product: Write, marker: str, printed: str) -> None:
    said = f"def say(a, b, c, d, e):\n    logger.info({printed})\n"
    assert _dead(_verify(write_product({marker: (_home(BY_NAME[marker]), said)}))) == []
