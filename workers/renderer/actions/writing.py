"""Writing text into an element and making sure that it stands there: the fill of click_index, and type."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from playwright.async_api import Error

from workers.renderer.cards import Tab
from workers.renderer.errors import CommandError
from workers.renderer.frames import Document
from workers.renderer.params import read_text, require_text
from workers.renderer.protocol import Reply

SHOWN_CHARS = 60
# How long an editor may take to commit what was put in; most do it at once.
COMMIT_MS = 300

Mode = Literal["inserted", "keystroke", "keystroke-failed"]


async def fill_index(tab: Tab, document: Document, object_id: str, text: str, index: int) -> str:
    """Replace the element's text and say so in the product's words.

    Raises:
        CommandError: the text does not stand there, not even after real keystrokes.
    """
    mode, stands = await fill(tab, document, object_id, text)
    if mode == "keystroke-failed":
        many = "multiline " if "\n" in text else ""
        raise CommandError(
            f"Focused index {index} but the {many}text did not register even as real keystrokes; "
            "the box may be a custom editor that rejects automation. Try a different element."
        )
    shown = stands[:SHOWN_CHARS]
    return (
        f'Focused index {index} and typed the text in. Verified: the box now contains "{shown}". Do NOT type it again.'
    )


async def type_text(tab: Tab, params: Mapping[str, Any]) -> Reply:
    """Write into the first element that matches a CSS selector; `committed` tells whether it stands there.

    Raises:
        CommandError: none matches.
    """
    selector, text = require_text(params, "selector"), read_text(params, "text")
    document, object_id = await select(tab, selector)
    mode, _ = await fill(tab, document, object_id, text)
    return {"text": f"Typed into {selector}", "committed": mode != "keystroke-failed"}


async def select(tab: Tab, selector: str) -> tuple[Document, str]:
    """The first element that matches a CSS selector, in the top document first.

    Raises:
        CommandError: none matches.
    """
    for document in await tab.frames.read_documents():
        try:
            object_id = await document.call_for_element("find", selector)
        except Error as error:
            raise CommandError(f"Element not found: {selector}") from error
        if object_id is not None:
            return document, object_id
    raise CommandError(f"Element not found: {selector}")


async def fill(tab: Tab, document: Document, object_id: str, text: str) -> tuple[Mode, str]:
    """Replace an element's text, first in one go, then by real keys; how it went, and what stands there.

    The old text is taken out before. What can't be taken out, and what the editor adds to the new text by itself, is
    its own: the text stands when it is there once more than it was in the emptied element. Nothing is taken out after.
    """
    modes: tuple[Mode, ...] = ("inserted", "keystroke")
    for mode in modes:
        by_keys = mode == "keystroke"
        room = await _make_room(tab, document, object_id, text, by_keys=by_keys)
        if room is None:
            continue
        is_multiline = bool(await document.call("isMultiline", this=room.target))
        await _put(tab, text if is_multiline else " ".join(text.split()), by_keys=by_keys)
        back = await document.call("readBack", text, room.count, COMMIT_MS, this=room.target)
        if back["stands"] or not text.strip():
            return mode, back["text"]
    return "keystroke-failed", ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Room:
    """An element that has the keyboard and was emptied."""

    target: str
    # Whether it held text that stayed there, all of it.
    is_deaf: bool
    # How often the new text stands there before it is written.
    count: int


async def _make_room(tab: Tab, document: Document, object_id: str, text: str, *, by_keys: bool) -> _Room | None:
    """Give an element the keyboard and empty it; one that does not hear it is clicked and emptied again."""
    target = await _focus(tab, document, object_id, is_patient=by_keys)
    if target is None:
        return None
    room = await _empty(tab, document, target, text, by_keys=by_keys)
    if by_keys or not room.is_deaf:
        return room
    clicked = await _focus(tab, document, object_id, is_patient=True)
    return room if clicked is None else await _empty(tab, document, clicked, text, by_keys=True)


async def _empty(tab: Tab, document: Document, object_id: str, text: str, *, by_keys: bool) -> _Room:
    """Take the text out of the editor that has the keyboard, by keys where a selection does not do.

    Asked for all twice: an editor that is made of blocks selects the block at first, and puts another in its place.
    """
    before = await document.call("plainText", this=object_id)
    await _select_all(tab, document, object_id, by_keys=by_keys)
    if not before:
        return _Room(target=object_id, is_deaf=False, count=0)
    await tab.page.keyboard.press("Delete")
    left = await document.call("leftOver", text, COMMIT_MS, this=object_id)
    target = object_id
    if left["text"]:
        for key in ("ControlOrMeta+a", "ControlOrMeta+a", "Delete"):
            await tab.page.keyboard.press(key)
        target = await document.call_for_element("focused", this=object_id) or object_id
        left = await document.call("leftOver", text, COMMIT_MS, this=target)
    return _Room(target=target, is_deaf=left["text"] == before, count=left["count"])


async def _focus(tab: Tab, document: Document, object_id: str, *, is_patient: bool) -> str | None:
    """Give an element the keyboard, by a click where focus() does not do; what now takes the text."""
    inner = await document.call_for_element("editableIn", this=object_id)
    if inner is not None and not is_patient and await document.call("focus", this=inner):
        return inner
    spot = await document.call("aim", this=inner or object_id)
    if spot is not None:
        left, top = await document.frame_offset()
        await tab.page.mouse.click(left + spot["x"], top + spot["y"])
    return await document.call_for_element("focused", this=object_id) or inner


async def _select_all(tab: Tab, document: Document, object_id: str, *, by_keys: bool) -> None:
    kind = await document.call("selectAll", this=object_id)
    if kind == "proxy" or (by_keys and kind == "rich"):
        await tab.page.keyboard.press("ControlOrMeta+a")


async def _put(tab: Tab, text: str, *, by_keys: bool) -> None:
    """Write line by line: between lines Shift+Enter, for in many composers Enter alone sends."""
    if not text:
        await tab.page.keyboard.press("Delete")
    for number, line in enumerate(text.split("\n")):
        if number:
            await tab.page.keyboard.press("Shift+Enter")
        if by_keys:
            await tab.page.keyboard.type(line)
        elif line:
            await tab.page.keyboard.insert_text(line)
