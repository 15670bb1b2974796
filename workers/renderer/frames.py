"""The documents of a page: each frame with the session that reaches it and the world our scripts run in.

Frames of the page's own process share its session; a frame that the browser keeps in another process has
its own. Our scripts run in an isolated world: they share the page's elements and nothing of its JavaScript.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from playwright.async_api import CDPSession, Error, Frame, Page

from workers.renderer import scripts

WORLD = "bv3"
READ_TRIES = 5
READ_PAUSE_S = 0.05
# Chromium's words for a document that is not there yet: nothing of ours ran.
NO_DOCUMENT = ("Cannot find default execution context",)
# The same, and those for one that went away while it was being read.
GONE_DOCUMENT = (
    *NO_DOCUMENT,
    "context was destroyed",
    "Cannot find context",
    "navigated or closed",
    "No frame for given id",
    "Frame with the given",
)
# Of so many frames of others in one document each is looked into; of more, those of which most can be seen.
FRAMES_MOST = 24
# What calls a function of ours that is in the world already, and what it answers when none is. The world has a name of
# its own only when we gave it: an element that the page calls the same is seen as a global, too.
ABSENT = "bv3 has no functions here"
SHORT_CALLER = (
    "function (name, ...given) { if (!Object.hasOwn(globalThis, 'bv3') || typeof bv3[name] !== 'function') "
    f"throw new Error('{ABSENT}'); return bv3[name](...given); }}"
)
T = TypeVar("T")


async def read_steadily(read: Callable[[], Awaitable[T]], *, again_on: tuple[str, ...] = GONE_DOCUMENT) -> T:
    """What `read` gives; it is tried again when a navigation took the document away meanwhile.

    Args:
        read: what may be done twice.
        again_on: the words of an error after which it is.

    Raises:
        playwright.async_api.Error: the page is gone, or it keeps navigating.
    """
    for _ in range(READ_TRIES - 1):
        try:
            return await read()
        except Error as error:
            if not any(words in error.message for words in again_on):
                raise
        await asyncio.sleep(READ_PAUSE_S)
    return await read()


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One frame's document, reachable until it navigates."""

    session: CDPSession
    frame_id: str
    # A new one for each document that a frame loads; backend ids begin again with it.
    loader_id: str
    world_id: int
    parent: "Document | None"
    # Whether it is the outermost document that its process draws.
    is_process_root: bool

    @property
    def id(self) -> str:
        """A name that no other document ever has."""
        return f"{self.frame_id}/{self.loader_id}"

    async def call(self, name: str, *given: Any, this: str | None = None) -> Any:
        """Call a function of `scripts` and return its value.

        Args:
            name: the function.
            given: plain values that follow the element.
            this: the remote id of the element it is about.

        Raises:
            playwright.async_api.Error: the page is gone, or the function threw.
        """
        return (await self._run(name, this, given, by_value=True)).get("value")

    async def call_for_element(self, name: str, *given: Any, this: str | None = None) -> str | None:
        """Like `call`, for a function that returns an element: its remote id, or None."""
        object_id: str | None = (await self._run(name, this, given, by_value=False)).get("objectId")
        return object_id

    async def call_on_many(self, name: str, object_ids: list[str]) -> list[Any]:
        """Call a function with many elements at once; the answer has one value for each."""
        if not object_ids:
            return []
        given: list[dict[str, Any]] = [
            {"value": name},
            {"value": None},
            *({"objectId": object_id} for object_id in object_ids),
        ]
        result = await self._send(given, by_value=True)
        return list(result.get("value") or [])

    async def resolve(self, backend_id: int) -> str | None:
        """The remote id of the element with this backend id in our world; None when it has gone."""
        try:
            answer = await self.session.send(
                "DOM.resolveNode",
                {"backendNodeId": backend_id, "executionContextId": self.world_id, "objectGroup": WORLD},
            )
        except Error:
            return None
        object_id: str | None = answer["object"].get("objectId")
        return object_id

    async def release(self) -> None:
        """Let go of the elements that `resolve` and `call_for_element` gave out."""
        with contextlib.suppress(Error):
            await self.session.send("Runtime.releaseObjectGroup", {"objectGroup": WORLD})

    async def frame_offset(self) -> tuple[float, float]:
        """Where this document's viewport begins in the page's viewport, in CSS pixels."""
        if self.parent is None:
            return 0.0, 0.0
        owner = await self.parent.session.send("DOM.getFrameOwner", {"frameId": self.frame_id})
        answer = await self.parent.session.send("DOM.getBoxModel", {"backendNodeId": owner["backendNodeId"]})
        left, top = answer["model"]["content"][:2]
        # Chromium measures from the outermost document of the process, however deep the frame is in it.
        root = self.parent
        while not root.is_process_root and root.parent is not None:
            root = root.parent
        around = await root.frame_offset()
        return around[0] + left, around[1] + top

    async def _run(self, name: str, this: str | None, given: tuple[Any, ...], *, by_value: bool) -> dict[str, Any]:
        element = {"value": None} if this is None else {"objectId": this}
        return await self._send([{"value": name}, element, *({"value": value} for value in given)], by_value=by_value)

    async def _send(self, arguments: list[dict[str, Any]], *, by_value: bool) -> dict[str, Any]:
        answer = await self._call(SHORT_CALLER, arguments, by_value=by_value)
        if ABSENT in str(answer.get("exceptionDetails", "")):
            answer = await self._call(scripts.caller(), arguments, by_value=by_value)
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise Error(details.get("exception", {}).get("description") or details.get("text", "script failed"))
        result: dict[str, Any] = answer["result"]
        return result

    async def _call(self, declaration: str, arguments: list[dict[str, Any]], *, by_value: bool) -> dict[str, Any]:
        answer: dict[str, Any] = await self.session.send(
            "Runtime.callFunctionOn",
            {
                "functionDeclaration": declaration,
                "executionContextId": self.world_id,
                "arguments": arguments,
                "returnByValue": by_value,
                "awaitPromise": True,
                "userGesture": True,
                "objectGroup": WORLD,
            },
        )
        return answer


class Frames:
    """A page's frames, and the sessions of those that live in another process.

    What is known of a foreign frame is kept until something in it navigates: pages of a hundred ads are common.
    """

    def __init__(self, *, page: Page, session: CDPSession) -> None:
        self.page = page
        self.session = session
        self._foreign: dict[Frame, CDPSession] = {}
        self._trees: dict[Frame, dict[str, Any] | None] = {}
        page.on("framenavigated", self._forget)
        page.on("frameattached", self._forget)
        page.on("framedetached", self._drop)

    async def read_documents(self) -> list[Document]:
        """The documents of the page, the top one first, parents before children.

        Frames that vanish while we look are left out. The page's own are all there; of many foreign ones those are of
        which most can be seen.
        """
        tree = (await self.session.send("Page.getFrameTree"))["frameTree"]
        trees = [(self.session, tree)]
        if len(self.page.frames) > _count(tree):
            trees += await self._read_foreign_trees()
        made = [_Made(owner, frame, is_root) for owner, tree in trees for frame, is_root in _walk(tree, is_root=True)]
        children: dict[str, list[_Made]] = {}
        for one in made:
            children.setdefault(one.frame.get("parentId", ""), []).append(one)
        own = _Own(session=self.session, origin=tree["frame"].get("securityOrigin", ""), children=children)
        documents = []
        level = await _open(children.get("", []), None)
        while level:
            documents += level
            below = await asyncio.gather(*(_open_below(document, own) for document in level))
            level = [document for documents_of_one in below for document in documents_of_one]
        return documents

    async def _read_foreign_trees(self) -> list[tuple[CDPSession, dict[str, Any]]]:
        frames = self.page.frames[1:]
        unknown = [frame for frame in frames if frame not in self._trees]
        await asyncio.gather(*(self._read_foreign_tree(frame) for frame in unknown))
        known = ((frame, self._trees.get(frame)) for frame in frames)
        return [(self._foreign[frame], tree) for frame, tree in known if tree is not None and frame in self._foreign]

    async def _read_foreign_tree(self, frame: Frame) -> None:
        if frame.is_detached():
            return
        # Before the question: a frame that navigates meanwhile is to be asked again.
        self._trees[frame] = None
        try:
            session = self._foreign.get(frame) or await self.page.context.new_cdp_session(frame)
            if frame.is_detached():
                return
            self._foreign[frame] = session
            tree = (await session.send("Page.getFrameTree"))["frameTree"]
        except Error:
            # Frames of their parent's process have no session of their own: they are in its tree.
            self._foreign.pop(frame, None)
            return
        if frame in self._trees:
            self._trees[frame] = tree

    @property
    def known(self) -> int:
        """Of how many frames something is kept."""
        return len(self._foreign.keys() | self._trees.keys())

    def _drop(self, frame: Frame) -> None:
        self._forget(frame)
        self._foreign.pop(frame, None)

    def _forget(self, frame: Frame) -> None:
        outer: Frame | None = frame
        while outer is not None:
            self._trees.pop(outer, None)
            outer = outer.parent_frame


class _Made(NamedTuple):
    session: CDPSession
    frame: dict[str, Any]
    is_process_root: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Own:
    """How the page's own frames are told from foreign ones."""

    session: CDPSession
    origin: str
    children: dict[str, list[_Made]]

    def holds(self, one: _Made) -> bool:
        """Whether it is a frame of the page's own process or origin, or has one in it."""
        if one.session is self.session or one.frame.get("securityOrigin") == self.origin:
            return True
        return any(self.holds(inner) for inner in self.children.get(one.frame["id"], []))


async def _open_below(parent: Document, own: _Own) -> list[Document]:
    inner = own.children.get(parent.frame_id, [])
    foreign = [one.frame["id"] for one in inner if not own.holds(one)]
    if len(foreign) > FRAMES_MOST:
        extents = dict(zip(foreign, await _read_extents(parent, foreign), strict=True))
        shown = sorted((key for key in foreign if any(extents[key])), key=lambda key: extents[key], reverse=True)
        left_out = set(foreign).difference(shown[:FRAMES_MOST])
        inner = [one for one in inner if one.frame["id"] not in left_out]
    return await _open(inner, parent)


async def _open(made: list[_Made], parent: Document | None) -> list[Document]:
    worlds = await asyncio.gather(*(_open_world(one.session, one.frame["id"]) for one in made))
    return [
        Document(
            session=one.session,
            frame_id=one.frame["id"],
            loader_id=one.frame["loaderId"],
            world_id=world_id,
            parent=parent,
            is_process_root=one.is_process_root,
        )
        for one, world_id in zip(made, worlds, strict=True)
        if world_id is not None
    ]


async def _read_extents(parent: Document, frame_ids: list[str]) -> list[tuple[float, float]]:
    """How much of each frame is in view in its parent, and how large it is; no extent for one that has gone."""
    owners = await asyncio.gather(*(_find_owner(parent, frame_id) for frame_id in frame_ids))
    there = [object_id for object_id in owners if object_id is not None]
    try:
        found = iter(await parent.call_on_many("extents", there))
    except Error:
        return [(0, 0) for _ in frame_ids]
    return [(0, 0) if object_id is None else tuple(next(found)) for object_id in owners]


async def _find_owner(parent: Document, frame_id: str) -> str | None:
    try:
        owner = await parent.session.send("DOM.getFrameOwner", {"frameId": frame_id})
    except Error:
        return None
    return await parent.resolve(owner["backendNodeId"])


async def _open_world(session: CDPSession, frame_id: str) -> int | None:
    try:
        answer = await session.send("Page.createIsolatedWorld", {"frameId": frame_id, "worldName": WORLD})
    except Error:
        return None
    world_id: int = answer["executionContextId"]
    return world_id


def _walk(tree: dict[str, Any], *, is_root: bool) -> Iterator[tuple[dict[str, Any], bool]]:
    yield tree["frame"], is_root
    for child in tree.get("childFrames", []):
        yield from _walk(child, is_root=False)


def _count(tree: dict[str, Any]) -> int:
    return 1 + sum(_count(child) for child in tree.get("childFrames", []))
