"""The strings that a JavaScript or TypeScript file prints, by a small lexer. Pure.

It knows comments, the three kinds of quotes, values within template literals, regular expressions and `+`.
Left out are keys, types, attributes of tags, what is only set against other text, arrays of strings alone that are
not joined, and what is bound to a name that the file uses in these ways alone.
"""

from __future__ import annotations

import sys
from bisect import bisect
from collections.abc import Iterator

from grader.printed import Place, Printed, SourceText, SourceUnreadableError, Unprinted
from grader.script_tokens import BEFORE_REGEX, OPEN, Lexer, Tokens, text_at

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
_STATEMENTS = BEFORE_REGEX | _DECLARES | {"yield", "await", "default", "else", "do", "if", "for", "while"}


def read_script(data: bytes) -> SourceText:
    """All text of this file. Raises SourceUnreadableError saying where it can't be read."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SourceUnreadableError(f"not UTF-8 at byte {error.start}") from error
    lexer = Lexer(text)
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


def _read_strings(tokens: Tokens) -> Iterator[tuple[int, int, tuple[str, ...]]]:
    at = 0
    while at < len(tokens):
        if tokens[at].kind != "string":
            at += 1
            continue
        runs, end = _join(tokens, at)
        yield at, end, runs
        at = end


def _join(tokens: Tokens, start: int) -> tuple[tuple[str, ...], int]:
    """The string that begins here with all that `+` adds to it, and where it ends."""
    runs = list(tokens[start].runs)
    if text_at(tokens, start - 1) == "+":
        runs.insert(0, "")
    at = start + 1
    while text_at(tokens, at) == "+":
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


def _skip_operand(tokens: Tokens, at: int) -> int:
    depth = 0
    while at < len(tokens):
        text = tokens[at].text
        if depth == 0 and (text == "+" or text in _ENDS_OPERAND):
            break
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(text, 0)
        at += 1
    return at


def _place(tokens: Tokens, start: int, end: int) -> Place | None:
    before, after = text_at(tokens, start - 1), text_at(tokens, end)
    if _is_tested(tokens, start, end):
        return Place.TESTED
    if after == ":" and before in {"{", ","}:
        return Place.KEY
    if before == "(" and text_at(tokens, start - 2) in _KEYED:
        return Place.KEY
    if _is_type(tokens, start, end):
        return Place.TYPE
    if _is_attribute(tokens, start, end):
        return Place.ATTRIBUTE
    return Place.TESTED if tokens.openings[start] in tokens.plain_arrays else None


def _is_tested(tokens: Tokens, start: int, end: int) -> bool:
    """Whether what stands here is an operand of a comparison, or what a method looks for or looks in."""
    before, after = text_at(tokens, start - 1), text_at(tokens, end)
    if before in _COMPARISONS or after in _COMPARISONS or before == "case" or after == "in":
        return True
    if before == "(" and text_at(tokens, start - 2) in _TESTS:
        return True
    return after == "." and text_at(tokens, end + 1) in _LOOKS and text_at(tokens, end + 2) == "("


def _is_type(tokens: Tokens, start: int, end: int) -> bool:  # noqa: PLR0911 - one for each way
    before, after = text_at(tokens, start - 1), text_at(tokens, end)
    if before in _BEFORE_TYPE or after == ">":
        return True
    if (before == "|" != text_at(tokens, start - 2)) or (after == "|" != text_at(tokens, end + 1)):
        return True
    if before != ":":
        return False
    named = start - 2
    if text_at(tokens, named) == ")":
        # what a function returns
        return after in {"{", "=>"}
    if text_at(tokens, named) == "?":
        return True
    lead = text_at(tokens, named - 1)
    if lead in _DECLARES or lead in _MODIFIES:
        return True
    opened = text_at(tokens, tokens.openings[start])
    if opened == "(":
        return lead in {"(", ","}
    return lead in {"{", ";", "}"} and after in {";", "="}


def _is_attribute(tokens: Tokens, start: int, end: int) -> bool:
    """Whether it is the value of an attribute, as in `<Tag name="...">` or `<Tag name={"..."}>`."""
    at = start - 1
    if text_at(tokens, at) == "{" and text_at(tokens, end) == "}":
        at -= 1
    if text_at(tokens, at) != "=":
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


def _find_types(tokens: Tokens, text: str) -> set[int]:
    """The tokens within `interface X {...}` and `type X = ...`."""
    found: set[int] = set()
    for at, token in enumerate(tokens[:-2]):
        if token.kind != "word" or tokens[at + 1].kind != "word" or text_at(tokens, at - 1) == ".":
            continue
        if token.text == "interface":
            opened = next((here for here in range(at, len(tokens)) if tokens[here].text == "{"), len(tokens))
            found.update(range(at, tokens.closing(opened)))
        elif token.text == "type" and tokens[at + 2].text in {"=", "<"}:
            found.update(range(at, _end_of_type(tokens, at + 2, text)))
    return found


def _end_of_type(tokens: Tokens, at: int, text: str) -> int:
    start = at
    while at < len(tokens) and tokens[at].text not in {";", ")", "]", "}"}:
        is_new_line = "\n" in text[tokens[at - 1].at : tokens[at].at]
        if at > start and is_new_line and not {tokens[at - 1].text, tokens[at].text} & _GOES_ON:
            break
        at = tokens.closing(at) + 1 if tokens[at].text in OPEN else at + 1
    return at


class _Names:
    """What the file does with the names that it binds strings to."""

    def __init__(self, stretches: list[Tokens]) -> None:
        self._uses: dict[str, list[tuple[Tokens, int]]] = {}
        for tokens in stretches:
            for at, token in enumerate(tokens):
                if token.kind == "word":
                    self._uses.setdefault(token.text, []).append((tokens, at))
        for uses in self._uses.values():
            uses.sort(key=_offset)

    def place(self, tokens: Tokens, start: int) -> Place | None:
        """Why nobody prints the string that stands here, as far as the name it is bound to tells."""
        name = _find_name(tokens, start)
        return Place.TESTED if name is not None and self._is_only_tested(tokens, name, set()) else None

    def _is_only_tested(self, tokens: Tokens, name: int, seen: set[str]) -> bool:
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

    def _uses_of(self, tokens: Tokens, name: int) -> Iterator[tuple[Tokens, int]]:
        first, last = _reach(tokens, name)
        uses = self._uses[tokens[name].text]
        for other, at in uses[bisect(uses, first, key=_offset) :]:
            if other[at].at > last:
                break
            # a write is none
            if other[at] is not tokens[name] and text_at(other, at + 1) != "=":
                yield other, at

    def _is_use_tested(self, tokens: Tokens, at: int, seen: set[str]) -> bool:
        start, end = at, at + 1
        while text_at(tokens, start - 1) == "." and tokens[start - 2].kind == "word":
            start -= 2
        while True:
            if text_at(tokens, end) == "[":
                end = tokens.closing(end) + 1
            elif text_at(tokens, end) == "." and text_at(tokens, end + 2) != "(":
                end += 2
            elif text_at(tokens, end) == "." and text_at(tokens, end + 1) in _SAME:
                end = tokens.closing(end + 2) + 1
            else:
                break
        if _is_tested(tokens, start, end):
            return True
        if text_at(tokens, start - 4) == "Object" and text_at(tokens, start - 1) == "(":
            # `Object.values(NEEDLES)`: one by one, as an array of strings
            return True
        name = _find_name(tokens, start)
        return name is not None and self._is_only_tested(tokens, name, seen)


def _offset(use: tuple[Tokens, int]) -> int:
    tokens, at = use
    return tokens[at].at


def _find_name(tokens: Tokens, start: int) -> int | None:
    """The name that the value here is bound to, alone, as one side of a choice, or as a member of an object."""
    at = start - 1
    if text_at(tokens, at) == ":" and text_at(tokens, at - 2) in {"{", ","}:
        opened = tokens.openings[start]
        return _find_bound(tokens, opened - 1) if text_at(tokens, opened - 1) == "=" else None
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


def _find_bound(tokens: Tokens, at: int) -> int | None:
    """The name before this `=`, its type left out."""
    here = at - 1
    while here > 1 and (tokens[here].kind in {"word", "string"} or tokens[here].text in {"|", "<", ">", "[", "]", "."}):
        here -= 1
    named = here - (2 if text_at(tokens, here - 1) == "?" else 1)
    is_typed = text_at(tokens, here) == ":" and text_at(tokens, named - 1) not in {".", "case"}
    found = named if is_typed else at - 1
    return found if found >= 0 and tokens[found].kind == "word" else None


def _reach(tokens: Tokens, name: int) -> tuple[int, int]:
    """From where to where in the file this name means the same: its block for `const` and `let`, else everywhere."""
    opened = tokens.openings[name]
    if text_at(tokens, name - 1) not in {"const", "let"} or text_at(tokens, opened) != "{":
        return -1, sys.maxsize
    closed = tokens.closing(opened)
    return tokens[opened].at, tokens[closed].at if closed < len(tokens) else sys.maxsize
