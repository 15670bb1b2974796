"""Each rule broken on purpose, in every small way, changes a verdict; what changes none is named, with the reason.

The modules that decide are compiled again with one place changed, and all situations are judged by them. The
list of survivors is exact: a rule that is no longer covered fails here, and so does a reason that is out of date.
"""

# ruff: noqa: E501 - names of mutants are as long as what they change

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import sys
from collections.abc import Callable, Iterator
from types import CodeType, ModuleType
from typing import Any

import pytest

from broker.types import Bucket, Mode, PageRead, RunRecord, SiteTask
from grader.markers import Scan, load_catalogue
from grader.rules import RULES

# In the order in which they import one another.
MODULES = (
    "grader.surface",
    "grader.page",
    "grader.evidence",
    "grader.rules.finding",
    "grader.rules.agreement",
    "grader.rules.exclusions",
    "grader.rules.failures",
    "grader.rules.instrument",
    "grader.rules.surroundings",
)
# Words and numbers beside a verdict, which no rule asks for.
NO_PART_OF_A_VERDICT = {
    "grader.evidence": {
        "submit",
        "timing",
        "_tier",
        "_first_row",
        "_printed_prestage_ms",
        "named_parent",
        "build_case",
    },
    "grader.rules.finding": {"describe_fill", "describe_line", "claim_lines"},
}
OTHER_BUCKET = {bucket.name: other.name for bucket, other in zip(Bucket, [*list(Bucket)[1:], Bucket.OK], strict=True)}
NEGATED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One module with one place changed."""

    name: str
    module: str
    code: CodeType


def _functions(tree: ast.Module, module: str) -> Iterator[ast.FunctionDef]:
    """The functions and methods that can change a verdict."""
    skipped = NO_PART_OF_A_VERDICT.get(module, set())
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name not in skipped:
            yield node


def _places(function: ast.FunctionDef) -> Iterator[tuple[str, Callable[[], Callable[[], None]]]]:
    """Every change of this function: what it is called, and how it is done; doing it gives how it is undone."""
    if function.returns is not None and "Finding | None" in ast.unparse(function.returns):
        yield "always None", _setter(function, "body", [ast.Return(value=ast.Constant(value=None)), *function.body])
    for node in ast.walk(function):
        if isinstance(node, ast.If | ast.IfExp):
            yield f"not ({ast.unparse(node.test)})", _setter(node, "test", _negation(node.test))
        if isinstance(node, ast.comprehension):
            for position, test in enumerate(node.ifs):
                changed = [*node.ifs[:position], _negation(test), *node.ifs[position + 1 :]]
                yield f"not ({ast.unparse(test)}) in a comprehension", _setter(node, "ifs", changed)
        if isinstance(node, ast.BoolOp):
            for position, operand in enumerate(node.values):
                rest = [*node.values[:position], *node.values[position + 1 :]]
                # an operand twice is the operand
                rest = rest if len(rest) > 1 else rest * 2
                yield f"without '{ast.unparse(operand)}' in ({ast.unparse(node)})", _setter(node, "values", rest)
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in NEGATED:
            yield f"opposite of ({ast.unparse(node)})", _setter(node, "ops", [NEGATED[type(node.ops[0])]()])
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "Bucket":
            yield f"another bucket than {node.attr}", _setter(node, "attr", OTHER_BUCKET[node.attr])


def _setter(node: ast.AST, field: str, value: object) -> Callable[[], Callable[[], None]]:
    def change() -> Callable[[], None]:
        before = getattr(node, field)
        setattr(node, field, value)
        return lambda: setattr(node, field, before)

    return change


def _negation(test: ast.expr) -> ast.expr:
    return ast.UnaryOp(op=ast.Not(), operand=test)


def make_mutants(module: str) -> Iterator[Mutant]:
    """Every mutant of this module."""
    tree = ast.parse(inspect.getsource(importlib.import_module(module)))
    for function in _functions(tree, module):
        seen: dict[str, int] = {}
        for what, change in _places(function):
            undo = change()
            code = compile(ast.fix_missing_locations(tree), module, "exec")
            undo()
            seen[what] = seen.get(what, 0) + 1
            again = f" ({seen[what]})" if seen[what] > 1 else ""
            yield Mutant(name=f"{_short(module)}.{function.name}: {what}{again}", module=module, code=code)


def _short(module: str) -> str:
    return module.removeprefix("grader.")


ORIGINAL = {module: compile(inspect.getsource(importlib.import_module(module)), module, "exec") for module in MODULES}


def _load(mutant: Mutant | None) -> dict[str, ModuleType]:
    """The deciding modules anew, one of them changed; the process's own are as they were."""
    kept = {module: sys.modules[module] for module in MODULES}
    fresh: dict[str, ModuleType] = {}
    try:
        for module in MODULES:
            fresh[module] = sys.modules[module] = ModuleType(module)
            fresh[module].__file__ = kept[module].__file__
            code = mutant.code if mutant is not None and mutant.module == module else ORIGINAL[module]
            exec(code, fresh[module].__dict__)  # noqa: S102 - our own source, changed by us
    finally:
        sys.modules.update(kept)
    return fresh


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What is judged."""

    record: RunRecord
    log: bytes
    scan: Scan
    task: SiteTask
    planned_mode: Mode
    planned_payload: str


def _judge(modules: dict[str, ModuleType], situation: Situation) -> tuple[object, ...]:
    """The verdict of these modules: rule, bucket, evidence, words, lines; or the error, which is a change as well."""
    case = modules["grader.evidence"].Case(
        **{field.name: getattr(situation, field.name) for field in dataclasses.fields(situation)},
        catalogue=load_catalogue(),
    )
    try:
        for rule in RULES:
            found = getattr(modules[rule.__module__], rule.__name__)(case)
            if found is not None:
                return rule.__name__, found.bucket, found.evidence, found.why, tuple(line.start for line in found.lines)
    except Exception as error:  # noqa: BLE001 - whatever a broken rule raises
        return (type(error).__name__,)
    return ("no rule",)


@pytest.fixture
def corpus(
    situations: dict[str, tuple[tuple[str, ...], dict[str, Any], Bucket, str]],
    task: SiteTask,
    record_of: Callable[..., RunRecord],
    read_of: Callable[..., PageRead],
    log_of: Callable[..., bytes],
) -> list[Situation]:
    """All situations, ready to be judged."""
    made = []
    for lines, changes, *_ in situations.values():
        values = dict(changes)
        meant = dataclasses.replace(task, **values.pop("task", {}))
        opening = {"opening": values.pop("opening")} if "opening" in values else {}
        log = values.pop("log", None)
        data = log_of(*lines, **opening) if log is None else log
        mode = values.pop("planned_mode", Mode.DRY)
        payload = values.pop("planned_payload", None)
        if "log_slice" in values:
            values["log"] = values.pop("log_slice")
        if "read" in values:
            values["reads"] = (read_of(**values.pop("read")),)
        record = record_of(data, **values)
        made.append(
            Situation(
                record=record,
                log=data,
                scan=load_catalogue().scan(data),
                task=meant,
                planned_mode=mode,
                planned_payload=record.payload if payload is None else payload,
            )
        )
    return made


# What changes no verdict when it is broken, and why it stands there all the same.
SURVIVORS = {
    "surface._parse: without 'not host' in (parts.scheme.lower() not in _WEB or not host)":
        "an empty host is no task's and none for signing in, so that it is wrong either way",
    "surface.is_sign_in: without 'address is None' in (address is None or address == entry or (not is_of_task(url, task)))":
        "what is no address is of no task; the type needs it",
    "evidence.is_own_log: without 'parent is None' in (parent is None or _id(parent.session_id) in self.log)":
        "`no_session` has decided before; the type needs it",
    "page._tell_gone: without 'not read.payload_count' in"
    " (not read.payload_count and read.frames_unread and (not read.in_part))":
        "a payload that was counted is seen, whatever else its read says",
    "rules.agreement.filled_wrong_page: without 'case.fill is None' in"
    " (case.claimed_surface is not Surface.WRONG or case.fill is None)":
        "a claimed surface is the fill's; the type needs it",
    "rules.exclusions.wall_claimed: without 'not lines' in (not lines or _is_refuted(case, lines))":
        "no line is on the task's site, which refutes it too",
    "rules.exclusions.wall_refuted: without 'not _is_refuted(case, lines)' in"
    " (not lines or not _is_refuted(case, lines))":
        "`wall_claimed` has decided before; the rule is true without its neighbour",
    "rules.failures.declined: without 'case.outcome.marker not in OTHER_DECLINES' in"
    " (case.outcome is None or case.outcome.marker not in OTHER_DECLINES)":
        "every other outcome has been decided before; the rule is true without its neighbours",
    "rules.surroundings.card_died: without 'after.answered' in (after is not None and after.answered)":
        "`renderer_silent` has decided before; the rule is true without its neighbour",
    "rules.surroundings._is_router_missing: without 'parent is not None' in"
    " (parent is not None and parent.status == 'error' and"
    " ('reply_router_not_running' in case.catalogue.replies_in(parent.reply)))":
        "`no_session` has decided before; the type needs it",
}  # fmt: skip


@pytest.mark.parametrize("module", MODULES)
def test_whatever_is_broken_on_purpose_changes_a_verdict(module: str, corpus: list[Situation]) -> None:
    as_it_is = _load(None)
    right = [_judge(as_it_is, situation) for situation in corpus]
    survivors = {mutant.name for mutant in make_mutants(module) if _survives(mutant, corpus, right)}
    assert survivors == {name for name in SURVIVORS if name.startswith(f"{_short(module)}.")}


def test_every_rule_is_broken_somehow() -> None:
    broken = {mutant.name.partition(":")[0].rpartition(".")[2] for module in MODULES for mutant in make_mutants(module)}
    assert {rule.__name__ for rule in RULES} <= broken


def test_a_module_compiled_again_judges_as_the_grader_does(
    corpus: list[Situation], situations: dict[str, tuple[tuple[str, ...], dict[str, Any], Bucket, str]]
) -> None:
    modules = _load(None)
    for situation, (*_, bucket, rule) in zip(corpus, situations.values(), strict=True):
        assert _judge(modules, situation)[:2] == (rule, bucket)


def _survives(mutant: Mutant, corpus: list[Situation], right: list[tuple[object, ...]]) -> bool:
    try:
        modules = _load(mutant)
    except Exception:  # noqa: BLE001 - it does not even load, which is seen at once
        return False
    return all(_judge(modules, situation) == verdict for situation, verdict in zip(corpus, right, strict=True))
