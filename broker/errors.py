"""The one tree of errors.

Bv3Error                    a cause and, where there is one, a next step
├── UsageError              the user asked for something that can't be (exit 2)
│   └── SuiteError          a suite file is broken; carries file and line
├── ServiceError            a service bv3 stands on is away (exit 3)
│   ├── DatabaseError
│   ├── BrokerError
│   ├── RevisionError       git does not tell what a checkout is
│   └── StackError          the product's stack on a box does not come up
├── BoxHeldError            another process works this box; carries the holder
└── CodecError              bytes that are no message of ours
"""

from __future__ import annotations

# Exit codes of every bv3 command; 130 is the shell's own for Ctrl-C.
EXIT_OK = 0
EXIT_GATE = 1
EXIT_USAGE = 2
EXIT_SERVICE = 3
EXIT_INTERRUPTED = 130


class Bv3Error(Exception):
    """Something a person can act on: `message` names the cause, `hint` the next step."""

    exit_code = EXIT_GATE
    # somebody has printed it already: a process that we started
    is_told = False

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(Bv3Error):
    """The request itself can't be carried out; nothing was written."""

    exit_code = EXIT_USAGE


class SuiteError(UsageError):
    """A suite file is broken at `file`:`line` (1-based; 0 when no line can be named)."""

    def __init__(self, message: str, *, file: str, line: int, hint: str | None = None) -> None:
        super().__init__(f"{file}:{line}: {message}" if line else f"{file}: {message}", hint=hint)
        self.file = file
        self.line = line


class ServiceError(Bv3Error):
    """A service that bv3 stands on can't be reached or did not start."""

    exit_code = EXIT_SERVICE


class DatabaseError(ServiceError):
    """PostgreSQL is away or refuses us."""


class BrokerError(ServiceError):
    """Redis or Valkey is away or refuses us."""


class RevisionError(ServiceError):
    """Git does not tell what a checkout is: it is not there, does not answer, or refuses."""


class StackError(ServiceError):
    """A part of the product's stack did not come up on this box."""


class BoxHeldError(ServiceError):
    """Another process works this box; `holder` says which (machine, pid, last_beat_s)."""

    def __init__(self, message: str, *, holder: dict[str, object], hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.holder = holder


class CodecError(Bv3Error):
    """Bytes that can't be read as the message they were said to be."""
