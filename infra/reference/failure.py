"""The one error a user of the reference stack sees: what went wrong, and what to do."""


class ReferenceFailure(Exception):  # noqa: N818  # a failure of the stand-in, never a bug of the farm
    """Could not go on; ``message`` says why and ``hint`` what helps. Printed as one line, exit code 1."""

    def __init__(self, message: str, *, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
