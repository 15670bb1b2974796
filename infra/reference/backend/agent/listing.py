"""Reading the renderer's list of interactive elements. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_ROW = re.compile(
    r"^\[(?P<index>\d+)\]\*?<(?P<role>\w+)(?: \"(?P<name>.*?)\")?(?: ctx=\".*?\")?"
    r"(?: value=\"(?P<value>.*)\")?>$"
)
_BOXES = frozenset({"textbox", "searchbox", "combobox"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Element:
    """One listed element; ``index`` is what ``click_index`` takes."""

    index: int
    role: str
    name: str
    value: str

    @property
    def is_textbox(self) -> bool:
        """Whether text can be put into it."""
        return self.role in _BOXES

    @property
    def is_pressable(self) -> bool:
        """Whether it is a link or a button."""
        return self.role in {"link", "button"}


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What one look at a page gave; an empty view means that nothing was seen."""

    url: str = ""
    text: str = ""
    listing: str = ""
    elements: tuple[Element, ...] = ()
    error: str = ""

    @property
    def textboxes(self) -> list[Element]:
        """The boxes that take text."""
        return [element for element in self.elements if element.is_textbox]


def read_listing(text: str) -> tuple[Element, ...]:
    """The elements of a ``list_interactives`` text, in its order; other lines are passed over."""
    matches = (_ROW.match(line.strip()) for line in text.splitlines())
    return tuple(
        Element(
            index=int(match["index"]),
            role=match["role"],
            name=match["name"] or "",
            value=match["value"] or "",
        )
        for match in matches
        if match
    )


def read_view(listing: Mapping[str, Any], text: Mapping[str, Any]) -> View:
    """Put a ``list_interactives`` reply and a ``get_text`` reply together."""
    rows = str(listing.get("text", ""))
    return View(
        url=str(text.get("url") or listing.get("url") or ""),
        text=str(text.get("text", "")),
        listing=rows,
        elements=read_listing(rows),
        error=str(listing.get("error") or text.get("error") or ""),
    )
