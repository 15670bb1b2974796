"""Whether a page is a sign-in wall. Pure."""

import re
from urllib.parse import urlsplit

from infra.reference.backend.agent.listing import View

_PATH = re.compile(r"/(?:log-?in|sign-?in|i/flow/login|accounts/login|auth)(?=[/?#]|$)", re.IGNORECASE)
_PASSWORD = re.compile(r"\bpass(?:word|code|phrase)\b", re.IGNORECASE)
_COPY = re.compile(
    r"(?:sign|log) in to (?:continue|view|see|post|comment)|(?:you must|please) (?:sign|log) in",
    re.IGNORECASE,
)
_SIGN_IN = re.compile(r"\b(?:sign|log) ?in\b", re.IGNORECASE)


def find_wall(view: View) -> str | None:
    """What gives a wall away, in the words of the decline line; None when there is no wall.

    A password field counts only beside the offer to sign in, and copy only where nothing can be written.
    """
    match = _PATH.search(urlsplit(view.url).path)
    if match:
        return f"url: {match.group()}"
    password = next((box for box in view.textboxes if _PASSWORD.search(box.name)), None)
    buttons = " ".join(element.name for element in view.elements if element.is_pressable)
    if password and _SIGN_IN.search(buttons):
        return f"password field: {password.name!r}"
    copy = _COPY.search(view.text)
    if copy and not view.textboxes:
        return f"copy: {copy.group()}"
    return None


def offers_sign_in(view: View) -> bool:
    """Whether the page has a control that leads to signing in, and nothing to write in."""
    return not view.textboxes and any(
        element.is_pressable and _SIGN_IN.fullmatch(element.name.strip()) for element in view.elements
    )
