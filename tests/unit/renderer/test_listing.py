"""The listing's grammar, held against replies that were recorded from the product."""

from __future__ import annotations

import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from workers.renderer.listing import Key, Listing, Node, Row, Sight, match, number, rank, read_nodes, repeated

RECORDED_EMPTY = (
    "2 interactive elements (* = new since your last look; same number = same element as before):\n"
    '[1]<textbox "Post text">\n[2]<button "Post">'
)
RECORDED_FILLED = RECORDED_EMPTY.replace('"Post text"', '"Post text" value="hello there"')
# How the product reads a row.
ROW = re.compile(r'^\[(\d+)\](\*?)<(\w+) "([^"]*)"(?: ctx="([^"]*)")?(?: value="([^"]*)")?>$')
SEEN = Sight(seen=True, in_view=True, is_protected=False)


def node(backend_id: int, role: str = "button", name: str = "Post", value: str = "") -> Node:
    return Node(key=Key("d", backend_id), role=role, name=name, value=value)


def listed(nodes: list[Node], previous: Listing | None = None, **more: Any) -> Listing:
    present = frozenset(one.key for one in nodes)
    return number(nodes, previous or Listing(), present=more.pop("present", present), **more)


def ax(node_id: str, role: str, name: str, **more: Any) -> dict[str, Any]:
    return {
        "nodeId": node_id,
        "ignored": False,
        "role": {"type": "role", "value": role},
        "name": {"type": "computedString", "value": name},
        "backendDOMNodeId": int(node_id),
        "childIds": [],
        **more,
    }


def test_rows_read_as_they_were_recorded() -> None:
    box, button = node(7, "textbox", "Post text"), node(8)
    first = listed([box, button])
    assert first.render() == RECORDED_EMPTY
    assert first.elements() == [
        {"index": 1, "role": "textbox", "name": "Post text"},
        {"index": 2, "role": "button", "name": "Post"},
    ]
    filled = node(7, "textbox", "Post text", "hello there")
    assert listed([filled, button], first).render() == RECORDED_FILLED


def test_an_empty_page_says_so() -> None:
    assert listed([]).render() == "No interactive elements found on this page."
    assert listed([]).elements() == []


def test_nodes_come_in_document_order_whatever_order_the_tree_is_told_in() -> None:
    tree = [
        ax("1", "RootWebArea", "", childIds=["2", "5"]),
        ax("5", "button", "Last", parentId="1"),
        ax("2", "generic", "", parentId="1", childIds=["3", "4"], ignored=True),
        ax("3", "button", "First", parentId="2"),
        ax("4", "textbox", "", parentId="2", value={"type": "string", "value": "a\n b"}),
    ]
    assert [(one.role, one.name, one.value) for one in read_nodes("d", tree)] == [
        ("button", "First", ""),
        ("textbox", "", "a b"),
        ("button", "Last", ""),
    ]


def test_only_interactive_roles_with_a_name_or_a_text_input_are_listed() -> None:
    tree = [
        ax("1", "button", ""),
        ax("2", "generic", "Words"),
        ax("3", "combobox", ""),
        ax("4", "link", "Away", ignored=True),
        {"nodeId": "6", "ignored": False, "role": {"value": "link"}, "name": {"value": "No element"}},
        {"nodeId": "7"},
    ]
    assert [one.role for one in read_nodes("d", tree)] == ["combobox"]


def test_numbers_stay_and_new_elements_are_starred() -> None:
    first = listed([node(1, name="A"), node(2, name="B")])
    second = listed([node(2, name="B"), node(3, name="C")], first)
    assert [row.render() for row in second.rows] == ['[2]<button "B">', '[3]*<button "C">']
    third = listed([node(1, name="A"), node(3, name="C")], second)
    assert [row.render() for row in third.rows] == ['[1]<button "A">', '[3]<button "C">']


def test_numbers_begin_again_when_nothing_known_is_left() -> None:
    first = listed([node(1), node(2)])
    again = listed([node(9)], first)
    assert again.render().endswith('\n[1]<button "Post">')
    assert again.row(2) is None


def test_a_covered_element_that_is_still_there_keeps_the_numbers_going() -> None:
    first = listed([node(1)])
    covered = listed([node(2)], first, present=frozenset({Key("d", 1), Key("d", 2)}))
    assert covered.rows[0].render() == '[2]*<button "Post">'


def test_sixty_rows_at_most_inputs_first_then_the_goal_then_the_view() -> None:
    nodes = [node(i, name=f"Button {i}") for i in range(100)] + [node(100, "textbox", "Reply")]
    sights = {one.key: Sight(seen=True, in_view=one.key.backend_id < 50, is_protected=False) for one in nodes}
    shown = rank(nodes, sights, "please press button77 or Button 99")
    ids = [one.key.backend_id for one in shown]
    assert len(ids) == 60
    assert ids == sorted(ids)
    assert 100 in ids
    assert rank(nodes, {}, "") == []


def test_unseen_elements_are_dropped() -> None:
    nodes = [node(1), node(2)]
    sights = {nodes[0].key: Sight(seen=False, in_view=True, is_protected=False), nodes[1].key: SEEN}
    assert rank(nodes, sights, "") == [nodes[1]]


def test_protected_values_are_blank() -> None:
    box = node(1, "textbox", "Secret", "hunter2")
    assert listed([box], protected=frozenset({box.key})).rows[0].value == ""


def test_surroundings_are_shown_where_name_and_role_repeat() -> None:
    nodes = [node(1, name="Like"), node(2, name="Like"), node(3, name="Share")]
    assert repeated(nodes) == nodes[:2]
    listing = listed(nodes, ctx={nodes[0].key: "First story", nodes[1].key: "Second story"})
    assert listing.rows[0].render() == '[1]<button "Like" ctx="First story">'
    assert listing.rows[2].render() == '[3]<button "Share">'


def test_a_name_is_matched_exactly_before_its_case_is_ignored() -> None:
    rows = listed([node(1, name="post"), node(2, name="Post"), node(3, "link", "Post")]).rows

    def index(role: str, name: str) -> int | None:
        row = match(rows, role, name)
        return row.index if row else None

    assert index("button", "Post") == 2
    assert index("link", "post") == 3
    assert index("", "POST") == 1
    assert index("tab", "Post") is None


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["button", "textbox", "link"]),
            st.text(max_size=200),
            st.text(max_size=200),
            st.text(max_size=90),
        ),
        max_size=8,
    )
)
def test_every_row_is_one_line_that_the_product_can_read(rows: list[tuple[str, str, str, str]]) -> None:
    tree = [ax(str(i + 1), role, name, value={"value": value}) for i, (role, name, value, _) in enumerate(rows)]
    nodes = read_nodes("d", tree)
    texts = {Key("d", i + 1): " ".join(ctx.split()) for i, (_, _, _, ctx) in enumerate(rows)}
    listing = listed(nodes, ctx=texts)
    lines = listing.render().split("\n")
    assert len(lines) == len(nodes) + 1 if nodes else len(lines) == 1
    for row, line in zip(listing.rows, lines[1:], strict=True):
        read = ROW.match(line)
        assert read is not None, line
        assert int(read[1]) == row.index
        assert read[4] == row.name.replace('"', "'")
        assert (len(row.name) <= 80, len(row.value) <= 60, len(row.ctx) <= 40) == (True, True, True)


def test_a_row_with_everything() -> None:
    row = Row(index=3, is_new=True, key=Key("d", 1), role="textbox", name='Say "it"', value="v", ctx="c")
    assert row.render() == '[3]*<textbox "Say \'it\'" ctx="c" value="v">'
