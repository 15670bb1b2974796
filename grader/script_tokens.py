"""A small lexer for JavaScript and TypeScript: tokens with their brackets, strings with the holes of values. Pure."""

from __future__ import annotations

import re
from bisect import bisect
from dataclasses import dataclass
from functools import cached_property

from grader.printed import Place, SourceUnreadableError, Unprinted

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
BEFORE_REGEX = frozenset({"return", "typeof", "case", "in", "of", "delete", "void", "throw", "new"})
OPEN = frozenset("([{")
CLOSE = frozenset(")]}")
_DEEPEST = 100
_LARGEST_CODE = 0x10FFFF


@dataclass(frozen=True, slots=True)
class Token:
    """One token; a string has its runs of literal text."""

    kind: str
    text: str
    at: int
    runs: tuple[str, ...] = ()


class Tokens(list[Token]):
    """Tokens that follow one another, and their brackets."""

    @cached_property
    def openings(self) -> list[int]:
        """For each token the bracket that it stands in, or closes; -1 for none."""
        found, opened = [], [-1]
        for at, token in enumerate(self):
            found.append(opened[-1])
            if token.text in OPEN:
                opened.append(at)
            elif token.text in CLOSE and len(opened) > 1:
                opened.pop()
        return found

    @cached_property
    def closings(self) -> dict[int, int]:
        """Where each bracket is closed."""
        return {self.openings[at]: at for at, token in enumerate(self) if token.text in CLOSE}

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
            and (text_at(self, end + 1), text_at(self, end + 2)) != (".", "join")
        }


def text_at(tokens: Tokens, at: int) -> str:
    """The token's text; empty beyond both ends."""
    return tokens[at].text if 0 <= at < len(tokens) else ""


class Lexer:
    """Reads a file's tokens, stretch by stretch: what stands within a template's value is one of its own."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._newlines = [found.start() for found in re.finditer("\n", text)]
        self.comments: list[Unprinted] = []
        # the file's tokens, and apart from them those of each value within a template literal
        self.stretches: list[Tokens] = []

    def line_of(self, at: int) -> int:
        """The line (1-based) that this character stands in."""
        return bisect(self._newlines, at - 1) + 1

    def lex(self, at: int, *, depth: int) -> int:
        """The tokens from here to the end of the file, or of the value within a template literal; where that is."""
        if depth > _DEEPEST:
            raise SourceUnreadableError(f"line {self.line_of(at)}: templates nested too deep")
        tokens = Tokens()
        self.stretches.append(tokens)
        braces = 0
        while at < len(self._text):
            if self._text[at] == "`":
                token, at = self._read_template(at, depth)
                tokens.append(token)
                continue
            if self._text[at] == "/" and _may_be_regex(tokens) and (found := _REGEX.match(self._text, at)):
                tokens.append(Token("regex", "", at))
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

    def _keep(self, tokens: Tokens, found: re.Match[str]) -> None:
        kind = str(found.lastgroup)
        if kind == "comment":
            self.comments.append(Unprinted(line=self.line_of(found.start()), place=Place.COMMENT, text=found[0]))
        elif kind == "string":
            tokens.append(Token("string", "", found.start(), (_unescape(found[0][1:-1]),)))
        elif kind != "space":
            if found[0] == "/" and self._text.startswith("/*", found.start()):
                raise SourceUnreadableError(f"line {self.line_of(found.start())}: a comment has no end")
            tokens.append(Token(kind, found[0], found.start()))

    def _read_template(self, start: int, depth: int) -> tuple[Token, int]:
        at, runs = start + 1, []
        while True:
            found = _TEMPLATE_TEXT.match(self._text, at)
            assert found is not None  # noqa: S101 - it matches nothing too
            runs.append(_unescape(found[0]))
            at = found.end()
            if self._text.startswith("`", at):
                return Token("string", "", start, tuple(runs)), at + 1
            if not self._text.startswith("${", at):
                raise SourceUnreadableError(f"line {self.line_of(start)}: a template literal has no end")
            at = self.lex(at + 2, depth=depth + 1)


def _may_be_regex(tokens: Tokens) -> bool:
    if not tokens:
        return True
    last = tokens[-1]
    if last.kind == "word":
        return last.text in BEFORE_REGEX
    return last.kind == "operator" and last.text not in {")", "]", "}", "<"}


def _unescape(text: str) -> str:
    return _ESCAPE.sub(_unescape_one, text)


def _unescape_one(found: re.Match[str]) -> str:
    code = found[1] or found[2] or found[3]
    if code is not None:
        number = int(code, 16)
        return chr(number) if number <= _LARGEST_CODE else found[0]
    return _PLAIN_ESCAPES.get(found[4], found[4])
