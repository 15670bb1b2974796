"""What can go wrong here, and who hears of it.

RendererError        the process ends: its message and hint go to standard error
└── BackendError     the backend did not answer, or refused; fatal only before the first connection
CommandError         one command fails: its message is the reply's ``error``, word for word
└── CardMissing      no such card, or it was closed while the command was under way
"""

import re

from playwright.async_api import Error

# Playwright puts the name of its own method before what the browser says.
_METHOD = re.compile(r"^[A-Z]\w*\.\w+: ")


class RendererError(Exception):
    """The renderer can't go on; `hint` says what would help."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class BackendError(RendererError):
    """The backend's HTTP side did not do as asked; `status` is its answer, None without one."""

    def __init__(self, message: str, *, hint: str = "", status: int | None = None) -> None:
        super().__init__(message, hint=hint)
        self.status = status


class CommandError(Exception):
    """A command failed in a way whose wording the protocol fixes."""


class CardMissing(CommandError):  # noqa: N818 - the protocol calls it "not found", not an error
    """The card named by a command is not mounted."""

    def __init__(self, browser_id: str, tab_id: str = "") -> None:
        tab = f" tab '{tab_id}'" if tab_id else ""
        super().__init__(f"Browser card '{browser_id}'{tab} not found or not an Electron webview")


def tell_in_a_line(message: str) -> str:
    """What Playwright says, and the first thing that the browser itself has printed, if any."""
    first, *others = message.splitlines()
    printed = next((line.split("[err]", 1)[1].strip() for line in others if "[err]" in line), "")
    return f"{first} ({printed})" if printed else first


def describe(error: Exception) -> str:
    """An exception in one line, without Playwright's log of calls."""
    if not isinstance(error, Error):
        return (str(error).splitlines() or [type(error).__name__])[0]
    return _METHOD.sub("", (error.message.splitlines() or [""])[0]) or type(error).__name__
