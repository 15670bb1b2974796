"""Looking at a page: its accessibility trees, what of them can be seen, and the listing made of it."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from playwright.async_api import Error

from workers.renderer.errors import CommandError
from workers.renderer.frames import Document, Frames, read_steadily
from workers.renderer.listing import (
    TYPED_ROLES,
    Key,
    Listing,
    Node,
    Sight,
    number,
    rank,
    read_nodes,
    repeated,
)

# Each element looked at costs a round trip; a page of thousands must not cost seconds.
LOOKED_AT_MOST = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A listing, and the documents that its elements are in, by id."""

    listing: Listing
    documents: dict[str, Document]


async def look(frames: Frames, previous: Listing, goal: str) -> View:
    """List the interactive elements that a person could see and use now.

    Raises:
        CommandError: the top document gave no accessibility tree.
    """
    try:
        return await read_steadily(partial(_look, frames, previous, goal))
    except Error as error:
        raise CommandError(f"getFullAXTree failed: {error.message}") from error


async def measure(view: View) -> list[dict[str, Any]]:
    """Where the elements of a listing are now, in the page's viewport: those in view, with their numbers."""
    marks: list[dict[str, Any]] = []
    for document_id, document in view.documents.items():
        rows = [row for row in view.listing.rows if row.key.document_id == document_id]
        try:
            resolved = await asyncio.gather(*(document.resolve(row.key.backend_id) for row in rows))
            there = [(row, object_id) for row, object_id in zip(rows, resolved, strict=True) if object_id]
            boxes = await document.call_on_many("boxes", [object_id for _, object_id in there])
            left, top = await document.frame_offset() if there else (0.0, 0.0)
        except Error:
            continue  # that document has gone, and its elements with it
        for (row, _), box in zip(there, boxes, strict=True):
            if box is not None:
                marks.append({**box, "index": str(row.index), "left": left + box["left"], "top": top + box["top"]})
    return marks


async def _look(frames: Frames, previous: Listing, goal: str) -> View:
    documents = {document.id: document for document in await frames.read_documents()}
    nodes, sights = await _read_all(list(documents.values()))
    shown = rank(nodes, sights, goal)
    alike = repeated(shown)
    ctx = await _read_surroundings(documents, alike) if alike else {}
    protected = frozenset(key for key, sight in sights.items() if sight.is_protected)
    present = frozenset(node.key for node in nodes)
    listing = number(shown, previous, present=present, protected=protected, ctx=ctx)
    await asyncio.gather(*(document.release() for document in documents.values()))
    return View(listing=listing, documents=documents)


async def _read_all(documents: Sequence[Document]) -> tuple[list[Node], dict[Key, Sight]]:
    read = await asyncio.gather(*(_read_document(document) for document in documents))
    nodes = [node for own, _ in read for node in own]
    return nodes, {key: sight for _, sights in read for key, sight in sights.items()}


async def _read_document(document: Document) -> tuple[list[Node], dict[Key, Sight]]:
    try:
        if not await _is_frame_seen(document):
            return [], {}
        tree = await document.session.send("Accessibility.getFullAXTree", {"frameId": document.frame_id})
        nodes = _limit(read_nodes(document.id, tree["nodes"]))
        sights = await _read_sights(document, nodes)
        nodes = [_complete(node, sights.get(node.key)) for node in nodes]
    except Error:
        if document.parent is None:
            raise
        return [], {}  # a frame that navigates while we look is not there, as for a person
    return nodes, sights


def _complete(node: Node, sight: Sight | None) -> Node:
    return node if sight is None or sight.text is None else replace(node, value=sight.text)


def _limit(nodes: list[Node]) -> list[Node]:
    if len(nodes) <= LOOKED_AT_MOST:
        return nodes
    best = sorted(range(len(nodes)), key=lambda i: (nodes[i].role not in TYPED_ROLES, i))[:LOOKED_AT_MOST]
    return [nodes[i] for i in sorted(best)]


async def _is_frame_seen(document: Document) -> bool:
    """Whether the frame's own box can be seen in its parent, all the way up."""
    if document.parent is None:
        return True
    owner = await document.parent.session.send("DOM.getFrameOwner", {"frameId": document.frame_id})
    object_id = await document.parent.resolve(owner["backendNodeId"])
    if object_id is None or not (await document.parent.call("sight", this=object_id))["seen"]:
        return False
    return await _is_frame_seen(document.parent)


async def _read_sights(document: Document, nodes: Sequence[Node]) -> dict[Key, Sight]:
    resolved = await asyncio.gather(*(document.resolve(node.key.backend_id) for node in nodes))
    there = [(node, object_id) for node, object_id in zip(nodes, resolved, strict=True) if object_id]
    sights = await document.call_on_many("sights", [object_id for _, object_id in there])
    return {node.key: Sight(**sight) for (node, _), sight in zip(there, sights, strict=True)}


async def _read_surroundings(documents: dict[str, Document], nodes: Sequence[Node]) -> dict[Key, str]:
    found: dict[Key, str] = {}
    for document_id, document in documents.items():
        own = [node for node in nodes if node.key.document_id == document_id]
        resolved = await asyncio.gather(*(document.resolve(node.key.backend_id) for node in own))
        there = [(node, object_id) for node, object_id in zip(own, resolved, strict=True) if object_id]
        texts = await document.call_on_many("surroundings", [object_id for _, object_id in there])
        found |= {node.key: text for (node, _), text in zip(there, texts, strict=True)}
    return found
