"""Errors of the commands' own; apart from farm.py, so that printing errors imports nothing heavy."""

from __future__ import annotations

from broker.errors import EXIT_INTERRUPTED, EXIT_SERVICE, EXIT_USAGE, Bv3Error, ServiceError


class InterruptError(Bv3Error):
    """Ctrl-C before the command had done what it is for; the message says what it left undone."""

    exit_code = EXIT_INTERRUPTED


class ToldError(ServiceError):
    """A process that this command started has failed, and has printed why: nothing is left to say."""

    is_told = True

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        # any other code would claim that a criterion failed, or nothing
        self.exit_code = exit_code if exit_code in {EXIT_USAGE, EXIT_INTERRUPTED} else EXIT_SERVICE
