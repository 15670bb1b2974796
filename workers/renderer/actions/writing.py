"""Writing text into an element and making sure that it stands there: the fill of click_index, and type."""

from collections.abc import Mapping
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

    An element that shows more than the text, and can't be emptied of it, is filled all the same: some show a hint.
    """
    modes: tuple[Mode, ...] = ("inserted", "keystroke")
    for mode in modes:
        target = await _focus(tab, document, object_id, is_patient=mode == "keystroke")
        if target is None:
            continue
        await _select_all(tab, document, target, by_keys=mode == "keystroke")
        is_multiline = bool(await document.call("isMultiline", this=target))
        await _put(tab, text if is_multiline else " ".join(text.split()), by_keys=mode == "keystroke")
        back = await document.call("readBack", text, COMMIT_MS, this=target)
        if back["alone"] or not text.strip() or (back["stands"] and not await _wipe(tab, document, target, text)):
            return mode, back["text"]
    return "keystroke-failed", ""


async def _wipe(tab: Tab, document: Document, object_id: str, text: str) -> bool:
    """Empty the editor that has the keyboard, by keys; whether the text has gone from it.

    Twice: an editor that is made of blocks selects the block at first, and all of them when asked again.
    """
    await tab.page.keyboard.press("ControlOrMeta+A")
    await tab.page.keyboard.press("ControlOrMeta+A")
    await tab.page.keyboard.press("Delete")
    return not await document.call("holds", text, this=object_id)


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
        await tab.page.keyboard.press("ControlOrMeta+A")


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
