"""The strings that a JavaScript or TypeScript file prints, by a small lexer. Pure.

It knows comments, the three kinds of quotes, values within template literals, regular expressions and `+`.
Left out are keys, operands of comparisons, arguments of methods that only look for text, and arrays of strings
alone that are not joined.
"""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Iterator
from dataclasses import dataclass

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
_TESTS = frozenset(
    {
        *("includes", "startsWith", "endsWith", "indexOf", "lastIndexOf", "search", "match", "test"),
        *("split", "has", "replace", "replaceAll", "RegExp"),
    }
)
_KEYED = frozenset({"get", "getAttribute", "getItem", "querySelector", "querySelectorAll", "closest"})
_ENDS_OPERAND = frozenset({",", ";", ")", "]", "}", "?", ":", "??", "=>"}) | _COMPARISONS
_DEEPEST = 100
_LARGEST_CODE = 0x10FFFF


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    at: int
    runs: tuple[str, ...] = ()


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
    for tokens in lexer.stretches:
        for token, runs, place in _read_strings(tokens):
            line = lexer.line_of(token.at)
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
        self.stretches: list[list[_Token]] = []

    def line_of(self, at: int) -> int:
        """The line (1-based) that this character stands in."""
        return bisect(self._newlines, at - 1) + 1

    def lex(self, at: int, *, depth: int) -> int:
        """The tokens from here to the end of the file, or of the value within a template literal; where that is."""
        if depth > _DEEPEST:
            raise SourceUnreadableError(f"line {self.line_of(at)}: templates nested too deep")
        tokens: list[_Token] = []
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

    def _keep(self, tokens: list[_Token], found: re.Match[str]) -> None:
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


def _may_be_regex(tokens: list[_Token]) -> bool:
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


def _read_strings(tokens: list[_Token]) -> Iterator[tuple[_Token, tuple[str, ...], Place | None]]:
    at = 0
    while at < len(tokens):
        if tokens[at].kind != "string":
            at += 1
            continue
        runs, end = _join(tokens, at)
        yield tokens[at], runs, _place(tokens, at, end)
        at = end


def _join(tokens: list[_Token], start: int) -> tuple[tuple[str, ...], int]:
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


def _skip_operand(tokens: list[_Token], at: int) -> int:
    depth = 0
    while at < len(tokens):
        text = tokens[at].text
        if depth == 0 and (text == "+" or text in _ENDS_OPERAND):
            break
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(text, 0)
        at += 1
    return at


def _place(tokens: list[_Token], start: int, end: int) -> Place | None:
    before, after = _text_at(tokens, start - 1), _text_at(tokens, end)
    if before in _COMPARISONS or after in _COMPARISONS or before == "case":
        return Place.TESTED
    if after == ":" and before in {"{", ","}:
        return Place.KEY
    if before == "(" and (called := _text_at(tokens, start - 2)) in _TESTS | _KEYED:
        return Place.TESTED if called in _TESTS else Place.KEY
    return Place.TESTED if _is_in_array_of_strings(tokens, start) else None


def _is_in_array_of_strings(tokens: list[_Token], start: int) -> bool:
    first, last = start, start
    while first >= 0 and (tokens[first].kind == "string" or tokens[first].text == ","):
        first -= 1
    while last < len(tokens) and (tokens[last].kind == "string" or tokens[last].text == ","):
        last += 1
    if _text_at(tokens, first) != "[" or _text_at(tokens, last) != "]":
        return False
    return not (_text_at(tokens, last + 1) == "." and _text_at(tokens, last + 2) == "join")


def _text_at(tokens: list[_Token], at: int) -> str:
    return tokens[at].text if 0 <= at < len(tokens) else ""
