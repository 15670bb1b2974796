"""The list of interactive elements: from accessibility nodes to numbered rows and their text. No I/O.

The text's grammar is fixed: the product reads it with regular expressions. Every row is one line,
``[<i>]`` + ``*`` if new + ``<role "name"[ ctx="…"][ value="…"]>``; quotes inside are made single.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

ROLES = frozenset(
    {
        "button",
        "link",
        "textbox",
        "combobox",
        "checkbox",
        "menuitem",
        "tab",
        "switch",
        "searchbox",
        "slider",
        "listbox",
        "option",
        "radio",
        "menuitemcheckbox",
        "menuitemradio",
        "spinbutton",
        "treeitem",
    }
)
TYPED_ROLES = frozenset({"textbox", "searchbox", "combobox"})
ROWS_MOST = 60
NAME_CHARS = 80
VALUE_CHARS = 60
CTX_CHARS = 40
NOTHING = "No interactive elements found on this page."
HEAD = "{n} interactive elements (* = new since your last look; same number = same element as before):"


@dataclass(frozen=True, slots=True)
class Key:
    """Which element: backend ids are unique within a document only."""

    document_id: str
    backend_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One element that may be listed."""

    key: Key
    role: str
    name: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What a look at the page says about an element."""

    # False for an element of no size or one that is covered.
    seen: bool
    in_view: bool
    # A password field: its value is never shown.
    is_protected: bool
    # What is painted for an element that takes keys and shows nothing itself; None for all others.
    text: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the listing."""

    index: int
    is_new: bool
    key: Key
    role: str
    name: str
    value: str
    ctx: str = ""

    def render(self) -> str:
        """The line as the product reads it."""
        ctx = f' ctx="{_quote(self.ctx)}"' if self.ctx else ""
        value = f' value="{_quote(self.value)}"' if self.value else ""
        return f'[{self.index}]{"*" if self.is_new else ""}<{self.role} "{_quote(self.name)}"{ctx}{value}>'


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """The rows of one look, and the numbers that have been given so far."""

    rows: tuple[Row, ...] = ()
    numbers: Mapping[Key, int] = field(default_factory=dict)
    next_index: int = 1

    def row(self, index: int) -> Row | None:
        """The row with this number, if it is in this listing."""
        return next((row for row in self.rows if row.index == index), None)

    def render(self) -> str:
        """The whole listing as text."""
        if not self.rows:
            return NOTHING
        return "\n".join([HEAD.format(n=len(self.rows)), *(row.render() for row in self.rows)])

    def elements(self) -> list[dict[str, Any]]:
        """The rows as the reply's ``elements``."""
        return [{"index": row.index, "role": row.role, "name": row.name} for row in self.rows]


def read_nodes(document_id: str, ax_nodes: Sequence[Mapping[str, Any]]) -> list[Node]:
    """The listable nodes of one document's accessibility tree, in document order."""
    return [node for ax in _walk(ax_nodes) if (node := _read_node(document_id, ax)) is not None]


def rank(nodes: Sequence[Node], sights: Mapping[Key, Sight], goal: str, most: int = ROWS_MOST) -> list[Node]:
    """The seen nodes, at most `most`: typed inputs first, then words of the goal, then what is in view.

    The answer is in the order of `nodes`, the document's.
    """
    words = frozenset(re.findall(r"\w{3,}", goal.lower()))
    seen = [node for node in nodes if node.key in sights and sights[node.key].seen]
    best = sorted(range(len(seen)), key=lambda i: (*_weigh(seen[i], sights[seen[i].key], words), i))
    return [seen[i] for i in sorted(best[:most])]


def number(
    nodes: Sequence[Node],
    previous: Listing,
    *,
    present: frozenset[Key],
    protected: frozenset[Key] = frozenset(),
    ctx: Mapping[Key, str] = MappingProxyType({}),
) -> Listing:
    """Number the nodes: known elements keep theirs while any element numbered before is still `present`.

    When none is, this is another page: numbers begin at 1 again and nothing is marked as new.
    """
    is_same_page = not present.isdisjoint(previous.numbers)
    numbers = dict(previous.numbers) if is_same_page else {}
    next_index = previous.next_index if is_same_page else 1
    rows = []
    for node in nodes:
        is_known = node.key in numbers
        if not is_known:
            numbers[node.key] = next_index
            next_index += 1
        rows.append(
            Row(
                index=numbers[node.key],
                is_new=is_same_page and not is_known,
                key=node.key,
                role=node.role,
                name=node.name[:NAME_CHARS],
                value="" if node.key in protected else node.value[:VALUE_CHARS],
                ctx=ctx.get(node.key, "")[:CTX_CHARS],
            )
        )
    return Listing(rows=tuple(rows), numbers=numbers, next_index=next_index)


def repeated(nodes: Sequence[Node]) -> list[Node]:
    """The nodes whose role and name another one has too: only their surroundings tell them apart."""
    counts = Counter((node.role, node.name) for node in nodes)
    return [node for node in nodes if counts[node.role, node.name] > 1]


def match(nodes: Sequence[Row], role: str, name: str) -> Row | None:
    """The first row of this name, and of this role if one is given; the exact name wins over its case."""
    wanted = _collapse(name)[:NAME_CHARS]
    alike = [row for row in nodes if not role or row.role == role]
    exact = (row for row in alike if row.name == wanted)
    loose = (row for row in alike if row.name.casefold() == wanted.casefold())
    return next(exact, None) or next(loose, None)


def _walk(ax_nodes: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    by_id = {ax["nodeId"]: ax for ax in ax_nodes}
    stack = [ax["nodeId"] for ax in reversed(ax_nodes) if ax.get("parentId") not in by_id]
    while stack:
        ax = by_id.get(stack.pop())
        if ax is None:
            continue
        yield ax
        stack.extend(reversed(ax.get("childIds", [])))


def _read_node(document_id: str, ax: Mapping[str, Any]) -> Node | None:
    role = _value(ax, "role")
    backend_id = ax.get("backendDOMNodeId")
    if ax.get("ignored") or role not in ROLES or not isinstance(backend_id, int):
        return None
    name = _collapse(_value(ax, "name"))
    if not name and role not in TYPED_ROLES:
        return None
    key = Key(document_id, backend_id)
    return Node(key=key, role=role, name=name, value=_collapse(_value(ax, "value")))


def _weigh(node: Node, sight: Sight, words: frozenset[str]) -> tuple[bool, bool, bool]:
    hits = bool(words & frozenset(re.findall(r"\w{3,}", node.name.lower())))
    return node.role not in TYPED_ROLES, not hits, not sight.in_view


def _value(ax: Mapping[str, Any], field_name: str) -> str:
    value = ax.get(field_name)
    inner = value.get("value") if isinstance(value, Mapping) else None
    return "" if inner is None else str(inner)


def _collapse(text: str) -> str:
    return " ".join(text.split())


def _quote(text: str) -> str:
    return text.replace('"', "'")
