"""The browser actions, by the name the protocol gives them."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from types import MappingProxyType

from workers.renderer.actions import batching, composing, inspecting, pointing, reading, sessions, writing
from workers.renderer.actions.batching import Action
from workers.renderer.cards import Deck
from workers.renderer.protocol import Command, Reply

CardlessAction = Callable[[Deck, Command], Awaitable[Reply]]

# What may also be a step of a batch.
_SINGLE: Mapping[str, Action] = MappingProxyType(
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
        "get_elements": inspecting.get_elements,
        "get_console": inspecting.get_console,
        "detect_webmcp": inspecting.detect_webmcp,
        "list_routes": inspecting.list_routes,
        "replay_route": inspecting.replay_route,
    }
)
ACTIONS: Mapping[str, Action] = MappingProxyType({**_SINGLE, "batch": partial(batching.run_batch, _SINGLE)})
# These need a browser session, not a card.
CARDLESS: Mapping[str, CardlessAction] = MappingProxyType(
    {
        "get_session_cookies": sessions.get_session_cookies,
        "import_session": sessions.import_session,
        "perform_action": partial(sessions.perform_action, _SINGLE),
    }
)
# These change nothing on the page and never wait for an action that does.
LOOKING = frozenset(
    {"get_text", "evaluate", "screenshot", "wait", "get_elements", "get_console", "detect_webmcp", "list_routes"}
)
