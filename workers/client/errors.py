"""What can go wrong between the box and the product.

ProductError                 a call to the product did not give what it should
├── BackendAwayError         no answer: nobody listens, or not in time
├── BackendRefusedError      an HTTP status that is no success; carries `status`
│   ├── NotLetInError        401: the token is not the backend's
│   └── NotFoundError        404: the product knows no such session or dashboard
├── UnreadableReplyError     an answer that is not what the contract says: no JSON, no object, a field is missing
└── CommandFailedError       a browser command's reply holds an error: the renderer's, or the backend's for it
    ├── NoRendererError      no renderer is connected; told after the backend's own 8 s
    ├── NoAnswerError        a renderer is connected and did not answer within the command's leash
    └── NoCardError          the renderer has no such card
"""

from __future__ import annotations

import re
from http import HTTPStatus

from broker.errors import Bv3Error
from broker.markers import read_pattern


class ProductError(Bv3Error):
    """A call to the product did not give what it should."""


class BackendAwayError(ProductError):
    """The backend gave no answer in time; `may_have_arrived` is False when the request surely never reached it."""

    def __init__(self, message: str, *, may_have_arrived: bool) -> None:
        super().__init__(message)
        self.may_have_arrived = may_have_arrived


class BackendRefusedError(ProductError):
    """The backend answered with a status that is no success."""

    def __init__(self, message: str, *, status: int) -> None:
        super().__init__(message)
        self.status = status


class NotLetInError(BackendRefusedError):
    """The token is not the backend's: another product serves this port, or another data root."""


class NotFoundError(BackendRefusedError):
    """The product knows no such session or dashboard."""


class UnreadableReplyError(ProductError):
    """The answer is not what the contract says."""


class CommandFailedError(ProductError):
    """The browser command was not carried out; the message is the product's own."""


class NoRendererError(CommandFailedError):
    """No renderer is connected."""


class NoAnswerError(CommandFailedError):
    """A renderer is connected and did not answer."""


class NoCardError(CommandFailedError):
    """The renderer has no such card."""


_REFUSALS: dict[int, type[BackendRefusedError]] = {
    HTTPStatus.UNAUTHORIZED: NotLetInError,
    HTTPStatus.NOT_FOUND: NotFoundError,
}
_FAILURES: tuple[tuple[str, type[CommandFailedError]], ...] = (
    ("reply_no_dashboard", NoRendererError),
    ("reply_command_timeout", NoAnswerError),
    ("reply_card_gone", NoCardError),
)


def make_refusal(message: str, *, status: int) -> BackendRefusedError:
    """The error for this HTTP status."""
    return _REFUSALS.get(status, BackendRefusedError)(message, status=status)


def make_failure(message: str, *, said: str) -> CommandFailedError:
    """The error for a command's reply that says this."""
    kind = next((kind for name, kind in _FAILURES if re.search(read_pattern(name), said)), CommandFailedError)
    return kind(message)
