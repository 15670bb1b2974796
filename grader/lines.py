"""Lines of text for a terminal: wrapped, printable, and the words for counts, shares and times.

Everything is ASCII but what pages and sites are called; `write_lines` gives a narrower encoding escapes
instead of an error.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import IO

DASH = "-"
# times below this are shown in milliseconds
SHORT_MS = 100
# C0 and C1 controls (an escape sequence needs one) and what separates lines or turns text around
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of output; `style` is decoration, never the only sign."""

    text: str = ""
    style: str = ""


def printable(text: str) -> str:
    """The text with everything replaced that a terminal would act on."""
    return _UNPRINTABLE.sub("?", text)


def flow(parts: Iterable[str], width: int, *, gap: int = 3, style: str = "") -> Iterator[Line]:
    """The parts on as few lines as hold them whole, further lines indented."""
    text = ""
    for part in parts:
        if text and len(text) + gap + len(part) > width:
            yield Line(text=text, style=style)
            text = f"   {part}"
        else:
            text = f"{text}{' ' * gap}{part}" if text else part
    yield Line(text=text, style=style)


def wrap(line: Line, width: int) -> Iterator[Line]:
    """The line, or the lines that hold its words within `width`."""
    if len(line.text) <= width:
        yield line
        return
    for text in textwrap.wrap(line.text, width, subsequent_indent="   ", break_on_hyphens=False):
        yield Line(text=text, style=line.style)


def write_lines(lines: Iterable[Line], file: IO[str], *, width: int) -> None:
    """The lines are on `file`: styled at a terminal, plain elsewhere."""
    from rich.console import Console  # noqa: PLC0415 - 60 ms that only a printing command should pay
    from rich.text import Text  # noqa: PLC0415

    console = Console(file=file, width=width, highlight=False, soft_wrap=True)
    encoding = getattr(file, "encoding", None) or "utf-8"
    for line in lines:
        text = printable(line.text).rstrip().encode(encoding, "backslashreplace").decode(encoding)
        console.print(Text(text, style=line.style))


def percent(share: float) -> str:
    """One decimal; never rounded to 0% or 100% when it is neither."""
    tenths = round(share * 1000)
    if share < 1.0:
        tenths = min(tenths, 999)
    if share > 0.0:
        tenths = max(tenths, 1)
    return f"{tenths / 10:.1f}%"


def duration(value_ms: float) -> str:
    """Seconds, or milliseconds where it is short."""
    return f"{value_ms / 1000:.2f} s" if abs(value_ms) >= SHORT_MS else f"{value_ms:.0f} ms"


def count(number: int, one: str, many: str | None = None) -> str:
    """A number with its noun."""
    return f"{number} {one if number == 1 else many or one + 's'}"
