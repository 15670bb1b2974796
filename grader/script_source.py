"""The strings that a JavaScript or TypeScript file prints, by a small lexer. Pure.

It knows comments, the three kinds of quotes, values within template literals, regular expressions and `+`.
Left out are keys, types, attributes of tags, what is only set against other text, arrays of strings alone that are
not joined, and what is bound to a name that the file uses in these ways alone.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from grader.printed import Place, Printed, SourceText, SourceUnreadableError, Unprinted

_TOKEN = re.compile(
    r"""(?P<space>\s+)
    |(?P<comment>//[^\n]*|/\*.*?\*/)
    |(?P<string>'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*")
    |(?P<word>[\w$]+)
    |(?P<operator>===|!==|==|!=|=>|\?\?|.)""",
    re.VERBOSE | re.DOTALL,
)
_REGEX = re.compile(r"/(?![*/])(?:[^/\\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+/[a-z]*")
_TEMPLATE_TEXT = re.compile(r"(?:[^`\\$]|\\.|\$(?!\{))*", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u\{([0-9a-fA-F]{1,6})\}|u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(\r\n|.))", re.DOTALL)
_PLAIN_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "0": "\0", "\n": "", "\r\n": ""}
_BEFORE_REGEX = frozenset({"return", "typeof", "case", "in", "of", "delete", "void", "throw", "new"})
_COMPARISONS = frozenset({"==", "===", "!=", "!=="})
# methods whose string is only set against their argument
_LOOKS = frozenset(
    {"includes", "startsWith", "endsWith", "indexOf", "lastIndexOf", "search", "match", "matchAll", "test", "exec"}
)
_TESTS = _LOOKS | {"split", "has", "replace", "replaceAll", "RegExp"}
_SAME = frozenset({"toLowerCase", "toUpperCase", "trim"})
_KEYED = frozenset({"get", "getAttribute", "getItem", "querySelector", "querySelectorAll", "closest"})
_ENDS_OPERAND = frozenset({",", ";", ")", "]", "}", "?", ":", "??", "=>"}) | _COMPARISONS
_BEFORE_TYPE = frozenset({"as", "satisfies", "extends", "keyof", "<"})
_GOES_ON = frozenset({"=", "|", "&", "?", ":", "=>", "<", ">", ",", ".", "extends", "keyof", "typeof", "infer"})
_DECLARES = frozenset({"const", "let", "var"})
_MODIFIES = frozenset({"readonly", "public", "private", "protected", "static", "declare", "override"})
_STATEMENTS = _BEFORE_REGEX | _DECLARES | {"yield", "await", "default", "else", "do", "if", "for", "while"}
_OPEN = frozenset("([{")
_CLOSE = frozenset(")]}")
_DEEPEST = 100
_LARGEST_CODE = 0x10FFFF


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    at: int
    runs: tuple[str, ...] = ()


class _Tokens(list[_Token]):
    """Tokens that follow one another, and their brackets."""

    @cached_property
    def openings(self) -> list[int]:
        """For each token the bracket that it stands in, or closes; -1 for none."""
        found, opened = [], [-1]
        for at, token in enumerate(self):
            found.append(opened[-1])
            if token.text in _OPEN:
                opened.append(at)
            elif token.text in _CLOSE and len(opened) > 1:
                opened.pop()
        return found

    @cached_property
    def closings(self) -> dict[int, int]:
        """Where each bracket is closed."""
        return {self.openings[at]: at for at, token in enumerate(self) if token.text in _CLOSE}

    def closing(self, at: int) -> int:
        """The bracket that closes this one, or the end."""
        return self.closings.get(at, len(self))

    @cached_property
    def plain_arrays(self) -> set[int]:
        """The brackets of arrays of strings alone, which are not joined."""
        found = {at for at, token in enumerate(self) if token.text == "["}
        for token, opened in zip(self, self.openings, strict=True):
            if token.kind != "string" and token.text not in {",", "]"}:
                found.discard(opened)
        return {
            at
            for at in found
            if (end := self.closing(at)) < len(self)
            and (_text_at(self, end + 1), _text_at(self, end + 2)) != (".", "join")
        }


def read_script(data: bytes) -> SourceText:
    """All text of this file. Raises SourceUnreadableError saying where it can't be read."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SourceUnreadableError(f"not UTF-8 at byte {error.start}") from error
    lexer = _Lexer(text)
    lexer.lex(0, depth=0)
    printed: list[Printed] = []
    unprinted: list[Unprinted] = list(lexer.comments)
    names = _Names(lexer.stretches)
    for tokens in lexer.stretches:
        types = _find_types(tokens, text)
        for start, end, runs in _read_strings(tokens):
            line = lexer.line_of(tokens[start].at)
            place = Place.TYPE if start in types else _place(tokens, start, end) or names.place(tokens, start)
            if place is None:
                printed.append(Printed(line=line, runs=runs))
            else:
                unprinted.append(Unprinted(line=line, place=place, text="{}".join(runs)))
    return SourceText(printed=tuple(printed), unprinted=tuple(unprinted))


class _Lexer:
    def __init__(self, text: str) -> None:
        self._text = text
        self._newlines = [found.start() for found in re.finditer("\n", text)]
        self.comments: list[Unprinted] = []
        # the file's tokens, and apart from them those of each value within a template literal
        self.stretches: list[_Tokens] = []

    def line_of(self, at: int) -> int:
        """The line (1-based) that this character stands in."""
        return bisect(self._newlines, at - 1) + 1

    def lex(self, at: int, *, depth: int) -> int:
        """The tokens from here to the end of the file, or of the value within a template literal; where that is."""
        if depth > _DEEPEST:
            raise SourceUnreadableError(f"line {self.line_of(at)}: templates nested too deep")
        tokens = _Tokens()
        self.stretches.append(tokens)
        braces = 0
        while at < len(self._text):
            if self._text[at] == "`":
                token, at = self._read_template(at, depth)
                tokens.append(token)
                continue
            if self._text[at] == "/" and _may_be_regex(tokens) and (found := _REGEX.match(self._text, at)):
                tokens.append(_Token("regex", "", at))
                at = found.end()
                continue
            found = _TOKEN.match(self._text, at)
            assert found is not None  # noqa: S101 - its last branch takes any character
            braces += {"{": 1, "}": -1}.get(found[0], 0)
            if braces < 0 and depth:
                return found.end()
            self._keep(tokens, found)
            at = found.end()
        if depth:
            raise SourceUnreadableError(f"line {self.line_of(at)}: a template literal has no end")
        return at

    def _keep(self, tokens: _Tokens, found: re.Match[str]) -> None:
        kind = str(found.lastgroup)
        if kind == "comment":
            self.comments.append(Unprinted(line=self.line_of(found.start()), place=Place.COMMENT, text=found[0]))
        elif kind == "string":
            tokens.append(_Token("string", "", found.start(), (_unescape(found[0][1:-1]),)))
        elif kind != "space":
            if found[0] == "/" and self._text.startswith("/*", found.start()):
                raise SourceUnreadableError(f"line {self.line_of(found.start())}: a comment has no end")
            tokens.append(_Token(kind, found[0], found.start()))

    def _read_template(self, start: int, depth: int) -> tuple[_Token, int]:
        at, runs = start + 1, []
        while True:
            found = _TEMPLATE_TEXT.match(self._text, at)
            assert found is not None  # noqa: S101 - it matches nothing too
            runs.append(_unescape(found[0]))
            at = found.end()
            if self._text.startswith("`", at):
                return _Token("string", "", start, tuple(runs)), at + 1
            if not self._text.startswith("${", at):
                raise SourceUnreadableError(f"line {self.line_of(start)}: a template literal has no end")
            at = self.lex(at + 2, depth=depth + 1)


def _may_be_regex(tokens: _Tokens) -> bool:
    if not tokens:
        return True
    last = tokens[-1]
    if last.kind == "word":
        return last.text in _BEFORE_REGEX
    return last.kind == "operator" and last.text not in {")", "]", "}", "<"}


def _unescape(text: str) -> str:
    return _ESCAPE.sub(_unescape_one, text)


def _unescape_one(found: re.Match[str]) -> str:
    code = found[1] or found[2] or found[3]
    if code is not None:
        number = int(code, 16)
        return chr(number) if number <= _LARGEST_CODE else found[0]
    return _PLAIN_ESCAPES.get(found[4], found[4])


def _read_strings(tokens: _Tokens) -> Iterator[tuple[int, int, tuple[str, ...]]]:
    at = 0
    while at < len(tokens):
        if tokens[at].kind != "string":
            at += 1
            continue
        runs, end = _join(tokens, at)
        yield at, end, runs
        at = end


def _join(tokens: _Tokens, start: int) -> tuple[tuple[str, ...], int]:
    """The string that begins here with all that `+` adds to it, and where it ends."""
    runs = list(tokens[start].runs)
    if _text_at(tokens, start - 1) == "+":
        runs.insert(0, "")
    at = start + 1
    while _text_at(tokens, at) == "+":
        if at + 1 < len(tokens) and tokens[at + 1].kind == "string":
            added = tokens[at + 1].runs
            runs[-1] += added[0]
            runs += added[1:]
            at += 2
            continue
        end = _skip_operand(tokens, at + 1)
        if any(token.kind == "string" for token in tokens[at + 1 : end]):
            # a call with strings of its own: those are read for themselves
            return (*runs, ""), at + 1
        runs.append("")
        at = end
    return tuple(runs), at


def _skip_operand(tokens: _Tokens, at: int) -> int:
    depth = 0
    while at < len(tokens):
        text = tokens[at].text
        if depth == 0 and (text == "+" or text in _ENDS_OPERAND):
            break
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(text, 0)
        at += 1
    return at


def _place(tokens: _Tokens, start: int, end: int) -> Place | None:
    before, after = _text_at(tokens, start - 1), _text_at(tokens, end)
    if _is_tested(tokens, start, end):
        return Place.TESTED
    if after == ":" and before in {"{", ","}:
        return Place.KEY
    if before == "(" and _text_at(tokens, start - 2) in _KEYED:
        return Place.KEY
    if _is_type(tokens, start, end):
        return Place.TYPE
    if _is_attribute(tokens, start, end):
        return Place.ATTRIBUTE
    return Place.TESTED if tokens.openings[start] in tokens.plain_arrays else None


def _is_tested(tokens: _Tokens, start: int, end: int) -> bool:
    """Whether what stands here is an operand of a comparison, or what a method looks for or looks in."""
    before, after = _text_at(tokens, start - 1), _text_at(tokens, end)
    if before in _COMPARISONS or after in _COMPARISONS or before == "case" or after == "in":
        return True
    if before == "(" and _text_at(tokens, start - 2) in _TESTS:
        return True
    return after == "." and _text_at(tokens, end + 1) in _LOOKS and _text_at(tokens, end + 2) == "("


def _is_type(tokens: _Tokens, start: int, end: int) -> bool:  # noqa: PLR0911 - one for each way
    before, after = _text_at(tokens, start - 1), _text_at(tokens, end)
    if before in _BEFORE_TYPE or after == ">":
        return True
    if (before == "|" != _text_at(tokens, start - 2)) or (after == "|" != _text_at(tokens, end + 1)):
        return True
    if before != ":":
        return False
    named = start - 2
    if _text_at(tokens, named) == ")":
        # what a function returns
        return after in {"{", "=>"}
    if _text_at(tokens, named) == "?":
        return True
    lead = _text_at(tokens, named - 1)
    if lead in _DECLARES or lead in _MODIFIES:
        return True
    opened = _text_at(tokens, tokens.openings[start])
    if opened == "(":
        return lead in {"(", ","}
    return lead in {"{", ";", "}"} and after in {";", "="}


def _is_attribute(tokens: _Tokens, start: int, end: int) -> bool:
    """Whether it is the value of an attribute, as in `<Tag name="...">` or `<Tag name={"..."}>`."""
    at = start - 1
    if _text_at(tokens, at) == "{" and _text_at(tokens, end) == "}":
        at -= 1
    if _text_at(tokens, at) != "=":
        return False
    while at >= 0:
        text = tokens[at].text
        if text == "<":
            return tokens[at + 1].kind == "word"
        if text == "}":
            at = tokens.openings[at]
        elif (tokens[at].kind == "word" and text in _STATEMENTS) or (
            tokens[at].kind == "operator" and text not in {"=", "-", ".", ":"}
        ):
            return False
        at -= 1
    return False


def _find_types(tokens: _Tokens, text: str) -> set[int]:
    """The tokens within `interface X {...}` and `type X = ...`."""
    found: set[int] = set()
    for at, token in enumerate(tokens[:-2]):
        if token.kind != "word" or tokens[at + 1].kind != "word" or _text_at(tokens, at - 1) == ".":
            continue
        if token.text == "interface":
            opened = next((here for here in range(at, len(tokens)) if tokens[here].text == "{"), len(tokens))
            found.update(range(at, tokens.closing(opened)))
        elif token.text == "type" and tokens[at + 2].text in {"=", "<"}:
            found.update(range(at, _end_of_type(tokens, at + 2, text)))
    return found


def _end_of_type(tokens: _Tokens, at: int, text: str) -> int:
    start = at
    while at < len(tokens) and tokens[at].text not in {";", ")", "]", "}"}:
        is_new_line = "\n" in text[tokens[at - 1].at : tokens[at].at]
        if at > start and is_new_line and not {tokens[at - 1].text, tokens[at].text} & _GOES_ON:
            break
        at = tokens.closing(at) + 1 if tokens[at].text in _OPEN else at + 1
    return at


class _Names:
    """What the file does with the names that it binds strings to."""

    def __init__(self, stretches: list[_Tokens]) -> None:
        self._uses: dict[str, list[tuple[_Tokens, int]]] = {}
        for tokens in stretches:
            for at, token in enumerate(tokens):
                if token.kind == "word":
                    self._uses.setdefault(token.text, []).append((tokens, at))
        for uses in self._uses.values():
            uses.sort(key=_offset)

    def place(self, tokens: _Tokens, start: int) -> Place | None:
        """Why nobody prints the string that stands here, as far as the name it is bound to tells."""
        name = _find_name(tokens, start)
        return Place.TESTED if name is not None and self._is_only_tested(tokens, name, set()) else None

    def _is_only_tested(self, tokens: _Tokens, name: int, seen: set[str]) -> bool:
        text = tokens[name].text
        if text in seen:
            return True
        seen.add(text)
        is_used = False
        for other, at in self._uses_of(tokens, name):
            if not self._is_use_tested(other, at, seen):
                return False
            is_used = True
        return is_used

    def _uses_of(self, tokens: _Tokens, name: int) -> Iterator[tuple[_Tokens, int]]:
        first, last = _reach(tokens, name)
        uses = self._uses[tokens[name].text]
        for other, at in uses[bisect(uses, first, key=_offset) :]:
            if other[at].at > last:
                break
            # a write is none
            if other[at] is not tokens[name] and _text_at(other, at + 1) != "=":
                yield other, at

    def _is_use_tested(self, tokens: _Tokens, at: int, seen: set[str]) -> bool:
        start, end = at, at + 1
        while _text_at(tokens, start - 1) == "." and tokens[start - 2].kind == "word":
            start -= 2
        while True:
            if _text_at(tokens, end) == "[":
                end = tokens.closing(end) + 1
            elif _text_at(tokens, end) == "." and _text_at(tokens, end + 2) != "(":
                end += 2
            elif _text_at(tokens, end) == "." and _text_at(tokens, end + 1) in _SAME:
                end = tokens.closing(end + 2) + 1
            else:
                break
        if _is_tested(tokens, start, end):
            return True
        if _text_at(tokens, start - 4) == "Object" and _text_at(tokens, start - 1) == "(":
            # `Object.values(NEEDLES)`: one by one, as an array of strings
            return True
        name = _find_name(tokens, start)
        return name is not None and self._is_only_tested(tokens, name, seen)


def _offset(use: tuple[_Tokens, int]) -> int:
    tokens, at = use
    return tokens[at].at


def _find_name(tokens: _Tokens, start: int) -> int | None:
    """The name that the value here is bound to, alone, as one side of a choice, or as a member of an object."""
    at = start - 1
    if _text_at(tokens, at) == ":" and _text_at(tokens, at - 2) in {"{", ","}:
        opened = tokens.openings[start]
        return _find_bound(tokens, opened - 1) if _text_at(tokens, opened - 1) == "=" else None
    while at >= 0:
        text = tokens[at].text
        if text == "=":
            return _find_bound(tokens, at)
        if text in {")", "]"}:
            at = tokens.openings[at]
        elif text in _STATEMENTS or text in {";", ",", "=>", "(", "[", "{", "}"} or text in _COMPARISONS:
            return None
        at -= 1
    return None


def _find_bound(tokens: _Tokens, at: int) -> int | None:
    """The name before this `=`, its type left out."""
    here = at - 1
    while here > 1 and (tokens[here].kind in {"word", "string"} or tokens[here].text in {"|", "<", ">", "[", "]", "."}):
        here -= 1
    named = here - (2 if _text_at(tokens, here - 1) == "?" else 1)
    is_typed = _text_at(tokens, here) == ":" and _text_at(tokens, named - 1) not in {".", "case"}
    found = named if is_typed else at - 1
    return found if found >= 0 and tokens[found].kind == "word" else None


def _reach(tokens: _Tokens, name: int) -> tuple[int, int]:
    """From where to where in the file this name means the same: its block for `const` and `let`, else everywhere."""
    opened = tokens.openings[name]
    if _text_at(tokens, name - 1) not in {"const", "let"} or _text_at(tokens, opened) != "{":
        return -1, sys.maxsize
    closed = tokens.closing(opened)
    return tokens[opened].at, tokens[closed].at if closed < len(tokens) else sys.maxsize


def _text_at(tokens: _Tokens, at: int) -> str:
    return tokens[at].text if 0 <= at < len(tokens) else ""
