"""The browser actions, by the name the protocol gives them."""

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any

from workers.renderer.actions import composing, pointing, reading, writing
from workers.renderer.cards import Tab
from workers.renderer.protocol import Reply

Action = Callable[[Tab, Mapping[str, Any]], Awaitable[Reply]]

ACTIONS: Mapping[str, Action] = MappingProxyType(
    {
        "navigate": reading.navigate,
        "get_text": reading.get_text,
        "evaluate": reading.evaluate,
        "list_interactives": reading.list_interactives,
        "screenshot": reading.take_screenshot,
        "wait": reading.wait,
        "click_index": pointing.click_index,
        "click_by_name": pointing.click_by_name,
        "click": pointing.click,
        "click_point": pointing.click_point,
        "press_key": pointing.press_key,
        "scroll": pointing.scroll,
        "type": writing.type_text,
        "find_composer": composing.find_composer,
    }
)
# These change nothing on the page and never wait for an action that does.
LOOKING = frozenset({"get_text", "evaluate", "screenshot", "wait"})
