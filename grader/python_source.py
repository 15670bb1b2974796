"""The strings that a Python file prints, read from its syntax tree; nothing of it is ever run. Pure.

Printed: string constants and f-strings, `%` and `.format` templates, implicit and `+` concatenation, wherever
they stand, but for docstrings, keys, annotations, operands of comparisons, arguments of methods that only look
for text, and strings (alone or in a collection) bound to a name that the file uses in no other way.
"""

from __future__ import annotations

import ast
import io
import tokenize
import warnings
from collections.abc import Iterator, Sequence

from grader.printed import Place, Printed, SourceText, SourceUnreadableError, Unprinted, split_holes

# Methods and functions whose first argument is looked for, never printed.
_TESTS = frozenset(
    {
        *("startswith", "endswith", "find", "rfind", "index", "rindex", "count", "replace"),
        *("split", "rsplit", "partition", "rpartition", "removeprefix", "removesuffix", "strip", "lstrip", "rstrip"),
        *("match", "fullmatch", "search", "findall", "finditer", "sub", "subn", "compile"),
        *("issubset", "isdisjoint", "issuperset", "intersection"),
    }
)
_KEYED = frozenset({"get", "pop", "setdefault", "getattr", "hasattr", "getenv"})
_COLLECTIONS = frozenset({"frozenset", "set", "tuple", "list"})
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)

_Runs = tuple[str, ...]
_Binding = ast.Assign | ast.AnnAssign | ast.For | ast.AsyncFor | ast.comprehension


def read_python(data: bytes) -> SourceText:
    """All text of this Python file. Raises SourceUnreadableError saying where it can't be parsed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(data)
        reader = _Reader(tree)
        reader.visit(tree)
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
        self._parents: dict[ast.AST, ast.AST] = {}
        self._loads: dict[str, list[ast.expr]] = {}
        for node in ast.walk(tree):
            for child in ast.iter_child_nodes(node):
                self._parents[child] = node
            if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load):
                self._loads.setdefault(_name_of(node), []).append(node)

    def visit(self, node: ast.AST, place: Place | None = None) -> None:
        """The strings below the node are sorted; those at its top are for `place`, or printed."""
        if isinstance(node, ast.expr) and (runs := _read_runs(node)) is not None:
            self._keep(node, runs, place)
            for value in _values_within(node):
                self.visit(value)
        elif isinstance(node, ast.Expr):
            is_bare = isinstance(node.value, (ast.Constant, ast.JoinedStr, ast.BinOp))
            self.visit(node.value, Place.DOCSTRING if is_bare else None)
        elif isinstance(node, ast.Compare):
            self._visit_all([node.left, *node.comparators], Place.TESTED)
        elif isinstance(node, ast.Call):
            self._visit_call(node, place)
        elif isinstance(node, ast.Dict):
            self._visit_all([key for key in node.keys if key is not None], Place.KEY)
            self._visit_all(node.values, None)
        elif isinstance(node, (ast.Tuple, ast.List, ast.Set)):
            self._visit_all(node.elts, Place.TESTED if isinstance(node, ast.Set) else place)
        else:
            self._visit_other(node, place)

    def _visit_other(self, node: ast.AST, place: Place | None) -> None:
        if isinstance(node, ast.MatchValue):
            self.visit(node.value, Place.TESTED)
        elif isinstance(node, ast.Subscript):
            self.visit(node.value)
            self.visit(node.slice, Place.KEY)
        elif isinstance(node, (ast.Attribute, ast.Starred, ast.NamedExpr)):
            self.visit(node.value, place)
        elif isinstance(node, ast.IfExp):
            self.visit(node.test)
            self._visit_all([node.body, node.orelse], place)
        elif isinstance(node, ast.BoolOp):
            self._visit_all(node.values, place)
        elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.For, ast.AsyncFor, ast.comprehension)):
            self._visit_binding(node)
        else:
            annotations = {getattr(node, "annotation", None), getattr(node, "returns", None)}
            self._visit_all([child for child in ast.iter_child_nodes(node) if child not in annotations], None)

    def _visit_binding(self, node: _Binding) -> None:
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            targets: Sequence[ast.expr] = node.targets if isinstance(node, ast.Assign) else [node.target]
            self._visit_all(targets, None)
            is_needle = _is_text(node.value) and self._is_needle(node, targets)
            self.visit(node.value, Place.TESTED if is_needle else None)
        elif isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension)):
            is_needle = _is_text(node.iter) and self._is_tested(node.iter, frozenset())
            for child in ast.iter_child_nodes(node):
                self.visit(child, Place.TESTED if child is node.iter and is_needle else None)

    def _visit_all(self, nodes: Sequence[ast.AST], place: Place | None) -> None:
        for node in nodes:
            self.visit(node, place)

    def _visit_call(self, node: ast.Call, place: Place | None) -> None:
        name = _name_of(node.func)
        self.visit(node.func, place)
        if name in _COLLECTIONS and isinstance(node.func, ast.Name):
            self._visit_all(node.args, place)
            return
        for position, argument in enumerate(node.args):
            if name in _TESTS and position == 0:
                self.visit(argument, Place.TESTED)
            elif name in _KEYED and position == (1 if isinstance(node.func, ast.Name) else 0):
                self.visit(argument, Place.KEY)
            else:
                self.visit(argument)
        for keyword in node.keywords:
            self.visit(keyword.value)

    def _keep(self, node: ast.expr, runs: _Runs, place: Place | None) -> None:
        if place is None:
            self.printed.append(Printed(line=node.lineno, runs=runs))
        else:
            self.unprinted.append(Unprinted(line=node.lineno, place=place, text="{}".join(runs)))

    def _is_needle(self, node: ast.Assign | ast.AnnAssign, targets: Sequence[ast.expr]) -> bool:
        """Whether what is bound here is only ever tested against; a collection that nobody here uses is too."""
        if len(targets) != 1 or not isinstance(targets[0], ast.Name) or node.value is None:
            return False
        loads = self._loads_of(targets[0].id, self._scope_of(node))
        if not loads:
            return _read_runs(node.value) is None
        return all(self._is_tested(load, frozenset({targets[0].id})) for load in loads)

    def _is_tested(self, node: ast.expr, seen: frozenset[str]) -> bool:  # noqa: PLR0911 - one for each way
        parent = self._parents[node]
        match parent:
            case ast.Compare():
                return True
            case ast.Call(func=ast.Name(id=name)) if name in _COLLECTIONS:
                return self._is_tested(parent, seen)
            case ast.Call():
                return _name_of(parent.func) in _TESTS and parent.args[:1] == [node]
            case ast.comprehension(target=ast.Name(id=name), iter=iterated) if iterated is node:
                return self._is_name_tested(name, self._parents[parent], seen)
            case ast.For(target=ast.Name(id=name), iter=iterated) if iterated is node:
                return self._is_name_tested(name, parent, seen)
            case ast.Tuple() | ast.List() | ast.Set() | ast.Starred() | ast.BinOp():
                return self._is_tested(parent, seen)
            case ast.Assign(targets=[ast.Name(id=name)]):
                return self._is_name_tested(name, self._scope_of(parent), seen)
        return False

    def _is_name_tested(self, name: str, scope: ast.AST | None, seen: frozenset[str]) -> bool:
        if name in seen:
            return True
        loads = self._loads_of(name, scope)
        return bool(loads) and all(self._is_tested(load, seen | {name}) for load in loads)

    def _loads_of(self, name: str, scope: ast.AST | None) -> list[ast.expr]:
        loads = self._loads.get(name, [])
        return loads if scope is None else [load for load in loads if self._is_below(load, scope)]

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


def _name_of(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else ""


def _is_text(node: ast.expr) -> bool:
    """Whether it is a string, or a collection of strings alone."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _COLLECTIONS:
        return len(node.args) == 1 and _is_text(node.args[0])
    if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
        return bool(node.elts) and all(_is_text(one) for one in node.elts)
    return _read_runs(node) is not None


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
