"""The strings that a Python file prints, read from its syntax tree; nothing of it is ever run. Pure.

Printed: string constants and f-strings, `%` and `.format` templates, implicit and `+` concatenation, wherever they
stand, but for docstrings, keys, annotations, and what is only looked for in other text. A string that is bound to a
name, an attribute or a parameter is followed within the file: when all that is done with the name is looking for it,
the string is printed by nobody.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
import warnings
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field

from grader.printed import Place, Printed, SourceText, SourceUnreadableError, Unprinted, split_holes

# Methods whose string is only set against its argument.
_LOOKS = frozenset(
    {
        *("startswith", "endswith", "find", "rfind", "index", "rindex", "count", "__contains__"),
        *("match", "fullmatch", "search", "findall", "finditer"),
        *("issubset", "isdisjoint", "issuperset", "intersection"),
    }
)
# Methods and functions whose first argument is looked for, never printed.
_TESTS = _LOOKS | {
    *("replace", "split", "rsplit", "partition", "rpartition"),
    *("removeprefix", "removesuffix", "strip", "lstrip", "rstrip", "sub", "subn", "compile"),
}
_KEYED = frozenset({"get", "pop", "setdefault", "getattr", "hasattr", "getenv"})
_COLLECTIONS = frozenset({"frozenset", "set", "tuple", "list", "sorted"})
# What these methods give back is still the text, or the texts of a collection.
_SAME = frozenset({"lower", "upper", "casefold", "strip", "encode", "values", "items", "get", "format"})
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)

_Runs = tuple[str, ...]
_Function = ast.FunctionDef | ast.AsyncFunctionDef


def read_python(data: bytes) -> SourceText:
    """All text of this Python file. Raises SourceUnreadableError saying where it can't be parsed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(data)
        reader = _Reader(tree)
        reader.read(tree)
    except SyntaxError as error:
        where = f"line {error.lineno}: " if error.lineno else ""
        raise SourceUnreadableError(f"{where}{error.msg}") from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise SourceUnreadableError(str(error) or type(error).__name__) from error
    return SourceText(printed=tuple(reader.printed), unprinted=(*reader.unprinted, *_comments(data)))


def _comments(data: bytes) -> Iterator[Unprinted]:
    try:
        for token in tokenize.tokenize(io.BytesIO(data).readline):
            if token.type == tokenize.COMMENT:
                yield Unprinted(line=token.start[0], place=Place.COMMENT, text=token.string)
    except (tokenize.TokenError, SyntaxError):
        # the parser took it; comments only say why a literal is dead
        return


class _Reader:
    """Walks the tree once and sorts its strings."""

    def __init__(self, tree: ast.Module) -> None:
        self.printed: list[Printed] = []
        self.unprinted: list[Unprinted] = []
        self._flow = _Flow(tree)

    def read(self, node: ast.AST) -> None:
        """The strings at the node and below it are sorted."""
        if isinstance(node, ast.expr) and (runs := _read_runs(node)) is not None:
            place = self._flow.place(node)
            if place is None:
                self.printed.append(Printed(line=node.lineno, runs=runs))
            else:
                self.unprinted.append(Unprinted(line=node.lineno, place=place, text="{}".join(runs)))
            within: Iterator[ast.AST] = _values_within(node)
        else:
            within = ast.iter_child_nodes(node)
        for child in within:
            self.read(child)


@dataclass(frozen=True, slots=True)
class _Asked:
    """The string that is followed, what it stands in, and the names gone through so far."""

    string: ast.expr
    within: ast.AST
    names: set[tuple[str, ast.AST | None]] = field(default_factory=set)

    @property
    def is_listed(self) -> bool:
        """Whether it stands in a tuple or a list."""
        return isinstance(self.within, (ast.Tuple, ast.List))

    @property
    def position(self) -> int:
        """The place that it is unpacked to: a dictionary's values are second in what `items()` gives."""
        return self.within.elts.index(self.string) if isinstance(self.within, (ast.Tuple, ast.List)) else 1


class _Flow:
    """Where a string of the file goes: up to what is done with it, along the names that it is bound to."""

    def __init__(self, tree: ast.Module) -> None:
        self._parents: dict[ast.AST, ast.AST] = {}
        self._loads: dict[str, list[ast.expr]] = {}
        self._functions: dict[str, list[_Function]] = {}
        self._keys: set[ast.AST | None] = set()
        for node in ast.walk(tree):
            for child in ast.iter_child_nodes(node):
                self._parents[child] = node
            if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load):
                self._loads.setdefault(_name_of(node), []).append(node)
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                self._functions.setdefault(node.name, []).append(node)
            elif isinstance(node, ast.Dict):
                self._keys.update(node.keys)
            elif isinstance(node, ast.Subscript):
                self._keys.add(node.slice)
            elif isinstance(node, ast.Call) and _name_of(node.func) in _KEYED:
                # `values.get(key)`, but `getattr(thing, key)`
                at = int(isinstance(node.func, ast.Name))
                self._keys.update(node.args[at : at + 1])
        for loads in self._loads.values():
            loads.sort(key=_line_of)

    def place(self, node: ast.expr) -> Place | None:
        """Why nobody prints the string, or None."""
        parent = self._parents[node]
        if isinstance(parent, ast.Expr):
            return Place.DOCSTRING
        if node in self._keys:
            return Place.KEY
        if self._is_annotation(node):
            return Place.TYPE
        return Place.TESTED if self._is_tested(node, _Asked(node, parent)) else None

    def _is_annotation(self, node: ast.AST) -> bool:
        while isinstance(node, ast.expr):
            parent = self._parents[node]
            if node is getattr(parent, "annotation", None) or node is getattr(parent, "returns", None):
                return True
            node = parent
        return False

    def _is_tested(self, node: ast.expr, asked: _Asked) -> bool:  # noqa: PLR0911 - one for each way
        """Whether the value at this node is only set against other text, or is a key."""
        parent = self._parents[node]
        if node in self._keys or _is_put_to_a_test(node, parent):
            return True
        if isinstance(parent, ast.Call):
            return node is not parent.func and self._is_argument_tested(parent, node, asked)
        if isinstance(parent, ast.keyword):
            return self._is_keyword_tested(parent, asked)
        if isinstance(parent, ast.Attribute):
            call = self._parents[parent]
            if not isinstance(call, ast.Call) or call.func is not parent:
                return False
            return parent.attr in _LOOKS or (parent.attr in _SAME and self._is_tested(call, asked))
        if isinstance(parent, ast.NamedExpr):
            return self._is_bound_tested(parent, asked) and self._is_tested(parent, asked)
        if isinstance(parent, ast.expr):
            # a part of a sum, a collection, a choice, an f-string
            return not isinstance(parent, (ast.Lambda, ast.Yield)) and self._is_tested(parent, asked)
        if isinstance(parent, ast.arguments):
            return self._is_name_tested(_name_defaulted(parent, node), self._parents[parent], asked)
        return self._is_bound_tested(parent, asked)

    def _is_bound_tested(self, node: ast.AST, asked: _Asked) -> bool:
        """Whether what this statement binds its value to is only tested."""
        if isinstance(node, ast.Assign):
            return len(node.targets) == 1 and self._is_target_tested(node.targets[0], self._scope_of(node), asked)
        if isinstance(node, (ast.AnnAssign, ast.NamedExpr)):
            return self._is_target_tested(node.target, self._scope_of(node), asked)
        if isinstance(node, (ast.For, ast.AsyncFor)):
            return self._is_target_tested(node.target, node, asked)
        if isinstance(node, ast.comprehension):
            return self._is_target_tested(node.target, self._parents[node], asked)
        return False

    def _is_target_tested(self, target: ast.expr, scope: ast.AST | None, asked: _Asked) -> bool:
        if isinstance(target, ast.Attribute):
            return self._is_name_tested(target.attr, None, asked)
        if isinstance(target, (ast.Tuple, ast.List)):
            own = target.elts[asked.position : asked.position + 1]
            return bool(own) and self._is_target_tested(own[0], scope, asked)
        return isinstance(target, ast.Name) and self._is_name_tested(target.id, scope, asked)

    def _is_argument_tested(self, call: ast.Call, node: ast.expr, asked: _Asked) -> bool:
        name = _name_of(call.func)
        if isinstance(call.func, ast.Name) and name in _COLLECTIONS:
            return self._is_tested(call, asked)
        at = call.args.index(node)
        if name == "contains" or (name in _TESTS and at == 0):
            return True
        function = self._own_function(call)
        if function is None or any(isinstance(one, ast.Starred) for one in call.args[: at + 1]):
            return False
        names = [one.arg for one in (*function.args.posonlyargs, *function.args.args)]
        if isinstance(call.func, ast.Attribute) and names[:1] in (["self"], ["cls"]):
            del names[0]
        more = function.args.vararg
        if at >= len(names) and more is None:
            return False
        return self._is_name_tested(names[at] if more is None or at < len(names) else more.arg, function, asked)

    def _is_keyword_tested(self, keyword: ast.keyword, asked: _Asked) -> bool:
        call = self._parents[keyword]
        if keyword.arg is None or not isinstance(call, ast.Call):
            return False
        if _name_of(call.func) in _TESTS and keyword.arg == "pattern":
            return True
        function = self._own_function(call)
        return function is not None and self._is_name_tested(keyword.arg, function, asked)

    def _own_function(self, call: ast.Call) -> _Function | None:
        """The function of this file that is called, where its name tells."""
        found = self._functions.get(_name_of(call.func), [])
        return found[0] if len(found) == 1 else None

    def _is_name_tested(self, name: str, scope: ast.AST | None, asked: _Asked) -> bool:
        if (name, scope) in asked.names:
            return True
        asked.names.add((name, scope))
        loads = self._loads_of(name, scope)
        # a list that nobody here uses is one of needles; a string may be another file's to print
        return all(self._is_tested(load, asked) for load in loads) if loads else asked.is_listed

    def _loads_of(self, name: str, scope: ast.AST | None) -> list[ast.expr]:
        loads = self._loads.get(name, [])
        if scope is None:
            return loads
        # by line first: of a name that every function has, nearly all are elsewhere
        start = bisect_left(loads, getattr(scope, "lineno", 0), key=_line_of)
        end = bisect_right(loads, getattr(scope, "end_lineno", sys.maxsize), key=_line_of)
        return [load for load in loads[start:end] if isinstance(load, ast.Name) and self._is_below(load, scope)]

    def _is_below(self, node: ast.AST, scope: ast.AST) -> bool:
        here: ast.AST | None = node
        while here is not None and here is not scope:
            here = self._parents.get(here)
        return here is scope

    def _scope_of(self, node: ast.AST) -> ast.AST | None:
        """The function that the node stands in; None: the module or a class, whose names others see."""
        here = self._parents.get(node)
        while here is not None and not isinstance(here, (*_SCOPES, ast.ClassDef)):
            here = self._parents.get(here)
        return here if isinstance(here, _SCOPES) else None


def _is_put_to_a_test(node: ast.expr, parent: ast.AST) -> bool:
    """Whether the value ends here, in a comparison or as a condition."""
    if isinstance(parent, (ast.If, ast.While, ast.IfExp, ast.Assert)):
        return node is parent.test
    if isinstance(parent, ast.comprehension):
        return node is not parent.iter
    is_not = isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.Not)
    return is_not or isinstance(parent, (ast.Compare, ast.MatchValue, ast.Set, ast.Expr))


def _name_defaulted(arguments: ast.arguments, default: ast.expr) -> str:
    """The parameter that this is the default of."""
    if default in arguments.kw_defaults:
        return arguments.kwonlyargs[arguments.kw_defaults.index(default)].arg
    places = [*arguments.posonlyargs, *arguments.args]
    return places[len(places) - len(arguments.defaults) + arguments.defaults.index(default)].arg


def _line_of(node: ast.expr) -> int:
    return node.lineno


def _name_of(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else ""


def _read_runs(node: ast.expr) -> _Runs | None:
    """The literal runs of a string, or None for what is none."""
    if isinstance(node, ast.Constant):
        return split_holes(node.value) if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return _join([_read_piece(value) for value in node.values])
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
        return _read_runs(node.left)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = _read_runs(node.left), _read_runs(node.right)
        return None if left is None and right is None else _join([left or ("", ""), right or ("", "")])
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
        return _read_runs(node.func.value)
    return None


def _read_piece(node: ast.expr) -> _Runs:
    return (str(node.value),) if isinstance(node, ast.Constant) else ("", "")


def _join(pieces: list[_Runs]) -> _Runs:
    runs = [""]
    for piece in pieces:
        runs[-1] += piece[0]
        runs += piece[1:]
    return tuple(runs)


def _values_within(node: ast.expr) -> Iterator[ast.expr]:
    """What is put into the string's holes, to be read for itself."""
    if isinstance(node, ast.JoinedStr):
        yield from (value.value for value in node.values if isinstance(value, ast.FormattedValue))
    elif isinstance(node, ast.BinOp):
        if isinstance(node.op, ast.Mod):
            yield from _values_within(node.left)
            yield node.right
        else:
            for side in (node.left, node.right):
                yield from [side] if _read_runs(side) is None else _values_within(side)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        yield from _values_within(node.func.value)
        yield from (*node.args, *(keyword.value for keyword in node.keywords))
