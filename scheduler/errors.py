"""An error of the commands' own; apart from farm.py, so that printing errors imports nothing heavy."""

from __future__ import annotations

from broker.errors import EXIT_INTERRUPTED, EXIT_SERVICE, EXIT_USAGE, ServiceError


class ToldError(ServiceError):
    """A process that this command started has failed, and has printed why: nothing is left to say."""

    is_told = True

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        # any other code would claim that a criterion failed, or nothing
        self.exit_code = exit_code if exit_code in {EXIT_USAGE, EXIT_INTERRUPTED} else EXIT_SERVICE
