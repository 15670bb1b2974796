"""Which control takes a cookie banner away. Pure."""

import re

from infra.reference.backend.agent.listing import Element, View

# The link "Cookies" of a footer is no banner, and "Close" beside it may close what was meant to be written in.
_BANNER = re.compile(
    r"\b(?:use|uses|using|store|set|accept|need|with)\b[^.\n]{0,60}\bcookies\b|\bcookies\b[^.\n]{0,60}\b(?:help|improve|allow|let)\b|"
    r"\bcookie (?:consent|preferences|choices)\b|(?:value|about) your privacy",
    re.IGNORECASE,
)
# The first that is there is pressed: refusing comes before agreeing, and both before a bare way out.
_CONTROLS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"(?:no,? )?(?:reject|refuse|decline|deny)(?: all| optional| non-essential)?(?: cookies)?",
        r"(?:use |allow )?(?:only )?(?:necessary|essential|required)(?: cookies)?(?: only)?|continue without accepting",
        r"(?:i )?(?:accept|agree|allow)(?: all| and continue| & continue)?(?: cookies)?|got it|yes, i agree",
        r"(?:close|dismiss)(?: (?:this )?(?:banner|dialog|cookie banner|cookie notice))?|no,? thanks",
    )
)


def find_banner_control(view: View) -> Element | None:
    """What takes the page's cookie banner away, or None: only a page that speaks of cookies has one."""
    if not _BANNER.search(view.text):
        return None
    pressable = [element for element in view.elements if element.is_pressable]
    for control in _CONTROLS:
        for element in pressable:
            if control.fullmatch(element.name.strip()):
                return element
    return None
