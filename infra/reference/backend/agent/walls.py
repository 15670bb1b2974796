"""Whether a page is a sign-in wall. Pure."""

import re
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

from infra.reference.backend.agent.composers import is_writable
from infra.reference.backend.agent.listing import View

_PATH = re.compile(r"/(?:log-?in|sign-?in|i/flow/login|accounts/login|auth)(?=[/?#]|$)", re.IGNORECASE)
_PASSWORD = re.compile(r"\bpass(?:word|code|phrase)\b", re.IGNORECASE)
_COPY = re.compile(
    r"(?:sign|log) in to (?:continue|view|see|post|comment)|(?:you must|please) (?:sign|log) in",
    re.IGNORECASE,
)
_SIGN_IN = re.compile(r"\b(?:sign|log) ?in\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wall:
    """What gives a sign-in wall away."""

    kind: Literal["url", "password field", "copy"]
    words: str

    def __str__(self) -> str:
        """The words of the decline line."""
        return f"{self.kind}: {self.words}"

    @property
    def is_certain(self) -> bool:
        """Whether it is one whatever else is on the page: sites put a sign-in form beside what anybody may write."""
        return self.kind == "url"


def find_wall(view: View) -> Wall | None:
    """What gives a wall away; None when there is no wall.

    A password field counts only beside the offer to sign in, and copy only where nothing can be written; neither
    counts beside a listed box that is meant for writing.
    """
    match = _PATH.search(urlsplit(view.url).path)
    if match:
        return Wall(kind="url", words=match.group())
    if any(is_writable(box) for box in view.textboxes):
        return None
    password = next((box for box in view.textboxes if _PASSWORD.search(box.name)), None)
    buttons = " ".join(element.name for element in view.elements if element.is_pressable)
    if password and _SIGN_IN.search(buttons):
        return Wall(kind="password field", words=repr(password.name))
    copy = _COPY.search(view.text)
    if copy and not view.textboxes:
        return Wall(kind="copy", words=copy.group())
    return None


def offers_sign_in(view: View) -> bool:
    """Whether the page has a control that leads to signing in, and nothing to write in."""
    return not view.textboxes and any(
        element.is_pressable and _SIGN_IN.fullmatch(element.name.strip()) for element in view.elements
    )
